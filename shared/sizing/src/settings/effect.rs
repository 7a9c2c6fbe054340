//! Formats that a model has no use for.

use super::{MlaStorage, Settings};
use crate::architecture::Architecture;
use crate::mixer::{Mixer, Recurrence};
use crate::warning::Warning;

impl Settings {
    /// A warning for each format that is set and that nothing in this model is stored in.
    pub(crate) fn without_effect(&self, architecture: &Architecture) -> Vec<Warning> {
        let given: Vec<&str> = self.given().collect();
        if given.is_empty() {
            return Vec::new();
        }
        let owners = architecture.classes().iter().filter(|class| class.borrows.is_none());
        let mixers: Vec<&Mixer> = owners.flat_map(|class| &class.mixers).collect();
        let any = |of: fn(&Mixer) -> bool| mixers.iter().any(|mixer| of(mixer));
        let heads = any(|mixer| mixer.heads().is_some());
        let latents = any(|mixer| matches!(mixer, Mixer::Mla(_) | Mixer::Dsa { .. }));
        let records = architecture.keeps_entries();
        let cross = any(|mixer| matches!(mixer, Mixer::Cross { .. }));
        let expanded = latents && self.mla_storage == Some(MlaStorage::Expanded);
        let uses = [
            ("kv_dtype", heads || latents || records, "K/V, latents or entries"),
            ("k_dtype", heads || latents, "K of its own format"),
            ("v_dtype", heads || expanded, "V of its own format"),
            ("cross_dtype", cross, "the output of an encoder"),
            ("encoder_tokens", cross, "the output of an encoder"),
            ("index_dtype", any(|mixer| mixer.index_keys().is_some()), "index keys"),
            ("state_dtype", any(has_recurrent_state), "recurrent state"),
            ("conv_dtype", any(has_conv_state), "convolution state"),
            ("mla_storage", latents, "a latent"),
        ];
        let unused = uses.into_iter().filter(|(name, used, _)| !used && given.contains(name));
        let mut found: Vec<Warning> = unused
            .map(|(name, _, what)| {
                Warning::new(name, format!("changes nothing: no layer of this model keeps {what}"))
            })
            .collect();
        if self.kv_dtype.is_some() && self.names_both_sides() && (heads || latents) && !records {
            found.push(Warning::new("kv_dtype", "changes nothing: k_dtype and v_dtype go first"));
        }
        found
    }

    /// Whether K and V each have a format of their own, so that `kv_dtype` is left for what is neither.
    pub(crate) fn names_both_sides(&self) -> bool {
        self.k_dtype.is_some() && self.v_dtype.is_some()
    }
}

fn has_recurrent_state(mixer: &Mixer) -> bool {
    matches!(mixer, Mixer::Recurrent(recurrent) if !matches!(recurrent.recurrence, Recurrence::ShortConv))
}

fn has_conv_state(mixer: &Mixer) -> bool {
    matches!(mixer, Mixer::Recurrent(recurrent) if recurrent.conv.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{StateModel, Tokens, find_entry};

    fn told(id: &str, settings: &[(&str, &str)]) -> Vec<String> {
        let mut chosen = Settings::default();
        for (name, value) in settings {
            chosen.set(name, value).unwrap();
        }
        let state = StateModel::new(&find_entry(id).unwrap().architecture().unwrap(), &chosen).unwrap();
        let warnings = state.size(id, Some(Tokens::new(1)), 1, &chosen).unwrap().warnings;
        warnings
            .into_iter()
            .filter(|warning| warning.message.starts_with("changes nothing"))
            .map(|w| w.field)
            .collect()
    }

    #[test]
    fn a_format_that_nothing_is_stored_in_is_told() {
        assert_eq!(told("qwen3-8b", &[("index_dtype", "fp4"), ("kv_dtype", "fp8")]), ["index_dtype"]);
        assert_eq!(told("deepseek-v3.2", &[("index_dtype", "fp4"), ("k_dtype", "fp8")]), [""; 0]);
        assert_eq!(
            told("deepseek-v3.2", &[("v_dtype", "fp8"), ("state_dtype", "f32")]),
            ["v_dtype", "state_dtype"]
        );
        assert_eq!(told("deepseek-v3.2", &[("v_dtype", "fp8"), ("mla_storage", "expanded")]), [""; 0]);
        assert_eq!(told("deepseek-v4-pro", &[("k_dtype", "fp8"), ("kv_dtype", "fp8_ds_mla")]), ["k_dtype"]);
        assert_eq!(told("qwen3.5-27b", &[("state_dtype", "bf16"), ("conv_dtype", "f32")]), [""; 0]);
    }

    /// What is told to change nothing leaves every byte as it is, and what is not told changes some.
    #[test]
    fn a_format_is_told_exactly_where_bytes_stay() {
        // Two values each, of which at most one is what the model has without them.
        let rows = [
            ("kv_dtype", ["f32", "bf16"]),
            ("k_dtype", ["f32", "bf16"]),
            ("v_dtype", ["f32", "bf16"]),
            ("index_dtype", ["fp4", "bf16"]),
            ("state_dtype", ["f16", "f32"]),
            ("conv_dtype", ["bf16", "f32"]),
        ];
        for entry in crate::catalogue() {
            let architecture = entry.architecture().unwrap();
            let bytes = |settings: &Settings| {
                StateModel::new(&architecture, settings).unwrap().resident(Tokens::new(4096), 1).unwrap()
            };
            let plain = bytes(&Settings::default());
            for (name, values) in rows {
                let changes = values.map(|value| {
                    let mut settings = Settings::default();
                    settings.set(name, value).unwrap();
                    bytes(&settings) != plain
                });
                let is_told = values.map(|value| !told(&entry.id, &[(name, value)]).is_empty());
                assert_eq!(is_told[0], is_told[1], "{}: {name}", entry.id);
                assert_eq!(changes.contains(&true), !is_told[0], "{}: {name}", entry.id);
            }
        }
    }
}
