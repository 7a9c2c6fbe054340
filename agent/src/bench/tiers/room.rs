//! How much a tier may take, known before anything is asked for.

use std::path::Path;

use kvscope_protocol::run::TierName;
use rustix::process::{Resource, getrlimit};

use super::file;
use crate::bench::{in_words, memory};

/// What the system can still give.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    /// Bytes of memory, the control group's limit included.
    pub(crate) memory: u64,
    /// Bytes of the disk of the tiers' folder; no limit where that is not known.
    pub(crate) disk: u64,
    /// The most that a file may have (`RLIMIT_FSIZE`, `ulimit -f`); `None` where there is no limit. The kernel ends a
    /// process that goes beyond it.
    pub(crate) file: Option<u64>,
}

/// The most that a tier may take, and what says so.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Limit {
    pub(crate) bytes: u64,
    what: &'static str,
}

impl std::fmt::Display for Limit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.what, in_words(self.bytes))
    }
}

impl Room {
    /// What there is now; files are in `folder`.
    pub(crate) fn now(folder: Option<&Path>) -> Self {
        Self {
            memory: memory::free_bytes(),
            disk: folder.and_then(|folder| file::free_bytes(folder).ok()).unwrap_or(u64::MAX),
            file: getrlimit(Resource::Fsize).current,
        }
    }

    /// Half of the free memory is for blocks: those in memory, and those of the tier where it is memory as well.
    pub(crate) fn of(&self, tier: TierName) -> Limit {
        let is_elsewhere = matches!(tier, TierName::File | TierName::Hbm | TierName::HbmPageable);
        let copies = if is_elsewhere { 1 } else { 2 };
        let mut limits = vec![Limit { bytes: self.memory / 2 / copies, what: "memory leaves" }];
        if matches!(tier, TierName::File | TierName::Cache) {
            limits.push(Limit { bytes: self.disk, what: "the disk leaves" });
            limits.extend(
                self.file.map(|bytes| Limit { bytes, what: "the limit of file sizes (ulimit -f) leaves" }),
            );
        }
        limits
            .into_iter()
            .min_by_key(|limit| limit.bytes)
            .unwrap_or(Limit { bytes: 0, what: "nothing leaves" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_narrowest_limit_is_named() {
        let room = Room { memory: 64_000_000, disk: 20_000_000, file: Some(5_000_000) };
        assert_eq!(room.of(TierName::Dram).to_string(), "memory leaves 16.0 MB");
        assert_eq!(
            room.of(TierName::Cache).to_string(),
            "the limit of file sizes (ulimit -f) leaves 5.00 MB"
        );
        assert_eq!(Room { file: None, ..room }.of(TierName::File).to_string(), "the disk leaves 20.0 MB");
        let little = Room { memory: 8_000_000, file: None, ..room };
        assert_eq!(little.of(TierName::File).to_string(), "memory leaves 4.00 MB");
    }
}
