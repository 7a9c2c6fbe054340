//! Figures and tables of a run: what it measured over what was predicted before. The command line and the page take them from
//! here, so that both give the same bytes.

mod cases;
mod data;
mod figures;
mod series;
mod transfers;

pub use cases::{CASES_CAPTION, CASES_HEAD, CaseRow, case_rows};
pub use figures::{RunScene, finding, latency, memory, residuals};
pub use transfers::{RunTable, transfer_tables};

use kvscope_protocol::run::Run;
use kvscope_sizing::UnitSystem;
use series::Share;

use crate::Export;
use crate::export::{Data, Origin};
use crate::figures::Table;

/// Why a run has no figure.
const NOTHING: &str = "this run has no cases, so there is nothing to draw";

/// A figure of a run.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum RunFigure {
    /// Seconds of a decode step, predicted and measured.
    Latency,
    /// Measured ÷ predicted.
    Residuals,
    /// Bytes of the state, predicted and resident.
    Memory,
}

impl RunFigure {
    /// The words above it.
    pub fn title(self, run: &Run) -> &'static str {
        match (self, Share::of(run)) {
            (Self::Latency, Share::Whole) => "Time of a decode step",
            (Self::Latency, Share::Layer) => "Time of a decode step, per layer",
            (Self::Residuals, _) => "Measured ÷ predicted",
            (Self::Memory, Share::Whole) => "Memory of the state",
            (Self::Memory, Share::Layer) => "Memory of the state, per layer",
        }
    }

    /// What stands under its title.
    pub fn note(self, run: &Run) -> String {
        match self {
            Self::Latency => figures::legend(run),
            Self::Residuals => {
                "Above 1× a step took longer than predicted. The error in words and in the table is \
                (predicted − measured) ÷ measured: negative where a step took longer."
                    .to_owned()
            }
            Self::Memory => figures::memory_note(run).to_owned(),
        }
    }

    /// It with all that an export says.
    ///
    /// # Errors
    ///
    /// A sentence, where the run has nothing to draw.
    pub fn export(self, run: &Run, units: UnitSystem, width: f64, origin: Origin) -> Result<Export, String> {
        let scene = match self {
            Self::Latency => latency(run, width).map(|framed| framed.scene),
            Self::Residuals => latency(run, width).and_then(|above| residuals(run, width, above.edges)),
            Self::Memory => memory(run, width, units),
        };
        let scene = scene.ok_or_else(|| NOTHING.to_owned())?;
        let data: Data = match self {
            Self::Latency => data::latency(run),
            Self::Residuals => data::residuals(run),
            Self::Memory => data::memory(run),
        };
        Ok(Export {
            scene,
            title: finding(run),
            note: format!("{}. {}", self.title(run), self.note(run)),
            inputs: inputs(run),
            assumptions: run.notes.clone(),
            table: data.as_table(),
            data,
            origin,
        })
    }
}

/// Every case with what was predicted and what came out.
pub fn cases_export(run: &Run, origin: Origin) -> Export {
    let rows = case_rows(run).into_iter().map(|row| {
        let mut cells = row.cells.to_vec();
        cells.push(row.remark.unwrap_or_default());
        cells
    });
    let head = CASES_HEAD.iter().copied().chain(["remarks"]).map(str::to_owned).collect();
    let table = Table { head, rows: rows.collect() };
    Export::of_table(finding(run), CASES_CAPTION.to_owned(), inputs(run), table, origin)
}

/// A table of transfers.
pub fn transfers_export(run: &Run, table: &RunTable, origin: Origin) -> Export {
    let note = format!("{}. {}", table.title, table.caption);
    let export = Export::of_table(finding(run), note, inputs(run), table.table.clone(), origin);
    Export { assumptions: table.remarks.clone(), ..export }
}

/// What was run, where and when.
fn inputs(run: &Run) -> Vec<(String, String)> {
    let machine = &run.machine;
    let mut inputs = vec![
        ("run".to_owned(), run.run.clone()),
        ("started".to_owned(), run.started.clone()),
        ("ended".to_owned(), run.ended.word().to_owned()),
        ("backend".to_owned(), run.backend.clone()),
    ];
    let known = [("processor", &machine.cpu), ("system", &machine.system), ("measured by", &run.version)];
    inputs.extend(known.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value.clone()?))));
    inputs
}

