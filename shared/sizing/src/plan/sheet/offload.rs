use super::super::OffloadAnswer;
use super::super::offload::{CopyLayout, OffloadPlan, Restore, TierGrade, Way};
use super::super::words::{operation_words, rate_words, three_digits, time_words};
use super::{Cell, Sheet, SheetTable, figure, moved, text};
use crate::UnitSystem;

impl OffloadAnswer {
    /// The answer as people read it.
    pub fn sheet(&self, units: UnitSystem) -> Sheet {
        let plan = &self.plan;
        let mut all = Vec::new();
        moved(&mut all, "κ of the first tier", &plan.sensitivities, three_digits);
        Sheet {
            sentence: plan.sentence(),
            asked: self.asked(),
            tables: vec![plan.rows_table(units)],
            moved: all,
            worked: plan.worked(units),
            notes: plan.sources(units),
        }
    }

    fn asked(&self) -> String {
        let plan = &self.plan;
        let from = self.computing.efficiency_percent.map_or_else(
            || self.computing.compute_from.to_owned(),
            |percent| format!("estimated at {percent} % of the datasheet's rate"),
        );
        format!(
            "{}: {} in blocks of {}; computed again in {} ({} at {} TFLOP/s, {from})",
            plan.model,
            plan.context_tokens.counted(),
            plan.block_tokens,
            time_words(plan.recompute_seconds),
            operation_words(plan.recompute_flops),
            three_digits(plan.flops_per_second / 1e12),
        )
    }
}

impl OffloadPlan {
    fn sentence(&self) -> String {
        let by_block = self.rows.iter().find(|row| row.layout == CopyLayout::ByBlock);
        let computed = time_words(self.recompute_seconds);
        let (model, n) = (&self.model, self.context_tokens.counted());
        let are = if self.context_tokens.get() == 1 { "is" } else { "are" };
        let Some((row, seconds)) = by_block.and_then(|row| Some((row, row.seconds?))) else {
            return format!(
                "{model} keeps no state, so nothing is restored: {n} {are} computed again in {computed}."
            );
        };
        let come = if self.context_tokens.get() == 1 { "comes" } else { "come" };
        let (quicker, times) = if seconds < self.recompute_seconds {
            ("restoring is", self.recompute_seconds / seconds)
        } else {
            ("computing again is", seconds / self.recompute_seconds)
        };
        format!(
            "{n} of {model} {come} back from {} in {} and {are} computed again in {computed}: {quicker} {} times quicker.",
            row.tier,
            time_words(seconds),
            three_digits(times)
        )
    }

    fn rows_table(&self, units: UnitSystem) -> SheetTable {
        let columns = vec![
            text("tier", "tier"),
            text("layout", ""),
            figure("pieces", "copies"),
            figure("bytes", "bytes"),
            figure("time", "seconds"),
            figure("rate", "bytes_per_second"),
            figure("κ", "kappa"),
            figure("breaks even at", "break_even_bytes_per_second"),
            text("quicker from token on", ""),
        ];
        let mut table = SheetTable::new("Restoring, tier by tier", columns);
        for row in &self.rows {
            table.rows.push(vec![
                Cell::words(row.tier.clone()),
                Cell::words(row.layout.name().replace('_', " ")),
                Cell::count(row.copies),
                Cell::bytes(row.bytes, units),
                Cell::some(row.seconds, time_words),
                Cell::some(row.bytes_per_second, rate_words),
                Cell::some(row.kappa, three_digits),
                break_even(row),
                Cell::words(turns(row)),
            ]);
        }
        table
    }

    fn worked(&self, units: UnitSystem) -> Vec<(String, String)> {
        let computed = format!(
            "operations ÷ rate = {} ÷ {} TFLOP/s = {}",
            operation_words(self.recompute_flops),
            three_digits(self.flops_per_second / 1e12),
            time_words(self.recompute_seconds)
        );
        let mut lines = vec![("computed again".to_owned(), computed)];
        let by_block = self.rows.iter().find(|row| row.layout == CopyLayout::ByBlock);
        if let Some((row, seconds)) = by_block.and_then(|row| Some((row, row.seconds?))) {
            let bytes = row.rank_bytes.display(units);
            lines.push((
                format!("restored from {}", row.tier),
                format!("start + {} pieces × α + {bytes} ÷ β = {}", row.copies, time_words(seconds)),
            ));
            lines.push((
                "κ".to_owned(),
                format!(
                    "computed again ÷ restored = {} ÷ {} = {}",
                    time_words(self.recompute_seconds),
                    time_words(seconds),
                    three_digits(self.recompute_seconds / seconds)
                ),
            ));
        }
        lines
    }

    /// Where tiers come from that nobody gave.
    fn sources(&self, units: UnitSystem) -> Vec<String> {
        let mut sources: Vec<String> = Vec::new();
        for row in self.rows.iter().filter(|row| row.grade != TierGrade::Given) {
            let ranks = if row.ranks > 1 {
                let fullest = row.rank_bytes.display(units);
                format!("; {} ranks restore at once, the fullest {fullest}", row.ranks)
            } else {
                String::new()
            };
            let line = format!("{}: {}{ranks}", row.tier, row.source);
            if !sources.contains(&line) {
                sources.push(line);
            }
        }
        sources
    }
}

fn break_even(row: &Restore) -> Cell {
    match (row.seconds, row.break_even_bytes_per_second) {
        (Some(_), None) => Cell::words("no rate"),
        (_, rate) => Cell::some(rate, rate_words),
    }
}

/// `recompute 1, restore 1,024`
fn turns(row: &Restore) -> String {
    let words = row.turns.iter().map(|turn| {
        let way = match turn.quicker {
            Way::Restore => "restore",
            Way::Recompute => "recompute",
        };
        format!("{way} {}", turn.from_tokens)
    });
    words.collect::<Vec<_>>().join(", ")
}
