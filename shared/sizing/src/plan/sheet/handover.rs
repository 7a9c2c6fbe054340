use super::super::words::{bit_rate_words, percent_words, time_words};
use super::super::{HandoverAt, HandoverPlan, LinkTime};
use super::{Cell, Sheet, SheetTable, figure, gpu_name, moved, text};
use crate::UnitSystem;

impl HandoverPlan {
    /// The answer as people read it.
    pub fn sheet(&self, units: UnitSystem) -> Sheet {
        let mut tables = vec![self.totals(units)];
        for at in &self.at {
            let place =
                if self.at.len() == 1 { String::new() } else { format!(" at {}", at.context.counted()) };
            tables.push(parts(at, &place, units));
            if !at.links.is_empty() {
                tables.push(times(at, &place));
            }
        }
        let mut all = Vec::new();
        moved(&mut all, "the egress at the first length", &self.sensitivities.egress, bit_rate_words);
        if let Some(first) = self.at.first().and_then(|at| at.links.first()) {
            let of = format!("the time after the prefill on {}, layer by layer", first.link.link);
            moved(&mut all, of, &self.sensitivities.layerwise_seconds, time_words);
        }
        let links = self.at.first().map_or(&[][..], |at| &at.links).iter().map(|link| &link.link);
        let fitted = links.filter(|link| link.grade == "fitted");
        Sheet {
            sentence: self.sentence(units),
            asked: self.asked(),
            tables,
            moved: all,
            worked: self.at.first().map_or_else(Vec::new, |at| self.worked(at, units)),
            notes: fitted.map(|link| format!("{}: {}", link.link, link.source)).collect(),
        }
    }

    fn sentence(&self, units: UnitSystem) -> String {
        let Some(at) = self.at.first() else { return String::new() };
        let needs = match &at.needs_link {
            Some(link) => format!("{link} carries it"),
            None => "no known link carries it".to_owned(),
        };
        format!(
            "{} hands over {} after {}; an instance that prefills one prompt after the other sends {}: {needs}.",
            self.model,
            at.payload_bytes.display(units),
            at.context.counted(),
            bit_rate_words(at.egress_bytes_per_second),
        )
    }

    fn asked(&self) -> String {
        let from = self.efficiency_percent.map_or_else(
            || "prefill times as given".to_owned(),
            |percent| format!("prefill times estimated at {percent} % of the datasheet's rate"),
        );
        format!("{} from {} × {}, {from}", self.model, self.count, gpu_name(&self.gpu))
    }

    fn totals(&self, units: UnitSystem) -> SheetTable {
        let columns = vec![
            figure("context", "context"),
            figure("payload", ""),
            figure("bytes", "payload_bytes"),
            figure("held by ranks", "held_by_ranks_bytes"),
            figure("prefill", "prefill_seconds"),
            figure("egress of an instance", "egress_bytes_per_second"),
            figure("of the fleet", "fleet_bytes_per_second"),
            text("needs at least", "needs_link"),
        ];
        let mut table = SheetTable::new("What is sent", columns);
        for at in &self.at {
            table.rows.push(vec![
                Cell::tokens(at.context),
                Cell::words(at.payload_bytes.display(units)),
                Cell::all_bytes(at.payload_bytes),
                Cell::bytes(at.held_by_ranks_bytes, units),
                Cell::number(at.prefill_seconds, time_words),
                Cell::number(at.egress_bytes_per_second, bit_rate_words),
                Cell::some(at.fleet_bytes_per_second, bit_rate_words),
                Cell::words(at.needs_link.clone().unwrap_or_else(|| "no known link".to_owned())),
            ]);
        }
        table
    }

    fn worked(&self, at: &HandoverAt, units: UnitSystem) -> Vec<(String, String)> {
        let payload = at.payload_bytes.display(units);
        let mut lines = vec![(
            "egress Φ".to_owned(),
            format!(
                "payload ÷ prefill = {payload} ÷ {} = {}",
                time_words(at.prefill_seconds),
                bit_rate_words(at.egress_bytes_per_second)
            ),
        )];
        if let (Some(fleet), true) = (at.fleet_bytes_per_second, self.count > 0) {
            lines.push((
                "of the fleet".to_owned(),
                format!("Φ × GPUs ÷ {} = {}", self.count, bit_rate_words(fleet)),
            ));
        }
        if let Some(LinkTime { link, seconds, .. }) = at.links.first() {
            lines.push((
                format!("time on {}", link.link),
                format!(
                    "start + blocks × α + payload ÷ β = {} + {} × {} + {payload} ÷ {} = {}",
                    time_words(link.start_seconds),
                    at.blocks,
                    time_words(link.alpha_seconds),
                    super::super::words::rate_words(link.bytes_per_second),
                    time_words(*seconds)
                ),
            ));
        }
        lines
    }
}

fn parts(at: &HandoverAt, place: &str, units: UnitSystem) -> SheetTable {
    let columns = vec![
        text("component", "kind"),
        text("format", "format"),
        figure("layers", "layers"),
        figure("rounded", ""),
        figure("bytes", "bytes"),
        figure("held by ranks", "held_by_ranks_bytes"),
    ];
    let mut table = SheetTable::new(format!("By component{place}"), columns);
    for part in &at.components {
        table.rows.push(vec![
            Cell::words(part.kind.name()),
            Cell::words(part.format),
            Cell::count(part.layers),
            Cell::words(part.bytes.display(units)),
            Cell::all_bytes(part.bytes),
            Cell::bytes(part.held_by_ranks_bytes, units),
        ]);
    }
    table
}

fn times(at: &HandoverAt, place: &str) -> SheetTable {
    let columns = vec![
        text("link", "link"),
        text("rate from", "grade"),
        figure("rate", "bytes_per_second"),
        figure("after the prefill", "seconds"),
        figure("of the prefill", "share_of_prefill"),
        figure("layer by layer", "layerwise_seconds"),
    ];
    let mut table = SheetTable::new(format!("By link{place}"), columns);
    for link in &at.links {
        table.rows.push(vec![
            Cell::words(link.link.link.clone()),
            Cell::words(link.link.grade),
            Cell::number(link.link.bytes_per_second, bit_rate_words),
            Cell::number(link.seconds, time_words),
            Cell::number(link.share_of_prefill, percent_words),
            Cell::number(link.layerwise_seconds, time_words),
        ]);
    }
    table
}
