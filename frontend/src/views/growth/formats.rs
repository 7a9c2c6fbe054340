//! In which formats the figures are, in words.

use kvscope_sizing::{KvFormat, Settings, StateComponent};

use crate::state::{Model, Page};

/// Formats besides those of K and V that can be chosen.
const OTHERS: [(&str, &str); 5] = [
    ("index_dtype", "index keys"),
    ("state_dtype", "state"),
    ("conv_dtype", "convolution state"),
    ("cross_dtype", "cross-attention"),
    ("mla_storage", "MLA"),
];

/// Every format that was chosen; none where each model has its own.
pub(crate) fn chosen(page: Page) -> String {
    let set = page.chosen();
    let settings = &set.settings;
    let mut words: Vec<String> = of_k_and_v(settings).into_iter().collect();
    words.extend(OTHERS.iter().filter_map(|(name, what)| Some(format!("{what} {}", settings.value(name)?))));
    if words.is_empty() { "each model in its own formats".to_owned() } else { words.join(", ") }
}

/// The formats that were chosen for K and V.
pub(super) fn k_and_v(page: Page) -> Option<String> {
    of_k_and_v(&page.chosen().settings)
}

/// `K/V fp8`, `K q8_0, V q4_0`; a side's own format goes before that of both.
fn of_k_and_v(settings: &Settings) -> Option<String> {
    let both = settings.kv_dtype;
    let (k, v) = (settings.k_dtype.or(both), settings.v_dtype.or(both));
    if k == v {
        return k.map(|format| format!("K/V {format}"));
    }
    let side = |name: &str, format: Option<KvFormat>| format.map(|format| format!("{name} {format}"));
    let sides: Vec<String> = [side("K", k), side("V", v)].into_iter().flatten().collect();
    Some(sides.join(", "))
}

/// The format of a component: of K and V apart where they differ.
pub(super) fn of_component(model: &Model, component: &StateComponent, settings: &Settings) -> String {
    if component.format != StateComponent::MIXED {
        return component.format.to_owned();
    }
    let formats = model.architecture.formats(settings);
    format!("K {}, V {}", formats.k().format, formats.v().format)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(pairs: &[(&str, &str)]) -> Option<String> {
        let mut settings = Settings::default();
        for (name, value) in pairs {
            settings.set(name, value).unwrap();
        }
        of_k_and_v(&settings)
    }

    #[test]
    fn a_sides_own_format_goes_before_that_of_both() {
        assert_eq!(said(&[]), None);
        assert_eq!(said(&[("kv_dtype", "fp8")]).as_deref(), Some("K/V fp8"));
        let apart = [("k_dtype", "q8_0"), ("v_dtype", "q4_0")];
        assert_eq!(said(&apart).as_deref(), Some("K q8_0, V q4_0"));
        assert_eq!(said(&[&apart[..], &[("kv_dtype", "fp8")]].concat()).as_deref(), Some("K q8_0, V q4_0"));
        assert_eq!(said(&[("kv_dtype", "fp8"), ("v_dtype", "bf16")]).as_deref(), Some("K fp8, V bf16"));
        assert_eq!(said(&[("k_dtype", "q8_0")]).as_deref(), Some("K q8_0"));
    }
}
