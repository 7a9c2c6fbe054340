//! Mixers: what a layer does along the sequence, and the state that each keeps.
//!
//! A new mixer is one variant here with one file that states its components, and one rule in [`crate::config`] that
//! recognises it.

mod attention;
mod compressed;
mod latent;
mod recurrent;

pub use attention::Heads;
pub use compressed::{CompressedAttention, Compression, CompressorRows, Generation, Reindex};
pub use latent::{IndexKeys, IndexLayout, Latent};
pub use recurrent::{Conv, Recurrence, Recurrent};

use crate::Result;
use crate::fact::Fact;
use crate::settings::Formats;
use crate::state::StateComponent;

/// What a layer does along the sequence.
#[derive(Clone, Debug, Hash, PartialEq)]
pub enum Mixer {
    /// Full attention: MHA, GQA or MQA by its head counts.
    Full(Heads),
    /// Full attention that reads only the tokens that an indexer chooses.
    IndexedFull(Heads, IndexKeys),
    /// Attention over the last `window` tokens.
    Sliding {
        /// Shape of K and V.
        heads: Heads,
        /// Tokens that are kept.
        window: Fact,
    },
    /// Attention within the current chunk of tokens.
    Chunked {
        /// Shape of K and V.
        heads: Heads,
        /// Tokens of a chunk.
        chunk: Fact,
    },
    /// Multi-head latent attention.
    Mla(Latent),
    /// MLA that reads only the tokens that an indexer chooses. Without keys of its own it uses those of an earlier layer.
    Dsa {
        /// The latent.
        latent: Latent,
        /// The layer's own index keys, if it has an indexer.
        index: Option<IndexKeys>,
        /// Tokens that a query reads.
        top_k: Option<Fact>,
    },
    /// Compressed sparse attention, heavily compressed attention, or their window branch alone.
    Compressed(CompressedAttention),
    /// A recurrence with a fixed state: gated DeltaNet, KDA, Mamba-1, Mamba-2, lightning, short convolution.
    Recurrent(Recurrent),
    /// Attention to an encoder's output.
    Cross {
        /// Shape of K and V.
        heads: Heads,
        /// Tokens of the encoder's output, where the config limits them; the setting goes first.
        encoder_tokens: Option<Fact>,
    },
    /// Nothing along the sequence: an MLP or `MoE` block that counts as a layer.
    None,
}

impl Mixer {
    /// The name on screen and in JSON.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Full(heads) => heads.form(),
            Self::IndexedFull(..) => "indexed GQA",
            Self::Sliding { .. } => "sliding",
            Self::Chunked { .. } => "chunked",
            Self::Mla(_) => "MLA",
            Self::Dsa { .. } => "DSA",
            Self::Compressed(attention) => attention.name(),
            Self::Recurrent(recurrent) => recurrent.name(),
            Self::Cross { .. } => "cross-attention",
            Self::None => "none",
        }
    }

    /// The shape of K and V, where the mixer has heads of its own.
    pub fn heads(&self) -> Option<&Heads> {
        match self {
            Self::Full(heads)
            | Self::IndexedFull(heads, _)
            | Self::Sliding { heads, .. }
            | Self::Chunked { heads, .. }
            | Self::Cross { heads, .. } => Some(heads),
            _ => None,
        }
    }

    /// The keys of an indexer, where the layer keeps them.
    pub fn index_keys(&self) -> Option<&IndexKeys> {
        match self {
            Self::IndexedFull(_, keys) => Some(keys),
            Self::Dsa { index, .. } => index.as_ref(),
            Self::Compressed(attention) => attention.compression.as_ref()?.index.as_ref(),
            _ => None,
        }
    }

    /// What the layer keeps for one request under the given formats.
    ///
    /// # Errors
    ///
    /// Widths whose product is beyond 64 bits.
    pub fn components(&self, formats: &Formats) -> Result<Vec<StateComponent>> {
        self.kept(formats).map_err(|error| match self.heads() {
            Some(heads) => {
                error.for_fields(format!("{} × {}", heads.kv_heads.source(), heads.k_width.source()))
            }
            None => error.for_fields(format!("the widths of {}", self.name())),
        })
    }

    fn kept(&self, formats: &Formats) -> Result<Vec<StateComponent>> {
        match self {
            Self::Full(heads) => Ok(vec![heads.full(formats)?]),
            Self::IndexedFull(heads, index) => {
                let mut kv = heads.full(formats)?;
                if let Some(limit) = &index.top_k {
                    kv.reads = crate::state::Reads::TopEntries(limit.get());
                    kv.derivation.inputs.push(crate::derivation::Input::of("top_k", limit));
                }
                Ok(vec![kv, index.component(formats)?])
            }
            Self::Sliding { heads, window } => Ok(vec![heads.window(formats, window)?]),
            Self::Chunked { heads, chunk } => Ok(vec![heads.chunk(formats, chunk)?]),
            Self::Mla(latent) => Ok(vec![latent.component(formats, None)?]),
            Self::Dsa { latent, index, top_k } => {
                let mut kept = vec![latent.component(formats, top_k.as_ref())?];
                if let Some(index) = index {
                    kept.push(index.component(formats)?);
                }
                Ok(kept)
            }
            Self::Compressed(attention) => attention.components(formats),
            Self::Recurrent(recurrent) => recurrent.components(formats),
            Self::Cross { heads, encoder_tokens } => Ok(vec![heads.cross(formats, encoder_tokens.as_ref())?]),
            Self::None => Ok(Vec::new()),
        }
    }
}
