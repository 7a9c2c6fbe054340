//! How a run begins and ends, whatever it measures.

use std::time::{SystemTime, UNIX_EPOCH};

use kvscope_protocol::run::{Ended, Header, Line, Machine, PlanRecord, RUN_SCHEMA, Run};
use kvscope_sizing::prediction::Calibration;

use super::machine::Environment;
use super::store::{RunWriter, Store};
use super::{BenchError, Interrupt};

/// A run of which nothing is measured yet, named by its start.
pub(crate) fn begin(
    backend: &str,
    plan: PlanRecord,
    machine: Machine,
    calibration: Option<Calibration>,
    started: SystemTime,
) -> Run {
    let stamp = humantime::format_rfc3339_seconds(started).to_string();
    let nanoseconds = started.duration_since(UNIX_EPOCH).map_or(0, |since| since.subsec_nanos());
    Run {
        run: format!("{}-{:04x}", stamp.replace(['-', ':'], ""), nanoseconds >> 14),
        schema: RUN_SCHEMA,
        backend: backend.to_owned(),
        started: stamp,
        ended: Ended::Interrupted,
        plan,
        machine,
        calibration,
        cases: Vec::new(),
        transfers: Vec::new(),
        verdicts: Vec::new(),
    }
}

/// Its file, with the header as its first line.
pub(crate) fn create(run: &Run, store: &Store) -> Result<RunWriter, BenchError> {
    let mut writer = store.create(&run.run)?;
    writer.append(&Line::Header(Box::new(Header::of(run))))?;
    Ok(writer)
}

/// Stores the verdicts, how it ended and the machine as it is now.
pub(crate) fn end(
    run: &mut Run,
    writer: &mut RunWriter,
    before: Environment,
    interrupt: Interrupt<'_>,
) -> Result<(), BenchError> {
    for verdict in &run.verdicts {
        writer.append(&Line::Verdict(Box::new(verdict.clone())))?;
    }
    run.ended = if interrupt.is_set() { Ended::Cancelled } else { Ended::Complete };
    before.end(&mut run.machine);
    writer.append(&Line::End { ended: run.ended, machine: Box::new(run.machine.clone()) })
}
