use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use kvscope_sizing::{Bytes, Tokens};

/// Contexts of the quick form: 4Ki to 256Ki tokens, each a whole number of pages.
pub const DEFAULT_CONTEXTS: [Tokens; 4] =
    [Tokens::new(4 << 10), Tokens::new(16 << 10), Tokens::new(64 << 10), Tokens::new(256 << 10)];

/// What a run may use.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The time that the whole run may take, calibration and warm-up included.
    pub budget: Duration,
    /// Seed of the random state and page tables.
    pub seed: u64,
    /// The most state that all cases together hold; it is lowered to a quarter of the free memory.
    pub state_limit: Bytes,
}

impl Plan {
    /// A plan with the usual limits: 4 GiB of state.
    pub fn new(budget: Duration) -> Self {
        Self { budget, seed: 0x6B76, state_limit: Bytes::new(4 << 30) }
    }
}

/// One case to run: a form's shape at a context and batch.
#[derive(Clone)]
pub struct CaseRequest {
    /// The form and its widths.
    pub shape: FormShape,
    /// Layers of the model that have this form; at least 1.
    pub layers: u64,
    /// The catalogue id that the shape comes from.
    pub model: String,
    /// Tokens of each request.
    pub context: Tokens,
    /// Requests in the step.
    pub batch: u64,
    /// What sizing says of it.
    pub sizing: Arc<dyn CaseSizing>,
}

impl fmt::Debug for CaseRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CaseRequest")
            .field("shape", &self.shape)
            .field("layers", &self.layers)
            .field("model", &self.model)
            .field("context", &self.context)
            .field("batch", &self.batch)
            .finish_non_exhaustive()
    }
}

/// What sizing says of `layers` layers of a form: bf16 state, logical bytes, for the whole batch.
pub trait CaseSizing: Send + Sync {
    /// Bytes that are resident.
    fn state_bytes(&self, layers: u64, context: Tokens, batch: u64) -> kvscope_sizing::Result<Bytes>;

    /// Bytes of state that one decode step reads.
    fn read_bytes(&self, layers: u64, context: Tokens, batch: u64) -> kvscope_sizing::Result<Bytes>;
}

/// An attention form with the widths of one layer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum FormShape {
    /// Grouped-query attention, MHA and MQA included.
    Gqa(GqaShape),
    /// Multi-head latent attention, absorbed.
    Mla(MlaShape),
}

impl FormShape {
    /// The form's name in JSON and on the command line.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Gqa(_) => "gqa",
            Self::Mla(_) => "mla",
        }
    }
}

/// Widths of one grouped-query layer, in values.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct GqaShape {
    /// Query heads.
    pub query_heads: u64,
    /// Key-value heads; a divisor of the query heads.
    pub kv_heads: u64,
    /// Width of one head's key, a multiple of 16.
    pub k_width: u64,
    /// Width of one head's value, a multiple of 16.
    pub v_width: u64,
}

/// Widths of one latent layer, in values.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct MlaShape {
    /// Query heads.
    pub query_heads: u64,
    /// Width of the latent that serves as key and value, a multiple of 16.
    pub latent: u64,
    /// Width of the rotated part of the key, a multiple of 16.
    pub rope: u64,
}

/// How far a run is.
#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    /// What it is doing.
    pub stage: Stage,
    /// Share of the expected time that has passed, 0 to 1.
    pub fraction: f64,
    /// Seconds that it is expected to go on.
    pub remaining_seconds: f64,
    /// The case that it is at, counted from 0.
    pub case: Option<usize>,
}

/// What a run is doing.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Stage {
    /// Measuring the machine's ceilings.
    Calibrating,
    /// Filling state and checking a result against the reference.
    Preparing,
    /// Measuring steps.
    Measuring,
    /// All figures are stored.
    Done,
}