#[cfg(test)]
pub(crate) mod tests {
    use kvscope_protocol::run::Case;
    use kvscope_sizing::record::FromJson;
    use serde_json::json;

    use super::*;
    use crate::Theme;
    use crate::export::Format;

    pub(crate) fn run(cases: &[Case]) -> Run {
        let run = json!({"run": "a-1", "schema": 1, "backend": "cpu", "started": "", "ended": "complete",
            "plan": {"budget_seconds": 1.0, "forms": ["gqa"], "seed": 1}, "machine": {}, "calibration": null,
            "cases": cases, "verdicts": []});
        Run::from_json(&run).unwrap()
    }

    /// A case of MiniMax-M2.7, 0.1 s predicted and nothing measured.
    pub(crate) fn case(context: u64, layers: u64, grade: &str) -> Case {
        let case = json!({"case": 0, "form": "gqa", "model": "minimax-m2.7", "context": context, "batch": 1,
            "cache": "cold", "layers_measured": layers, "layers_total": 62,
            "predicted": {"bytes": 1, "page_padding_bytes": 0, "seconds": 0.1, "grade": grade, "bound": null},
            "measured": null, "read_bytes": null, "flops": null, "bandwidth_share": null, "bound_share": null,
            "correct": null, "largest_relative_error": null, "status": "skipped: no time"});
        Case::from_json(&case).unwrap()
    }

    pub(crate) fn measured_in(mut case: Case, seconds: f64, status: &str) -> Case {
        let summary = json!({"median": seconds, "p05": seconds, "p95": seconds, "n": 10, "cv": 0.01});
        let measured =
            json!({"asked_bytes": 1, "resident_bytes": 3, "huge_page_bytes": null, "seconds": summary});
        case.measured = FromJson::from_json(&measured).unwrap();
        status.clone_into(&mut case.status);
        case
    }

    /// 0.1 s predicted and 0.125 s measured are 1.25×; a wrong result has no time, and so no ratio.
    #[test]
    fn exports_have_what_was_measured_and_what_was_predicted() {
        let run = run(&[
            measured_in(case(4096, 62, "calibrated"), 0.125, "ok"),
            measured_in(case(8192, 62, "calibrated"), 0.2, "failed: wrong result"),
        ]);
        let csv = |of: RunFigure| {
            let export = of.export(&run, UnitSystem::Decimal, 900.0, Origin::default()).unwrap();
            export.text(Format::Csv, &Theme::light()).unwrap()
        };
        assert_eq!(
            csv(RunFigure::Residuals),
            "series,standing,context_tokens,measured_over_predicted,p05_over_predicted,p95_over_predicted\n\
             MiniMax-M2.7 GQA,steady,4096,1.25,1.25,1.25\n"
        );
        let latency = csv(RunFigure::Latency);
        assert!(latency.contains("MiniMax-M2.7 GQA,predicted,8192,0.1\n"), "{latency}");
        assert!(latency.contains("MiniMax-M2.7 GQA,median,4096,0.125\n"), "{latency}");
        assert!(!latency.contains("8192,0.2"), "{latency}");
        let memory = csv(RunFigure::Memory);
        assert!(memory.contains("MiniMax-M2.7 GQA,predicted,4096,1\n"), "{memory}");
        assert!(memory.contains("MiniMax-M2.7 GQA,resident,4096,3\n"), "{memory}");
        let cases = cases_export(&run, Origin::default()).text(Format::Csv, &Theme::light()).unwrap();
        assert!(cases.ends_with(",failed,wrong result\n"), "{cases}");
    }

    #[test]
    fn a_run_without_cases_has_no_figure_and_says_so() {
        let none = RunFigure::Latency.export(&run(&[]), UnitSystem::Decimal, 900.0, Origin::default());
        assert_eq!(none.unwrap_err(), NOTHING);
    }
}
