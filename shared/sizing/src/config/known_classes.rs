//! The classes of model whose names are known: others are read by their fields alone, which is said.

use super::fields::Fields;
use crate::sorted_lines::has_line;
use crate::warning::Warning;

/// One `model_type` a line, sorted: those that transformers 4.57.6 to 5.24.0 (`models/*/configuration_*.py`), vLLM 0.33 and
/// SGLang 0.5.23 define or name for whole models and their texts, and of the catalogue's configs.
const NAMES: &str = include_str!("known_classes.txt");

/// Says of a class that nobody here has seen that what it does without a field is not seen either.
pub(super) fn warn_of_unknown(fields: &Fields<'_>, warnings: &mut Vec<Warning>) {
    let Some(class) = fields.model_type().filter(|class| !is_known(class)) else { return };
    let message = format!(
        "{class:?} is no class that is known here; its layers are taken by their fields alone, and what the class does \
         without a field is not seen"
    );
    warnings.push(Warning::new(fields.path_of("model_type"), message));
}

fn is_known(class: &str) -> bool {
    has_line(NAMES, class)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_found_and_no_other() {
        let names: Vec<&str> = NAMES.lines().collect();
        assert!(names.is_sorted());
        assert!(names.iter().all(|name| is_known(name)));
        assert!(!["", "llam", "llama5000", "a", "zzz", "gpt2\ngpt_bigcode"].into_iter().any(is_known));
    }
}
