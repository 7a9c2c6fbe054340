//! What each method may do to a component, and why not.

use serde::Serialize;

use crate::state::ComponentKind;

/// What a strategy does to values.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// The same bits come back: ANS, bit packing, `SplitZip` (arXiv 2605.01708).
    Lossless,
    /// Fewer bits for each value of a token's K and V: KIVI (arXiv 2402.02750).
    Quantise,
    /// Fewer bits for heads that look near than for those that look far: `MixHQ` (arXiv 2605.13734).
    QuantiseByHead,
    /// Differences of neighbouring tokens, quantised and entropy coded: `CacheGen` (arXiv 2310.07240).
    DeltaCodec,
}

/// Whether a method may touch a component.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Touch {
    /// It may.
    Applies,
    /// It may not, and why.
    Leaves(&'static str),
}

impl Method {
    /// Every method.
    pub const ALL: [Self; 4] = [Self::Lossless, Self::Quantise, Self::QuantiseByHead, Self::DeltaCodec];

    /// The word on the command line and in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Lossless => "lossless",
            Self::Quantise => "quantise",
            Self::QuantiseByHead => "quantise_by_head",
            Self::DeltaCodec => "delta_codec",
        }
    }

    /// The method of that word.
    pub fn named(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|method| method.name() == word)
    }
}

/// What `method` may do to a component of `kind` that is stored in `format`.
///
/// Lossy methods were measured on 16-bit K and V of heads (KIVI, `CacheGen`, `KVServe`: GQA models only), so nothing else is theirs
/// to change.
pub fn touch(method: Method, kind: ComponentKind, format: &str) -> Touch {
    if method == Method::Lossless {
        return Touch::Applies;
    }
    match kind {
        ComponentKind::Kv | ComponentKind::WindowKv | ComponentKind::ChunkKv | ComponentKind::CrossKv => {
            if !matches!(format, "bf16" | "f16" | "f32") {
                return Touch::Leaves(
                    "its values have 8 bits or fewer already; the ratio was measured on 16",
                );
            }
            Touch::Applies
        }
        ComponentKind::MlaLatent => Touch::Leaves(
            "one latent is K and V of all heads at once: no head can be told apart, and no measurement is known",
        ),
        ComponentKind::IndexKey => {
            Touch::Leaves("it decides which tokens are read: an error changes the choice, not a value")
        }
        ComponentKind::CompressedKv => {
            Touch::Leaves("an entry already stands for several tokens, and no measurement is known")
        }
        ComponentKind::CompressorState => Touch::Leaves(
            "partial sums of a group that is not whole: an error goes into every entry made of them",
        ),
        ComponentKind::RecurrentState => {
            Touch::Leaves("every later token is computed from it: an error is never overwritten")
        }
        ComponentKind::ConvState => Touch::Leaves("a few inputs that the next tokens are computed from"),
    }
}
