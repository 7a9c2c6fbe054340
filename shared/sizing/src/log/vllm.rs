//! vLLM: the lines of its engine core and workers, and the error of a start that is refused.
//!
//! Line shapes: vLLM 0.6 to 0.33 (`v1/core/kv_cache_utils.py`, `v1/worker/gpu_worker.py`, `v1/worker/cpu_worker.py`,
//! `platforms/interface.py`, `model_executor/models/config.py`) and logs in public reports.

mod capacity;
mod patterns;
mod pool;
mod said;

pub(super) use capacity::capacity;
use patterns::PATTERNS;
use pool::{POOL_TOPICS, Planner, Pool};

use super::figures::{Figure, Figures};
use super::launch::{Key, Launch, kv_format, plain, reversed, truth, version};
use super::line::Line;
use super::printed::{Printed, Range, Unit, whole};
use super::stated::By;
use super::topic::Topic;
use super::{Contradiction, Reading};
use crate::engine::{Engine, Quantity, Query, groups_of_layers, prints_capacity_in_tokens, report};
use crate::settings::Settings;
use crate::{Architecture, Result, group_digits};

/// The newest version whose token line is not the capacity (`prints_capacity_in_tokens`).
const NEWEST_OF_OLD_LINES: &str = "0.20.0";

const BATCHED_TOKENS: Key = ("max_num_batched_tokens", "max_num_batched_tokens", plain);

const KEYS: &[Key] = &[
    ("max_seq_len", "max_model_len", plain),
    ("max_model_len", "max_model_len", plain),
    ("tensor_parallel_size", "tp", plain),
    ("pipeline_parallel_size", "pp", plain),
    ("decode_context_parallel_size", "dcp", plain),
    BATCHED_TOKENS,
    ("block_size", "block_size", plain),
    ("kv_cache_dtype", "kv_dtype", kv_format),
    ("enable_prefix_caching", "prefix_caching", truth),
    ("disable_hybrid_kv_cache_manager", "hybrid_manager", reversed),
    ("async_scheduling", "async_scheduling", truth),
    ("num_speculative_tokens", "num_speculative_tokens", plain),
    ("num_spec_tokens", "num_speculative_tokens", plain),
    ("mamba_cache_mode", "mamba_cache_mode", plain),
    ("mamba_ssm_cache_dtype", "state_dtype", state_format),
    ("gdn_prefill_backend", "gdn_prefill_backend", plain),
    ("indexer_kv_dtype", "index_dtype", index_format),
];

fn state_format(value: &str) -> Option<&str> {
    kv_format(value).filter(|format| matches!(*format, "f32" | "bf16" | "f16"))
}

fn index_format(value: &str) -> Option<&str> {
    match value {
        "mxfp4" => Some("fp4"),
        "fp8" | "bf16" => Some(value),
        _ => None,
    }
}

const CONCURRENCY: &str = "Maximum concurrency for";

/// Lines that begin a start of the engine, with what the version follows.
const STARTS: [&str; 2] = ["LLM engine (v", "LLM engine (version "];

/// Reads one line.
pub(super) fn read(line: &Line, reading: &mut Reading) {
    if let Some(scan) = STARTS.iter().find_map(|start| line.after(start)) {
        reading.starts_again(line, scan.at());
        reading.launch.version(version(&line.text[scan.at()..]), line.number);
        reading.launch.model(line.value("model"), By::Engine, line.number);
        arguments(line, reading);
    } else if line.has("non-default args") || line.has("Namespace(") || line.has("vllm serve") {
        if line.has("vllm serve") {
            let first =
                line.after("vllm serve ").and_then(|scan| line.unquoted(line.text[scan.at()..].trim_start()));
            reading.launch.model(first.filter(|word| !word.starts_with('-')), By::Arguments, line.number);
        }
        reading.launch.model(line.value("model"), By::Arguments, line.number);
        reading.launch.lists_arguments = true;
        arguments(line, reading);
    } else if line.has("max_num_batched_tokens=") {
        reading.launch.read(line, &[BATCHED_TOKENS]);
    }
    if let Some(scan) = line.after("vLLM API server version").or_else(|| line.after("█  version")) {
        reading.launch.seen = true;
        reading.launch.version(version(&line.text[scan.at()..]), line.number);
    }
    // A draft model prints the line too.
    let length = line.after("Using max model len").and_then(|mut scan| scan.number()?.whole());
    if let Some(length) = length.filter(|_| reading.launch.settings.max_model_len.is_none()) {
        reading.launch.set("max_model_len", &length.to_string(), line.number);
    }
    said::read(line, reading);
    reading.launch.read_downcast(line);
    reading.figures.add_matches(PATTERNS, line);
    if line.has(CONCURRENCY) && concurrency(line, reading).is_none() {
        for (marker, unit) in [(CONCURRENCY, "tokens per request:"), ("tokens per request:", "x")] {
            if let Some(scan) = line.after(marker) {
                reading.figures.check(Topic::Concurrency, line, scan, unit);
            }
        }
    }
    if let Some((number, start)) = line.number_before("GiB KV cache is needed") {
        let end = line.text.find("is needed").map_or(line.text.len(), |at| at + "is needed".len());
        reading.figures.add(Topic::Needed, Printed::new(number, Unit::GiB), line, start, end);
        if let Some(length) = line.after("max seq len (").and_then(|mut scan| scan.number()?.whole()) {
            reading.launch.set("max_model_len", &length.to_string(), line.number);
        }
    }
}

