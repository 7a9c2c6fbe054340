//! How the inference state of a language model grows: config → architecture → state → bytes.
//!
//! This crate runs in the browser and natively. It does no I/O, reads no clock and starts no thread; it knows
//! nothing of HTTP, pixels or GPUs. Every byte figure is an exact integer, checked for overflow.

pub mod prediction;
mod error;
mod units;

pub use error::{Error, ErrorKind, Result};
pub use units::{Bytes, BytesPerToken, Tokens, UnitSystem, group_digits, parse_count};
