use clap::Args;
use kvscope_sizing::plan::number;
use kvscope_sizing::plan::simulation::{
    Compare, Counts, Rates, Replay, Simulation, StateSizes, StoreTier, Trace, simulate,
};
use kvscope_sizing::plan::words::{percent_words, whole};
use kvscope_sizing::{Bytes, StateModel, Tokens, UnitSystem, Warning, group_digits};
use serde::Serialize;

use super::{Around, Asked};
use crate::cli::request::Accounting;
use crate::failure::Failure;
use crate::model::Model;
use crate::output::Figures;

#[derive(Args, Debug)]
pub(super) struct Arguments {
    /// Catalogue ids, config.json or GGUF files, folders, or - for standard input
    #[arg(required = true, value_name = "MODEL")]
    models: Vec<String>,
    /// Requests as JSON lines: `timestamp` (ms), `input_length`, `output_length`, `hash_ids`, as in the public Mooncake traces
    #[arg(long, value_name = "FILE", required_unless_present = "synthetic")]
    trace: Option<String>,
    /// So many made requests of that shape in place of a file
    #[arg(long, value_name = "REQUESTS", conflicts_with = "trace")]
    synthetic: Option<String>,
    /// Makes other made requests
    #[arg(long, default_value = "1", value_name = "N", requires = "synthetic")]
    seed: u64,
    /// Tokens of a block
    #[arg(long, default_value = "512", value_name = "TOKENS")]
    block: String,
    /// Where state is kept, the nearest first: gpu=40GB, host=1TB, gpu=1000blocks, ssd=unlimited
    #[arg(long = "tier", required = true, value_name = "NAME=SIZE")]
    tiers: Vec<String>,
    /// Blocks that are brought to the first tier after a request
    #[arg(long, default_value = "0", value_name = "BLOCKS")]
    prefetch: u64,
    /// Tokens of a prompt a second, to count the state of running requests
    #[arg(long, value_name = "RATE", requires = "decode_rate")]
    prefill_rate: Option<String>,
    /// Tokens of an answer a second, for each request
    #[arg(long, value_name = "RATE", requires = "prefill_rate")]
    decode_rate: Option<String>,
    /// Leave out the comparison with Belady's rule
    #[arg(long)]
    no_optimum: bool,
    #[command(flatten)]
    accounting: Accounting,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// A million requests of the usual shape are about 200 MB.
const LARGEST_TRACE: u64 = 4 << 30;

#[derive(Serialize)]
pub(super) struct Answer {
    model: String,
    trace: String,
    #[serde(flatten)]
    simulation: Simulation,
    warnings: Vec<Warning>,
}

impl Asked for Arguments {
    type Answer = Vec<Answer>;

    fn answer(&self, around: &Around<'_>) -> Result<Vec<Answer>, Failure> {
        answers(self, around)
    }

    fn wants_json(&self) -> bool {
        self.json
    }

    fn print(&self, answers: &Vec<Answer>) -> Result<(), Failure> {
        super::print(answers, text, |answer| (&answer.model, &answer.warnings))
    }
}

fn answers(arguments: &Arguments, around: &Around<'_>) -> Result<Vec<Answer>, Failure> {
    let settings = arguments.accounting.logical_settings()?;
    let rates = arguments.rates()?;
    let (label, trace) = arguments.trace(around)?;
    let mut answers = Vec::new();
    for name in &arguments.models {
        let model = Model::load_from(around.files, name, arguments.accounting.unknown())?;
        let state = model.state(&settings)?;
        let tiers = arguments.tiers(&state, trace.block_tokens()).map_err(|why| match why {
            Wrong::Given(failure) => failure,
            Wrong::Model(error) => model.failure(&error),
        })?;
        let replay = Replay {
            trace: &trace,
            state: &state,
            tiers: &tiers,
            prefetch_blocks: arguments.prefetch,
            rates,
            optimum: if arguments.no_optimum { Compare::Alone } else { Compare::WithOptimum },
        };
        let simulation = simulate(&replay).map_err(|error| model.failure(&error))?;
        answers.push(Answer {
            model: model.label.clone(),
            trace: label.clone(),
            simulation,
            warnings: state.warnings().to_vec(),
        });
    }
    Ok(answers)
}

/// What was given, or what a model says to it.
enum Wrong {
    Given(Failure),
    Model(kvscope_sizing::Error),
}

impl Arguments {
    fn trace(&self, around: &Around<'_>) -> Result<(String, Trace), Failure> {
        let block = tokens("block", &self.block)?;
        if let Some(count) = &self.synthetic {
            let requests = kvscope_sizing::parse_count(count)
                .map_err(|why| Failure::input(format!("synthetic: {why}")))?;
            let most = around.most_made_requests;
            if requests > most {
                let most = group_digits(most);
                return Err(Failure::input(format!("synthetic: {count} requests are more than {most}")));
            }
            let label = format!("{} made requests, seed {}", group_digits(requests), self.seed);
            return Ok((label, Trace::synthetic(requests, block, self.seed)?));
        }
        let file = self.trace.as_deref().unwrap_or("-");
        let text = around.files.read_text(file, LARGEST_TRACE, "give a part of it")?;
        let label = around.files.label(file);
        let trace = Trace::read(&text, block)
            .map_err(|error| Failure::input(format!("{label}: {}", error.what())))?;
        Ok((label.to_owned(), trace))
    }