fn arguments(line: &Line, reading: &mut Reading) {
    reading.launch.read(line, KEYS);
    reading.launch.read_dtype(line);
    // An engine of a model without experts is told that it is alone (`EngineCoreProc.run_engine_core`).
    match line.value("data_parallel_size").and_then(plain) {
        Some("1") if reading.launch.settings.dp.is_some() => {}
        Some("1") => reading.launch.set("dp", "1", line.number),
        Some(ranks) => reading.launch.state("dp", ranks, line.number),
        None => {}
    }
    if line.has("speculative_config")
        && let Some(method) = line.value("method")
    {
        reading.launch.draft_method = Some(method.to_owned());
    }
}

fn concurrency(line: &Line, reading: &mut Reading) -> Option<()> {
    let mut scan = line.after(CONCURRENCY)?;
    let length = scan.number()?.whole()?;
    scan.expect("tokens per request:")?;
    let times = scan.number()?;
    scan.expect("x")?;
    let start = line.text.find(CONCURRENCY)?;
    let printed = Printed::new(times, Unit::Times);
    reading.figures.add(Topic::Concurrency, printed, line, start, scan.at()).of = Some(length);
    reading.launch.state("max_model_len", &length.to_string(), line.number);
    Some(())
}

/// Finds the token line that its concurrency line contradicts, and gives it the meaning that it has in this version.
pub(super) fn contradictions(
    engine: &Engine,
    architecture: Option<&Architecture>,
    reading: &mut Reading,
) -> Vec<Contradiction> {
    let one_group = has_one_group(engine, architecture, &reading.launch);
    let known = reading.launch.version.is_some() && engine.warning().is_none();
    let old = !prints_capacity_in_tokens(engine);
    let mut found = Vec::new();
    let concurrencies: Vec<_> = reading.figures.of(Topic::Concurrency).cloned().collect();
    for tokens in reading.figures.all.iter_mut().filter(|figure| figure.topic == Topic::Tokens) {
        if old {
            tokens.topic = Topic::OldTokens;
        }
        let Some((next, implied)) = contradicting(tokens, &concurrencies) else { continue };
        let explained = !one_group && (old || !known);
        let reason = if one_group {
            "all layers of this model are one group, of which the tokens are the capacity in every version, so one of them \
             was changed or belongs to another start"
        } else if explained {
            tokens.topic = Topic::OldTokens;
            "the concurrency line is the capacity: vLLM up to 0.20.0 prints the tokens as if its blocks were \
             divided evenly over the groups of layers"
        } else {
            "this version computes one from the other, so one of them was changed or belongs to another start"
        };
        found.push(Contradiction {
            lines: vec![tokens.line, next.line],
            what: format!(
                "line {} says {}, but {} of {} tokens in line {} are {}; {reason}",
                tokens.line,
                tokens.printed,
                next.printed,
                group_digits(next.of.unwrap_or(0)),
                next.line,
                tokens.printed.show(implied),
            ),
            explained,
        });
    }
    found
}

/// Whether the model is known to have all its layers in one group, whose blocks nothing divides.
fn has_one_group(engine: &Engine, architecture: Option<&Architecture>, launch: &Launch) -> bool {
    let settings = Settings { dp: None, ..launch.settings.clone() };
    let query = architecture.and_then(|own| Query::new(own, engine.clone(), &settings).ok());
    query.is_some_and(|query| groups_of_layers(&query).is_ok_and(|groups| groups <= 1))
}

