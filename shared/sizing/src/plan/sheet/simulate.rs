use super::super::SimulationAnswer;
use super::super::simulation::{Counts, Moment, Simulation};
use super::super::words::{percent_words, whole};
use super::{Cell, Line, LineAxis, LineQuantity, Lines, Sheet, SheetTable, figure, moved, text};
use crate::{Bytes, UnitSystem, group_digits};

impl SimulationAnswer {
    /// What was found, held and lost on the way; none of a trace without blocks.
    pub fn lines(&self) -> Option<Lines> {
        let found = &self.simulation;
        let all: Vec<&Moment> = found.moments.iter().filter(|moment| moment.asked_blocks > 0).collect();
        let places: Vec<u64> = all.iter().map(|moment| moment.requests).collect();
        let panel = |title: &str, quantity: LineQuantity, lines: Vec<Line>| Lines {
            title: title.to_owned(),
            quantity,
            across: LineAxis::Served,
            at: places.last().copied().unwrap_or_default(),
            places: places.clone(),
            lines,
            below: Vec::new(),
        };
        let line = |name: String, value: &dyn Fn(&Moment) -> f64| Line {
            name,
            values: all.iter().map(|moment| value(moment)).collect(),
        };
        let mut taken =
            vec![line("taken over".to_owned(), &|moment| percent(moment.hit_blocks, moment.asked_blocks))];
        if let Some(optimum) = &found.optimum {
            let name = if optimum.is_bound { "Belady's optimum" } else { "Belady's rule" };
            let hits = |moment: &Moment| moment.optimum_hit_blocks.unwrap_or_default();
            taken.push(line(name.to_owned(), &|moment| percent(hits(moment), moment.asked_blocks)));
        }
        for unit in ["block", "checkpoint"] {
            let kinds = found.kinds.iter().filter(|kind| kind.unit == unit);
            let names: Vec<&str> = kinds.map(|kind| kind.kind.label()).collect();
            if !names.is_empty() {
                let of_unit = |moment: &Moment| match unit {
                    "block" => percent(moment.resident_blocks, moment.asked_blocks),
                    _ => percent(moment.hit_requests, moment.asked_checkpoints),
                };
                taken.push(line(format!("{} there", names.join(", ")), &of_unit));
            }
        }
        let (mut held, mut lost) = (Vec::new(), Vec::new());
        for (place, tier) in found.tiers.iter().enumerate() {
            let name = &tier.tier.name;
            held.push(line(name.clone(), &|moment| moment.tiers[place].used_bytes as f64));
            let evicted = |moment: &Moment| moment.tiers[place].evicted_blocks as f64;
            lost.push(line(format!("{name}: blocks"), &evicted));
            if found.sizes.needs_checkpoint() {
                let evicted = |moment: &Moment| moment.tiers[place].evicted_checkpoints as f64;
                lost.push(line(format!("{name}: checkpoints"), &evicted));
            }
        }
        if places.len() < 2 {
            return None;
        }
        let title = "Percent found of what was asked so far, least recently used out first";
        let below = vec![
            panel("Bytes held", LineQuantity::HeldBytes, held),
            panel("Evicted so far", LineQuantity::Objects, lost),
        ];
        Some(Lines { below, ..panel(title, LineQuantity::Percent, taken) })
    }

    /// The answer as people read it.
    pub fn sheet(&self, units: UnitSystem) -> Sheet {
        let found = &self.simulation;
        let mut all = Vec::new();
        moved(&mut all, "the share of blocks taken over", &found.sensitivities, percent_words);
        Sheet {
            sentence: self.sentence(),
            asked: self.asked(units),
            tables: vec![policies(found), kinds(found, units), tiers(found, units)],
            moved: all,
            worked: vec![
                (
                    "taken over".to_owned(),
                    "blocks from the first one on that are there, up to where a checkpoint is, of all blocks asked".to_owned(),
                ),
                (
                    "a block".to_owned(),
                    format!(
                        "what {} add in all that keeps every token = {}",
                        found.sizes.block_tokens.counted(),
                        found.sizes.block_bytes.display(units)
                    ),
                ),
                (
                    "a checkpoint".to_owned(),
                    format!(
                        "full windows and recurrent states, kept where a request ends = {}",
                        found.sizes.checkpoint_bytes.display(units)
                    ),
                ),
            ],
            notes: notes(found, units),
        }
    }

    fn sentence(&self) -> String {
        let found = &self.simulation;
        let share = |counts: &Counts| counts.hit_rate.map_or_else(|| "nothing".to_owned(), percent_words);
        let (take, their) = if found.requests == 1 { ("takes", "its") } else { ("take", "their") };
        let best = found.optimum.as_ref().map_or_else(String::new, |optimum| {
            let bound = if optimum.is_bound { "at best" } else { "by Belady's rule" };
            format!(", {} {bound}", share(&optimum.counts))
        });
        format!(
            "{} of {} {take} over {} of {their} blocks{best}.",
            crate::counted(found.requests, "request", "requests"),
            self.model,
            share(&found.lru),
        )
    }