    fn rates(&self) -> Result<Option<Rates>, Failure> {
        let (Some(prefill), Some(decode)) = (&self.prefill_rate, &self.decode_rate) else { return Ok(None) };
        Ok(Some(Rates {
            prefill_tokens_per_second: number("prefill-rate", prefill)?,
            decode_tokens_per_second: number("decode-rate", decode)?,
        }))
    }

    fn tiers(&self, state: &StateModel, block: Tokens) -> Result<Vec<StoreTier>, Wrong> {
        self.tiers.iter().map(|text| tier(text, state, block)).collect()
    }
}

fn tier(text: &str, state: &StateModel, block: Tokens) -> Result<StoreTier, Wrong> {
    let form = || {
        let what =
            format!("tier: {text:?} is not NAME=SIZE, such as gpu=40GB, gpu=1000blocks or ssd=unlimited");
        Wrong::Given(Failure::input(what))
    };
    let (name, size) = text.split_once('=').ok_or_else(form)?;
    let size = size.trim();
    let capacity_bytes = if size == "unlimited" {
        None
    } else if let Some(blocks) = size.strip_suffix("blocks") {
        let blocks = kvscope_sizing::parse_count(blocks.trim()).map_err(|_| form())?;
        let sizes = StateSizes::of(state, block).map_err(Wrong::Model)?;
        Some(sizes.block_bytes.times(blocks).map_err(Wrong::Model)?)
    } else {
        Some(Bytes::given(size).map_err(|_| form())?)
    };
    Ok(StoreTier { name: name.trim().to_owned(), capacity_bytes })
}

fn tokens(name: &str, text: &str) -> Result<Tokens, Failure> {
    let count = kvscope_sizing::parse_count(text).map_err(|why| Failure::input(format!("{name}: {why}")))?;
    Tokens::context(count).map_err(|error| Failure::input(format!("{name}: {}", error.what())))
}

fn text(answer: &Answer) -> String {
    let found = &answer.simulation;
    let sizes = &found.sizes;
    let mut parts = vec![format!(
        "{}: {}: {} requests in {:.0} s, {} blocks of {} tokens, {} different\na block {}, a checkpoint {}",
        answer.model,
        answer.trace,
        group_digits(found.requests),
        found.seconds,
        group_digits(found.lru.asked_blocks),
        sizes.block_tokens,
        group_digits(found.distinct_blocks),
        sizes.block_bytes.display(UnitSystem::Decimal),
        sizes.checkpoint_bytes.display(UnitSystem::Decimal),
    )];
    parts.push(policies(found));
    parts.push(kinds(found));
    parts.push(tiers(found));
    if found.prefetched_bytes > Bytes::ZERO {
        parts.push(format!(
            "brought ahead {}, of which {} for nothing",
            found.prefetched_bytes.display(UnitSystem::Decimal),
            found.wasted_prefetch_bytes.display(UnitSystem::Decimal)
        ));
    }
    if let Some(running) = &found.running {
        parts.push(format!(
            "running: at most {} requests with {}, on average {}",
            group_digits(running.peak_requests),
            running.peak_bytes.display(UnitSystem::Decimal),
            running.mean_bytes.map_or("–".to_owned(), |mean| whole(mean).display(UnitSystem::Decimal)),
        ));
    }
    format!("{}\n", parts.join("\n").trim_end())
}

fn policies(found: &Simulation) -> String {
    let mut table =
        Figures::new(1, &["policy", "blocks there", "blocks taken over", "of tokens", "requests"]);
    let share = |rate: Option<f64>| rate.map_or("–".to_owned(), percent_words);
    let mut row = |name: &str, counts: &Counts| {
        table.row([
            name.to_owned(),
            share(counts.resident_rate),
            share(counts.hit_rate),
            share(counts.token_hit_rate),
            group_digits(counts.hit_requests),
        ]);
    };
    row("least recently used out first", &found.lru);
    if let Some(optimum) = &found.optimum {
        let name =
            if optimum.is_bound { "Belady's optimum" } else { "Belady's rule (no bound: sizes differ)" };
        row(name, &optimum.counts);
    }
    table.render()
}

fn kinds(found: &Simulation) -> String {
    let mut table = Figures::new(2, &["component", "kept by", "asked", "found", "rate", "bytes found"]);
    for row in &found.kinds {
        table.row([
            row.kind.name().to_owned(),
            row.unit.to_owned(),
            group_digits(row.asked),
            group_digits(row.found),
            row.hit_rate.map_or("–".to_owned(), percent_words),
            row.found_bytes.display(UnitSystem::Decimal),
        ]);
    }
    table.render()
}

fn tiers(found: &Simulation) -> String {
    let header = ["tier", "holds", "peak", "mean", "blocks found", "checkpoints found", "evicted", "came in"];
    let mut table = Figures::new(1, &header);
    for row in &found.tiers {
        table.row([
            row.tier.name.clone(),
            row.tier.capacity_bytes.map_or("any".to_owned(), |bytes| bytes.display(UnitSystem::Decimal)),
            row.peak_bytes.display(UnitSystem::Decimal),
            row.mean_bytes.map_or("–".to_owned(), |mean| whole(mean).display(UnitSystem::Decimal)),
            group_digits(row.hit_blocks),
            group_digits(row.hit_checkpoints),
            group_digits(row.evicted_blocks + row.evicted_checkpoints),
            row.received_bytes.display(UnitSystem::Decimal),
        ]);
    }
    table.render()
}
