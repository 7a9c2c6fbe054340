//! Runs, comparisons and calibrations as tables.

use clap::Args;
use kvscope_protocol::run::{Cache, Case, Comparison, Run, Verdict};
use kvscope_sizing::prediction::Calibration;
use kvscope_sizing::{Bytes, UnitSystem, group_digits};

use super::tiers;
use crate::failure::Failure;
use crate::output::{self, Figures};

/// How figures are printed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Form {
    /// For people.
    Table,
    /// For programs.
    Json,
}

/// The option that chooses it.
#[derive(Args, Debug)]
pub(super) struct Printed {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Printed {
    pub(super) fn form(&self) -> Form {
        if self.json { Form::Json } else { Form::Table }
    }
}

/// A run as a table with its verdicts, or as JSON.
pub(super) fn run(run: &Run, form: Form) -> Result<(), Failure> {
    if form == Form::Json {
        return output::json(run);
    }
    let header = [
        "form",
        "model",
        "layers",
        "context",
        "batch",
        "caches",
        "predicted",
        "asked",
        "resident",
        "predicted time",
        "measured",
        "cv",
        "op/B",
        "bound by",
        "of bound",
        "status",
    ];
    let mut table = Figures::new(2, &header);
    for case in &run.cases {
        let measured = case.measured.as_ref();
        let or_dash = |text: Option<String>| text.unwrap_or_else(|| "–".to_owned());
        table.row([
            case.form.clone(),
            case.model.clone(),
            format!("{} of {}", case.layers_measured, case.layers_total),
            case.context.short(),
            case.batch.to_string(),
            match case.cache {
                Cache::Cold => "cold".to_owned(),
                Cache::Hot => "hot".to_owned(),
            },
            or_dash(case.predicted.bytes.map(|bytes| bytes.display(UnitSystem::Decimal))),
            or_dash(measured.map(|m| m.asked_bytes.display(UnitSystem::Decimal))),
            or_dash(measured.and_then(|m| m.resident_bytes).map(|bytes| bytes.display(UnitSystem::Decimal))),
            or_dash(case.predicted.seconds.map(seconds)),
            or_dash(measured.map(|m| seconds(m.seconds.median))),
            or_dash(measured.and_then(|m| m.seconds.cv).map(|cv| format!("{:.1} %", cv * 100.0))),
            or_dash(case.intensity().map(|intensity| format!("{intensity:.1}"))),
            or_dash(case.predicted.bound.map(|bound| bound.name().to_owned())),
            or_dash(case.bound_share.map(|share| format!("{:.0} %", share * 100.0))),
            case.status.clone(),
        ]);
    }
    let cases = (!run.cases.is_empty()).then(|| table.render());
    let memory = run.cases.iter().any(|case| case.measured.is_some()).then(|| memory(&run.cases).render());
    let verdicts = (!run.verdicts.is_empty()).then(|| verdicts(&run.verdicts).render());
    let tables = cases.into_iter().chain(memory).chain(tiers::tables(run)).chain(verdicts);
    let mut text = std::iter::once(title(run)).chain(tables).collect::<Vec<_>>().join("\n");
    for verdict in &run.verdicts {
        text.push('\n');
        text.push_str(&verdict.sentence);
    }
    if !run.verdicts.is_empty() {
        text.push('\n');
    }
    output::figures(&text)?;
    for line in run.notes.iter().chain(&warning_lines(&run.cases)).chain(&tiers::warnings(run)) {
        output::warning(line);
    }
    if let Some(spent) = &run.spent {
        output::note(&spent.sentence());
    }
    Ok(())
}

/// Predicted, asked for, and shown by the system, to the byte; differences beyond the tolerance have their reason among the
/// warnings.
fn memory(cases: &[Case]) -> Figures {
    let header = [
        "memory of",
        "context",
        "batch",
        "state, predicted",
        "borrowed",
        "padding",
        "asked",
        "shown",
        "shown − asked",
        "in large pages",
    ];
    let mut table = Figures::new(1, &header);
    let bytes =
        |bytes: Option<Bytes>| bytes.map_or_else(|| "–".to_owned(), |bytes| group_digits(bytes.get()));
    for case in cases {
        let Some(measured) = &case.measured else { continue };
        let (asked, shown) = (measured.asked_bytes.get(), measured.resident_bytes.map(Bytes::get));
        table.row([
            case.form.clone(),
            case.context.short(),
            case.batch.to_string(),
            bytes(case.predicted.bytes),
            bytes(case.predicted.borrowed_bytes),
            bytes(case.predicted.page_padding_bytes),
            bytes(Some(measured.asked_bytes)),
            bytes(measured.resident_bytes),
            shown.map_or_else(
                || "–".to_owned(),
                |shown| {
                    let sign = if shown < asked { "−" } else { "+" };
                    format!("{sign}{}", group_digits(shown.abs_diff(asked)))
                },
            ),
            bytes(measured.huge_page_bytes),
        ]);
    }
    table
}

/// Errors over what judges, in the order of the run's sentences.
fn verdicts(verdicts: &[Verdict]) -> Figures {
    let header =
        ["verdict of", "points", "unsteady", "median error", "nine in ten", "bias", "worst", "worst at"];
    let mut table = Figures::new(1, &header).text_last();
    let percent =
        |value: Option<f64>| value.map_or_else(|| "–".to_owned(), |v| format!("{:.1} %", v * 100.0));
    let signed =
        |value: Option<f64>| value.map_or_else(|| "–".to_owned(), |v| format!("{:+.1} %", v * 100.0));
    for verdict in verdicts {
        let at = match (&verdict.worst, &verdict.worst_transfer) {
            (Some(worst), _) => format!("{} at {}", worst.model, worst.context.short()),
            (None, Some(worst)) => format!("transfer {}", worst.transfer),
            (None, None) => "–".to_owned(),
        };
        let worst = verdict.worst.as_ref().map(|worst| worst.error);
        let worst = worst.or(verdict.worst_transfer.as_ref().map(|worst| worst.error));
        table.row([
            verdict.of.clone(),
            verdict.points.to_string(),
            verdict.unsteady.to_string(),
            percent(verdict.median_error),
            percent(verdict.p90_error),
            signed(verdict.bias),
            signed(worst),
            at,
        ]);
    }
    table
}

/// The run's name, and the device where it is no processor.
fn title(run: &Run) -> String {
    let device = run.machine.device.as_ref();
    let field = |name: &str| device.and_then(|device| device.get(name));
    let on =
        field("name").and_then(|name| name.as_str()).map_or_else(String::new, |name| format!(" on {name}"));
    if field("emulated").and_then(serde_json::Value::as_bool) == Some(true) {
        return format!("run {}{on}\nemulated: kernels were checked, nothing was measured\n", run.run);
    }
    format!("run {}{on}\n", run.run)
}

/// What differs between two runs, and what of it exceeds the noise.
pub(super) fn comparison(comparison: &Comparison, form: Form) -> Result<(), Failure> {
    if form == Form::Json {
        return output::json(comparison);
    }
    let judged = |exceeds: Option<bool>| match exceeds {
        Some(true) => "yes".to_owned(),
        Some(false) => "no".to_owned(),
        None => "not judged: unsteady".to_owned(),
    };
    let header = ["form", "model", "context", "batch", "first", "second", "change", "beyond the noise"];
    let mut table = Figures::new(2, &header);
    for difference in &comparison.differences {
        table.row([
            difference.form.clone(),
            difference.model.clone(),
            difference.context.short(),
            difference.batch.to_string(),
            seconds(difference.a_seconds),
            seconds(difference.b_seconds),
            format!("{:+.1} %", difference.change * 100.0),
            judged(difference.exceeds_noise),
        ]);
    }
    let header = ["tier", "direction", "blocks", "of", "first", "second", "change", "beyond the noise"];
    let mut transfers = Figures::new(4, &header);
    for difference in &comparison.transfers {
        transfers.row([
            difference.tier.word().to_owned(),
            difference.direction.word().to_owned(),
            difference.pattern.word().to_owned(),
            difference.what.clone(),
            seconds(difference.a_seconds),
            seconds(difference.b_seconds),
            format!("{:+.1} %", difference.change * 100.0),
            judged(difference.exceeds_noise),
        ]);
    }
    let all = comparison.differences.iter().map(|one| (one.exceeds_noise, &one.sentence));
    let all = all.chain(comparison.transfers.iter().map(|one| (one.exceeds_noise, &one.sentence)));
    let found: Vec<&str> =
        all.clone().filter(|(exceeds, _)| *exceeds == Some(true)).map(|(_, said)| said.as_str()).collect();
    let finding = match (all.count(), found.is_empty()) {
        (0, _) => "The runs have no case and no transfer in common.".to_owned(),
        (_, true) => "No difference exceeds the noise.".to_owned(),
        (_, false) => found.join("\n"),
    };
    let of_cases = (!comparison.differences.is_empty())
        .then(|| format!("times of steps are of one layer\n\n{}\n", table.render()));
    let of_transfers = (!comparison.transfers.is_empty()).then(|| format!("{}\n", transfers.render()));
    let tables: String = of_cases.into_iter().chain(of_transfers).collect();
    output::figures(&format!("{tables}{finding}\n"))?;
    for circumstance in &comparison.circumstances {
        output::warning(&format!("the runs differ in their {circumstance}"));
    }
    if comparison.unmatched > 0 {
        output::warning(&format!(
            "{} measured cases and transfers are in one of the two runs only",
            comparison.unmatched
        ));
    }
    Ok(())
}

/// The ceilings of this machine.
pub(super) fn calibration(calibration: &Calibration, form: Form) -> Result<(), Failure> {
    if form == Form::Json {
        return output::json(calibration);
    }
    let ceilings = &calibration.ceilings;
    let spread = &calibration.relative_spread;
    let rate = |value: f64| format!("{:.1} GB/s", value / 1e9);
    let percent = |value: f64| format!("{:.1} %", value * 100.0);
    let dash = || "–".to_owned();
    let mut table = Figures::new(1, &["ceiling", "all cores", "spread", "one core"]);
    let one = ceilings.one_core.as_ref();
    table.row([
        "read".to_owned(),
        rate(ceilings.read_bytes_per_second),
        percent(spread.read),
        one.map_or_else(dash, |one| rate(one.read_bytes_per_second)),
    ]);
    table.row([
        "write".to_owned(),
        ceilings.write_bytes_per_second.map_or_else(dash, rate),
        dash(),
        one.map_or_else(dash, |one| rate(one.write_bytes_per_second)),
    ]);
    table.row([
        "copy, both directions".to_owned(),
        ceilings.copy_bytes_per_second.map_or_else(dash, rate),
        dash(),
        one.map_or_else(dash, |one| rate(one.copy_bytes_per_second)),
    ]);
    table.row([
        "change in place, both directions".to_owned(),
        ceilings.update_bytes_per_second.map_or_else(dash, rate),
        spread.update.map_or_else(dash, percent),
        dash(),
    ]);
    table.row([
        "f32 in registers".to_owned(),
        format!("{:.0} GFLOP/s", ceilings.flops_per_second / 1e9),
        percent(spread.flops),
        dash(),
    ]);
    table.row([
        "exponentials".to_owned(),
        ceilings.exponentials_per_second.map_or_else(dash, |rate| format!("{:.1} G/s", rate / 1e9)),
        dash(),
        dash(),
    ]);
    table.row([
        "start of workers".to_owned(),
        seconds(ceilings.launch_seconds),
        percent(spread.launch),
        dash(),
    ]);

    let mut rates = Figures::new(1, &["operand", "uses of a value", "rate"]);
    for rate in &ceilings.rates {
        rates.row([
            rate.operand.name().to_owned(),
            rate.rows.to_string(),
            format!("{:.1} GFLOP/s", rate.flops_per_second / 1e9),
        ]);
    }
    let mut sets = Figures::new(1, &["working set", "read again and again"]);
    for point in &ceilings.read_by_working_set {
        sets.row([point.working_set_bytes.display(UnitSystem::Binary), rate(point.bytes_per_second)]);
    }
    let cache = calibration
        .last_level_cache_bytes
        .map_or_else(|| "unknown".to_owned(), |bytes| bytes.display(UnitSystem::Binary));
    output::figures(&format!(
        "calibrated {} with {} workers; last-level cache: {cache}\n\n{}\n{}\n{}",
        calibration.date,
        calibration.workers,
        table.render(),
        rates.render(),
        sets.render()
    ))?;
    for why in &calibration.unsteady {
        output::warning(&format!("the machine is not steady: {}", why.sentence));
    }
    Ok(())
}

/// What all cases share once, the rest with its case.
fn warning_lines(cases: &[Case]) -> Vec<String> {
    let of_all =
        |warning: &String| cases.len() > 1 && cases.iter().all(|case| case.warnings.contains(warning));
    let mut lines = Vec::new();
    for case in cases {
        for warning in &case.warnings {
            let line = if of_all(warning) {
                format!("all cases: {warning}")
            } else {
                format!("{} at {}: {warning}", case.form, case.context.short())
            };
            if !lines.contains(&line) {
                lines.push(line);
            }
        }
    }
    lines
}

/// Three significant figures, as on the charts: `35.0 µs`, `1.24 ms`, `1.23 s`.
pub(super) fn seconds(seconds: f64) -> String {
    let (scaled, unit) = match seconds {
        // What would be written as 1000 belongs to the next unit.
        _ if seconds < 999.5e-6 => (seconds * 1e6, "µs"),
        _ if seconds < 999.5e-3 => (seconds * 1e3, "ms"),
        _ => (seconds, "s"),
    };
    let decimals = if scaled >= 99.95 { 0 } else { usize::from(scaled < 9.995) + 1 };
    format!("{scaled:.decimals$} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_three_figures_and_seconds_from_one_second_on() {
        for (value, text) in [
            (35.04e-6, "35.0 µs"),
            (999.6e-6, "1.00 ms"),
            (1.236e-3, "1.24 ms"),
            (0.1234, "123 ms"),
            (0.9996, "1.00 s"),
            (1.234, "1.23 s"),
        ] {
            assert_eq!(seconds(value), text);
        }
    }
}
