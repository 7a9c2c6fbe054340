use kvscope_sizing::{Bytes, record};
use serde::Serialize;

/// The machine and what else it was doing. Each field is `null` where the system does not say.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Machine {
    /// Operating system, kernel version.
    pub system: Option<String>,
    /// `x86_64`, `aarch64`.
    pub architecture: String,
    /// The processor's name.
    pub cpu: Option<String>,
    /// Cores that the run may use.
    pub cores: Option<u32>,
    /// Whether each worker could be bound to its core.
    pub pinned: Option<bool>,
    /// The instruction set that the kernels used: `avx512`, `avx2` or `portable`.
    pub instructions: Option<String>,
    /// The last-level cache.
    pub last_level_cache_bytes: Option<Bytes>,
    /// Installed memory.
    pub memory_bytes: Option<Bytes>,
    /// Memory that a process can still get, the control group's limit included.
    pub available_bytes: Option<Bytes>,
    /// The control group's limit, where there is one.
    pub control_group_limit_bytes: Option<Bytes>,
    /// Load average of the last minute before the run.
    pub load_before: Option<f64>,
    /// Load average of the last minute after the run.
    pub load_after: Option<f64>,
    /// Share of the processor time that the host took from this virtual machine during the run, 0 to 1.
    pub steal_share: Option<f64>,
    /// Frequency governor of the first core.
    pub governor: Option<String>,
    /// Frequency of the first core before the run.
    pub frequency_hertz: Option<f64>,
    /// Frequency of the first core after the run.
    pub frequency_after_hertz: Option<f64>,
    /// The hottest sensor before the run, in degrees Celsius.
    pub temperature_before_celsius: Option<f64>,
    /// The hottest sensor after the run, in degrees Celsius.
    pub temperature_after_celsius: Option<f64>,
    /// Cores that the control group may use, where it has a limit.
    pub control_group_cores: Option<f64>,
    /// Share of the control group's periods during the run in which it was held back, 0 to 1.
    pub throttled_share: Option<f64>,
    /// Memory nodes with processors of their own.
    pub memory_nodes: Option<u32>,
    /// Whether large pages are given to mappings that ask: `always`, `madvise`, `never`.
    pub huge_pages: Option<String>,
    /// The device that was measured where it is no processor, as its backend describes it; `emulated` is true where it was
    /// none.
    pub device: Option<serde_json::Value>,
}

record!(Machine {
    ; or default
    system, architecture, cpu, cores, pinned, instructions, last_level_cache_bytes, memory_bytes,
    available_bytes, control_group_limit_bytes, load_before, load_after, steal_share, governor, frequency_hertz,
    frequency_after_hertz, temperature_before_celsius, temperature_after_celsius, control_group_cores,
    throttled_share, memory_nodes, huge_pages, device
});
