//! Transfers to and from tiers: what α and β say, what came out, and states that went and came back.

use kvscope_protocol::run::Run;
use kvscope_sizing::{Bytes, Tokens, UnitSystem, group_digits};
use serde_json::Value;

use crate::figures::Table;
use crate::label::seconds;

const STATES: &str = "○ predicted from α and β before the first block moved. ● median measured, with the 5th and 95th \
    percentile. Every restore is compared with what was saved, byte for byte. Error: (predicted − measured) ÷ measured";
const BLOCKS: &str = "◇ fitted to every other size, declared before measuring. ● median measured, with the 5th and 95th \
    percentile. Fragments lie in random places, contiguous blocks one after another";
const LINKS: &str = "◇ time = start + blocks × α + bytes ÷ β, fitted to the declared half; residuals are of that half, \
    (fitted − measured) ÷ measured";

/// A table of a run, with what has to be known of it.
#[derive(Clone, Debug, PartialEq)]
pub struct RunTable {
    /// What files of it are called.
    pub stem: &'static str,
    /// What it is.
    pub title: &'static str,
    /// What its marks mean.
    pub caption: &'static str,
    /// Rows for people.
    pub table: Table,
    /// Why figures are missing or doubtful.
    pub remarks: Vec<String>,
}

/// The tables of a run's transfers; none where it has none.
pub fn transfer_tables(run: &Run) -> Vec<RunTable> {
    if run.transfers.is_empty() {
        return Vec::new();
    }
    let (states, blocks): (Vec<&Value>, Vec<&Value>) =
        run.transfers.iter().partition(|transfer| !transfer["state"].is_null());
    let of = |stem, title, caption, table| RunTable { stem, title, caption, table, remarks: Vec::new() };
    let mut tables = Vec::new();
    if !states.is_empty() {
        let table = of("states", "States saved and restored", STATES, state_table(&states));
        tables.push(RunTable { remarks: remarks(&states), ..table });
    }
    let table = of("blocks", "Blocks saved and restored", BLOCKS, block_table(&blocks));
    tables.push(RunTable { remarks: remarks(&blocks), ..table });
    tables.push(of("tiers", "What a tier costs: α and β", LINKS, link_table(&blocks)));
    tables
}

fn table(head: &[&str], rows: Vec<Vec<String>>) -> Table {
    Table { head: head.iter().map(|name| (*name).to_owned()).collect(), rows }
}

fn state_table(states: &[&Value]) -> Table {
    let head = [
        "state of",
        "context",
        "tier",
        "direction",
        "pattern",
        "blocks",
        "of",
        "predicted bytes",
        "asked bytes",
        "predicted",
        "measured",
        "p05–p95",
        "error",
        "result",
    ];
    let row = |one: &&Value| {
        let error = error(one);
        vec![
            text(&one["state"]["model"]),
            whole(&one["state"]["context"], |tokens| Tokens::new(tokens).short()),
            text(&one["tier"]),
            text(&one["direction"]),
            text(&one["pattern"]),
            format!("{} of {}", one["blocks"], one["state"]["blocks_total"]),
            size(&one["block_bytes"]),
            whole(&one["predicted"]["bytes"], group_digits),
            whole(&one["measured"]["asked_bytes"], group_digits),
            time("○ ", &one["predicted"]["seconds"]),
            time("● ", &one["measured"]["seconds"]["median"]),
            spread(one),
            error.map_or_else(unknown, |error| format!("{:+.0} %", error * 100.0)),
            outcome(one).0.to_owned(),
        ]
    };
    table(&head, states.iter().map(row).collect())
}

/// A row for each size and direction, blocks one after another beside fragments.
fn block_table(blocks: &[&Value]) -> Table {
    let head = [
        "tier",
        "direction",
        "blocks",
        "of",
        "contiguous, fitted",
        "measured",
        "p05–p95",
        "fragments, fitted",
        "measured",
        "p05–p95",
        "fragments ÷ contiguous",
        "result",
    ];
    let row = |one: &&Value| {
        let same = |other: &&&Value| {
            other["pattern"] == "fragments"
                && ["tier", "direction", "blocks", "block_bytes"].iter().all(|name| other[name] == one[name])
        };
        let other = blocks.iter().find(same).map_or(&Value::Null, |other| *other);
        let median = |of: &Value| of["measured"]["seconds"]["median"].as_f64();
        let ratio = median(other).zip(median(one)).map(|(other, one)| format!("{:.2}×", other / one));
        let (first, second) = (outcome(one).0, outcome(other).0);
        let result = if first == second { first.to_owned() } else { format!("{first}, fragments {second}") };
        vec![
            text(&one["tier"]),
            text(&one["direction"]),
            one["blocks"].to_string(),
            size(&one["block_bytes"]),
            time("◇ ", &one["fitted"]["seconds"]),
            time("● ", &one["measured"]["seconds"]["median"]),
            spread(one),
            time("◇ ", &other["fitted"]["seconds"]),
            time("● ", &other["measured"]["seconds"]["median"]),
            spread(other),
            ratio.unwrap_or_else(unknown),
            result,
        ]
    };
    table(&head, blocks.iter().filter(|one| one["pattern"] == "contiguous").map(row).collect())
}

