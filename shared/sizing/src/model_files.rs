//! Which of several files says what a model is, by their names alone.

use crate::{Error, Result};

/// Whether a name promises a GGUF file.
pub fn is_gguf_name(name: &str) -> bool {
    name.rsplit_once('.').is_some_and(|(_, extension)| extension.eq_ignore_ascii_case("gguf"))
}

/// The name of the first of the files that a model was split into, from the name of any:
/// `model-00001-of-00003.gguf` from `model-00002-of-00003.gguf`. None where the name is not one of several.
pub fn first_part(name: &str) -> Option<String> {
    let (stem, _, total) = split_name(name)?;
    let extension = &name[name.len() - "gguf".len()..];
    Some(format!("{stem}-00001-of-{total}.{extension}"))
}

/// The place among a folder's file names of the one that says what the model is: its `config.json`, else its only GGUF
/// file, parts behind the first left out.
///
/// # Errors
///
/// Neither is there, or several GGUF files are.
pub fn model_file(names: &[String]) -> Result<usize> {
    if let Some(place) = names.iter().position(|name| name == "config.json") {
        return Ok(place);
    }
    let is_first = |name: &str| split_name(name).is_none_or(|(_, part, _)| part == "00001");
    let mut found: Vec<usize> =
        (0..names.len()).filter(|place| is_gguf_name(&names[*place]) && is_first(&names[*place])).collect();
    crate::sort_short(&mut found, |a, b| names[*a] > names[*b]);
    match found.as_slice() {
        [one] => Ok(*one),
        [] => Err(Error::syntax("the folder holds neither a config.json nor a GGUF file")),
        several => {
            let names: Vec<&str> = several.iter().map(|place| names[*place].as_str()).collect();
            let count = names.len();
            let names = names.join(", ");
            Err(Error::syntax(format!("the folder holds {count} GGUF files, name one of them: {names}")))
        }
    }
}

/// `model`, `00002` and `00003` of `model-00002-of-00003.gguf`.
fn split_name(name: &str) -> Option<(&str, &str, &str)> {
    let (whole, extension) = name.rsplit_once('.')?;
    if !extension.eq_ignore_ascii_case("gguf") {
        return None;
    }
    let (rest, total) = whole.rsplit_once("-of-")?;
    let (stem, part) = rest.rsplit_once('-')?;
    let is_number = |text: &str| text.len() == 5 && text.bytes().all(|byte| byte.is_ascii_digit());
    (is_number(part) && is_number(total)).then_some((stem, part, total))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(names: &[&str]) -> Result<usize> {
        model_file(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>())
    }

    /// As `llama-gguf-split` names them: a number of five digits, twice.
    #[test]
    fn parts_are_known_by_their_names() {
        assert_eq!(first_part("Q4-00002-of-00003.gguf").as_deref(), Some("Q4-00001-of-00003.gguf"));
        assert_eq!(first_part("Q4-00002-of-00003.GGUF").as_deref(), Some("Q4-00001-of-00003.GGUF"));
        for other in ["model.gguf", "best-of-breed.gguf", "a-1-of-2.gguf", "a-00001-of-00002.bin"] {
            assert_eq!(first_part(other), None, "{other}");
        }
        assert!(is_gguf_name("a.GGUF") && !is_gguf_name("gguf"));
    }

    #[test]
    fn a_folder_has_a_config_or_one_gguf_file() {
        assert_eq!(chosen(&["b.gguf", "config.json"]), Ok(1));
        assert_eq!(chosen(&["readme.md", "a-00002-of-00002.gguf", "a-00001-of-00002.gguf"]), Ok(2));
        assert_eq!(chosen(&["a-00002-of-00002.GGUF", "a-00001-of-00002.GGUF"]), Ok(1));
        assert!(chosen(&["readme.md"]).unwrap_err().to_string().contains("neither"));
        let several = chosen(&["b.gguf", "a.gguf"]).unwrap_err().to_string();
        assert_eq!(several, "the folder holds 2 GGUF files, name one of them: a.gguf, b.gguf");
    }
}
