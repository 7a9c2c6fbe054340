use kvscope_sizing::prediction::Calibration;
use kvscope_sizing::record::{FromJson, field, field_or_default, object, read_json};
use kvscope_sizing::{Error, record};
use serde::Serialize;
use serde_json::Value;

use super::{Case, Ended, Machine, PlanRecord, RUN_SCHEMA, Run, SampleSummary, TimeSpent, Verdict};

/// One line of a stored run: a JSON object with its kind in `line`.
///
/// A run's file is only ever appended to. A `case` line replaces the `prediction` of the same number, and a later
/// `case` line an earlier one, so that a run which is killed keeps what it had.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "line", rename_all = "snake_case")]
pub enum Line {
    /// The first line.
    Header(Box<Header>),
    /// A case with its prediction and nothing measured; written and synced before its measurement starts.
    Prediction(Box<Case>),
    /// A case with what came out, or why nothing did.
    Case(Box<Case>),
    /// A [`Transfer`](super::Transfer): before it is measured, and again with what came out.
    Transfer(Box<Value>),
    /// What the cases of one form, or the transfers of one tier, say together.
    Verdict(Box<Verdict>),
    /// What a reader of the run has to know.
    Note {
        /// In a sentence.
        what: String,
    },
    /// The run goes on after it had ended or was interrupted; what follows replaces what it had of the same cases, and
    /// verdicts are given anew.
    Resumed {
        /// When and why, in a sentence.
        what: String,
    },
    /// The last line, unless the run was resumed: how it ended, and the machine as it was then.
    End {
        /// How the run ended.
        ended: Ended,
        /// The machine with what is only known after the run.
        machine: Box<Machine>,
        /// Where the time went.
        spent: Option<TimeSpent>,
    },
}

/// The first line of a stored run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Header {
    /// [`Run::run`].
    pub run: String,
    /// [`RUN_SCHEMA`] of the writer.
    pub schema: u32,
    /// [`Run::backend`].
    pub backend: String,
    /// [`Run::started`].
    pub started: String,
    /// [`Run::version`].
    pub version: Option<String>,
    /// [`Run::plan`].
    pub plan: PlanRecord,
    /// The machine before the run.
    pub machine: Machine,
    /// [`Run::calibration`].
    pub calibration: Option<Calibration>,
}

impl Header {
    /// What is known of a run before its first case.
    pub fn of(run: &Run) -> Self {
        Self {
            run: run.run.clone(),
            schema: run.schema,
            backend: run.backend.clone(),
            started: run.started.clone(),
            version: run.version.clone(),
            plan: run.plan.clone(),
            machine: run.machine.clone(),
            calibration: run.calibration.clone(),
        }
    }
}

/// A run as read from a file, with what could not be read.
#[derive(Clone, Debug, PartialEq)]
pub struct ReadRun {
    /// The readable part.
    pub run: Run,
    /// One per damaged line.
    pub warnings: Vec<LineWarning>,
}

/// A line that could not be read.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct LineWarning {
    /// Counted from 1.
    pub line: usize,
    /// Why, in a sentence.
    pub what: String,
}

impl std::fmt::Display for LineWarning {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "line {}: {}", self.line, self.what)
    }
}

