use super::super::CostPlan;
use super::super::words::{operation_words, percent_words, three_digits, whole};
use super::{Cell, Sheet, SheetTable, figure, moved, text};
use crate::cost::{CostRow, FlopWeights, ModelCost};
use crate::{Bytes, Ratio, UnitSystem, counted};

impl CostPlan {
    /// The answer as people read it.
    pub fn sheet(&self, units: UnitSystem) -> Sheet {
        let moves = &self.sensitivities;
        let mut all = Vec::new();
        let bytes = |bytes: f64| whole(bytes).display(units);
        moved(&mut all, "a decode step's operations", &moves.decode_operations, operation_words);
        moved(&mut all, "the bytes that it reads", &moves.decode_read_bytes, bytes);
        moved(&mut all, "a prefill's operations", &moves.prefill_operations, operation_words);
        let billions = |count: u64| format!("{:.1} billion", count as f64 / 1e9);
        Sheet {
            sentence: self.sentence(units),
            asked: format!(
                "{} at {}, batch {}; {} parameters, of which a token is multiplied by {}",
                self.model,
                self.context.counted(),
                self.batch,
                billions(self.parameters.total),
                billions(self.parameters.active)
            ),
            tables: vec![
                self.phase("decode step", &self.decode, units),
                self.phase("prefill", &self.prefill, units),
            ],
            moved: all,
            worked: vec![
                (
                    "a multiply-add".to_owned(),
                    "two operations: each active weight once a token, each head once for every entry that it scores or sums".to_owned(),
                ),
                (
                    "read a step".to_owned(),
                    "every weight that the batch's tokens need once, and the state of each request".to_owned(),
                ),
            ],
            notes: Vec::new(),
        }
    }

    fn sentence(&self, units: UnitSystem) -> String {
        let decode = &self.decode;
        let weights = decode.weight_read_bytes;
        let state = decode.state_read_bytes.unwrap_or(Bytes::ZERO);
        let all = weights.plus(state).unwrap_or(weights);
        format!(
            "A decode step of {} at {} ({}) computes {} and reads {}, of which {} are state.",
            self.model,
            self.context.counted(),
            counted(self.batch, "request", "requests"),
            operation_words(decode.flops as f64),
            all.display(units),
            state.display(units)
        )
    }

    fn totals(&self, phase: &ModelCost, units: UnitSystem) -> String {
        let mut parts = vec![format!("{} of operations", operation_words(phase.flops as f64))];
        if self.flop_weights != FlopWeights::plain() {
            parts.push(format!("{} by weight", operation_words(phase.weighted_flops.as_f64())));
        }
        if let Some(bytes) = phase.state_read_bytes {
            parts.push(format!("{} of state read", bytes.display(units)));
        }
        parts.push(format!("{} of weights read", phase.weight_read_bytes.display(units)));
        parts.join(", ")
    }

    fn phase(&self, name: &str, phase: &ModelCost, units: UnitSystem) -> SheetTable {
        let columns = vec![
            text("part", ""),
            text("mixer", ""),
            text("type", ""),
            figure("layers", "layers"),
            figure("operations", "flops"),
            figure("share", ""),
            figure("state read", "state_read_bytes"),
            figure("FLOP/B", ""),
            figure("weights read", "weight_read_bytes"),
        ];
        let mut table = SheetTable::new(format!("{name}: {}", self.totals(phase, units)), columns);
        table.rows.extend(phase.rows.iter().map(|row| self.row(row, phase, units)));
        table
    }

    fn row(&self, row: &CostRow, phase: &ModelCost, units: UnitSystem) -> Vec<Cell> {
        let weighted = Ratio::whole(row.flops).times(self.flop_weights.of(row.operand));
        let share = weighted.ok().map(|weighted| weighted.as_f64() / phase.weighted_flops.as_f64());
        let share = share.filter(|share| share.is_finite());
        let read = row.state_read_bytes.get();
        let bytes = |bytes: Bytes| match bytes {
            Bytes::ZERO => Cell { exact: Some("0".to_owned()), ..Cell::none() },
            some => Cell::bytes(some, units),
        };
        vec![
            Cell::words(row.part.name().replace('_', " ")),
            if row.mixer.is_empty() { Cell::none() } else { Cell::words(row.mixer.clone()) },
            Cell::words(row.operand.name()),
            Cell::count(row.layers),
            Cell { shown: operation_words(row.flops as f64), exact: Some(row.flops.to_string()) },
            share.map_or_else(Cell::none, |share| Cell::words(percent_words(share))),
            bytes(row.state_read_bytes),
            if read == 0 { Cell::none() } else { Cell::words(three_digits(row.flops as f64 / read as f64)) },
            bytes(row.weight_read_bytes),
        ]
    }
}
