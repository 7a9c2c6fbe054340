//! The device as a run file describes it.

use serde::Serialize;
use serde_json::Value;

use crate::gpu::{Gpu, Telemetry};

/// What does not change during a run.
#[derive(Debug, Serialize)]
struct Described<'a> {
    name: &'a str,
    uuid: Option<&'a str>,
    /// Whether it only stands for a device: nothing was measured.
    emulated: bool,
    compute_capability: String,
    multiprocessors: u32,
    memory_bytes: u64,
    second_level_cache_bytes: u64,
    driver_cuda_version: &'a str,
    driver_version: Option<String>,
}

pub(super) fn device(gpu: &Gpu, telemetry: Option<&Telemetry>) -> Value {
    let device = gpu.device();
    let (major, minor) = device.capability;
    let described = Described {
        name: &device.name,
        uuid: gpu.uuid(),
        emulated: gpu.is_emulated(),
        compute_capability: format!("{major}.{minor}"),
        multiprocessors: device.multiprocessors,
        memory_bytes: device.memory.get(),
        second_level_cache_bytes: device.second_level_cache.get(),
        driver_cuda_version: gpu.driver(),
        driver_version: telemetry.and_then(Telemetry::driver),
    };
    let mut value = serde_json::to_value(described).expect("texts and numbers are JSON");
    value["free_bytes_before"] = gpu.free_bytes().ok().into();
    value["state_before"] = state(telemetry);
    value
}

/// Puts in what is known only afterwards.
pub(super) fn end(device: &mut Value, gpu: &Gpu, telemetry: Option<&Telemetry>) {
    device["kernels"] = gpu.image_origin().into();
    device["free_bytes_after"] = gpu.free_bytes().ok().into();
    device["state_after"] = state(telemetry);
}

fn state(telemetry: Option<&Telemetry>) -> Value {
    telemetry.map_or(Value::Null, |telemetry| {
        serde_json::to_value(telemetry.now()).expect("texts and numbers are JSON")
    })
}
