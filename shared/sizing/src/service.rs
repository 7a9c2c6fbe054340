//! Persisted and transferred bytes: what is kept of a request on disk, and what is sent to go on elsewhere.
//!
//! Neither is the resident figure, and neither is what a step reads. The rules by component:
//!
//! | component | a decode worker must receive | a disk prefix store keeps |
//! | --- | --- | --- |
//! | `kv`, `mla_latent`, `index_key`, `compressed_kv` | every entry so far | every entry so far |
//! | `window_kv` | the live entries: the last `window` at most | by [`WindowPolicy`] |
//! | `chunk_kv` | the live entries: those of the chunk that the next token belongs to | by [`WindowPolicy`] |
//! | `recurrent_state`, `conv_state` | the state, once | one checkpoint, at the end of the request |
//! | `compressor_state` | its rows, once | nothing |
//! | `cross_kv` | all of it, once | all of it, once |
//!
//! A compressed stream has whole entries only. The tokens of its last, incomplete group are in the compressor's rows,
//! which a transfer carries. A disk store leaves those rows out: reuse goes to the last complete group and the tail is
//! computed again (DeepSeek-V4 report, arXiv 2606.19348, on-disk storage). Where groups overlap (CSA), the first entry after
//! a hit is made of the last group before it too, whose rows such a store computes again from that group's tokens; vLLM
//! keeps them in memory as a window of their own. A chunk empties at its boundary, so at a whole
//! number of chunks there is nothing to send, though memory is counted at its fullest.

use crate::growth::Growth;
use crate::size::StateModel;
use crate::state::{ComponentKind, StateComponent};
use crate::{Bytes, Result, Tokens};

/// What a disk prefix store keeps of windows and chunks (the three strategies of the DeepSeek-V4 report, and what its
/// production did).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum WindowPolicy {
    /// The live entries where the request ends, so that a hit goes on from there. DeepSeek-V4's production kept windows
    /// at the ends of prompt and output alone (as the V4.1 report tells), which for one request of `n` tokens is this.
    #[default]
    AtEnd,
    /// The entries of every token: a hit may end anywhere, most of what is written is never read.
    Full,
    /// A whole window at every multiple of `interval` tokens, and the live entries at the end. Checkpoints closer than
    /// one window share entries, which are kept once. Chunks are kept at the end alone.
    Periodic {
        /// Tokens from one checkpoint to the next; at least 1.
        interval: Tokens,
    },
    /// Nothing: a hit computes the last `window` tokens of each layer again.
    Zero,
}

/// The four figures that a batch has at a context.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub enum ByteKind {
    /// Held in memory.
    #[default]
    Resident,
    /// Read by one decode step.
    Read,
    /// Kept by a disk prefix store, windows as [`WindowPolicy::AtEnd`] has them.
    Persisted,
    /// Sent by a prefill worker to a decode worker.
    Transferred,
}

impl ByteKind {
    /// Every one, in the order of the page.
    pub const ALL: [Self; 4] = [Self::Resident, Self::Read, Self::Persisted, Self::Transferred];

    /// The word on the command line, in links and on screen.
    pub fn name(self) -> &'static str {
        match self {
            Self::Resident => "resident",
            Self::Read => "read",
            Self::Persisted => "persisted",
            Self::Transferred => "transferred",
        }
    }
}

impl StateComponent {
    /// Bytes of one layer that a decode worker must receive to go on after `n` tokens.
    pub fn transfer_bytes(&self, n: Tokens) -> Result<Bytes> {
        match self.growth {
            Growth::Chunk { entry, .. } => entry.times(self.live(n)),
            _ => self.bytes(n),
        }
    }

    /// Bytes of one layer that a disk prefix store keeps of a request of `n` tokens.
    pub fn persisted_bytes(&self, n: Tokens, windows: WindowPolicy) -> Result<Bytes> {
        let entry = match self.growth {
            Growth::Window { entry, .. } | Growth::Chunk { entry, .. } => entry,
            _ if self.kind == ComponentKind::CompressorState => return Ok(Bytes::ZERO),
            _ => return self.bytes(n),
        };
        entry.times(match (windows, self.growth) {
            (WindowPolicy::Zero, _) => 0,
            (WindowPolicy::Full, _) => n.get(),
            (WindowPolicy::Periodic { interval }, Growth::Window { window, .. }) => {
                let interval = interval.get().max(1);
                let checkpoints = (n.get() / interval).saturating_mul(interval.min(window.get()));
                let since_the_last = (n.get() % interval).min(window.get());
                checkpoints.saturating_add(since_the_last)
            }
            (WindowPolicy::AtEnd | WindowPolicy::Periodic { .. }, _) => self.live(n),
        })
    }

    /// Entries that the next token after `n` still attends to.
    fn live(&self, n: Tokens) -> u64 {
        match self.growth {
            Growth::Chunk { chunk, .. } => n.get() % chunk.get().max(1),
            _ => self.growth.entries(n),
        }
    }
}

impl StateModel {
    /// The bytes of `kind` of `batch` requests of `n` tokens.
    pub fn bytes_of(&self, kind: ByteKind, n: Tokens, batch: u64) -> Result<Bytes> {
        match kind {
            ByteKind::Resident => self.resident(n, batch),
            ByteKind::Read => self.read_per_step(n, batch),
            ByteKind::Persisted => self.persisted(n, batch, WindowPolicy::default()),
            ByteKind::Transferred => self.transferred(n, batch),
        }
    }

    /// Bytes that a prefill worker sends for `batch` requests of `n` tokens.
    pub fn transferred(&self, n: Tokens, batch: u64) -> Result<Bytes> {
        self.total(batch, |component| component.transfer_bytes(n))
    }

    /// Bytes that a disk prefix store keeps of `batch` requests of `n` tokens.
    pub fn persisted(&self, n: Tokens, batch: u64, windows: WindowPolicy) -> Result<Bytes> {
        self.total(batch, |component| component.persisted_bytes(n, windows))
    }

    fn total(&self, batch: u64, bytes: impl Fn(&StateComponent) -> Result<Bytes>) -> Result<Bytes> {
        let of_part =
            |total: Bytes, part: &crate::size::Part| total.plus(bytes(&part.component)?.times(part.layers)?);
        self.parts().iter().try_fold(Bytes::ZERO, of_part)?.times(batch)
    }
}
