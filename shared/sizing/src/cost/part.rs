use serde::Serialize;

use crate::state::ComponentKind;
use crate::word_record;

/// What a layer, or the model around its layers, computes.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// The table of token vectors: looked up, not multiplied.
    Embedding,
    /// Matrices before and behind the mixer: queries, keys, values, latents, gates, output.
    Projections,
    /// Matrices that make the keys and values of cross-attention, once for each token of the encoder's output.
    EncoderProjections,
    /// Scores and weighted sums over keys and values, latents or entries.
    Core,
    /// Scores of index keys.
    Indexer,
    /// The sums that make entries.
    Compressor,
    /// The update and the reading of a recurrent state.
    Recurrence,
    /// A short convolution.
    Convolution,
    /// An MLP that every token passes.
    Mlp,
    /// The choice of experts, and the way to and from the width that they work on.
    Router,
    /// Experts that every token passes.
    SharedExperts,
    /// Experts of which a token passes some.
    Experts,
    /// The mixing of several residual streams (hyper-connections).
    Streams,
    /// From the last layer to the vocabulary.
    Head,
}

word_record!(
    Part,
    name,
    [
        Embedding,
        Projections,
        EncoderProjections,
        Core,
        Indexer,
        Compressor,
        Recurrence,
        Convolution,
        Mlp,
        Router,
        SharedExperts,
        Experts,
        Streams,
        Head
    ]
);

impl Part {
    /// The word in JSON and on screen.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Embedding => "embedding",
            Self::Projections => "projections",
            Self::EncoderProjections => "encoder_projections",
            Self::Core => "core",
            Self::Indexer => "indexer",
            Self::Compressor => "compressor",
            Self::Recurrence => "recurrence",
            Self::Convolution => "convolution",
            Self::Mlp => "mlp",
            Self::Router => "router",
            Self::SharedExperts => "shared_experts",
            Self::Experts => "experts",
            Self::Streams => "streams",
            Self::Head => "head",
        }
    }

    /// Whether what its weights do is counted with the state: taps of a convolution, and the decays of a recurrence, which
    /// are no matrices that a token is multiplied by.
    pub(super) const fn works_on_state(self) -> bool {
        matches!(self, Self::Convolution | Self::Recurrence)
    }

    /// The part that reads a component of the state.
    pub(super) const fn reading(kind: ComponentKind) -> Self {
        match kind {
            ComponentKind::IndexKey => Self::Indexer,
            ComponentKind::CompressorState => Self::Compressor,
            ComponentKind::RecurrentState => Self::Recurrence,
            ComponentKind::ConvState => Self::Convolution,
            ComponentKind::Kv
            | ComponentKind::WindowKv
            | ComponentKind::ChunkKv
            | ComponentKind::MlaLatent
            | ComponentKind::CompressedKv
            | ComponentKind::CrossKv => Self::Core,
        }
    }
}