/// Folds the text of a stored run into a [`Run`].
///
/// A damaged line is left out and reported. Only a text without a readable header, or of a newer schema, is an error,
/// as one warning that names the line.
pub fn read_lines(text: &str) -> Result<ReadRun, LineWarning> {
    let mut warnings = Vec::new();
    let mut run: Option<Run> = None;

    for (index, content) in text.lines().enumerate() {
        let line = index + 1;
        if content.trim().is_empty() {
            continue;
        }
        let parsed = match parse(content) {
            Ok(parsed) => parsed,
            Err(error) => {
                warnings.push(LineWarning { line, what: format!("not a line of a run, left out ({error})") });
                continue;
            }
        };
        match (parsed, &mut run) {
            (Line::Header(header), None) => run = Some(begin(*header, line)?),
            (Line::Header(_), Some(_)) => {
                warnings.push(LineWarning { line, what: "a second header, left out".to_owned() });
            }
            (_, None) => {
                warnings.push(LineWarning { line, what: "comes before the header, left out".to_owned() });
            }
            (Line::Prediction(case) | Line::Case(case), Some(run)) => put_case(&mut run.cases, *case),
            (Line::Transfer(transfer), Some(run)) => put_transfer(&mut run.transfers, *transfer),
            (Line::Verdict(verdict), Some(run)) => run.verdicts.push(*verdict),
            (Line::Note { what }, Some(run)) => run.notes.push(what),
            (Line::Resumed { what }, Some(run)) => {
                run.ended = Ended::Interrupted;
                run.verdicts.clear();
                run.spent = None;
                run.notes.push(what);
            }
            (Line::End { ended, machine, spent }, Some(run)) => {
                run.ended = ended;
                run.machine = *machine;
                run.spent = spent;
            }
        }
    }

    match run {
        Some(run) => Ok(ReadRun { run, warnings }),
        None => Err(LineWarning { line: 1, what: "no readable header: this is not a stored run".to_owned() }),
    }
}

record!(Header { run, schema, backend, started, plan, machine, calibration; or default version });
record!(LineWarning { line, what });

fn parse(content: &str) -> Result<Line, Error> {
    let value = read_json(content)?;
    match value.get("line").and_then(Value::as_str).unwrap_or_default() {
        "header" => FromJson::from_json(&value).map(Line::Header),
        "prediction" => FromJson::from_json(&value).map(Line::Prediction),
        "case" => FromJson::from_json(&value).and_then(plausible).map(Line::Case),
        "transfer" => plausible_transfer(without_kind(value.clone())).map(Box::new).map(Line::Transfer),
        "verdict" => FromJson::from_json(&value).map(Line::Verdict),
        "end" => {
            let end = object(&value)?;
            Ok(Line::End {
                ended: field(end, "ended")?,
                machine: field(end, "machine")?,
                spent: field_or_default(end, "spent")?,
            })
        }
        "note" => Ok(Line::Note { what: field(object(&value)?, "what")? }),
        "resumed" => Ok(Line::Resumed { what: field(object(&value)?, "what")? }),
        kind => Err(Error::field("line", format!("{kind:?} is no kind of line"))),
    }
}

fn plausible(case: Box<Case>) -> Result<Box<Case>, Error> {
    let Some(seconds) = case.measured.as_ref().map(|measured| measured.seconds) else { return Ok(case) };
    are_times(seconds).map(|()| case)
}

/// A transfer has a number that it is known by, a tier and a status; what was measured of it is a time.
fn plausible_transfer(transfer: Value) -> Result<Value, Error> {
    let fields = object(&transfer)?;
    field::<u32>(fields, "transfer")?;
    field::<String>(fields, "tier")?;
    field::<String>(fields, "status")?;
    if let Some(measured) = fields.get("measured").filter(|measured| !measured.is_null()) {
        are_times(field(object(measured)?, "seconds")?)?;
    }
    Ok(transfer)
}

/// A time below zero, or beyond a day, is no measurement of a step or of a transfer.
fn are_times(seconds: SampleSummary) -> Result<(), Error> {
    const DAY: f64 = 86_400.0;
    let times = [("median", seconds.median), ("p05", seconds.p05), ("p95", seconds.p95)];
    match times.into_iter().find(|(_, time)| !(*time > 0.0 && *time < DAY)) {
        Some((name, time)) => {
            let place = format!("measured.seconds.{name}");
            Err(Error::field(place, format!("{time} s is no time of a step or a transfer")))
        }
        None => Ok(()),
    }
}

