//! Quantities: bytes, tokens and bytes per token. Different types, so that adding a context to a size does not
//! compile.

mod bytes;
mod cut_off;
mod divisor;
mod ratio;
mod slope;
mod text;
mod tokens;

pub use bytes::{Bytes, UnitSystem};
pub(crate) use cut_off::truncated;
pub(crate) use divisor::gcd;
pub use ratio::Ratio;
pub use slope::BytesPerToken;
pub(crate) use text::{exact_digits, group_wide};
pub use text::{group_digits, layer_ranges, parse_count};
pub use tokens::Tokens;
