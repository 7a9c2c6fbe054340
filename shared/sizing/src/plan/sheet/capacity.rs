use std::fmt::Write as _;

use super::super::words::three_digits;
use super::super::{CapacityPlan, WrongFormula};
use super::{Cell, NONE, Sheet, SheetTable, figure, gpu_name, moved, requests_words, text};
use crate::{Bytes, UnitSystem, counted, group_digits};

impl CapacityPlan {
    /// The answer as people read it.
    pub fn sheet(&self, units: UnitSystem) -> Sheet {
        let mut tables = Vec::new();
        if self.memory.does_not_fit.is_none() {
            tables.push(self.requests_table(units));
            if self.mix.is_some() {
                tables.push(self.mix_table(units));
            }
            if !self.wrong_formulas.is_empty() {
                tables.push(self.wrong_table(units));
            }
        }
        tables.push(self.memory_table(units));
        if self.memory.does_not_fit.is_none() {
            tables.push(self.frontier_table());
        }
        let mut all = Vec::new();
        moved(&mut all, "the requests of the first length", &self.sensitivities, |requests| {
            format!("{requests:.0}")
        });
        Sheet {
            sentence: self.sentence(),
            asked: self.asked(),
            tables,
            moved: all,
            worked: self.worked(units),
            notes: self.notes(units),
        }
    }

    fn machine(&self) -> String {
        format!("{} × {}", self.count, gpu_name(&self.gpu))
    }

    fn sentence(&self) -> String {
        let (model, machine) = (&self.model, self.machine());
        if let Some(why) = &self.memory.does_not_fit {
            return format!("{model} on {machine} does not fit: {why}.");
        }
        let Some(at) = self.at.first() else { return format!("{model} fits {machine}.") };
        let holds = if self.count == 1 { "holds" } else { "hold" };
        let requests = requests_words(at.requests);
        let mut words =
            format!("{machine} {holds} {requests} of {} of {model} at once.", at.context.counted());
        if let Some(wrong) = self.most_wrong() {
            let admits = match (wrong.admits, at.requests.unwrap_or_default()) {
                (0, _) => "none".to_owned(),
                (admits, right) if admits < right => format!("only {}", group_digits(admits)),
                (admits, _) => group_digits(admits),
            };
            let _ = write!(words, " Taken for {}, {admits} would be admitted.", wrong.taken_for);
        }
        words
    }

    /// The formula that is furthest off.
    fn most_wrong(&self) -> Option<&WrongFormula> {
        let off = |wrong: &&WrongFormula| wrong.factor.max(1.0 / wrong.factor);
        self.wrong_formulas.iter().max_by(|a, b| off(a).total_cmp(&off(b)))
    }

    fn asked(&self) -> String {
        let several = |count: u64, what: &str| {
            if count > 1 { format!(", {count} {what}") } else { String::new() }
        };
        let groups = several(self.groups, "groups with requests of their own");
        let replicas = several(self.replicas, "copies of the model");
        format!(
            "{} on {}, {}, {} a request{groups}{replicas}",
            self.model,
            self.machine(),
            self.engine,
            counted(self.ranks, "rank holds", "ranks share"),
        )
    }

    /// `2 copies`, `8 groups`, `2 copies × 8 groups`
    fn groups_of_requests(&self) -> String {
        let (copies, groups) = (counted(self.replicas, "copy", "copies"), format!("{} groups", self.groups));
        match (self.replicas, self.groups) {
            (_, 1) => copies,
            (1, _) => groups,
            _ => format!("{copies} × {groups}"),
        }
    }

    fn memory_table(&self, units: UnitSystem) -> SheetTable {
        let columns =
            vec![text("on each GPU", ""), figure("rounded", ""), figure("bytes", ""), text("figures", "")];
        let mut table = SheetTable::new("Memory", columns);
        let memory = &self.memory;
        let mut row = |name: &str, bytes: Option<Bytes>, from: &str| {
            let rounded = bytes.map_or_else(Cell::none, |bytes| Cell::bytes(bytes, units));
            let exact = bytes.map_or_else(Cell::none, Cell::all_bytes);
            table.rows.push(vec![Cell::words(name), rounded, exact, Cell::words(from)]);
        };
        row("memory", Some(memory.memory_bytes), "datasheet or given");
        row("left free", Some(memory.left_free_bytes), "share of the memory");
        let from = match memory.weights_from {
            "given" => "given".to_owned(),
            from => format!("{from} in {}", memory.weights_in),
        };
        row("weights", Some(memory.weight_bytes), &from);
        row("activations", Some(memory.activation_bytes), memory.activations_from);
        row("graphs", Some(memory.graph_bytes), "assumed or given");
        let is_left = memory.state_bytes.is_some();
        row("state", memory.state_bytes, if is_left { "what is left" } else { "nothing is left" });
        table
    }

