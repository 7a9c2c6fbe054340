use serde::Serialize;

use crate::{Bytes, BytesPerToken, Result, Tokens};

/// How a state component of one layer grows with the tokens of one request.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq, Serialize)]
#[serde(tag = "growth", rename_all = "snake_case")]
pub enum Growth {
    /// One entry a token.
    Linear {
        /// Bytes of one entry.
        entry: Bytes,
    },
    /// One entry a token, at most `window` of them.
    Window {
        /// Bytes of one entry.
        entry: Bytes,
        /// Entries that are kept.
        window: Tokens,
    },
    /// One entry a token, at most one chunk of them. That a chunk begins anew at its boundary is left out of what is kept:
    /// memory must hold the fullest moment.
    Chunk {
        /// Bytes of one entry.
        entry: Bytes,
        /// Entries of one chunk.
        chunk: Tokens,
    },
    /// One entry for every `ratio` whole tokens.
    Compressed {
        /// Bytes of one entry.
        entry: Bytes,
        /// Tokens that become one entry.
        ratio: Tokens,
    },
    /// The same bytes at every length.
    Constant {
        /// Bytes of one request.
        bytes: Bytes,
    },
}

impl Growth {
    /// The word for it in JSON and on screen.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Linear { .. } => "linear",
            Self::Window { .. } => "window",
            Self::Chunk { .. } => "chunk",
            Self::Compressed { .. } => "compressed",
            Self::Constant { .. } => "constant",
        }
    }

    /// Entries kept for a request of `n` tokens; none for a constant component.
    pub fn entries(&self, n: Tokens) -> u64 {
        match *self {
            Self::Linear { .. } => n.get(),
            Self::Window { window, .. } => n.get().min(window.get()),
            Self::Chunk { chunk, .. } => n.get().min(chunk.get()),
            Self::Compressed { ratio, .. } => n.get() / ratio.get().max(1),
            Self::Constant { .. } => 0,
        }
    }

    /// Entries in reach of the `n`-th token, itself among them. Fewer than are kept where a chunk has begun anew: memory
    /// holds its fullest moment, a step reads what it has.
    pub fn entries_in_reach(&self, n: Tokens) -> u64 {
        match *self {
            Self::Chunk { chunk, .. } => n.in_chunk(chunk).get(),
            _ => self.entries(n),
        }
    }

    /// Bytes of one entry, or all bytes of a constant component.
    pub fn entry(&self) -> Bytes {
        match *self {
            Self::Linear { entry }
            | Self::Window { entry, .. }
            | Self::Chunk { entry, .. }
            | Self::Compressed { entry, .. } => entry,
            Self::Constant { bytes } => bytes,
        }
    }

    /// Bytes of one layer for a request of `n` tokens.
    pub fn bytes(&self, n: Tokens) -> Result<Bytes> {
        match *self {
            Self::Constant { bytes } => Ok(bytes),
            _ => self.entry().times(self.entries(n)),
        }
    }

    /// The length from which it no longer grows, where there is one.
    pub fn saturates_at(&self) -> Option<Tokens> {
        match *self {
            Self::Window { window, .. } => Some(window),
            Self::Chunk { chunk, .. } => Some(chunk),
            Self::Constant { .. } => Some(Tokens::new(0)),
            Self::Linear { .. } | Self::Compressed { .. } => None,
        }
    }

    /// Whether one more token after the `n`-th can still add bytes; `None` asks beyond every window.
    pub fn grows_at(&self, n: Option<Tokens>) -> bool {
        match (self.saturates_at(), n) {
            (None, _) => true,
            (Some(cap), Some(n)) => n < cap,
            (Some(_), None) => false,
        }
    }

    /// Bytes that one more token adds on average at `n` tokens; `None` asks beyond every window.
    pub fn slope(&self, n: Option<Tokens>) -> Result<BytesPerToken> {
        if !self.grows_at(n) {
            return Ok(BytesPerToken::ZERO);
        }
        let ratio = match *self {
            Self::Compressed { ratio, .. } => ratio.get(),
            _ => 1,
        };
        BytesPerToken::new(self.entry(), ratio)
    }

    /// Bytes that do not grow at `n` tokens: constants, and windows and chunks that are full.
    pub fn fixed(&self, n: Option<Tokens>) -> Result<Bytes> {
        match (self.grows_at(n), self.saturates_at(), self) {
            (true, ..) | (_, None, _) => Ok(Bytes::ZERO),
            (false, _, Self::Constant { bytes }) => Ok(*bytes),
            (false, Some(cap), _) => self.bytes(cap),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENTRY: Bytes = Bytes::new(584);

    #[test]
    fn windows_fill_and_streams_step() {
        let window = Growth::Window { entry: ENTRY, window: Tokens::new(128) };
        assert_eq!(window.bytes(Tokens::new(127)).unwrap().get(), 127 * 584);
        assert_eq!(window.bytes(Tokens::new(100_000)).unwrap().get(), 128 * 584);
        assert_eq!(window.fixed(Some(Tokens::new(127))).unwrap(), Bytes::ZERO);
        assert_eq!(window.fixed(None).unwrap().get(), 128 * 584);
        assert_eq!(window.slope(Some(Tokens::new(127))).unwrap().whole(), Some(584));

        let stream = Growth::Compressed { entry: ENTRY, ratio: Tokens::new(128) };
        assert_eq!(stream.bytes(Tokens::new(127)).unwrap(), Bytes::ZERO);
        assert_eq!(stream.bytes(Tokens::new(128)).unwrap(), ENTRY);
        assert_eq!(stream.bytes(Tokens::new(255)).unwrap(), ENTRY);
    }
}
