use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// A number of tokens of one request.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(transparent)]
pub struct Tokens(u64);

impl Tokens {
    /// The longest context that is accepted: 2^40 tokens, far beyond any model and far below overflow.
    pub const MAX: Self = Self(1 << 40);

    /// Wraps a count of tokens.
    pub const fn new(count: u64) -> Self {
        Self(count)
    }

    /// The count of tokens.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// A context given by a person: at least one token, at most [`Tokens::MAX`].
    pub fn context(count: u64) -> Result<Self> {
        if count == 0 || count > Self::MAX.0 {
            return Err(Error::setting(
                "context",
                format!("{count} tokens is outside 1 to {} (1 Ti)", Self::MAX.0),
            ));
        }
        Ok(Self(count))
    }

    /// The short form for axes: `128Ki` for 131,072, `100K` for 100,000, otherwise digits in groups.
    pub fn short(self) -> String {
        for (unit, names) in [(1024, ["Ki", "Mi", "Gi", "Ti"]), (1000, ["K", "M", "G", "T"])] {
            let mut count = self.0;
            let mut name = None;
            for candidate in names {
                if count == 0 || !count.is_multiple_of(unit) {
                    break;
                }
                count /= unit;
                name = Some(candidate);
            }
            if let Some(name) = name {
                return format!("{count}{name}");
            }
        }
        super::group_digits(self.0)
    }
}

impl Tokens {
    /// Tokens of the chunk that the last of these is in, up to itself: positions are counted from 0 and cut into chunks
    /// of so many (transformers, `chunked_overlay` of `masking_utils.py`).
    #[must_use]
    pub fn in_chunk(self, chunk: Self) -> Self {
        Self(self.0.checked_sub(1).map_or(0, |position| position % chunk.0.max(1) + 1))
    }

    /// `1 token`, `100,000 tokens`.
    pub fn counted(self) -> String {
        crate::state::counted(self.0, "token", "tokens")
    }
}

impl fmt::Display for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", super::group_digits(self.0))
    }
}

/// Reads what people type: `100000`, `100_000`, `100,000`, `100K` (decimal), `128Ki` (binary), `1M`, `1Mi`.
impl FromStr for Tokens {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let count = super::parse_count(text).map_err(|why| Error::setting("context", why))?;
        Self::context(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_a_token() {
        assert_eq!([0, 1, 2].map(|n| Tokens::new(n).counted()), ["0 tokens", "1 token", "2 tokens"]);
    }

    #[test]
    fn reads_decimal_and_binary_suffixes() {
        for (text, count) in [
            ("100000", 100_000),
            ("100K", 100_000),
            ("128Ki", 131_072),
            ("1M", 1_000_000),
            ("1Mi", 1_048_576),
            ("1.5K", 1_500),
            ("1Ti", 1 << 40),
        ] {
            assert_eq!(text.parse::<Tokens>().unwrap().get(), count, "{text}");
        }
    }

    #[test]
    fn refuses_what_is_not_a_context() {
        for text in ["0", "", "-5", "9223372036854775808", "1.5", "abc", "18446744073709551616", "1e6", "NaN"]
        {
            let error = text.parse::<Tokens>().unwrap_err().to_string();
            assert!(error.starts_with("context: "), "{text}: {error}");
        }
    }

    #[test]
    fn a_configs_length_prints_in_the_unit_that_divides_it() {
        assert_eq!(Tokens::new(131_072).short(), "128Ki");
        assert_eq!(Tokens::new(1_048_576).short(), "1Mi");
        assert_eq!(Tokens::new(100_000).short(), "100K");
        assert_eq!(Tokens::new(1_000_000).short(), "1M");
        assert_eq!(Tokens::new(1_025).short(), "1,025");
    }
}