/// The concurrency line of a token line, with the tokens that it implies, where they are others.
fn contradicting<'f>(tokens: &Figure, concurrencies: &'f [Figure]) -> Option<(&'f Figure, Range)> {
    let behind = || concurrencies.iter().filter(|next| next.line >= tokens.line);
    let of_ranks = || behind().filter(|next| next.ranks == tokens.ranks);
    let next = of_ranks().next().or_else(|| behind().next())?;
    // Engines of which no line says which it is print theirs in any order.
    let unnamed = of_ranks().filter(|next| next.ranks.is_empty());
    let agrees = |next: &Figure| {
        let implied = implied(next.printed, next.of);
        (implied.low - 1.0..=implied.high + 1.0).contains(&tokens.printed.value())
    };
    let agree = unnamed.chain([next]).any(agrees);
    (!agree).then(|| (next, implied(next.printed, next.of)))
}

/// The version whose rules a log without a version is read by, where its lines tell older ones: token lines that their
/// concurrency contradicts.
pub(super) fn version_of_lines(
    reading: &Reading,
    architecture: Option<&Architecture>,
) -> Option<&'static str> {
    let figures = &reading.figures;
    let older = format!("vllm@{NEWEST_OF_OLD_LINES}").parse().ok()?;
    if has_one_group(&older, architecture, &reading.launch) {
        return None;
    }
    let concurrencies: Vec<_> = figures.of(Topic::Concurrency).cloned().collect();
    let is_old = |tokens: &Figure| contradicting(tokens, &concurrencies).is_some();
    figures.of(Topic::Tokens).any(is_old).then_some(NEWEST_OF_OLD_LINES)
}

/// Tokens that so many requests of that length hold.
fn implied(times: Printed, length: Option<u64>) -> Range {
    let length = length.unwrap_or(0) as f64;
    Range { low: (times.range().low * length).floor(), high: (times.range().high * length).floor() }
}

/// Layers that drafting adds are not in the log; the usual count is taken and said.
fn drafts(launch: &mut Launch) {
    if launch.settings.draft_tokens() == 0 || launch.settings.draft_layers.is_some() {
        return;
    }
    if launch.draft_method.as_deref().is_some_and(|method| method.contains("mtp")) {
        launch.settings.draft_layers = Some(1);
        launch.warn(
            "draft_layers",
            "drafts come from the model's own prediction layers; one is assumed to keep a cache",
        );
    } else {
        launch.settings.draft_layers = Some(0);
        launch.warn(
            "draft_layers",
            "drafts come from another model, whose layers are not in the log and not counted",
        );
    }
}

/// A block that a later line of the rank raises is not the block.
fn raised_again(figures: &mut Figures) {
    let blocks: Vec<Figure> = figures.of(Topic::AttentionBlock).cloned().collect();
    for figure in figures.all.iter_mut().filter(|figure| figure.topic == Topic::AttentionBlock) {
        let raises = |later: &&Figure| {
            later.line > figure.line
                && later.printed.value() > figure.printed.value()
                && figure.shares_rank(later)
        };
        if let Some(later) = blocks.iter().find(raises) {
            figure.not_computed = Some(format!("line {} raises it", later.line));
        }
    }
}

/// What the plan of the pool decides.
fn planned(topic: Topic) -> bool {
    POOL_TOPICS.contains(&topic) && topic != Topic::Available
        || matches!(topic, Topic::Needed | Topic::LongestLength | Topic::StorableTokens)
}

