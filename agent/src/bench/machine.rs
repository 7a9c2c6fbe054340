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
    let system = cpus();
    let cpu = system.as_ref().and_then(|system| system.cpus().first());
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
        frequency_hertz: frequency(),
        temperature_before_celsius: temperature(),
        control_group_cores: line("/sys/fs/cgroup/cpu.max").as_deref().and_then(cores_of_quota),
        memory_nodes: memory_nodes(),
        huge_pages: line("/sys/kernel/mm/transparent_hugepage/enabled").as_deref().and_then(chosen),
        ..Machine::default()
    }
}

/// What is compared before and after a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Environment {
    processor: Option<ProcessorTime>,
    throttled: Option<Throttled>,
}

impl Environment {
    pub(crate) fn now() -> Self {
        Self { processor: ProcessorTime::now(), throttled: Throttled::now() }
    }

    /// Puts in what is known only after the run that began at `self`.
    pub(crate) fn end(self, machine: &mut Machine) {
        machine.load_after = load();
        machine.frequency_after_hertz = frequency();
        machine.temperature_after_celsius = temperature();
        machine.steal_share =
            ProcessorTime::now().zip(self.processor).and_then(|(now, before)| now.stolen_since(before));
        machine.throttled_share =
            Throttled::now().zip(self.throttled).and_then(|(now, before)| now.share_since(before));
    }
}

/// Load average of the last minute, where the system has one.
fn load() -> Option<f64> {
    System::load_average().ok().map(|load| load.one)
}

fn cpus() -> Option<System> {
    System::new_with_specifics(RefreshKind::nothing().with_cpu(CpuRefreshKind::nothing().with_frequency()))
        .ok()
}

/// Frequency of the first core.
fn frequency() -> Option<f64> {
    cpus()?.cpus().first().map(|cpu| cpu.frequency() as f64 * 1e6).filter(|hertz| *hertz > 0.0)
}

/// The hottest sensor; virtual machines have none.
fn temperature() -> Option<f64> {
    let zones = fs::read_dir("/sys/class/thermal").ok()?;
    zones
        .filter_map(|zone| line(&zone.ok()?.path().join("temp").to_string_lossy())?.parse::<f64>().ok())
        .map(|thousandths| thousandths / 1000.0)
        .max_by(f64::total_cmp)
}

/// Memory nodes, each with processors of its own.
fn memory_nodes() -> Option<u32> {
    let nodes = fs::read_dir("/sys/devices/system/node").ok()?;
    let is_node = |name: &str| {
        name.strip_prefix("node").is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let count =
        nodes.filter(|node| node.as_ref().is_ok_and(|node| node.file_name().to_str().is_some_and(is_node)));
    u32::try_from(count.count()).ok().filter(|count| *count > 0)
}

/// `150000 100000` is one and a half cores; `max 100000` is no limit.
fn cores_of_quota(text: &str) -> Option<f64> {
    let (quota, period) = text.split_once(' ')?;
    let (quota, period): (f64, f64) = (quota.parse().ok()?, period.parse().ok()?);
    (period > 0.0).then_some(quota / period)
}

/// Periods of the control group so far: all, and those in which it was held back.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Throttled {
    periods: u64,
    held_back: u64,
}

impl Throttled {
    fn now() -> Option<Self> {
        Self::parse(&fs::read_to_string("/sys/fs/cgroup/cpu.stat").ok()?)
    }

    fn parse(text: &str) -> Option<Self> {
        let field = |name: &str| {
            text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok())
        };
        Some(Self { periods: field("nr_periods")?, held_back: field("nr_throttled")? })
    }

    /// `None` where no period has passed: there is no quota.
    fn share_since(self, before: Self) -> Option<f64> {
        let periods = self.periods.checked_sub(before.periods).filter(|periods| *periods > 0)?;
        Some(self.held_back.saturating_sub(before.held_back) as f64 / periods as f64)
    }
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
struct ProcessorTime {
    stolen: u64,
    all: u64,
}

impl ProcessorTime {
    /// Reads it now; `None` where the system does not say.
    fn now() -> Option<Self> {
        Self::parse(&fs::read_to_string("/proc/stat").ok()?)
    }

    /// The share that the host took since `before`; `None` when no time has passed.
    fn stolen_since(self, before: Self) -> Option<f64> {
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

        assert_eq!(cores_of_quota("150000 100000"), Some(1.5));
        assert_eq!(cores_of_quota("max 100000"), None);
        let stat = |periods, held_back| {
            Throttled::parse(&format!("usage_usec 5\nnr_periods {periods}\nnr_throttled {held_back}\n"))
                .unwrap()
        };
        assert_eq!(stat(50, 13).share_since(stat(10, 3)), Some(0.25));
        assert_eq!(stat(10, 3).share_since(stat(10, 3)), None);

        let before = ProcessorTime::parse("cpu  100 0 50 800 10 0 5 35 0 0\ncpu0 1 2\n").unwrap();
        let after = ProcessorTime::parse("cpu  180 0 60 880 10 0 5 65 0 0\n").unwrap();
        // 80 + 10 + 80 + 30 = 200 ticks, 30 of them stolen.
        assert!((after.stolen_since(before).unwrap() - 0.15).abs() < 1e-12);
        assert_eq!(before.stolen_since(before), None);
        assert_eq!(ProcessorTime::parse("intr 5"), None);
    }
}
