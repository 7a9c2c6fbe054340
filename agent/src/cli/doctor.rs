use clap::Args;
use kvscope_kernels::{Nvrtc, Target};
use kvscope_sizing::UnitSystem;
use serde::Serialize;

use crate::failure::Failure;
use crate::gpu::{Device, Driver, Telemetry};
use crate::output::{self, Figures};

#[derive(Args, Debug)]
pub(super) struct Arguments {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// One thing that measuring on a GPU needs.
#[derive(Debug, Serialize)]
struct Finding {
    what: String,
    found: bool,
    detail: String,
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let mut findings = drivers(Driver::find().map_err(|error| error.to_string()));
    findings.push(telemetry());
    findings.push(compiler(Nvrtc::find(None).map_err(|error| error.to_string())));
    if arguments.json {
        return output::json(&findings);
    }
    let mut figures = Figures::new(3, &["what", "found", "detail"]);
    for finding in findings {
        let found = if finding.found { "yes" } else { "no" };
        figures.row([finding.what, found.to_owned(), finding.detail]);
    }
    output::figures(&figures.render())?;
    output::note(
        "Measurements on the CPU need none of this; `kvscope kernels selftest` shows whether those on a GPU hold.",
    );
    Ok(())
}

fn drivers(driver: Result<Driver, String>) -> Vec<Finding> {
    let what = "CUDA driver".to_owned();
    match driver {
        Err(detail) => vec![Finding { what, found: false, detail }],
        Ok(driver) => {
            let how = if driver.is_emulated { "emulated, " } else { "" };
            let (found, use_of_it) = match driver.measured() {
                Ok(device) => (true, format!("device {} is measured", device.number)),
                Err(why) => (false, why.to_string()),
            };
            let detail =
                format!("{how}CUDA {}, {} devices; {use_of_it}", driver.version, driver.devices.len());
            let devices = driver.devices.iter().enumerate().map(|(number, device)| describe(number, device));
            std::iter::once(Finding { what, found, detail }).chain(devices).collect()
        }
    }
}

fn describe(number: usize, device: &Device) -> Finding {
    let (major, minor) = device.capability;
    let kernels = device.target().map(Target::name);
    let detail = format!(
        "{}, capability {major}.{minor}, {} multiprocessors, {} of memory, {} of second-level cache, {} of shared memory a block: {}",
        device.name,
        device.multiprocessors,
        device.memory.display(UnitSystem::Binary),
        device.second_level_cache.display(UnitSystem::Binary),
        device.most_shared.display(UnitSystem::Binary),
        kernels.map_or_else(
            || "no kernels; they need capability 8.0".to_owned(),
            |target| format!("kernels for {target}")
        ),
    );
    Finding { what: format!("device {number}"), found: kernels.is_some(), detail }
}

/// Clocks and heat; figures are measured without it too.
fn telemetry() -> Finding {
    let what = "NVML".to_owned();
    match Telemetry::any_driver() {
        Ok(version) => Finding { what, found: true, detail: format!("driver {version}") },
        Err(detail) => {
            Finding { what, found: false, detail: format!("no clocks, heat or link speeds: {detail}") }
        }
    }
}

fn compiler(nvrtc: Result<Nvrtc, String>) -> Finding {
    let what = "NVRTC".to_owned();
    match nvrtc {
        Ok(nvrtc) => {
            Finding { what, found: true, detail: format!("{} from {}", nvrtc.version(), nvrtc.path()) }
        }
        Err(detail) => Finding { what, found: false, detail },
    }
}

#[cfg(test)]
mod tests {
    use kvscope_sizing::Bytes;

    use super::*;

    #[test]
    fn a_device_is_told_with_its_kernels_and_an_old_one_without() {
        let device = |number, capability| Device {
            number,
            name: "GPU".to_owned(),
            capability,
            memory: Bytes::new(80 << 30),
            multiprocessors: 132,
            second_level_cache: Bytes::new(50 << 20),
            most_shared: Bytes::new(227 << 10),
        };
        let driver = Driver::for_tests("13.0", vec![device(0, (9, 0)), device(1, (7, 5))]);
        let findings = drivers(Ok(driver));
        assert_eq!(findings.iter().map(|finding| finding.found).collect::<Vec<_>>(), [true, true, false]);
        assert_eq!(findings[0].detail, "CUDA 13.0, 2 devices; device 0 is measured");
        assert!(findings[1].detail.ends_with("kernels for sm_90a"), "{}", findings[1].detail);
        assert!(findings[2].detail.ends_with("they need capability 8.0"), "{}", findings[2].detail);
        let none = drivers(Err("no CUDA driver here (not found)".to_owned()));
        assert_eq!((none.len(), none[0].found), (1, false));
    }
}