/// Recomputes the figures by the planner's rules for `architecture`.
pub(super) fn recompute(engine: &Engine, architecture: &Architecture, reading: &mut Reading) -> Result<()> {
    drafts(&mut reading.launch);
    raised_again(&mut reading.figures);
    let launched = reading.launch.dtype().map(|dtype| architecture.launched_in(dtype));
    let architecture = launched.as_ref().unwrap_or(architecture);
    // Each data-parallel engine plans a pool of its own.
    let settings = Settings { dp: None, ..reading.launch.settings.clone() };
    let planner = Planner { architecture, engine, settings };
    let query = Query::new(architecture, engine.clone(), &planner.settings)?;
    let report = report(&query)?;
    reading.launch.warnings.extend(report.warnings.iter().cloned());
    let mut own = Reading::default();
    for line in super::line::lines(&report.log_lines.join("\n")) {
        own.figures.add_matches(PATTERNS, &line);
    }
    let engines: Vec<String> = reading.figures.engines(POOL_TOPICS).into_iter().map(str::to_owned).collect();
    let pools: Vec<(Option<&str>, Option<Pool>)> = if engines.is_empty() {
        vec![(None, planner.pool(&reading.figures, None))]
    } else {
        engines.iter().map(|name| (Some(name.as_str()), planner.pool(&reading.figures, Some(name)))).collect()
    };
    if reading.figures.first(Topic::Concurrency).is_some() && pools.iter().any(|(_, pool)| pool.is_none()) {
        reading.launch.warn(
            "available_kv_bytes",
            "the log does not say how large the pool is, so what depends on it is not recomputed",
        );
    }
    for (engine, pool) in &pools {
        let is_inferred = |pool: &&Pool| ![Topic::Available, Topic::Override].contains(&pool.from);
        let Some(pool) = pool.as_ref().filter(is_inferred) else { continue };
        let line = reading.figures.smallest_of(pool.from, *engine).map_or(0, |figure| figure.line);
        let size = Range { low: pool.low as f64, high: pool.high as f64 }.in_gib();
        reading
            .launch
            .warn("available_kv_bytes", format!("not in the log; {size} are inferred from line {line}"));
    }
    if reading.figures.first(Topic::Concurrency).is_none() && reading.launch.version.is_some() {
        for (_, pool) in &pools {
            let range = pool.as_ref().and_then(|pool| planner.range(Quantity::MaxConcurrency, pool).ok());
            reading.concurrencies.extend(range);
        }
    }
    let of_memory =
        reading.figures.first(Topic::Available).and(planner.pool_of_memory(&reading.figures, None));
    let plain = |quantity| planner.figure(quantity, None).map(Range::exactly);
    let own_pools: Vec<(usize, Pool)> =
        pools.iter().flat_map(|(engine, _)| planner.own_pools(&reading.figures, *engine)).collect();
    for (index, figure) in reading.figures.all.iter_mut().enumerate() {
        let worker = own_pools.iter().find(|(of, _)| *of == index).map(|(_, pool)| pool);
        let shared = || pools.iter().find(|(engine, _)| figure.is_of(*engine));
        let pool = worker.or_else(|| shared().and_then(|(_, pool)| pool.as_ref()));
        let pooled = |quantity| pool.map(|pool| planner.range(quantity, pool)).transpose();
        let inferred = pool.is_some_and(|pool| pool.from == figure.topic);
        if figure.not_computed.is_some() {
            continue;
        }
        if let Some(why) = reading.launch.unplanned.filter(|_| planned(figure.topic)) {
            figure.not_computed = Some(why.to_owned());
            continue;
        }
        if figure.topic == Topic::Override {
            figure.not_computed = Some("it is set".to_owned());
            continue;
        }
        if inferred && figure.topic != Topic::Available {
            figure.not_computed = Some("the pool is inferred from it".to_owned());
            continue;
        }
        figure.recomputed = match figure.topic {
            Topic::Needed => Some(plain(Quantity::NeededBytesOneRequest)?),
            Topic::AttentionBlock => Some(plain(Quantity::AttentionBlockSize)?),
            Topic::Tokens | Topic::OldTokens => pooled(Quantity::LoggedKvTokens)?,
            Topic::Concurrency => pooled(Quantity::MaxConcurrency)?,
            Topic::Blocks if pool.is_some_and(|pool| pool.from == Topic::Override) => {
                of_memory.as_ref().map(|pool| planner.range(Quantity::NumBlocks, pool)).transpose()?
            }
            Topic::Blocks => pooled(Quantity::NumBlocks)?,
            Topic::LongestLength => pooled(Quantity::EstimatedMaxModelLen)?,
            Topic::StorableTokens => {
                let size = planner.figure(Quantity::AttentionBlockSize, None)?;
                pooled(Quantity::NumBlocks)?
                    .map(|blocks| Range { low: blocks.low * size, high: blocks.high * size })
            }
            Topic::StatePadding | Topic::PaddingLayers | Topic::PaddingFraction => {
                let equal = own.figures.of(figure.topic).find(|other| other.printed == figure.printed);
                let nearest = equal.or_else(|| own.figures.first(figure.topic));
                Some(Range::exactly(nearest.map_or(0.0, |other| other.printed.value())))
            }
            _ => None,
        };
    }
    Ok(())
}
