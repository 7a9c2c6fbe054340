//! The batch, as the command line and the API read it.

use crate::failure::Failure;

/// Reads a number of requests: `8`, `1K`; at least 1.
pub(crate) fn read(text: &str) -> Result<u64, Failure> {
    let count = kvscope_sizing::parse_count(text).map_err(|why| Failure::input(format!("batch: {why}")))?;
    if count == 0 {
        return Err(Failure::input("batch: 0 requests hold nothing; give at least 1"));
    }
    Ok(count)
}
