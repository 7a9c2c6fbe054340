use super::super::prefix::{PrefixPlan, ReuseUnder};
use super::super::words::{percent_words, whole};
use super::{Cell, Sheet, SheetTable, figure, moved, text};
use crate::{UnitSystem, group_digits};

impl PrefixPlan {
    /// The answer as people read it.
    pub fn sheet(&self, units: UnitSystem) -> Sheet {
        let mut all = Vec::new();
        for row in &self.rules {
            let of = format!("the tokens that are computed, {}", row.rule.replace('_', " "));
            moved(&mut all, of, &row.sensitivities, |tokens| format!("{tokens:.0}"));
        }
        Sheet {
            sentence: self.sentence(),
            asked: format!(
                "{}: {}, then {} that share the first {}; periodic windows every {}",
                self.model,
                self.prefix.first_tokens.counted(),
                self.prefix.second_tokens,
                self.prefix.shared_tokens,
                group_digits(self.interval_tokens.get()),
            ),
            tables: vec![self.rules_table(units)],
            moved: all,
            worked: self.worked(),
            ..Sheet::default()
        }
    }

    fn sentence(&self) -> String {
        let hit =
            |rule: &str, name: &str| self.rule(rule).map(|row| format!("{name} finds {}", row.hit_tokens));
        let engines = [hit("vllm_blocks", "vLLM"), hit("sglang_checkpoints", "SGLang")];
        let found: Vec<String> = engines.into_iter().flatten().collect();
        let computed = self.rules.iter().map(|row| row.computed_tokens.get()).min().unwrap_or_default();
        format!(
            "Of {} shared tokens of {} {}; at least {} of {} are computed again.",
            self.prefix.shared_tokens,
            self.model,
            found.join(" and "),
            group_digits(computed),
            self.prefix.second_tokens,
        )
    }

    fn rules_table(&self, units: UnitSystem) -> SheetTable {
        let columns = vec![
            text("rule", ""),
            figure("hit", "hit_tokens"),
            figure("lost", "lost_tokens"),
            figure("replayed", "replayed_tokens"),
            figure("computed", "computed_tokens"),
            figure("saved", ""),
            figure("kept a token", ""),
            figure("taken over", "reused_bytes"),
            figure("written / read", ""),
            text("where a hit ends", "why"),
        ];
        let mut table = SheetTable::new("Rule by rule, in tokens of the second prompt", columns);
        for row in &self.rules {
            let amplification = row.write_amplification.map(crate::Ratio::as_f64);
            table.rows.push(vec![
                Cell::words(row.rule.replace('_', " ")),
                Cell::tokens(row.hit_tokens),
                Cell::tokens(row.lost_tokens),
                Cell::tokens(row.replayed_tokens),
                Cell::tokens(row.computed_tokens),
                Cell::words(percent_words(row.saved_share.as_f64())),
                Cell::words(whole(row.kept_bytes_per_token.as_f64()).to_string()),
                Cell::bytes(row.reused_bytes, units),
                amplification.map_or_else(Cell::none, |ratio| Cell::words(format!("{ratio:.2}×"))),
                Cell::words(row.why.clone()),
            ]);
        }
        table
    }

    fn worked(&self) -> Vec<(String, String)> {
        let line = |row: &ReuseUnder| {
            let computed = format!(
                "computed = second prompt − hit + replayed = {} − {} + {} = {}",
                self.prefix.second_tokens, row.hit_tokens, row.replayed_tokens, row.computed_tokens
            );
            (row.rule.replace('_', " "), computed)
        };
        self.rules.iter().map(line).collect()
    }
}
