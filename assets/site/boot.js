// Starts the page. A file of its own, so that the page needs no inline script. The names get their hashes when the
// site is built.
import init from "./kvscope.js";

try {
  await init({ module_or_path: new URL("./kvscope_bg.wasm", import.meta.url) });
} catch (error) {
  const sentence = document.createElement("p");
  sentence.setAttribute("role", "alert");
  sentence.textContent = `The page could not start: ${error}. It needs a browser with WebAssembly; over file: it cannot run, so serve this folder.`;
  document.body.append(sentence);
  throw error;
}
