use kvscope_protocol::run::{Case, Run};
use kvscope_sizing::{Bytes, group_digits};

use crate::label::seconds;

/// What stands over the columns of the table of cases.
pub const CASES_HEAD: [&str; 12] = [
    "form and model",
    "context",
    "batch",
    "layers",
    "predicted",
    "measured",
    "error",
    "predicted bytes",
    "asked bytes",
    "resident bytes",
    "of read ceiling",
    "result",
];

/// What the table of cases is of.
pub const CASES_CAPTION: &str = "Time is of one decode step over the layers that were held. Error: (predicted − measured) ÷ measured, \
    negative where the step took longer than predicted";

/// A case in words.
#[derive(Clone, Debug, PartialEq)]
pub struct CaseRow {
    /// Under [`CASES_HEAD`].
    pub cells: [String; CASES_HEAD.len()],
    /// Why a figure is missing or doubtful, and the case's warnings.
    pub remark: Option<String>,
}

/// Every case, in the order of the run.
pub fn case_rows(run: &Run) -> Vec<CaseRow> {
    run.cases.iter().map(|case| CaseRow { cells: figures(case), remark: remarks(case) }).collect()
}

fn figures(case: &Case) -> [String; 12] {
    let unknown = || "unknown".to_owned();
    let bytes = |bytes: Option<Bytes>| bytes.map_or_else(unknown, |bytes| group_digits(bytes.get()));
    let measured = case.measured.as_ref();
    [
        format!("{} {}", case.form.to_ascii_uppercase(), case.model),
        case.context.short(),
        case.batch.to_string(),
        format!("{} of {}", case.layers_measured, case.layers_total),
        case.predicted.seconds.map_or_else(unknown, seconds),
        case.timing().map_or_else(unknown, |timing| seconds(timing.median)),
        case.time_error().map_or_else(unknown, |error| format!("{:+.0} %", error * 100.0)),
        bytes(case.predicted.bytes),
        bytes(measured.map(|measured| measured.asked_bytes)),
        bytes(measured.and_then(|measured| measured.resident_bytes)),
        // The share is of a time, so a wrong result has none.
        case.timing()
            .and(case.bandwidth_share)
            .map_or_else(unknown, |share| format!("{:.0} %", share * 100.0)),
        outcome(case).0.to_owned(),
    ]
}

/// The status in a word, and its reason.
fn outcome(case: &Case) -> (&str, Option<&str>) {
    match case.status.split_once(": ") {
        Some((word, reason)) => (word, Some(reason)),
        None => (&case.status, None),
    }
}

/// Why a figure is missing or doubtful, and the case's warnings.
fn remarks(case: &Case) -> Option<String> {
    let words: Vec<&str> =
        outcome(case).1.into_iter().chain(case.warnings.iter().map(String::as_str)).collect();
    (!words.is_empty()).then(|| words.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runs::tests::{case, measured_in};

    #[test]
    fn the_error_has_the_verdicts_sign() {
        // 0.1 s predicted, 0.125 s measured: (0.1 − 0.125) / 0.125 = −20 %; the ratio would say +25 %.
        assert_eq!(figures(&measured_in(case(4096, 62, "calibrated"), 0.125, "ok"))[6], "-20 %");
    }

    #[test]
    fn a_failed_case_shows_no_time_and_says_why() {
        let failed = measured_in(case(4096, 62, "calibrated"), 0.125, "failed: wrong result");
        let cells = figures(&failed);
        assert_eq!(
            (cells[5].as_str(), cells[6].as_str(), cells[11].as_str()),
            ("unknown", "unknown", "failed")
        );
        assert_eq!(remarks(&failed).as_deref(), Some("wrong result"));
    }
}
