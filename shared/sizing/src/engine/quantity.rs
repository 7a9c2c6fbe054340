//! The quantities that case files and reports name, and the figures that answer them.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

use crate::state::counted;
use crate::{Bytes, BytesPerToken, Error, Result, Tokens};

macro_rules! quantities {
    ($($(#[$doc:meta])* $variant:ident = $name:literal, $label:literal,)*) => {
        /// A figure that an engine profile can give.
        #[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
        pub enum Quantity {
            $($(#[$doc])* $variant,)*
        }

        impl Quantity {
            /// Every quantity, in the order of reports.
            pub const ALL: [Self; [$($name),*].len()] = [$(Self::$variant),*];

            /// The name in case files, settings and JSON.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }

            /// The words on screen; those of a part of the resident bytes begin with a small letter.
            pub fn label(self) -> &'static str {
                match self {
                    $(Self::$variant => $label,)*
                }
            }
        }
    };
}

quantities! {
    /// Bytes that one more token of one request adds at the context, block rounding averaged out.
    SlopeBytesPerToken = "slope_bytes_per_token", "Slope",
    /// Bytes of one request that do not grow with its length.
    FixedBytesPerRequest = "fixed_bytes_per_request", "Fixed, one request",
    /// All bytes resident for the batch.
    ResidentBytes = "resident_bytes", "Reserved for the batch",
    /// Of the resident bytes: caches that keep every token.
    KvBytes = "kv_bytes", "caches of every token",
    /// Of the resident bytes: sliding and chunked caches.
    WindowBytes = "window_bytes", "windows and chunks",
    /// Of the resident bytes: recurrent, convolution and compressor state.
    StateBytes = "state_bytes", "recurrent and compressor state",
    /// Of the resident bytes: keys of an indexer.
    IndexBytes = "index_bytes", "index keys",
    /// Of the resident bytes: cross-attention.
    CrossBytes = "cross_bytes", "cross-attention",
    /// Of the resident bytes: what blocks are wider than the pages of the group that has them.
    UnusedWidthBytes = "unused_width_bytes", "unused width of blocks",
    /// What the engine says that one request of `max_model_len` needs.
    NeededBytesOneRequest = "needed_bytes_one_request", "Needed by one request of the longest length",
    /// Requests of `max_model_len` that fit the pool.
    MaxConcurrency = "max_concurrency", "Requests of the longest length that fit",
    /// Requests that the engine admits at once.
    MaxRunningRequests = "max_running_requests", "Requests admitted at once",
    /// Tokens of the engine's cache size line.
    LoggedKvTokens = "logged_kv_tokens", "Tokens in the cache size line",
    /// The longest request that fits the pool, as the engine computes it.
    EstimatedMaxModelLen = "estimated_max_model_len", "Longest request that fits",
    /// Blocks of the pool.
    NumBlocks = "num_blocks", "Blocks of the pool",
    /// Tokens of an attention block.
    AttentionBlockSize = "attention_block_size", "Tokens of a block",
    /// Padding layers over real layers of the kind that is padded to whole groups.
    PaddingFraction = "padding_fraction", "Padding layers",
    /// Blocks that one request holds for recurrent state.
    StateBlocksPerRequest = "state_blocks_per_request", "State blocks of one request",
    /// Bytes of all pools for one token of the full-attention pool.
    PoolBytesPerToken = "pool_bytes_per_token", "Pools, for one token",
    /// Bytes of the preallocated pools.
    PoolBytes = "pool_bytes", "Pools",
    /// Bytes of the table from request slot to token slot.
    RequestTableBytes = "request_table_bytes", "Request table",
    /// Bytes of all recurrent states kept for prefix reuse.
    CheckpointBytes = "checkpoint_bytes", "States kept for prefixes",
    /// Bytes by a naive formula over the correct ones.
    OverestimateFactor = "overestimate_factor", "Naive bytes over these",
}

impl Quantity {
    /// The parts that resident bytes are divided into.
    pub const PARTS: [Self; 5] =
        [Self::KvBytes, Self::IndexBytes, Self::WindowBytes, Self::StateBytes, Self::CrossBytes];

    /// Whether it counts resident bytes: all of them, or one part.
    pub fn is_of_resident(self) -> bool {
        self == Self::ResidentBytes || Self::PARTS.contains(&self)
    }
}

/// One figure with its kind. Exact, apart from ratios.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Figure {
    /// Bytes.
    Bytes(Bytes),
    /// Bytes for each token.
    Slope(BytesPerToken),
    /// Tokens.
    Tokens(Tokens),
    /// Blocks.
    Blocks(u64),
    /// Requests.
    Requests(u64),
    /// A plain ratio, as the engine computes it in floating point.
    Ratio(f64),
}

impl Figure {
    /// The nearest floating point number.
    pub fn as_f64(self) -> f64 {
        match self {
            Self::Slope(slope) => slope.as_f64(),
            Self::Ratio(ratio) => ratio,
            _ => self.whole().map_or(f64::NAN, |whole| whole as f64),
        }
    }

    /// The exact number, where the figure is whole.
    pub fn whole(self) -> Option<u64> {
        match self {
            Self::Bytes(bytes) => Some(bytes.get()),
            Self::Slope(slope) => slope.whole(),
            Self::Tokens(tokens) => Some(tokens.get()),
            Self::Blocks(count) | Self::Requests(count) => Some(count),
            Self::Ratio(_) => None,
        }
    }

    /// The unit in case files: `B`, `tokens`, `blocks`, `requests`, `x`.
    pub fn unit(self) -> &'static str {
        match self {
            Self::Bytes(_) | Self::Slope(_) => "B",
            Self::Tokens(_) => "tokens",
            Self::Blocks(_) => "blocks",
            Self::Requests(_) => "requests",
            Self::Ratio(_) => "x",
        }
    }
}

/// The bare number: what its unit is, the quantity's name says.
impl Serialize for Figure {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        match self.whole() {
            Some(whole) => serializer.serialize_u64(whole),
            None => serializer.serialize_f64(self.as_f64()),
        }
    }
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let one = match self {
            Self::Tokens(_) => "token",
            Self::Blocks(_) => "block",
            Self::Requests(_) => "request",
            _ => self.unit(),
        };
        match self.whole() {
            Some(whole) => f.write_str(&counted(whole, one, self.unit())),
            None => write!(f, "{} {}", self.as_f64(), self.unit()),
        }
    }
}

impl FromStr for Quantity {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|quantity| quantity.name() == name).ok_or_else(|| {
            let known: Vec<&str> = Self::ALL.into_iter().map(Self::name).collect();
            Error::setting("quantity", format!("unknown quantity {name:?}; known: {}", known.join(", ")))
        })
    }
}

impl Serialize for Quantity {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}
