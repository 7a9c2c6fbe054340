use super::super::CompressionAnswer;
use super::super::compression::{AS_IT_IS, CompressionPlan};
use super::super::words::{bit_rate_words, rate_words, three_digits, time_words, whole};
use super::{Cell, Sheet, SheetTable, figure, moved, text};
use crate::UnitSystem;

impl CompressionAnswer {
    /// The answer as people read it.
    pub fn sheet(&self, units: UnitSystem) -> Sheet {
        let mut all = Vec::new();
        moved(&mut all, "the time", &self.plan.sensitivities, time_words);
        let sources = self.strategies.iter().filter(|one| one.source != "given");
        Sheet {
            sentence: self.sentence(),
            asked: format!(
                "{}: {}, {} to send at {}",
                self.model,
                self.plan.context_tokens.counted(),
                self.plan.transfer_bytes.display(units),
                rate_words(self.bandwidth_bytes_per_second)
            ),
            tables: vec![self.plan.options(units), self.plan.segments(), self.plan.components(units)],
            moved: all,
            worked: vec![
                ("nothing compressed".to_owned(), "T₀ = time beside moving + start + bytes ÷ bandwidth".to_owned()),
                (
                    "compressed".to_owned(),
                    "T = time beside moving + start + touched ÷ codec speed + (touched ÷ ratio + rest) ÷ bandwidth".to_owned(),
                ),
                ("pays below".to_owned(), "B* = (1 − 1 ÷ ratio) × codec speed".to_owned()),
            ],
            notes: sources.map(|one| format!("{}: {}", one.name, one.source)).collect(),
        }
    }

    fn sentence(&self) -> String {
        let link = bit_rate_words(self.bandwidth_bytes_per_second);
        let options = &self.plan.options;
        let seconds = |name: &str| options.iter().find(|one| one.name == name).map(|one| one.seconds);
        let plain = seconds(AS_IT_IS).map_or_else(String::new, time_words);
        let flip = self.plan.by_bandwidth.iter().find(|one| one.fastest == AS_IT_IS);
        let flip = flip.filter(|one| one.from_bytes_per_second > 0.0).map_or_else(String::new, |one| {
            format!(" From {} on none pays.", bit_rate_words(one.from_bytes_per_second))
        });
        match self.plan.winner.as_deref() {
            None => format!("Over {link} no way of sending {} is allowed.{flip}", self.model),
            Some(AS_IT_IS) => format!(
                "Over {link} nothing is gained by compressing {}: {plain} as it is.{flip}",
                self.model
            ),
            Some(name) => {
                let fastest = seconds(name).map_or_else(String::new, time_words);
                format!(
                    "Over {link} {name} is fastest for {}: {fastest} in place of {plain}.{flip}",
                    self.model
                )
            }
        }
    }
}

impl CompressionPlan {
    fn components(&self, units: UnitSystem) -> SheetTable {
        let columns = vec![
            text("component", "kind"),
            text("format", "format"),
            figure("bytes", "bytes"),
            text("may be touched by", ""),
            text("must not, because", ""),
        ];
        let mut table = SheetTable::new("What may be touched", columns);
        for component in &self.components {
            let applies = component.methods.iter().filter(|one| one.applies).map(|one| one.method.name());
            let why = component.methods.iter().find_map(|one| one.why).unwrap_or("–");
            table.rows.push(vec![
                Cell::words(component.kind.name()),
                Cell::words(component.format),
                Cell::bytes(component.bytes, units),
                Cell::words(applies.collect::<Vec<_>>().join(", ")),
                Cell::words(why),
            ]);
        }
        table
    }

    fn options(&self, units: UnitSystem) -> SheetTable {
        let columns = vec![
            text("option", "name"),
            figure("touched", "touched_bytes"),
            figure("sent", "sent_bytes"),
            figure("ratio", "whole_ratio"),
            figure("encode, decode", "codec_seconds"),
            figure("time", "seconds"),
            figure("pays below", "pays_below_bytes_per_second"),
            text("standing", ""),
        ];
        let mut table = SheetTable::new("Ways of sending", columns);
        for option in &self.options {
            let standing = match &option.refused {
                Some(why) => why.clone(),
                None if self.winner.as_deref() == Some(option.name.as_str()) => "fastest".to_owned(),
                None => String::new(),
            };
            let sent = whole(option.sent_bytes).display(units);
            table.rows.push(vec![
                Cell::words(option.name.clone()),
                Cell::bytes(option.touched_bytes, units),
                Cell { shown: sent, exact: Some(option.sent_bytes.to_string()) },
                Cell::number(option.whole_ratio, |ratio| format!("{}×", three_digits(ratio))),
                Cell::number(option.codec_seconds, time_words),
                Cell::number(option.seconds, time_words),
                Cell::some(option.pays_below_bytes_per_second, rate_words),
                Cell::words(standing),
            ]);
        }
        table
    }

    fn segments(&self) -> SheetTable {
        let columns = vec![
            text("fastest", "fastest"),
            figure("from", "from_bytes_per_second"),
            figure("to", "to_bytes_per_second"),
        ];
        let mut table = SheetTable::new("The fastest by bandwidth", columns);
        for one in &self.by_bandwidth {
            let any = || Cell::words("any rate");
            table.rows.push(vec![
                Cell::words(one.fastest.clone()),
                Cell::number(one.from_bytes_per_second, rate_words),
                one.to_bytes_per_second.map_or_else(any, |rate| Cell::number(rate, rate_words)),
            ]);
        }
        table
    }
}
