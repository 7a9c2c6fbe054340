//! Short names for what the module takes from its loader.
//!
//! The binder calls each function by what it does and sixteen digits of a hash, in the module and in the loader. No compression
//! shortens a hash, and nobody else reads these names.

use std::collections::HashMap;
use std::convert::Infallible;

use wasm_encoder::reencode::Reencode;
use wasm_encoder::{ImportSection, Module};
use wasmparser::{ImportSectionReader, Parser, Payload};

use super::order::Error;

/// Where names of the binder begin.
const MARK: &str = "__wb";

/// Module and loader with the same imports under short names.
pub(crate) fn shortened(module: &[u8], loader: &str) -> Result<(Vec<u8>, String), Error> {
    let mut names = Names(HashMap::new());
    for payload in Parser::new(0).parse_all(module) {
        let Payload::ImportSection(imports) = payload? else { continue };
        for import in imports.into_imports() {
            let name = import?.name;
            if name.starts_with(MARK) && !names.0.contains_key(name) {
                let short = short(names.0.len());
                names.0.insert(name.to_owned(), short);
            }
        }
    }
    let loader = in_text(&without_comments(loader), &names.0);
    let mut written = Module::new();
    names.parse_core_module(&mut written, Parser::new(0), module)?;
    Ok((written.finish(), loader))
}

/// `$a` to `$z`, then `$aa`: names that the loader has none of.
fn short(mut number: usize) -> String {
    let mut letters = Vec::new();
    loop {
        letters.push(b'a' + u8::try_from(number % 26).expect("below 26"));
        number /= 26;
        if number == 0 {
            break;
        }
        number -= 1;
    }
    letters.push(b'$');
    letters.reverse();
    String::from_utf8(letters).expect("letters")
}

/// The loader without its comments for editors, and without indentation.
fn without_comments(loader: &str) -> String {
    let is_code = |line: &&str| !(line.is_empty() || line.starts_with("/**") || line.starts_with('*'));
    let lines = loader.lines().map(str::trim_start).filter(is_code);
    lines.fold(String::new(), |text, line| text + line + "\n")
}

/// The text with every whole word that has a short name under that.
fn in_text(text: &str, names: &HashMap<String, String>) -> String {
    let is_of_word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '$';
    let mut mended = String::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        let word = rest.find(|c| !is_of_word(c)).unwrap_or(rest.len());
        let (name, after) = rest.split_at(word);
        mended.push_str(names.get(name).map_or(name, String::as_str));
        let between = after.find(is_of_word).unwrap_or(after.len());
        mended.push_str(&after[..between]);
        rest = &after[between..];
    }
    mended
}

/// The short name of each import.
struct Names(HashMap<String, String>);

impl Reencode for Names {
    type Error = Infallible;

    fn parse_import_section(
        &mut self,
        imports: &mut ImportSection,
        section: ImportSectionReader<'_>,
    ) -> Result<(), Error> {
        for import in section.into_imports() {
            let import = import?;
            let kind = self.entity_type(import.ty)?;
            let name = self.0.get(import.name).map_or(import.name, String::as_str);
            imports.import(import.module, name, kind);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wasm_encoder::{EntityType, TypeSection};

    #[test]
    fn both_sides_have_the_same_short_names() {
        let (mut types, mut imports) = (TypeSection::new(), ImportSection::new());
        types.ty().function([], []);
        for name in ["__wbg_log_0123456789abcdef", "memory", "__wbg_log_0123456789abcdef2"] {
            imports.import("./kvscope_bg.js", name, EntityType::Function(0));
        }
        let mut module = Module::new();
        module.section(&types).section(&imports);
        let loader = "/**\n * @returns {any}\n */\n{ __wbg_log_0123456789abcdef: f(),\n    \
            __wbg_log_0123456789abcdef2: g, memory: `é` }";
        let (module, loader) = shortened(&module.finish(), loader).expect("a module");
        assert_eq!(loader, "{ $a: f(),\n$b: g, memory: `é` }\n");
        let mut names = Vec::new();
        for payload in Parser::new(0).parse_all(&module) {
            if let Payload::ImportSection(imports) = payload.expect("valid") {
                names.extend(imports.into_imports().map(|import| import.expect("valid").name.to_owned()));
            }
        }
        assert_eq!(names, ["$a", "memory", "$b"]);
    }

    #[test]
    fn every_number_has_a_name_of_its_own() {
        let names: std::collections::HashSet<String> = (0..2000).map(short).collect();
        assert_eq!(names.len(), 2000);
        assert_eq!((short(25).as_str(), short(26).as_str(), short(701).as_str()), ("$z", "$aa", "$zz"));
    }
}
