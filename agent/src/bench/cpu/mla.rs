//! Multi-head latent decode attention, absorbed: every head's query of `latent + rope` values against one shared record
//! a token, whose first `latent` values are also the values (DeepSeek-V2, arXiv 2405.04434, section 2.1).
//!
//! A page holds 64 records. A token is one record read and `2 × heads × (2 × latent + rope)` FLOPs: 242 FLOPs a byte for
//! 128 heads over bf16, 425 over the 656-byte record. Multiply-adds bound it.

use super::gather::PAGE_RECORDS;
use super::records::Record;
use super::shared_rows;

/// Tokens of a page.
pub(crate) const PAGE_TOKENS: usize = PAGE_RECORDS;

/// Heads and widths of one layer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Dimensions {
    pub(crate) query_heads: usize,
    pub(crate) latent: usize,
    pub(crate) rope: usize,
    pub(crate) record: Record,
}

impl Dimensions {
    /// Values of one row.
    pub(crate) fn width(&self) -> usize {
        self.latent + self.rope
    }

    /// Bytes of one page.
    pub(crate) fn page_bytes(&self) -> usize {
        PAGE_TOKENS * self.record.bytes()
    }

    /// What the kernel for shared rows needs.
    pub(crate) fn rows(&self) -> shared_rows::Dimensions {
        shared_rows::Dimensions { heads: self.query_heads, width: self.width(), value_width: self.latent }
    }
}
