//! What NVIDIA's management library says of a device. Containers, slices and virtual devices hide any of it.

use nvml_wrapper::Nvml;
use nvml_wrapper::bitmasks::device::ThrottleReasons;
use nvml_wrapper::enum_wrappers::device::{Clock, EccCounter, MemoryError, TemperatureSensor};
use serde::Serialize;

/// The library, asked for one device.
pub(crate) struct Telemetry {
    nvml: Nvml,
    uuid: String,
}

/// What a device is doing at one moment; `null` where it does not say.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct DeviceState {
    pub(crate) sm_clock_hertz: Option<f64>,
    pub(crate) most_sm_clock_hertz: Option<f64>,
    pub(crate) memory_clock_hertz: Option<f64>,
    /// Why clocks are lower than they could be: `power cap`, `hot`.
    pub(crate) held_back_by: Option<Vec<&'static str>>,
    pub(crate) temperature_celsius: Option<f64>,
    pub(crate) power_watts: Option<f64>,
    pub(crate) power_limit_watts: Option<f64>,
    pub(crate) pcie_generation: Option<u32>,
    pub(crate) pcie_width: Option<u32>,
    pub(crate) most_pcie_generation: Option<u32>,
    pub(crate) most_pcie_width: Option<u32>,
    /// Since the driver was loaded.
    pub(crate) pcie_replays: Option<u32>,
    pub(crate) ecc: Option<bool>,
    /// Since the driver was loaded.
    pub(crate) uncorrected_memory_errors: Option<u64>,
    /// Whether the device is cut into slices.
    pub(crate) mig: Option<bool>,
    /// Processes that compute on it, this one included.
    pub(crate) processes: Option<usize>,
}

/// Reasons for lower clocks, the words for them, and whether a sample that was taken meanwhile does not count.
const REASONS: [(ThrottleReasons, &str, Weight); 7] = [
    (ThrottleReasons::SW_POWER_CAP, "power cap", Weight::Noted),
    (ThrottleReasons::HW_SLOWDOWN, "the hardware's slowdown", Weight::Dropped),
    (ThrottleReasons::HW_THERMAL_SLOWDOWN, "heat, by the hardware", Weight::Dropped),
    (ThrottleReasons::SW_THERMAL_SLOWDOWN, "heat, by the driver", Weight::Dropped),
    (ThrottleReasons::HW_POWER_BRAKE_SLOWDOWN, "the power supply", Weight::Dropped),
    (ThrottleReasons::APPLICATIONS_CLOCKS_SETTING, "a set clock", Weight::Noted),
    (ThrottleReasons::SYNC_BOOST, "another device of its group", Weight::Noted),
];

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Weight {
    Noted,
    Dropped,
}

impl Telemetry {
    /// The library of this machine, where it knows the device of this UUID.
    pub(crate) fn find(uuid: &str) -> Option<Self> {
        let nvml = Nvml::init().ok()?;
        nvml.device_by_uuid(uuid).ok()?;
        Some(Self { nvml, uuid: uuid.to_owned() })
    }

    /// The version of the driver's package, whatever devices there are, or why the library does not say.
    pub(crate) fn any_driver() -> Result<String, String> {
        Nvml::init().and_then(|nvml| nvml.sys_driver_version()).map_err(|error| error.to_string())
    }

    /// The version of the driver's package, `580.82.07`.
    pub(crate) fn driver(&self) -> Option<String> {
        self.nvml.sys_driver_version().ok()
    }

    pub(crate) fn now(&self) -> DeviceState {
        let Ok(device) = self.nvml.device_by_uuid(self.uuid.as_str()) else { return DeviceState::default() };
        let megahertz = |clock: Result<u32, _>| clock.ok().map(|clock: u32| f64::from(clock) * 1e6);
        let milli = |value: Result<u32, _>| value.ok().map(|value: u32| f64::from(value) / 1e3);
        let errors = device.total_ecc_errors(MemoryError::Uncorrected, EccCounter::Volatile);
        DeviceState {
            sm_clock_hertz: megahertz(device.clock_info(Clock::SM)),
            most_sm_clock_hertz: megahertz(device.max_clock_info(Clock::SM)),
            memory_clock_hertz: megahertz(device.clock_info(Clock::Memory)),
            held_back_by: device.current_throttle_reasons().ok().map(|reasons| words(reasons, &|_| true)),
            temperature_celsius: device.temperature(TemperatureSensor::Gpu).ok().map(f64::from),
            power_watts: milli(device.power_usage()),
            power_limit_watts: milli(device.enforced_power_limit()),
            pcie_generation: device.current_pcie_link_gen().ok(),
            pcie_width: device.current_pcie_link_width().ok(),
            most_pcie_generation: device.max_pcie_link_gen().ok(),
            most_pcie_width: device.max_pcie_link_width().ok(),
            pcie_replays: device.pcie_replay_counter().ok(),
            ecc: device.is_ecc_enabled().ok().map(|state| state.currently_enabled),
            uncorrected_memory_errors: errors.ok(),
            mig: device.mig_mode().ok().map(|mode| mode.current != 0),
            processes: device.running_compute_processes().ok().map(|processes| processes.len()),
        }
    }

    /// What holds the device back now so that a sample does not count.
    pub(crate) fn held_back(&self) -> Option<String> {
        let device = self.nvml.device_by_uuid(self.uuid.as_str()).ok()?;
        let reasons = device.current_throttle_reasons().ok()?;
        let words = words(reasons, &|weight| weight == Weight::Dropped);
        (!words.is_empty()).then(|| format!("clocks were held back by {}", words.join(" and ")))
    }
}

fn words(reasons: ThrottleReasons, counts: &dyn Fn(Weight) -> bool) -> Vec<&'static str> {
    let found =
        REASONS.into_iter().filter(|(reason, _, weight)| reasons.contains(*reason) && counts(*weight));
    found.map(|(_, word, _)| word).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_power_cap_is_noted_and_heat_drops_samples() {
        let both = ThrottleReasons::SW_POWER_CAP | ThrottleReasons::SW_THERMAL_SLOWDOWN;
        assert_eq!(words(both, &|_| true), ["power cap", "heat, by the driver"]);
        assert_eq!(words(both, &|weight| weight == Weight::Dropped), ["heat, by the driver"]);
        assert!(words(ThrottleReasons::GPU_IDLE, &|_| true).is_empty());
    }

    #[test]
    fn a_machine_without_the_library_has_no_telemetry() {
        assert!(Telemetry::find("GPU-00000000-0000-0000-0000-000000000000").is_none());
    }
}
