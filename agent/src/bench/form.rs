//! The forms that can be asked for, and the model that each is taken from where none is named.

use std::str::FromStr;

use kvscope_sizing::{Generation, Mixer, Recurrence};

use super::BenchError;

/// A form of state, by the name that the command line and run files use.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Form {
    /// Full attention, a K/V head for each query head.
    Mha,
    /// Full attention with shared K/V heads.
    Gqa,
    /// Full attention with one K/V head.
    Mqa,
    /// Shared K/V heads behind an indexer.
    IndexedGqa,
    /// Sliding window.
    Swa,
    /// Chunks.
    Chunked,
    /// Attention to an encoder's output.
    Cross,
    /// Multi-head latent attention, absorbed.
    Mla,
    /// Latents behind an indexer.
    Dsa,
    /// Compressed sparse attention.
    Csa,
    /// Heavily compressed attention.
    Hca,
    /// Compressed attention over its own store, second generation.
    Csa2,
    /// The same over an earlier layer's store.
    Csa2Borrowed,
    /// The window branch of compressed attention alone.
    Csw,
    /// Gated DeltaNet.
    Gdn,
    /// Kimi delta attention.
    Kda,
    /// Mamba-1.
    Mamba1,
    /// Mamba-2.
    Mamba2,
    /// Lightning attention.
    Lightning,
    /// A short convolution alone.
    ShortConv,
}

impl Form {
    /// Every form with its name and the catalogue version that it is taken from where none is named.
    const TABLE: [(Self, &'static str, Option<&'static str>); 20] = [
        (Self::Mha, "mha", Some("llama-2-7b")),
        (Self::Gqa, "gqa", Some("minimax-m2.7")),
        (Self::Mqa, "mqa", Some("gemma-2b")),
        (Self::IndexedGqa, "indexed", Some("qwen3.8-flash-next")),
        (Self::Swa, "swa", Some("gpt-oss-120b")),
        (Self::Chunked, "chunked", Some("llama-4-scout")),
        (Self::Cross, "cross", Some("llama-3.2-11b-vision-instruct")),
        (Self::Mla, "mla", Some("kimi-k2.6")),
        (Self::Dsa, "dsa", Some("deepseek-v3.2")),
        (Self::Csa, "csa", Some("deepseek-v4-pro")),
        (Self::Hca, "hca", Some("deepseek-v4-pro")),
        (Self::Csa2, "csa2", Some("deepseek-v4.1-flash")),
        (Self::Csa2Borrowed, "csa2-borrowed", Some("deepseek-v4.1-flash")),
        (Self::Csw, "csw", Some("deepseek-v4-flash")),
        (Self::Gdn, "gdn", Some("qwen3.5-397b-a17b")),
        (Self::Kda, "kda", Some("kimi-linear-48b-a3b")),
        (Self::Mamba1, "mamba1", Some("jamba-1.5-large")),
        (Self::Mamba2, "mamba2", Some("nemotron-3-nano-30b-a3b")),
        (Self::Lightning, "lightning", Some("minimax-text-01")),
        (Self::ShortConv, "shortconv", Some("lfm2-1.2b")),
    ];

    /// Every form, in the order of tables.
    pub fn all() -> impl Iterator<Item = Self> {
        Self::TABLE.into_iter().map(|(form, ..)| form)
    }

    /// The name.
    pub fn name(self) -> &'static str {
        Self::TABLE.iter().find(|(form, ..)| *form == self).map_or("", |(_, name, _)| *name)
    }

    /// The catalogue version that it is taken from where none is named; not every form has one.
    pub fn usual_model(self) -> Option<&'static str> {
        Self::TABLE.iter().find(|(form, ..)| *form == self).and_then(|(.., model)| *model)
    }

    /// Whether its state is a recurrence's or a convolution's, of a fixed size.
    pub fn is_recurrent(self) -> bool {
        matches!(
            self,
            Self::Gdn | Self::Kda | Self::Mamba1 | Self::Mamba2 | Self::Lightning | Self::ShortConv
        )
    }

    /// The form of a mixer; none where a layer does nothing along the sequence.
    pub fn of(mixer: &Mixer) -> Option<Self> {
        Some(match mixer {
            Mixer::Full(heads) => match heads.form() {
                "MHA" => Self::Mha,
                "MQA" => Self::Mqa,
                _ => Self::Gqa,
            },
            Mixer::IndexedFull(..) => Self::IndexedGqa,
            Mixer::Sliding { .. } => Self::Swa,
            Mixer::Chunked { .. } => Self::Chunked,
            Mixer::Mla(_) => Self::Mla,
            Mixer::Dsa { .. } => Self::Dsa,
            Mixer::Compressed(attention) => match (&attention.compression, attention.generation) {
                (None, _) => Self::Csw,
                (Some(branch), _) if !branch.own_store => Self::Csa2Borrowed,
                (Some(_), Generation::V41) => Self::Csa2,
                (Some(branch), Generation::V4) if branch.index.is_some() => Self::Csa,
                (Some(_), Generation::V4) => Self::Hca,
            },
            Mixer::Recurrent(recurrent) => match recurrent.recurrence {
                Recurrence::GatedDeltaNet { .. } => Self::Gdn,
                Recurrence::Kda { .. } => Self::Kda,
                Recurrence::Mamba1 { .. } => Self::Mamba1,
                Recurrence::Mamba2 { .. } => Self::Mamba2,
                Recurrence::Lightning { .. } => Self::Lightning,
                Recurrence::ShortConv => Self::ShortConv,
            },
            Mixer::Cross { .. } => Self::Cross,
            Mixer::None => return None,
        })
    }
}

impl FromStr for Form {
    type Err = BenchError;

    fn from_str(name: &str) -> Result<Self, BenchError> {
        Self::all().find(|form| form.name() == name).ok_or_else(|| {
            let known: Vec<&str> = Self::all().map(Self::name).collect();
            BenchError::Form(format!("unknown form {name:?}; known: {}", known.join(", ")))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_has_a_name_of_its_own_and_the_usual_model_has_it() {
        let mut names: Vec<&str> = Form::all().map(Form::name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Form::TABLE.len());
        for form in Form::all() {
            assert_eq!(form.name().parse::<Form>().unwrap(), form);
            let Some(model) = form.usual_model() else { continue };
            let architecture = kvscope_sizing::find_entry(model).unwrap().architecture().unwrap();
            let has = architecture
                .classes()
                .iter()
                .flat_map(|class| &class.mixers)
                .any(|m| Form::of(m) == Some(form));
            assert!(has, "{model} has no {}", form.name());
        }
        assert!("gpa".parse::<Form>().unwrap_err().to_string().contains("known: mha, gqa"));
    }
}
