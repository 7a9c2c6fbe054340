//! The widths of one layer of a form, as a kernel needs them: plain numbers, no sources.

use kvscope_sizing::{IndexFormat, KvFormat, StateFormat, Tokens};

/// A form of state with the widths of one layer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum FormShape {
    /// Attention with K/V heads: MHA, GQA, MQA; over everything, a window, a chunk or an encoder's output.
    Gqa(GqaShape),
    /// The same over the tokens that an indexer chooses.
    Indexed(IndexedShape),
    /// Multi-head latent attention, absorbed.
    Mla(MlaShape),
    /// Latent attention over the tokens that an indexer chooses.
    Dsa(DsaShape),
    /// A window beside a compressed store: CSA, HCA, CSA2.
    Compressed(CompressedShape),
    /// A state of fixed size, read and written back by each step.
    Recurrent(RecurrentShape),
}

/// Widths of one layer with K/V heads, in values.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct GqaShape {
    /// Query heads.
    pub query_heads: u64,
    /// Key-value heads; a divisor of the query heads.
    pub kv_heads: u64,
    /// Width of one head's key.
    pub k_width: u64,
    /// Width of one head's value.
    pub v_width: u64,
    /// Which tokens are kept and read.
    pub range: TokenRange,
    /// Storage of K.
    pub k_format: KvFormat,
    /// Storage of V.
    pub v_format: KvFormat,
}

/// The tokens of a request that a layer keeps and a step reads.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum TokenRange {
    /// Every one.
    All,
    /// The last so many.
    Window(u64),
    /// Those of the current chunk of so many. Room is held for its fullest moment.
    Chunk(u64),
    /// Those of an encoder's output, whatever the context.
    Encoder(u64),
}

impl TokenRange {
    /// Tokens that room is held for at a context.
    pub fn kept(self, context: u64) -> u64 {
        match self {
            Self::All => context,
            Self::Window(limit) | Self::Chunk(limit) => context.min(limit),
            Self::Encoder(tokens) => tokens,
        }
    }

    /// Tokens that a step at a context reads.
    pub fn read(self, context: u64) -> u64 {
        match self {
            Self::Chunk(chunk) => Tokens::new(context).in_chunk(Tokens::new(chunk)).get(),
            _ => self.kept(context),
        }
    }
}

/// Widths of one latent layer, in values.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct MlaShape {
    /// Query heads; all share the latent.
    pub query_heads: u64,
    /// Width of the latent that serves as key and value.
    pub latent: u64,
    /// Width of the rotated part of the key.
    pub rope: u64,
    /// Storage of an entry.
    pub format: KvFormat,
}

/// Keys of an indexer: one for every `pool` tokens.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct IndexShape {
    /// Query heads, each with a weight of its own.
    pub query_heads: u64,
    /// Key heads.
    pub key_heads: u64,
    /// Values of one key.
    pub width: u64,
    /// Tokens that share a key.
    pub pool: u64,
    /// Storage of a key.
    pub format: IndexFormat,
}

/// K/V heads behind an indexer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct IndexedShape {
    /// The attention over what is chosen.
    pub attention: GqaShape,
    /// The indexer.
    pub index: IndexShape,
    /// Tokens that are read; all where absent.
    pub top_k: Option<u64>,
}

/// A latent behind an indexer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct DsaShape {
    /// The attention over what is chosen.
    pub attention: MlaShape,
    /// The layer's own indexer; a layer without one reads what an earlier layer chose.
    pub index: Option<IndexShape>,
    /// Tokens that are read; all where absent.
    pub top_k: Option<u64>,
}

/// A window branch and, beside it, a compressed one; one vector is key and value.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct CompressedShape {
    /// Query heads; all share each entry.
    pub query_heads: u64,
    /// Values of one entry.
    pub width: u64,
    /// Rotary values among them.
    pub rope: u64,
    /// Tokens of the window.
    pub window: u64,
    /// Storage of a window entry.
    pub window_format: KvFormat,
    /// The compressed branch, where there is one.
    pub branch: Option<BranchShape>,
}

/// The compressed branch of a layer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct BranchShape {
    /// Tokens that become one entry.
    pub ratio: u64,
    /// Who keeps the entries.
    pub store: StoreOwner,
    /// Storage of an entry.
    pub format: KvFormat,
    /// Entries that are read; all where absent.
    pub top_k: Option<u64>,
    /// The layer's own indexer.
    pub index: Option<IndexShape>,
    /// What the compressor holds.
    pub rows: Option<RowsShape>,
}

/// Who keeps a compressed store.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum StoreOwner {
    /// This layer.
    Own,
    /// An earlier layer; here it is only read.
    Earlier,
}

/// Rows of f32 values that a compressor holds until a group is whole: one half of a row are values, the other weights.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct RowsShape {
    /// Rows.
    pub rows: u64,
    /// Values of a row.
    pub values: u64,
}

/// A recurrence and the convolution before it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct RecurrentShape {
    /// The recurrence and its widths.
    pub recurrence: RecurrenceShape,
    /// Storage of its state.
    pub format: StateFormat,
    /// The convolution, where there is one.
    pub conv: Option<ConvShape>,
}

/// Which recurrence, with the widths of its state.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum RecurrenceShape {
    /// `v_heads × v_dim × k_dim`; each key head serves `v_heads / k_heads` value heads.
    GatedDeltaNet {
        /// Key heads.
        k_heads: u64,
        /// Value heads.
        v_heads: u64,
        /// Values of a key.
        k_dim: u64,
        /// Values of a value vector.
        v_dim: u64,
    },
    /// `heads × dim × dim`, a decay for every channel of the key.
    Kda {
        /// Heads.
        heads: u64,
        /// Values of a key and of a value vector.
        dim: u64,
    },
    /// `d_inner × d_state`.
    Mamba1 {
        /// Channels.
        d_inner: u64,
        /// State of a channel.
        d_state: u64,
    },
    /// `heads × head_dim × d_state`; B and C are shared by the heads of a group.
    Mamba2 {
        /// Heads.
        heads: u64,
        /// Channels of a head.
        head_dim: u64,
        /// State of a channel.
        d_state: u64,
        /// Groups of heads.
        groups: u64,
    },
    /// `heads × dim × dim`, a fixed decay for each head.
    Lightning {
        /// Heads.
        heads: u64,
        /// Values of a key and of a value vector.
        dim: u64,
    },
    /// A convolution alone.
    ShortConv,
}

/// A causal convolution that keeps the last `kernel − 1` inputs of every channel.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ConvShape {
    /// Taps.
    pub kernel: u64,
    /// Channels.
    pub channels: u64,
    /// Storage of the inputs.
    pub format: StateFormat,
}