    fn requests_table(&self, units: UnitSystem) -> SheetTable {
        let longest = match self.largest_context {
            None => "Requests: not even the fixed part of one fits".to_owned(),
            Some(tokens) if self.largest_context_is_limit => {
                format!(
                    "Requests: the longest single one has {}, which is all that is allowed",
                    tokens.counted()
                )
            }
            Some(tokens) => format!("Requests: the longest single one has {}", tokens.counted()),
        };
        let columns = vec![
            figure("context", "context"),
            figure("a request on each GPU", "bytes_per_request_and_gpu"),
            figure("requests", "requests"),
            figure("requests a GPU", "requests_per_gpu"),
            figure("price of a request and hour", "price_per_request_hour"),
        ];
        let mut table = SheetTable::new(longest, columns);
        for at in &self.at {
            table.rows.push(vec![
                Cell::tokens(at.context),
                Cell::bytes(at.bytes_per_request_and_gpu, units),
                count_of(at.requests),
                at.requests_per_gpu.map_or_else(any_number, |requests| Cell::number(requests, three_digits)),
                Cell::some(at.price_per_request_hour, three_digits),
            ]);
        }
        table
    }

    fn mix_table(&self, units: UnitSystem) -> SheetTable {
        let columns = vec![
            text("mix", "lengths"),
            figure("mean tokens", "mean_tokens"),
            figure("mean of a request on a GPU", "mean_bytes_per_gpu"),
            figure("requests on average", "requests"),
            figure("if all were the longest", "requests_at_longest"),
        ];
        let mut table = SheetTable::new("A mix of lengths", columns);
        if let Some(mix) = &self.mix {
            let mean = super::super::words::whole(mix.mean_bytes_per_gpu);
            table.rows.push(vec![
                Cell::words(mix.lengths.clone()),
                Cell::number(mix.mean_tokens, |tokens| format!("{tokens:.0}")),
                Cell { shown: mean.display(units), exact: Some(mix.mean_bytes_per_gpu.to_string()) },
                count_of(mix.requests),
                count_of(mix.requests_at_longest),
            ]);
        }
        table
    }

    fn frontier_table(&self) -> SheetTable {
        let columns = vec![figure("length of all", "context"), figure("most requests", "requests")];
        let mut table = SheetTable::new("Most requests by their length", columns);
        let row =
            |point: &super::super::FrontierPoint| vec![Cell::tokens(point.context), count_of(point.requests)];
        table.rows.extend(self.frontier.iter().map(row));
        table
    }

    fn wrong_table(&self, units: UnitSystem) -> SheetTable {
        let columns = vec![
            text("taken for", "taken_for"),
            figure("a request on each GPU", "bytes_per_request"),
            figure("factor", "factor"),
            figure("admits", "admits"),
            figure("wasted on each", "wasted_bytes"),
            figure("overcommitted on each", "overcommitted_bytes"),
        ];
        let mut table = SheetTable::new("What a wrong formula would admit", columns);
        for formula in &self.wrong_formulas {
            table.rows.push(vec![
                Cell::words(formula.taken_for.clone()),
                Cell::bytes(formula.bytes_per_request, units),
                Cell::number(formula.factor, |factor| format!("{factor:.2} ×")),
                Cell::count(formula.admits),
                Cell::bytes(formula.wasted_bytes, units),
                Cell::bytes(formula.overcommitted_bytes, units),
            ]);
        }
        table
    }

    fn notes(&self, units: UnitSystem) -> Vec<String> {
        let once = self.at.first().map_or(Bytes::ZERO, |at| at.once_bytes_per_gpu);
        let what = format!("{} of each GPU's state stand beside any number of requests", once.display(units));
        (once > Bytes::ZERO && self.memory.does_not_fit.is_none()).then_some(what).into_iter().collect()
    }

    fn worked(&self, units: UnitSystem) -> Vec<(String, String)> {
        let memory = &self.memory;
        let shown = |bytes: Bytes| bytes.display(units);
        let left = memory.state_bytes.map_or_else(|| NONE.to_owned(), shown);
        let room = format!(
            "memory − left free − weights − activations − graphs = {} − {} − {} − {} − {} = {left}",
            shown(memory.memory_bytes),
            shown(memory.left_free_bytes),
            shown(memory.weight_bytes),
            shown(memory.activation_bytes),
            shown(memory.graph_bytes),
        );
        let mut lines = vec![("state on each GPU".to_owned(), room)];
        if let (Some(state), Some(at)) = (memory.state_bytes, self.at.first()) {
            let once = at.once_bytes_per_gpu;
            let beside = match once {
                Bytes::ZERO => shown(state),
                _ => format!("({} − {} that stand once)", shown(state), shown(once)),
            };
            lines.push((
                "requests".to_owned(),
                format!(
                    "as many as the accounting of {} puts into {}: about {beside} ÷ {} × {} = {}",
                    self.engine,
                    shown(state),
                    shown(at.bytes_per_request_and_gpu),
                    self.groups_of_requests(),
                    count_of(at.requests).shown
                ),
            ));
        }
        lines
    }
}

fn any_number() -> Cell {
    Cell::words("any number")
}

fn count_of(requests: Option<u64>) -> Cell {
    requests.map_or_else(any_number, Cell::count)
}
