//! Where ceilings come from: an earlier calibration of this machine that still holds, else a new one.

use std::fs::{self, File};
use std::io::Write;
use std::time::{Duration, SystemTime};

use kvscope_protocol::run::Machine;
use kvscope_sizing::Bytes;
use serde::{Deserialize, Serialize};

use super::backend::{Backend, Calibrated, Probe};
use super::store::Store;
use super::{BenchError, Interrupt};

/// The version of the stored form; another one is measured again.
const SCHEMA: u32 = 1;
/// An older calibration is measured again: firmware, kernels and neighbours change.
const LARGEST_AGE: Duration = Duration::from_hours(30 * 24);
/// A probe takes a few samples only; it may be off by this much, and by the spread that the calibration states.
const PROBE_TOLERANCE: f64 = 0.15;

/// How long a calibration may take.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum CalibrationLength {
    /// Ten seconds.
    Quick,
    /// Under two minutes.
    Full,
}

impl CalibrationLength {
    pub(crate) fn time(self) -> Duration {
        match self {
            Self::Quick => Duration::from_secs(9),
            Self::Full => Duration::from_secs(100),
        }
    }
}

/// Which calibration a run uses.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum CalibrationUse {
    /// A stored one of this machine, where it is steady, not old, and a probe agrees with it.
    Stored,
    /// A new one.
    New,
}

/// A calibration on disk.
#[derive(Debug, Deserialize, Serialize)]
struct Stored {
    schema: u32,
    machine: Identity,
    #[serde(flatten)]
    calibrated: Calibrated,
}

/// What a calibration is tied to.
#[derive(Debug, Deserialize, Eq, PartialEq, Serialize)]
struct Identity {
    architecture: String,
    cpu: Option<String>,
    cores: Option<u32>,
    pinned: Option<bool>,
    instructions: Option<String>,
    last_level_cache_bytes: Option<Bytes>,
}

impl Identity {
    fn of(machine: Machine) -> Self {
        Self {
            architecture: machine.architecture,
            cpu: machine.cpu,
            cores: machine.cores,
            pinned: machine.pinned,
            instructions: machine.instructions,
            last_level_cache_bytes: machine.last_level_cache_bytes,
        }
    }
}

/// The ceilings for a run: stored ones that hold, else new ones from about `time`.
pub(crate) fn obtain(
    backend: &mut dyn Backend,
    which: CalibrationUse,
    time: Duration,
    store: &Store,
    interrupt: Interrupt<'_>,
) -> Result<Calibrated, BenchError> {
    interrupt.check()?;
    if which == CalibrationUse::Stored
        && let Some(stored) = stored(backend, store)
        && agrees(&stored, backend.probe()?)
    {
        return Ok(stored);
    }
    measure(backend, time, store, interrupt)
}

/// New ceilings from about `time`, kept for later runs.
pub(crate) fn measure(
    backend: &mut dyn Backend,
    time: Duration,
    store: &Store,
    interrupt: Interrupt<'_>,
) -> Result<Calibrated, BenchError> {
    let calibrated = backend.calibrate(time, interrupt)?;
    interrupt.check()?;
    let machine = Identity::of(backend.machine());
    let stored = Stored { schema: SCHEMA, machine, calibrated };
    let path = store.calibration_path(backend.name());
    let unfinished = path.with_extension("part");
    let written = serde_json::to_vec_pretty(&stored).map_err(std::io::Error::from).and_then(|text| {
        let mut file = File::create(&unfinished)?;
        file.write_all(&text)?;
        file.sync_all()?;
        fs::rename(&unfinished, &path)
    });
    if let Err(source) = written {
        let _ = fs::remove_file(&unfinished);
        return Err(BenchError::Store { path, source });
    }
    Ok(stored.calibrated)
}

/// The stored calibration, where it is of this machine, steady and not old. What cannot be read is measured again.
fn stored(backend: &dyn Backend, store: &Store) -> Option<Calibrated> {
    let text = fs::read(store.calibration_path(backend.name())).ok()?;
    let Stored { schema, machine, calibrated } = serde_json::from_slice(&text).ok()?;
    let measured = humantime::parse_rfc3339(&calibrated.calibration.date).ok()?;
    let is_recent = SystemTime::now().duration_since(measured).is_ok_and(|age| age < LARGEST_AGE);
    let holds = schema == SCHEMA
        && is_recent
        && calibrated.calibration.is_steady()
        && machine == Identity::of(backend.machine());
    holds.then_some(calibrated)
}

/// Whether the machine does now what it did then.
fn agrees(calibrated: &Calibrated, now: Probe) -> bool {
    let (then, spread) = (&calibrated.calibration.ceilings, &calibrated.calibration.relative_spread);
    let near = |then: f64, now: f64, spread: f64| (now / then - 1.0).abs() <= PROBE_TOLERANCE + spread;
    near(then.read_bytes_per_second, now.read_bytes_per_second, spread.read)
        && near(then.flops_per_second, now.flops_per_second, spread.flops)
}
