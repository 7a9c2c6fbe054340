//! What the system says of the machine and of what else it is doing. Everything is optional: containers and virtual
//! machines hide much of it.

use std::fs;
use std::path::Path;

use kvscope_protocol::run::Machine;
use kvscope_sizing::Bytes;
use sysinfo::{CpuRefreshKind, RefreshKind, System};

use super::memory;

/// The machine now. Fields that a backend or the end of a run fills are empty.
pub(crate) fn describe() -> Machine {
    let system = System::new_with_specifics(
        RefreshKind::nothing().with_cpu(CpuRefreshKind::nothing().with_frequency()),
    );
    let cpu = system.as_ref().ok().and_then(|system| system.cpus().first());
    let memory = memory::read();
    Machine {
        system: System::long_os_version()
            .ok()
            .zip(System::kernel_version().ok())
            .map(|(os, kernel)| format!("{os}, {kernel}")),
        architecture: std::env::consts::ARCH.to_owned(),
        cpu: cpu.map(|cpu| cpu.brand().trim().to_owned()).filter(|name| !name.is_empty()),
        last_level_cache_bytes: last_level_cache().map(Bytes::new),
        memory_bytes: memory.map(|memory| Bytes::new(memory.installed)),
        available_bytes: memory.map(|memory| Bytes::new(memory.free)),
        control_group_limit_bytes: memory.and_then(|memory| memory.control_group_limit).map(Bytes::new),
        load_before: load(),
        governor: line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        frequency_hertz: cpu.map(|cpu| cpu.frequency() as f64 * 1e6).filter(|hertz| *hertz > 0.0),
        huge_pages: line("/sys/kernel/mm/transparent_hugepage/enabled").as_deref().and_then(chosen),
        ..Machine::default()
    }
}

/// Load average of the last minute, where the system has one.
pub(crate) fn load() -> Option<f64> {
    System::load_average().ok().map(|load| load.one)
}

/// The last-level cache of the first core in bytes, as the system reports it.
pub(crate) fn last_level_cache() -> Option<u64> {
    let caches = fs::read_dir("/sys/devices/system/cpu/cpu0/cache").ok()?;
    caches
        .filter_map(|cache| data_cache(&cache.ok()?.path()))
        .max_by_key(|(level, _)| *level)
        .map(|(_, bytes)| bytes)
}

/// Processor time so far: taken by the host, and in all.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct ProcessorTime {
    stolen: u64,
    all: u64,
}

impl ProcessorTime {
    /// Reads it now; `None` where the system does not say.
    pub(crate) fn now() -> Option<Self> {
        Self::parse(&fs::read_to_string("/proc/stat").ok()?)
    }

    /// The share that the host took since `before`; `None` when no time has passed.
    pub(crate) fn stolen_since(self, before: Self) -> Option<f64> {
        let all = self.all.checked_sub(before.all).filter(|all| *all > 0)?;
        Some(self.stolen.saturating_sub(before.stolen) as f64 / all as f64)
    }

    /// The first line: `cpu user nice system idle iowait irq softirq steal …`.
    fn parse(text: &str) -> Option<Self> {
        let fields: Vec<u64> = text
            .lines()
            .next()?
            .strip_prefix("cpu ")?
            .split_whitespace()
            .map_while(|f| f.parse().ok())
            .take(8)
            .collect();
        (fields.len() == 8).then(|| Self { stolen: fields[7], all: fields.iter().sum() })
    }
}

fn data_cache(folder: &Path) -> Option<(u32, u64)> {
    let read = |name: &str| Some(fs::read_to_string(folder.join(name)).ok()?.trim().to_owned());
    if read("type")? == "Instruction" {
        return None;
    }
    Some((read("level")?.parse().ok()?, cache_bytes(&read("size")?)?))
}

/// `32768K`, `32M` or plain bytes.
fn cache_bytes(text: &str) -> Option<u64> {
    let (digits, factor) = match text.as_bytes().last()? {
        b'K' => (&text[..text.len() - 1], 1 << 10),
        b'M' => (&text[..text.len() - 1], 1 << 20),
        _ => (text, 1),
    };
    digits.parse::<u64>().ok()?.checked_mul(factor).filter(|bytes| *bytes > 0)
}

/// The choice in brackets: `always [madvise] never`.
fn chosen(text: &str) -> Option<String> {
    Some(text.split_once('[')?.1.split_once(']')?.0.to_owned())
}

fn line(path: &str) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_the_kernel_writes() {
        assert_eq!(cache_bytes("32768K"), Some(33_554_432));
        assert_eq!(cache_bytes("0K"), None);
        assert_eq!(cache_bytes("many"), None);
        assert_eq!(chosen("always [madvise] never").as_deref(), Some("madvise"));

        let before = ProcessorTime::parse("cpu  100 0 50 800 10 0 5 35 0 0\ncpu0 1 2\n").unwrap();
        let after = ProcessorTime::parse("cpu  180 0 60 880 10 0 5 65 0 0\n").unwrap();
        // 80 + 10 + 80 + 30 = 200 ticks, 30 of them stolen.
        assert!((after.stolen_since(before).unwrap() - 0.15).abs() < 1e-12);
        assert_eq!(before.stolen_since(before), None);
        assert_eq!(ProcessorTime::parse("intr 5"), None);
    }
}
