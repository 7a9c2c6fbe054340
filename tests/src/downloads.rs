//! What the page gives away as files, without a folder that they would go to.

use serde_json::Value;

use crate::browser::Browser;
use crate::page::Page;
use crate::static_host;

/// Opens a view of the static page whose downloads are kept in place of being saved.
pub async fn open(browser: &Browser, query: &str) -> Page {
    let address = static_host::start().await;
    let page = browser.open(&format!("{}/?{query}", address.trim_end_matches('/'))).await;
    keep_downloads(&page).await;
    page
}

/// Keeps downloads and what is copied in the page in place of saving them.
async fn keep_downloads(page: &Page) {
    let keep = "window.taken = {};
        const make = URL.createObjectURL;
        let last = null;
        URL.createObjectURL = blob => { last = blob; return make.call(URL, blob); };
        HTMLAnchorElement.prototype.click = function () { window.taken[this.download] = last; };
        navigator.clipboard.writeText = text => { window.copied = text; return Promise.resolve(); };
        navigator.clipboard.write = items =>
          items[0].getType('image/png').then(blob => { window.copied = blob.type; });";
    page.run(keep, Vec::new()).await;
}

/// Opens the menu of `stem`, presses a line of it, and gives the file: its text, or its first bytes where it is a picture.
pub async fn export(page: &Page, stem: &str, way: &str, ending: &str) -> Value {
    let script = format!(
        "const done = arguments[0];
        delete window.taken['{stem}.{ending}'];
        document.querySelector('[popovertarget=\"export-{stem}\"]').click();
        document.querySelector('#export-{stem} [data-export=\"{way}\"]').click();
        const look = () => {{
          const blob = window.taken['{stem}.{ending}'];
          if (!blob) return setTimeout(look, 20);
          if (blob.type !== 'image/png') return blob.text().then(done);
          blob.arrayBuffer().then(buffer => done([...new Uint8Array(buffer.slice(0, 24))]));
        }};
        look();"
    );
    page.run_until_called(&script).await
}