fn begin(header: Header, line: usize) -> Result<Run, LineWarning> {
    if header.schema > RUN_SCHEMA {
        return Err(LineWarning {
            line,
            what: format!(
                "written with schema {}, this version reads up to {RUN_SCHEMA}; use a newer kvscope",
                header.schema
            ),
        });
    }
    Ok(Run {
        run: header.run,
        schema: header.schema,
        backend: header.backend,
        started: header.started,
        version: header.version,
        ended: Ended::Interrupted,
        plan: header.plan,
        machine: header.machine,
        calibration: header.calibration,
        cases: Vec::new(),
        transfers: Vec::new(),
        verdicts: Vec::new(),
        notes: Vec::new(),
        spent: None,
    })
}

fn without_kind(mut line: Value) -> Value {
    if let Value::Object(fields) = &mut line {
        fields.remove("line");
    }
    line
}

fn put_transfer(transfers: &mut Vec<Value>, transfer: Value) {
    let number = |transfer: &Value| transfer.get("transfer").and_then(Value::as_u64);
    match transfers.iter_mut().find(|known| number(known) == number(&transfer)) {
        Some(known) => *known = transfer,
        None => transfers.push(transfer),
    }
}

fn put_case(cases: &mut Vec<Case>, case: Case) {
    match cases.iter_mut().find(|known| known.case == case.case) {
        Some(known) => *known = case,
        None => cases.push(case),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::tests::{case, measured};
    use crate::run::verdicts;

    fn header() -> Line {
        Line::Header(Box::new(Header {
            run: "20261129T150000Z-00ab".to_owned(),
            schema: RUN_SCHEMA,
            backend: "cpu".to_owned(),
            started: "2026-11-29T15:00:00Z".to_owned(),
            version: Some("0.1.0".to_owned()),
            plan: PlanRecord {
                budget_seconds: 30.0,
                forms: vec!["gqa".to_owned()],
                seed: 1,
                fit_half: vec![0],
                ..PlanRecord::default()
            },
            machine: Machine::default(),
            calibration: None,
        }))
    }

    fn text(lines: &[Line]) -> String {
        lines.iter().map(|line| serde_json::to_string(line).unwrap() + "\n").collect()
    }

    #[test]
    fn a_case_replaces_its_prediction_and_an_earlier_figure() {
        let lines = [
            header(),
            Line::Prediction(Box::new(case(0, "gqa", 0.1, None))),
            Line::Prediction(Box::new(case(1, "gqa", 0.2, None))),
            Line::Case(Box::new(case(0, "gqa", 0.1, Some(measured(0.3))))),
            Line::Case(Box::new(case(0, "gqa", 0.1, Some(measured(0.11))))),
            Line::End { ended: Ended::Complete, machine: Box::default(), spent: None },
        ];
        let read = read_lines(&text(&lines)).unwrap();
        assert!(read.warnings.is_empty());
        assert_eq!(read.run.ended, Ended::Complete);
        assert_eq!(read.run.cases.len(), 2);
        assert_eq!(read.run.cases[0].measured, Some(measured(0.11)));
        assert_eq!(read.run.cases[1].measured, None);
    }

    #[test]
    fn a_resumed_run_keeps_what_it_had_and_is_judged_anew() {
        let missing = Case { status: "partial: not measured yet".to_owned(), ..case(1, "gqa", 0.2, None) };
        let whole = case(0, "gqa", 0.1, Some(measured(0.11)));
        let spent = Some(TimeSpent { whole_seconds: 3.0, ..TimeSpent::default() });
        let lines = [
            header(),
            Line::Case(Box::new(whole.clone())),
            Line::Prediction(Box::new(missing.clone())),
            Line::Verdict(Box::new(verdicts(std::slice::from_ref(&whole)).remove(0))),
            Line::End { ended: Ended::Partial, machine: Box::default(), spent },
            Line::Resumed { what: "resumed for 1 of 2 cases".to_owned() },
            Line::Case(Box::new(case(1, "gqa", 0.2, Some(measured(0.21))))),
        ];
        let before = read_lines(&text(&lines[..5])).unwrap().run;
        assert_eq!((before.ended, before.spent, before.verdicts.len()), (Ended::Partial, spent, 1));
        assert!(before.cases[1].is_missing() && !before.cases[0].is_missing());
        let read = read_lines(&text(&lines)).unwrap();
        assert!(read.warnings.is_empty(), "{:?}", read.warnings);
        let run = read.run;
        assert_eq!((run.ended, run.spent, run.verdicts.len()), (Ended::Interrupted, None, 0));
        assert_eq!((&run.cases[0], run.cases[1].is_missing()), (&whole, false));
        assert_eq!(run.notes, ["resumed for 1 of 2 cases"]);
    }

    #[test]
    fn a_transfer_replaces_what_was_declared_of_it() {
        let transfer = |number: u32, status: &str| {
            Line::Transfer(Box::new(
                serde_json::json!({"transfer": number, "tier": "dram", "status": status}),
            ))
        };
        let lines = [header(), transfer(0, "partial"), transfer(1, "partial"), transfer(0, "ok")];
        let read = read_lines(&text(&lines)).unwrap();
        assert!(read.warnings.is_empty());
        let right = serde_json::json!([
            {"transfer": 0, "tier": "dram", "status": "ok"}, {"transfer": 1, "tier": "dram", "status": "partial"}
        ]);
        assert_eq!(serde_json::Value::Array(read.run.transfers), right);
    }

    /// Two transfers without a number would replace each other.
    #[test]
    fn a_transfer_without_a_number_or_a_time_is_told_and_left_out() {
        let seconds =
            |median: f64| serde_json::json!({"median": median, "p05": 0.1, "p95": 0.3, "n": 5, "cv": 0.1});
        let whole = |median: f64| {
            serde_json::json!({"line": "transfer", "transfer": 0, "tier": "dram", "status": "ok",
                "measured": {"seconds": seconds(median)}})
        };
        for (broken, place) in [
            (serde_json::json!({"line": "transfer", "tier": "dram", "status": "ok"}), "transfer"),
            (serde_json::json!({"line": "transfer", "transfer": 0, "tier": 7, "status": "ok"}), "tier"),
            (whole(-1.0), "measured.seconds.median"),
        ] {
            let read = read_lines(&format!("{}{broken}\n", text(&[header()]))).unwrap();
            assert!(read.run.transfers.is_empty(), "{broken}");
            assert!(read.warnings[0].what.contains(place), "{:?}", read.warnings);
        }
        let read = read_lines(&format!("{}{}\n", text(&[header()]), whole(0.2))).unwrap();
        assert_eq!((read.run.transfers.len(), read.warnings.len()), (1, 0), "{:?}", read.warnings);
    }

    #[test]
    fn the_readable_part_of_a_damaged_file_is_kept_and_the_line_named() {
        let whole = text(&[header(), Line::Case(Box::new(case(0, "gqa", 0.1, Some(measured(0.2)))))]);
        let damaged = format!("{whole}{{\"line\":\"case\",\"case\":1,\"fo");
        let read = read_lines(&damaged).unwrap();
        assert_eq!(read.run.cases.len(), 1);
        assert_eq!(read.run.ended, Ended::Interrupted);
        assert_eq!(read.warnings.iter().map(|warning| warning.line).collect::<Vec<_>>(), [3]);
    }

    #[test]
    fn a_text_that_is_no_run_and_a_newer_schema_are_errors() {
        for text in ["", "\n", "hello", "{}", "[1,2]", "{\"line\":\"end\"}"] {
            assert!(read_lines(text).is_err(), "{text:?}");
        }
        let newer = text(&[header()]).replace("\"schema\":1", "\"schema\":2");
        assert!(read_lines(&newer).unwrap_err().what.contains("schema 2"));
    }

    #[test]
    fn a_run_goes_through_json_unchanged() {
        let lines = [header(), Line::Case(Box::new(case(0, "mla", 0.1, Some(measured(0.1)))))];
        let run = read_lines(&text(&lines)).unwrap().run;
        let json = serde_json::to_string(&run).unwrap();
        assert_eq!(serde_json::from_str::<Run>(&json).unwrap(), run);
    }
}
