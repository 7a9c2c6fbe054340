//! Reserved beside logical bytes, as a table.

use std::fmt::Write as _;

use kvscope_sizing::Bytes;
use kvscope_sizing::engine::{EngineKind, EngineReport, Reservation, Rest};

use crate::output::Figures;

/// Both accountings part by part with the arithmetic of the reserved one, then what lies between them by its reasons.
pub(super) fn reserved_text(beside: &Reservation) -> String {
    let name = match (beside.engine.kind(), beside.ranks) {
        (EngineKind::Logical, 1) => "as set".to_owned(),
        (EngineKind::Logical, ranks) => format!("one rank of {ranks}"),
        (_, 1) => format!("reserved by {}", beside.engine),
        (_, ranks) => format!("reserved by {}, one rank of {ranks}", beside.engine),
    };
    let logical = if beside.ranks > 1 { "logical, whole model" } else { "logical" };
    let how = if beside.engine.kind() == EngineKind::Logical { "which is" } else { "reserved as" };
    let mut parts = Figures::new(1, &["part", logical, name.as_str(), how]).text_last();
    let or_none = |worked: &Option<String>| worked.clone().unwrap_or_default();
    for part in &beside.parts {
        let row = [part.what.to_owned(), part.logical.to_string(), part.reserved.to_string()];
        parts.row(row.into_iter().chain([or_none(&part.worked)]));
    }
    let together = ["together".to_owned(), beside.logical.to_string(), beside.reserved.to_string()];
    parts.row(together.into_iter().chain([or_none(&beside.worked)]));
    let mut between = Figures::new(1, &["between them", "bytes", "why"]).text_last();
    let division = signed(&beside.division, beside.division_words());
    let padding =
        beside.padding.iter().map(|row| [row.what.clone(), format!("+ {}", row.bytes), row.why.clone()]);
    let rows: Vec<[String; 3]> =
        division.into_iter().chain(padding).chain(signed(&beside.rest, "kept otherwise")).collect();
    for row in &rows {
        between.row(row.clone());
    }
    let mut text = parts.render();
    if !rows.is_empty() {
        let _ = write!(text, "\n{}", between.render());
    }
    if let Some(decoding) = beside.decoding {
        let _ = writeln!(
            text,
            "\nHeld while the batch decodes: {decoding}; {} are reserved, so that it is admitted",
            beside.reserved
        );
    }
    if let Some(why) = beside.once_why.filter(|_| beside.once > Bytes::ZERO) {
        let _ = writeln!(text, "\nOnce for the whole pool, and in neither figure: {}, {why}", beside.once);
    }
    text
}

/// A difference as a row, where there is one.
fn signed(difference: &Rest, what: &str) -> Option<[String; 3]> {
    let (bytes, why) = match difference {
        Rest::None => return None,
        Rest::More(bytes, why) => (format!("+ {bytes}"), why),
        Rest::Less(bytes, why) => (format!("- {bytes}"), why),
    };
    Some([what.to_owned(), bytes, why.clone()])
}

/// `vllm`, and at which version its rules are where none was named: `vllm (rules of vllm@0.33)`
pub(super) fn engine_words(report: &EngineReport) -> String {
    let named = report.engine.to_string();
    match report.rules() {
        Some(rules) if rules != named => format!("{named} (rules of {rules})"),
        _ => named,
    }
}
