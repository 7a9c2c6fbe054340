//! What the system says of memory: what is free, what its control group allows, what is resident.

use kvscope_sizing::Bytes;
use sysinfo::{MemoryRefreshKind, System};

use super::backend::Resident;

/// Installed and available memory, and the control group's limit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Memory {
    pub(crate) installed: u64,
    /// What a process can still get, the control group's limit included.
    pub(crate) free: u64,
    /// `None` without a limit below the installed memory.
    pub(crate) control_group_limit: Option<u64>,
}

/// Reads the figures now; `None` where the system does not say.
pub(crate) fn read() -> Option<Memory> {
    let mut system = System::new().ok()?;
    system.refresh_memory_specifics(MemoryRefreshKind::nothing().with_ram());
    let installed = system.total_memory();
    let available = system.available_memory();
    let group = system.cgroup_limits().filter(|limits| limits.total_memory < installed);
    Some(Memory {
        installed,
        free: group.as_ref().map_or(available, |limits| available.min(limits.free_memory)),
        control_group_limit: group.map(|limits| limits.total_memory),
    })
}

/// Bytes that a process can still get; 2 GiB is taken for granted where the system does not say.
pub(crate) fn free_bytes() -> u64 {
    read().map_or(2 << 30, |memory| memory.free)
}

/// What this process keeps in memory; `None` where the system does not say exactly.
pub(crate) fn resident() -> Option<Resident> {
    let text = std::fs::read_to_string("/proc/self/smaps_rollup").ok()?;
    let field = |name: &str| field_bytes(&text, name);
    Some(Resident { bytes: field("Rss:")?, huge_page_bytes: field("AnonHugePages:") })
}

fn field_bytes(text: &str, name: &str) -> Option<Bytes> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(Bytes::new(kibibytes * 1024))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_rollup_and_nothing_else() {
        let text = "5600-7ffd ---p 00000000 00:00 0  [rollup]\nRss:                1708 kB\nPss:  315 kB\nAnonHugePages:  2048 kB\n";
        assert_eq!(field_bytes(text, "Rss:"), Some(Bytes::new(1_748_992)));
        assert_eq!(field_bytes(text, "AnonHugePages:"), Some(Bytes::new(2_097_152)));
        assert_eq!(field_bytes(text, "Swap:"), None);
    }

    #[test]
    fn free_memory_is_within_the_installed() {
        let memory = read().unwrap();
        assert!(memory.free > 0 && memory.free <= memory.installed);
    }
}
