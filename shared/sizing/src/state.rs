//! State components: what one layer keeps for one request.

use serde::{Deserialize, Serialize};

use crate::derivation::Derivation;
use crate::growth::Growth;
use crate::{Bytes, Result, Tokens, group_digits};

/// One thing that a layer keeps.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ComponentKind {
    /// K and V of every token.
    Kv,
    /// K and V of the last tokens.
    WindowKv,
    /// K and V of the current chunk.
    ChunkKv,
    /// The latent of every token, shared by all heads (MLA).
    MlaLatent,
    /// Keys that an indexer scores to choose tokens or entries.
    IndexKey,
    /// One entry for several tokens.
    CompressedKv,
    /// Rows that wait in a compressor for their group to be whole.
    CompressorState,
    /// A recurrent state.
    RecurrentState,
    /// The last inputs of a short convolution.
    ConvState,
    /// K and V of an encoder's output.
    CrossKv,
}

/// How long a component lives.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Lifecycle {
    /// Grows with tokens and lives as long as the request.
    Token,
    /// Saturates: old entries are overwritten.
    Window,
    /// Fixed for each request.
    Request,
    /// Needed only until a group is whole.
    Transient,
}

/// What one decode step reads of a component.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Reads {
    /// Every byte that is kept.
    Everything,
    /// At most this many entries, chosen by an indexer.
    TopEntries(u64),
}

/// One state component of one layer.
#[derive(Clone, Debug, PartialEq)]
pub struct StateComponent {
    /// What is kept.
    pub kind: ComponentKind,
    /// How it grows; its entry is in bytes.
    pub growth: Growth,
    /// How long it lives.
    pub lifecycle: Lifecycle,
    /// The format's name: `bf16`, `fp8_ds_mla`, `f32`, or [`StateComponent::MIXED`].
    pub format: &'static str,
    /// What a decode step reads of it.
    pub reads: Reads,
    /// How the bytes of one entry (or of the constant) are computed.
    pub derivation: Derivation,
}

impl StateComponent {
    /// The format of K and V that differ.
    pub const MIXED: &str = "mixed";
}

impl ComponentKind {
    /// Every kind, in the order of tables and legends.
    pub const ALL: [Self; 10] = [
        Self::Kv,
        Self::WindowKv,
        Self::ChunkKv,
        Self::MlaLatent,
        Self::IndexKey,
        Self::CompressedKv,
        Self::CompressorState,
        Self::RecurrentState,
        Self::ConvState,
        Self::CrossKv,
    ];

    /// The word in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Kv => "kv",
            Self::WindowKv => "window_kv",
            Self::ChunkKv => "chunk_kv",
            Self::MlaLatent => "mla_latent",
            Self::IndexKey => "index_key",
            Self::CompressedKv => "compressed_kv",
            Self::CompressorState => "compressor_state",
            Self::RecurrentState => "recurrent_state",
            Self::ConvState => "conv_state",
            Self::CrossKv => "cross_kv",
        }
    }

    /// The words on screen.
    pub fn label(self) -> &'static str {
        match self {
            Self::Kv => "full K/V",
            Self::WindowKv => "window K/V",
            Self::ChunkKv => "chunk K/V",
            Self::MlaLatent => "MLA latent",
            Self::IndexKey => "index keys",
            Self::CompressedKv => "compressed K/V",
            Self::CompressorState => "compressor state",
            Self::RecurrentState => "recurrent state",
            Self::ConvState => "conv state",
            Self::CrossKv => "cross K/V",
        }
    }
}

impl StateComponent {
    /// Bytes of one layer for a request of `n` tokens.
    pub fn bytes(&self, n: Tokens) -> Result<Bytes> {
        self.growth.bytes(n)
    }

    /// How the bytes of `layers` layers and `batch` requests come about:
    /// `61 layers × 100,000 entries × 1,152 B = 7,027,200,000 B`.
    pub fn product(&self, layers: u64, n: Tokens, batch: u64) -> Result<String> {
        let bytes = self.bytes(n)?.times(layers)?.times(batch)?;
        let mut factors = vec![counted(layers, "layer", "layers")];
        if !matches!(self.growth, Growth::Constant { .. }) {
            factors.push(counted(self.growth.entries(n), "entry", "entries"));
        }
        factors.push(format!("{} B", group_digits(self.growth.entry().get())));
        if batch > 1 {
            factors.push(counted(batch, "request", "requests"));
        }
        Ok(format!("{} = {bytes}", factors.join(" × ")))
    }

    /// Bytes that one decode step at `n` tokens reads of it.
    pub fn read_bytes(&self, n: Tokens) -> Result<Bytes> {
        self.read_entries(n).map_or_else(|| self.bytes(n), |entries| self.growth.entry().times(entries))
    }

    /// Entries of one layer that one decode step at `n` tokens reads; none where there are no entries.
    pub fn read_entries(&self, n: Tokens) -> Option<u64> {
        let in_reach = self.growth.entries_in_reach(n);
        match (self.growth, self.reads) {
            (Growth::Constant { .. }, _) => None,
            (_, Reads::Everything) => Some(in_reach),
            (_, Reads::TopEntries(limit)) => Some(in_reach.min(limit)),
        }
    }
}

/// `1 layer`, `61 layers`
pub fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{} {}", group_digits(count), if count == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    use crate::{Settings, StateModel, Tokens, find_entry};

    #[test]
    fn the_product_is_the_figure() {
        let entry = find_entry("deepseek-v3.2").unwrap();
        let state = StateModel::new(&entry.architecture().unwrap(), &Settings::default()).unwrap();
        let part = &state.parts()[0];
        assert_eq!(
            part.component.product(part.layers, Tokens::new(100_000), 1).unwrap(),
            "61 layers × 100,000 entries × 1,152 B = 7,027,200,000 B"
        );
    }
}