fn link_table(blocks: &[&Value]) -> Table {
    let head =
        ["tier", "lies in", "direction", "pattern", "start", "α", "β", "points", "residuals", "moved by"];
    let mut rows: Vec<Vec<String>> = Vec::new();
    for one in blocks {
        let link = &one["fitted"]["link"];
        let name = ["tier", "medium", "direction", "pattern"].map(|field| text(&one[field]));
        if link.is_null() || rows.iter().any(|row| row.starts_with(&name)) {
            continue;
        }
        let residuals = link["residuals"].as_array().into_iter().flatten().filter_map(Value::as_f64);
        let (low, high) =
            residuals.fold((f64::MAX, f64::MIN), |(low, high), one| (low.min(one), high.max(one)));
        let mut row = name.to_vec();
        row.extend([
            time("◇ ", &link["start_seconds"]),
            time("◇ ", &link["alpha_seconds"]),
            link["beta_bytes_per_second"]
                .as_f64()
                .map_or_else(unknown, |rate| format!("◇ {:.2} GB/s", rate / 1e9)),
            link["points"].to_string(),
            format!("{:+.0} to {:+.0} %", low * 100.0, high * 100.0),
            text(&one["method"]),
        ]);
        rows.push(row);
    }
    table(&head, rows)
}

fn unknown() -> String {
    "unknown".to_owned()
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(unknown, str::to_owned)
}

fn whole(value: &Value, words: impl Fn(u64) -> String) -> String {
    value.as_u64().map_or_else(unknown, words)
}

fn size(value: &Value) -> String {
    whole(value, |bytes| Bytes::new(bytes).display(UnitSystem::Binary))
}

fn time(mark: &str, value: &Value) -> String {
    value.as_f64().map_or_else(unknown, |value| format!("{mark}{}", seconds(value)))
}

fn spread(one: &Value) -> String {
    let of = |name: &str| one["measured"]["seconds"][name].as_f64();
    of("p05")
        .zip(of("p95"))
        .map_or_else(unknown, |(low, high)| format!("{} – {}", seconds(low), seconds(high)))
}

fn error(one: &Value) -> Option<f64> {
    let measured = one["measured"]["seconds"]["median"].as_f64().filter(|time| *time > 0.0)?;
    Some(one["predicted"]["seconds"].as_f64()? / measured - 1.0)
}

/// The status in a word, and its reason.
fn outcome(one: &Value) -> (&str, Option<&str>) {
    let status = one["status"].as_str().unwrap_or("unknown");
    status.split_once(": ").map_or((status, None), |(word, reason)| (word, Some(reason)))
}

/// Reasons and warnings, each once, with the tier that they are of.
fn remarks(of: &[&Value]) -> Vec<String> {
    let mut remarks: Vec<String> = Vec::new();
    for one in of {
        let warnings = one["warnings"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let (word, reason) = outcome(one);
        let reason = reason.map(|reason| format!("{word}: {reason}"));
        for words in reason.into_iter().chain(warnings.map(str::to_owned)) {
            let remark = format!("{} · {words}", text(&one["tier"]));
            if !remarks.contains(&remark) {
                remarks.push(remark);
            }
        }
    }
    remarks
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn block(pattern: &str, median: f64, status: &str) -> Value {
        json!({"tier": "file", "medium": "device", "direction": "save", "pattern": pattern, "blocks": 4,
            "block_bytes": 4096, "state": null, "status": status, "method": "io_uring", "warnings": [],
            "fitted": {"seconds": 0.002, "link": {"points": 7, "start_seconds": 1e-4, "alpha_seconds": 2e-5,
                "beta_bytes_per_second": 2.5e9, "residuals": [-0.04, 0.021]}},
            "measured": {"seconds": {"median": median, "p05": median, "p95": median}}})
    }

    #[test]
    fn contiguous_and_fragments_stand_in_one_row() {
        let (one, other) = (block("contiguous", 0.002, "ok"), block("fragments", 0.003, "unsteady"));
        let table = block_table(&[&one, &other]);
        assert_eq!(table.rows.len(), 1);
        let row = &table.rows[0];
        assert_eq!(
            (row[3].as_str(), row[4].as_str(), row[5].as_str()),
            ("4.00 KiB", "◇ 2.00 ms", "● 2.00 ms")
        );
        // 3 ms of 2 ms.
        assert_eq!((row[10].as_str(), row[11].as_str()), ("1.50×", "ok, fragments unsteady"));
        let links = link_table(&[&one, &other]);
        assert_eq!(links.rows.len(), 2);
        assert_eq!((links.rows[0][6].as_str(), links.rows[0][8].as_str()), ("◇ 2.50 GB/s", "-4 to +2 %"));
    }

    #[test]
    fn a_state_that_failed_has_no_time_and_says_why() {
        let mut state =
            block("fragments", 0.003, "failed: byte 0 of block 3 did not come back as it was saved");
        state["measured"] = Value::Null;
        state["state"] = json!({"model": "minimax-m2.7", "context": 16384, "blocks_total": 1024});
        state["predicted"] = json!({"bytes": 16384, "seconds": 0.001});
        let row = &state_table(&[&state]).rows[0];
        assert_eq!((row[1].as_str(), row[5].as_str(), row[7].as_str()), ("16Ki", "4 of 1024", "16,384"));
        assert_eq!(
            (row[9].as_str(), row[10].as_str(), row[12].as_str()),
            ("○ 1.00 ms", "unknown", "unknown")
        );
        assert_eq!(row[13], "failed");
        assert_eq!(
            remarks(&[&state, &state]),
            ["file · failed: byte 0 of block 3 did not come back as it was saved"]
        );
    }

    #[test]
    fn the_error_is_of_the_prediction() {
        // 1 ms predicted, 1.25 ms measured: −20 %.
        let mut state = block("fragments", 0.001_25, "ok");
        state["predicted"] = json!({"bytes": 16384, "seconds": 0.001});
        assert!((error(&state).unwrap() + 0.2).abs() < 1e-12);
    }
}
