//! How a run begins and ends, whatever it measures.

use std::time::{SystemTime, UNIX_EPOCH};

use kvscope_protocol::run::{
    Case, Ended, Header, Line, Machine, PlanRecord, RUN_SCHEMA, Run, TimeSpent, is_missing_transfer,
};
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
        version: Some(env!("CARGO_PKG_VERSION").to_owned()),
        ended: Ended::Interrupted,
        plan,
        machine,
        calibration,
        cases: Vec::new(),
        transfers: Vec::new(),
        verdicts: Vec::new(),
        notes: Vec::new(),
        spent: None,
    }
}

/// Its file, with the header as its first line.
pub(crate) fn create(run: &Run, store: &Store) -> Result<RunWriter, BenchError> {
    let mut writer = store.create(&run.run)?;
    writer.append(&Line::Header(Box::new(Header::of(run))))?;
    Ok(writer)
}

/// The file of a stored run again, with what it goes on for as its next line.
pub(crate) fn resume(run: &mut Run, what: String, store: &Store) -> Result<RunWriter, BenchError> {
    let mut writer = store.reopen(&run.run)?;
    writer.is_of(&run.machine);
    writer.append(&Line::Resumed { what: what.clone() })?;
    run.ended = Ended::Interrupted;
    run.verdicts.clear();
    run.notes.push(what);
    Ok(writer)
}

/// Says something of the whole run.
pub(crate) fn note(run: &mut Run, what: String, writer: &mut RunWriter) -> Result<(), BenchError> {
    run.notes.push(what.clone());
    writer.append(&Line::Note { what })
}

/// What is said of a run whose file takes no more lines.
pub(crate) fn end_not_stored(error: &BenchError) -> String {
    format!("the end of the run is not stored: {error}")
}

/// Stores the verdicts, how it ended, where the time went and the machine as it is now.
pub(crate) fn end(
    run: &mut Run,
    writer: &mut RunWriter,
    before: Environment,
    spent: TimeSpent,
    interrupt: Interrupt<'_>,
) -> Result<(), BenchError> {
    let is_missing = run.cases.iter().any(Case::is_missing) || run.transfers.iter().any(is_missing_transfer);
    let ended = match (interrupt.is_set(), is_missing) {
        (true, _) => Ended::Cancelled,
        (false, true) => Ended::Partial,
        (false, false) => Ended::Complete,
    };
    before.end(&mut run.machine);
    let machine = Box::new(run.machine.clone());
    let verdicts = run.verdicts.iter().map(|verdict| Line::Verdict(Box::new(verdict.clone())));
    let end = Line::End { ended, machine, spent: Some(spent) };
    writer.append_all(&verdicts.chain([end]).collect::<Vec<_>>())?;
    (run.ended, run.spent) = (ended, Some(spent));
    Ok(())
}
