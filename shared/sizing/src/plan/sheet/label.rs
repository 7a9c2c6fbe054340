use super::super::words::{time_words, whole};
use super::super::{Label, LabelPlan};
use super::{Cell, Sheet, SheetTable, figure, moved, text};
use crate::UnitSystem;

impl LabelPlan {
    /// The labels of several versions as people read them.
    pub fn sheet(plans: &[Self], units: UnitSystem) -> Sheet {
        let mut all = Vec::new();
        for plan in plans {
            let of = |what: &str| {
                if plans.len() == 1 { what.to_owned() } else { format!("{what}, {}", plan.model) }
            };
            let moves = &plan.sensitivities;
            moved(&mut all, of("what it holds"), &moves.resident_bytes, |bytes| whole(bytes).display(units));
            moved(&mut all, of("its prefill"), &moves.prefill_seconds, time_words);
        }
        Sheet {
            sentence: sentence(plans, units),
            asked: "What a scheduler should go by instead of the prompt's length; times at datasheet rates"
                .to_owned(),
            tables: vec![table(plans, units)],
            moved: all,
            worked: vec![
                (
                    "resident".to_owned(),
                    "fixed part + slope × tokens, layer by layer as the strips show".to_owned(),
                ),
                (
                    "read time".to_owned(),
                    "bytes that a step reads on the fullest rank ÷ memory bandwidth".to_owned(),
                ),
                ("restore".to_owned(), "bytes of the fullest rank ÷ its link to the host".to_owned()),
            ],
            notes: missing(plans),
        }
    }
}

/// Why times are not there, each reason once.
fn missing(plans: &[LabelPlan]) -> Vec<String> {
    let mut told: Vec<String> = Vec::new();
    for plan in plans {
        let labels = plan.labels.iter().filter_map(|label| label.hardware.as_ref());
        for warning in labels.flat_map(|label| &label.missing) {
            let line = format!("{}: {warning}", plan.model);
            if !told.contains(&line) {
                told.push(line);
            }
        }
    }
    told
}

fn sentence(plans: &[LabelPlan], units: UnitSystem) -> String {
    let firsts = || plans.iter().filter_map(|plan| Some((plan.model.as_str(), plan.labels.first()?)));
    let bytes = |label: &Label| label.resident_bytes.get();
    let most = firsts().max_by_key(|(_, label)| bytes(label));
    let least = firsts().min_by_key(|(_, label)| bytes(label));
    let (Some((most, high)), Some((least, low))) = (most, least) else { return String::new() };
    let shown = |label: &Label| label.resident_bytes.display(units);
    if bytes(high) == bytes(low) {
        return format!("A request of {} holds {} in {most}.", high.context.counted(), shown(high));
    }
    format!(
        "Requests of {} hold from {} ({least}) to {} ({most}): a prompt's length says little.",
        high.context.counted(),
        shown(low),
        shown(high)
    )
}

fn table(plans: &[LabelPlan], units: UnitSystem) -> SheetTable {
    let columns = vec![
        text("model", ""),
        text("lives", "lifecycle_class"),
        figure("context", "context"),
        figure("resident", "resident_bytes"),
        figure("slope", ""),
        figure("fixed", "fixed_bytes"),
        figure("read a step", "read_bytes_per_step"),
        figure("hand-over", "handover_bytes"),
        figure("read time", "read_seconds_per_step"),
        figure("prefill", "prefill_seconds"),
        figure("restore", "restore_seconds"),
    ];
    let mut table = SheetTable::new("Labels of one request", columns);
    for plan in plans {
        for label in &plan.labels {
            let hardware = label.hardware.as_ref();
            table.rows.push(vec![
                Cell::words(plan.model.clone()),
                Cell::words(label.lifecycle_class.clone()),
                Cell::tokens(label.context),
                Cell::bytes(label.resident_bytes, units),
                Cell {
                    shown: label.slope_bytes_per_token.to_string(),
                    exact: Some(label.slope_bytes_per_token.exact()),
                },
                Cell::bytes(label.fixed_bytes, units),
                Cell::bytes(label.read_bytes_per_step, units),
                Cell::bytes(label.handover_bytes, units),
                Cell::some(hardware.map(|on| on.read_seconds_per_step), time_words),
                Cell::some(hardware.and_then(|on| on.prefill_seconds), time_words),
                Cell::some(hardware.and_then(|on| on.restore_seconds), time_words),
            ]);
        }
    }
    table
}