    fn asked(&self, units: UnitSystem) -> String {
        let found = &self.simulation;
        format!(
            "{}: {} in {} s, {} of {}, {} different; a block {}, a checkpoint {}{}",
            self.trace,
            crate::counted(found.requests, "request", "requests"),
            group_digits(whole(found.seconds).get()),
            crate::counted(found.lru.asked_blocks, "block", "blocks"),
            found.sizes.block_tokens.counted(),
            group_digits(found.distinct_blocks),
            found.sizes.block_bytes.display(units),
            if found.sizes.grows_into_windows() { "of up to " } else { "" },
            found.sizes.checkpoint_bytes.display(units),
        )
    }
}

fn percent(part: u64, whole: u64) -> f64 {
    if whole > 0 { 100.0 * part as f64 / whole as f64 } else { 0.0 }
}

fn policies(found: &Simulation) -> SheetTable {
    let columns = vec![
        text("policy", ""),
        figure("blocks there", "resident_rate"),
        figure("blocks taken over", "hit_rate"),
        figure("of tokens", "token_hit_rate"),
        figure("requests", "hit_requests"),
    ];
    let mut table = SheetTable::new("What is found", columns);
    let mut row = |name: &str, counts: &Counts| {
        table.rows.push(vec![
            Cell::words(name),
            Cell::some(counts.resident_rate, percent_words),
            Cell::some(counts.hit_rate, percent_words),
            Cell::some(counts.token_hit_rate, percent_words),
            Cell::count(counts.hit_requests),
        ]);
    };
    row("least recently used out first", &found.lru);
    if let Some(optimum) = &found.optimum {
        let name = if optimum.is_bound {
            "Belady's optimum"
        } else {
            "Belady's rule (no bound: what is kept saves unequal parts)"
        };
        row(name, &optimum.counts);
    }
    table
}

fn kinds(found: &Simulation, units: UnitSystem) -> SheetTable {
    let columns = vec![
        text("component", "kind"),
        text("kept by", "unit"),
        figure("asked", "asked"),
        figure("found", "found"),
        figure("rate", "hit_rate"),
        figure("bytes found", "found_bytes"),
    ];
    let mut table = SheetTable::new("By what is kept", columns);
    for row in &found.kinds {
        table.rows.push(vec![
            Cell::words(row.kind.name()),
            Cell::words(row.unit),
            Cell::count(row.asked),
            Cell::count(row.found),
            Cell::some(row.hit_rate, percent_words),
            Cell::bytes(row.found_bytes, units),
        ]);
    }
    table
}

fn tiers(found: &Simulation, units: UnitSystem) -> SheetTable {
    let columns = vec![
        text("tier", "name"),
        figure("holds", "capacity_bytes"),
        figure("at most held", "peak_bytes"),
        figure("on average", "mean_bytes"),
        figure("blocks found", "hit_blocks"),
        figure("checkpoints found", "hit_checkpoints"),
        figure("blocks evicted", "evicted_blocks"),
        figure("checkpoints evicted", "evicted_checkpoints"),
        figure("came in", "received_bytes"),
    ];
    let mut table = SheetTable::new("Tier by tier", columns);
    for row in &found.tiers {
        let mean = row.mean_bytes.map_or_else(Cell::none, |mean| Cell {
            shown: whole(mean).display(units),
            exact: Some(mean.to_string()),
        });
        table.rows.push(vec![
            Cell::words(row.tier.name.clone()),
            row.tier.capacity_bytes.map_or_else(|| Cell::words("any"), |bytes| Cell::bytes(bytes, units)),
            Cell::bytes(row.peak_bytes, units),
            mean,
            Cell::count(row.hit_blocks),
            Cell::count(row.hit_checkpoints),
            Cell::count(row.evicted_blocks),
            Cell::count(row.evicted_checkpoints),
            Cell::bytes(row.received_bytes, units),
        ]);
    }
    table
}

fn notes(found: &Simulation, units: UnitSystem) -> Vec<String> {
    let mut notes = Vec::new();
    if found.prefetched_bytes > Bytes::ZERO {
        notes.push(format!(
            "brought ahead {}, of which {} for nothing",
            found.prefetched_bytes.display(units),
            found.wasted_prefetch_bytes.display(units)
        ));
    }
    if let Some(running) = &found.running {
        notes.push(format!(
            "running: at most {} with {}, on average {}",
            crate::counted(running.peak_requests, "request", "requests"),
            running.peak_bytes.display(units),
            running.mean_bytes.map_or_else(|| super::NONE.to_owned(), |mean| whole(mean).display(units)),
        ));
    }
    notes
}
