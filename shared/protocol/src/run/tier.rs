//! Where state is kept.

use serde::{Deserialize, Serialize};

/// Somewhere that state is kept.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum TierName {
    /// Another place in this process's memory.
    Dram,
    /// A file past the page cache: a device.
    File,
    /// A file in the page cache: memory.
    Cache,
    /// Another process, over loopback TCP.
    Peer,
    /// Memory of a GPU, with locked memory of the host at the other end.
    Hbm,
    /// The same with memory as any program gets it.
    #[serde(rename = "hbm-pageable")]
    HbmPageable,
}

impl TierName {
    /// Every tier, the nearest first.
    pub const ALL: [Self; 6] =
        [Self::Dram, Self::Cache, Self::Peer, Self::File, Self::Hbm, Self::HbmPageable];

    /// The word in JSON and on the command line.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Dram => "dram",
            Self::File => "file",
            Self::Cache => "cache",
            Self::Peer => "peer",
            Self::Hbm => "hbm",
            Self::HbmPageable => "hbm-pageable",
        }
    }

    /// What the tier's bytes lie in.
    pub const fn medium(self) -> &'static str {
        match self {
            Self::Dram => "memory",
            Self::File => "device",
            Self::Cache => "memory (page cache)",
            Self::Peer => "memory of another process",
            Self::Hbm | Self::HbmPageable => "memory of a GPU",
        }
    }
}
