//! SGLang: the lines of its memory pools.
//!
//! Line shapes: SGLang 0.4 to 0.5.23 (`mem_cache/memory_pool.py`, `managers/scheduler.py`) and logs in public reports.
//! Its pool lines print GB and mean 2^30 bytes.

use super::figures::{Figure, Figures, capacity_of};
use super::launch::{Key, Launch, kv_format, plain, reversed, version};
use super::line::Line;
use super::printed::{Printed, Range, Unit, whole};
use super::stated::By;
use super::topic::{Pattern, Topic};
use super::{Contradiction, Reading};
use crate::engine::{Engine, Quantity, Query, answer, report};
use crate::settings::Settings;
use crate::{Architecture, Result, group_digits};

const POOL_LINE: &str = "max_total_num_tokens=";
const POOL: &str = "KV Cache is allocated.";
/// Pools that are sized again when graphs are captured, in place of what was said before (0.5.23, `kv_pool_runtime.py`).
const RESIZED: &str = "Post-capture KV sizing:";
const RESIZED_POOL: &str = "Post-capture KV sizing: KV cache allocated.";
const RESIZED_DRAFT: &str = "Post-capture KV sizing: draft KV cache allocated.";
const STATES: &str = "conv_state size:";
/// A pool whose memory is mapped once graphs are captured (0.5.23, `memory_pool.py`).
const POOL_BOUND: &str = "KV Cache VA upper bound.";

const PATTERNS: &[Pattern] = &[
    Pattern {
        topic: Topic::Weights,
        within: "Load weight end",
        before: "mem usage=",
        unit: Unit::GiB,
        after: "GB",
    },
    Pattern::new(Topic::FullTokens, "full_layer_tokens=", Unit::Tokens, ""),
    Pattern::new(Topic::WindowTokens, "swa_layer_tokens=", Unit::Tokens, ""),
    Pattern::new(Topic::TokenBytes, "bytes_per_full_token=", Unit::BytesPerToken, ""),
    Pattern {
        topic: Topic::HostBytes,
        within: "hierarchical KV host pool:",
        before: " tokens, ",
        unit: Unit::Gb,
        after: "GB host memory",
    },
    Pattern {
        topic: Topic::HostBytes,
        within: "GB host memory for",
        before: "Allocating",
        unit: Unit::Gb,
        after: "GB host memory",
    },
    Pattern::new(Topic::StateSlots, "max_mamba_cache_size:", Unit::Slots, ""),
    Pattern::new(Topic::DraftState, "intermediate_ssm_state_cache size:", Unit::GiB, "GB"),
    Pattern::new(Topic::DraftState, "intermediate_conv_window_cache size:", Unit::GiB, "GB"),
    Pattern::new(Topic::Free, "Memory pool end. avail mem=", Unit::GiB, "GB"),
    Pattern::new(Topic::PoolTokens, POOL_LINE, Unit::Tokens, ""),
    Pattern {
        topic: Topic::MaxRunning,
        within: POOL_LINE,
        before: "max_running_requests=",
        unit: Unit::Requests,
        after: "",
    },
];

/// Those of DeepSeek-V4's and V4.1's pools (0.5.23, `DSV4PoolConfigurator`).
const V4_PATTERNS: &[Pattern] = &[
    Pattern::within(SIZING, Topic::WindowTokens, " swa_tokens=", Unit::Tokens, ""),
    Pattern::within(CALCULATION, Topic::PoolBudget, "available_bytes=", Unit::GiB, "GB"),
    Pattern::within(CALCULATION, Topic::RingBytes, "c128_state_fixed=", Unit::GiB, "GB"),
    Pattern::within(CALCULATION, Topic::WindowBudget, "swa_fixed=", Unit::GiB, "GB"),
    Pattern::within(CALCULATION, Topic::FullTokens, " full_token=", Unit::Tokens, ""),
    Pattern::within(SIZES, Topic::FullTokens, " full=", Unit::Tokens, ""),
    Pattern::within(SIZES, Topic::WindowTokens, " swa=", Unit::Tokens, ""),
    Pattern::within(SIZES, Topic::SparseEntries, " c4=", Unit::Entries, ""),
    Pattern::within(SIZES, Topic::DenseEntries, " c128=", Unit::Entries, ""),
    Pattern::within(SIZES, Topic::CompressorRows, " c4_state=", Unit::Rows, ""),
];
const SIZING: &str = "DSV4 SWA sizing:";
const CALCULATION: &str = "DSV4 memory calculation:";
const SIZES: &str = "DSV4 pool sizes:";

const KEYS: &[Key] = &[
    ("tp_size", "tp", plain),
    ("tp", "tp", plain),
    ("pp_size", "pp", plain),
    ("dcp_size", "dcp", plain),
    ("page_size", "block_size", plain),
    ("kv_cache_dtype", "kv_dtype", kv_format),
    ("context_length", "max_model_len", plain),
    ("max_running_requests", "max_running_requests", plain),
    ("chunked_prefill_size", "max_num_batched_tokens", plain),
    ("disable_radix_cache", "radix_cache", reversed),
    ("disable_overlap_schedule", "async_scheduling", reversed),
    ("swa_full_tokens_ratio", "swa_full_tokens_ratio", plain),
    ("mamba_scheduler_strategy", "mamba_radix_strategy", plain),
    ("mamba_radix_strategy", "mamba_radix_strategy", plain),
    ("mamba_radix_cache_strategy", "mamba_radix_strategy", plain),
    ("mamba_ssm_dtype", "state_dtype", kv_format),
    ("speculative_num_draft_tokens", "num_speculative_tokens", plain),
];

/// Reads one line.
pub(super) fn read(line: &Line, reading: &mut Reading) {
    let arguments = line.after("server_args=");
    if arguments.is_some() || line.has("sglang.launch_server") {
        if let Some(scan) = arguments {
            reading.starts_again(line, scan.at());
        }
        let model = line.value("model_path").or_else(|| line.value("model"));
        let by = if arguments.is_some() { By::Engine } else { By::Arguments };
        reading.launch.model(model, by, line.number);
        reading.launch.read(line, KEYS);
        reading.launch.read_dtype(line);
        // Without it, data-parallel ranks are servers of their own.
        if line.value("enable_dp_attention") == Some("True")
            && let Some(ranks) = line.value("dp_size")
        {
            reading.launch.state("dp", ranks, line.number);
        }
    }
    if let Some(found) = line.after("sglang==").and_then(|scan| version(&line.text[scan.at()..])) {
        reading.launch.seen = true;
        reading.launch.version(Some(found), line.number);
    }
    reading.launch.read_downcast(line);
    if let Some(scan) = line.after(RESIZED).filter(|_| line.has("full_layer_tokens=")) {
        reading.figures.take_back(&[Topic::FullTokens, Topic::WindowTokens], &line.rank(scan.at()));
    }
    reading.figures.add_matches(PATTERNS, line);
    reading.figures.add_matches(V4_PATTERNS, line);
    if line.has(SIZING)
        && let Some(ratio) = line.value("swa_full_tokens_ratio")
    {
        reading.launch.set("swa_full_tokens_ratio", ratio, line.number);
    }
    if line.has(RESIZED) {
        // Without windows their pool has no tokens.
        reading
            .figures
            .all
            .retain(|figure| figure.topic != Topic::WindowTokens || figure.printed.value() > 0.0);
    }
    if line.has(POOL_LINE)
        && let Some(length) = line.value("context_len")
    {
        reading.launch.state("max_model_len", length, line.number);
    }
    if pool(line, reading).is_none() && (line.has(POOL) || line.has(POOL_BOUND)) {
        let markers = [("#tokens:", ""), (" K size:", "GB"), ("V size:", "GB"), ("KV size:", "GB")];
        reading.figures.check_all(Topic::PoolBytes, line, &markers);
    }
    if states(line, reading).is_none() && line.has(STATES) {
        reading.figures.check_all(Topic::StateBytes, line, &[(STATES, "GB"), ("ssm_state size:", "GB")]);
    }
}

/// `KV Cache is allocated. #tokens: N, K size: X GB, V size: Y GB`, or `KV size: X GB` where one tensor holds both.
fn pool(line: &Line, reading: &mut Reading) -> Option<()> {
    let marker =
        [POOL, RESIZED_POOL, RESIZED_DRAFT, POOL_BOUND].into_iter().find(|marker| line.has(marker))?;
    let mut scan = line.after(marker)?;
    let start = line.text.find(marker)?;
    if let Some(format) = line.value("dtype").and_then(kv_format).filter(|format| *format != "uint8") {
        reading.launch.set("kv_dtype", format, line.number);
    }
    scan.seek("#tokens:")?;
    let tokens = scan.number()?.whole()?;
    let rest = line.text.get(scan.at()..)?;
    let printed = if rest.contains("K size:") && rest.contains("V size:") && !rest.contains("KV size:") {
        scan.seek("K size:")?;
        let k = Printed::new(scan.number()?, Unit::GiB);
        scan.expect("GB")?;
        scan.seek("V size:")?;
        k.plus(Printed::new(scan.number()?, Unit::GiB))?
    } else {
        scan.seek("KV size:")?;
        Printed::new(scan.number()?, Unit::GiB)
    };
    scan.expect("GB")?;
    // What is sized again is one figure for the pools of full layers and of windows.
    let is_several = marker == RESIZED_DRAFT
        || marker == RESIZED_POOL && reading.figures.first(Topic::WindowTokens).is_some();
    let topic = match marker {
        POOL_BOUND => Topic::PoolBound,
        _ if is_several => Topic::OtherPool,
        _ => Topic::PoolBytes,
    };
    reading.figures.add(topic, printed, line, start, scan.at()).of = Some(tokens);
    Some(())
}

/// `conv_state size: X GB, ssm_state size: Y GB` of the line that names the slots.
fn states(line: &Line, reading: &mut Reading) -> Option<()> {
    let mut scan = line.after(STATES)?;
    let conv = Printed::new(scan.number()?, Unit::GiB);
    scan.expect("GB")?;
    scan.seek("ssm_state size:")?;
    let both = conv.plus(Printed::new(scan.number()?, Unit::GiB))?;
    scan.expect("GB")?;
    reading.figures.add(Topic::StateBytes, both, line, line.text.find(STATES)?, scan.at());
    Some(())
}

/// Tokens of the pool that keeps every token.
fn full_tokens(figures: &Figures) -> Option<u64> {
    figures.smallest(Topic::FullTokens).or_else(|| figures.smallest(Topic::PoolTokens))?.printed.whole()
}

/// Tokens of the pool that keeps every token on the ranks of `figure`: the least, where they differ.
fn tokens_of_rank(figures: &Figures, figure: &Figure) -> Option<u64> {
    let full = figures.beside(figure, Topic::FullTokens).min();
    full.or_else(|| figures.beside(figure, Topic::PoolTokens).min())
}

/// Tells the pools apart by their tokens, and finds a pool line that fits no pool.
pub(super) fn contradictions(
    _: &Engine,
    _: Option<&Architecture>,
    reading: &mut Reading,
) -> Vec<Contradiction> {
    tell_pools_apart(&mut reading.figures);
    let mut found = ranks_that_differ(&reading.figures);
    found.extend(pools_that_fit_nothing(&reading.figures, reading.launch.settings.dcp()));
    found
}

/// Pools of other tokens than their rank admits, each pair of lines once.
fn pools_that_fit_nothing(figures: &Figures, dcp: u64) -> Vec<Contradiction> {
    let mut ranks: Vec<Option<&str>> = Vec::new();
    for rank in figures.of(Topic::PoolBytes).flat_map(|pool| &pool.ranks) {
        if !ranks.contains(&Some(rank.as_str())) {
            ranks.push(Some(rank));
        }
    }
    if ranks.is_empty() {
        ranks.push(None);
    }
    let mut found: Vec<Contradiction> = Vec::new();
    for rank in ranks {
        let is_of_rank = |figure: &&Figure| {
            rank.is_none_or(|rank| figure.ranks.is_empty() || figure.ranks.iter().any(|own| own == rank))
        };
        let pools: Vec<&Figure> = figures.of(Topic::PoolBytes).filter(is_of_rank).collect();
        let mut totals: Vec<&Figure> = figures.of(Topic::PoolTokens).filter(is_of_rank).collect();
        if totals.is_empty() {
            // The first rank alone may say what all ranks of an engine admit.
            let engine = pools.iter().find_map(|pool| pool.engines().first().copied());
            totals = figures.of(Topic::PoolTokens).filter(|total| total.is_of(engine)).collect();
        }
        let fits = |pool: &Figure, total: &Figure| {
            pool.of
                .zip(total.printed.whole())
                .is_some_and(|(tokens, stated)| tokens == stated || tokens.checked_mul(dcp) == Some(stated))
        };
        if pools.iter().any(|pool| totals.iter().any(|total| fits(pool, total))) {
            continue;
        }
        let least = totals.iter().min_by(|a, b| a.printed.value().total_cmp(&b.printed.value()));
        let (Some(pool), Some(total)) = (pools.first(), least) else { continue };
        let lines = vec![pool.line, total.line];
        if found.iter().any(|known| known.lines == lines) {
            continue;
        }
        let what = format!(
            "line {} allocates {} tokens, line {} admits {}; the smaller is the capacity",
            pool.line,
            group_digits(pool.of.unwrap_or(0)),
            total.line,
            total.printed
        );
        found.push(Contradiction { lines, what, explained: false });
    }
    found
}

/// Which pool each line is of, by the tokens that its own rank states; a further pool of the same kind on a rank is a draft
/// model's.
fn tell_pools_apart(figures: &mut Figures) {
    let mut told: Vec<(usize, Topic)> = Vec::new();
    for (index, figure) in
        figures.all.iter().enumerate().filter(|(_, figure)| figure.topic == Topic::PoolBytes)
    {
        let is_window = figure.of.is_some_and(|tokens| {
            figures.beside(figure, Topic::WindowTokens).any(|window| window == tokens)
                && tokens_of_rank(figures, figure) != Some(tokens)
        });
        let topic = if is_window { Topic::WindowBytes } else { Topic::PoolBytes };
        let again = told.iter().any(|(at, known)| *known == topic && figures.all[*at].shares_rank(figure));
        told.push((index, if again { Topic::OtherPool } else { topic }));
    }
    for (index, topic) in told {
        figures.all[index].topic = topic;
    }
}

/// Ranks of one engine that print different slots. Each of them holds its share of every token, so an engine goes by the
/// least that any of them has.
fn ranks_that_differ(figures: &Figures) -> Vec<Contradiction> {
    let mut found = Vec::new();
    for topic in [Topic::FullTokens, Topic::PoolTokens] {
        for engine in figures.engines(&[topic]).into_iter().map(Some).chain([None]) {
            // A figure that names no engine is compared with those of none.
            let own: Vec<_> = figures
                .of(topic)
                .filter(|figure| match engine {
                    Some(engine) => figure.engines().contains(&engine),
                    None => figure.engines().is_empty(),
                })
                .filter(|figure| !figure.ranks.is_empty())
                .collect();
            let least = own.iter().min_by(|a, b| a.printed.value().total_cmp(&b.printed.value()));
            let most = own.iter().max_by(|a, b| a.printed.value().total_cmp(&b.printed.value()));
            let (Some(least), Some(most)) = (least, most) else { continue };
            if least.printed == most.printed {
                continue;
            }
            let what = format!(
                "{} has {} in line {}, {} has {} in line {}; ranks of one engine take the same tokens, so the smaller is \
                 the capacity",
                most.ranks.join(", "),
                most.printed,
                most.line,
                least.ranks.join(", "),
                least.printed,
                least.line
            );
            let mut lines = vec![most.line, least.line];
            lines.sort_unstable();
            found.push(Contradiction { lines, what, explained: false });
        }
    }
    found
}

/// Recomputes the figures by the pool rules for `architecture`.
pub(super) fn recompute(engine: &Engine, architecture: &Architecture, reading: &mut Reading) -> Result<()> {
    let mut settings = reading.launch.settings.clone();
    settings.pool_tokens = full_tokens(&reading.figures);
    settings.state_slots =
        reading.figures.smallest(Topic::StateSlots).and_then(|figure| figure.printed.whole());
    if settings.pool_tokens.is_none() {
        settings.pool_tokens = reading.figures.of(Topic::PoolBytes).find_map(|figure| figure.of);
    }
    let launched = reading.launch.dtype().map(|dtype| architecture.launched_in(dtype));
    let architecture = launched.as_ref().unwrap_or(architecture);
    let query = Query::new(architecture, engine.clone(), &settings)?;
    let report = report(&query)?;
    reading.launch.warnings.extend(report.warnings.iter().cloned());
    let windows = windows_of_pools(engine, architecture, &settings, &reading.figures)?;
    let bytes = |quantity| answer(&query, quantity).map(crate::engine::Figure::as_f64);
    // Ranks may have pools of different tokens.
    let own_tokens: Vec<Option<u64>> = reading
        .figures
        .all
        .iter()
        .map(|figure| tokens_of_rank(&reading.figures, figure).or(settings.pool_tokens))
        .collect();
    for (figure, own) in reading.figures.all.iter_mut().zip(own_tokens) {
        let of_pool = |tokens: Option<u64>, quantities: &[Quantity]| {
            let settings = Settings { pool_tokens: tokens, ..settings.clone() };
            let query = Query::new(architecture, engine.clone(), &settings)?;
            let bytes = quantities.iter().map(|quantity| answer(&query, *quantity));
            let bytes = bytes.map(|figure| figure.map(crate::engine::Figure::as_f64)).sum::<Result<f64>>();
            bytes.map(|bytes| Some(Range::exactly(bytes)))
        };
        figure.recomputed = match figure.topic {
            Topic::PoolBound if windows.is_empty() => {
                let tokens = figure.of;
                of_pool(tokens, &[Quantity::KvBytes, Quantity::IndexBytes])?
            }
            // The log sizes index keys with the latents that they belong to.
            Topic::PoolBytes if figure.of == own => of_pool(own, &[Quantity::KvBytes, Quantity::IndexBytes])?,
            Topic::WindowBytes => of_pool(own, &[Quantity::WindowBytes])?,
            Topic::StateBytes if settings.state_slots.is_some() => {
                Some(Range::exactly(bytes(Quantity::StateBytes)?))
            }
            Topic::TokenBytes => Some(Range::exactly(bytes(Quantity::PoolBytesPerToken)?)),
            Topic::MaxRunning => bytes(Quantity::MaxRunningRequests).ok().map(Range::exactly),
            Topic::WindowTokens => {
                let own = windows.iter().find(|(line, _)| *line == figure.line).or_else(|| windows.first());
                own.map(|(_, tokens)| *tokens)
            }
            _ => None,
        };
    }
    compressed(engine, architecture, &settings, &mut reading.figures);
    Ok(())
}

/// Recomputes what is printed of DeepSeek-V4's pools alone, from the lines that the profile prints for them.
fn compressed(engine: &Engine, architecture: &Architecture, settings: &Settings, figures: &mut Figures) {
    let printed = |settings: &Settings| -> Option<Figures> {
        let report = report(&Query::new(architecture, engine.clone(), settings).ok()?).ok()?;
        let mut own = Figures::default();
        for line in super::line::lines(&(report.log_lines.join("\n") + "\n")) {
            own.add_matches(V4_PATTERNS, &line);
        }
        Some(own)
    };
    let of_budget = |bytes: f64| {
        let available_kv_bytes = whole(bytes);
        printed(&Settings { available_kv_bytes, pool_tokens: None, ..settings.clone() })
    };
    let Some(own) = printed(settings) else { return };
    let budgets: Vec<Figure> = figures.of(Topic::PoolBudget).cloned().collect();
    let windows = own.first(Topic::WindowTokens).map(|figure| figure.printed);
    let other = figures.of(Topic::WindowTokens).find(|figure| Some(figure.printed) != windows);
    let other = other.map(|figure| figure.line);
    for figure in &mut figures.all {
        let follows_windows = matches!(figure.topic, Topic::CompressorRows | Topic::WindowBudget)
            || figure.topic == Topic::FullTokens && !budgets.is_empty();
        if let Some(line) = other.filter(|_| follows_windows) {
            figure.not_computed = Some(format!("the window pool of line {line} is another"));
            continue;
        }
        let of_tokens = || own.first(figure.topic).map(|own| own.printed.range());
        let budget = budgets.iter().find(|budget| budget.shares_rank(figure));
        let of_ends = || {
            let ends = budget?.printed.range();
            let of = |bytes| of_budget(bytes)?.first(figure.topic).map(|own| own.printed.range());
            Some(Range { low: of(ends.low)?.low, high: of(ends.high)?.high })
        };
        let recomputed = match figure.topic {
            Topic::SparseEntries | Topic::DenseEntries | Topic::CompressorRows => of_tokens(),
            Topic::FullTokens | Topic::RingBytes | Topic::WindowBudget => of_ends(),
            _ => None,
        };
        figure.recomputed = recomputed.or(figure.recomputed);
    }
}

/// Slots of the window layers beside each stated pool of the others, by its line; the engine's own pool first.
fn windows_of_pools(
    engine: &Engine,
    architecture: &Architecture,
    settings: &Settings,
    figures: &Figures,
) -> Result<Vec<(usize, Range)>> {
    let stated = figures.of(Topic::FullTokens).map(|figure| (figure.line, figure.printed.whole()));
    let mut windows = Vec::new();
    for (line, tokens) in std::iter::once((0, settings.pool_tokens)).chain(stated) {
        let settings = Settings { pool_tokens: tokens, ..settings.clone() };
        let report = report(&Query::new(architecture, engine.clone(), &settings)?)?;
        let mut own = Figures::default();
        for line in super::line::lines(&(report.log_lines.join("\n") + "\n")) {
            own.add_matches(PATTERNS, &line);
            own.add_matches(V4_PATTERNS, &line);
        }
        windows.extend(own.first(Topic::WindowTokens).map(|window| (line, window.printed.range())));
    }
    Ok(windows)
}

/// One sentence: what the capacity is.
pub(super) fn capacity(reading: &Reading) -> Option<String> {
    let figures = &reading.figures;
    let engines = figures.engines(&[Topic::FullTokens, Topic::PoolTokens, Topic::PoolBytes]);
    capacity_of(&engines, |engine| slots(reading, engine))
}

/// `375,360 token slots …` of one data-parallel engine's pool.
fn slots(reading: &Reading, engine: Option<&str>) -> Option<String> {
    let figures = &reading.figures;
    let pools = figures.of(Topic::PoolBytes).filter(|figure| figure.is_of(engine));
    let tokens = figures
        .smallest_of(Topic::FullTokens, engine)
        .or_else(|| figures.smallest_of(Topic::PoolTokens, engine))
        .and_then(|figure| figure.printed.whole())
        .into_iter()
        .chain(pools.filter_map(|figure| figure.of))
        .min()?;
    let beside = figures.smallest_of(Topic::WindowTokens, engine).map(|window| {
        format!(" in the layers that keep every token, beside {} in the window layers", window.printed)
    });
    let times = launch_length(&reading.launch).map(|length| {
        let times = tokens as f64 / length as f64;
        format!(": {times:.2} requests of {} tokens", group_digits(length))
    });
    let most = figures
        .smallest_of(Topic::MaxRunning, engine)
        .map(|most| format!(", with at most {} at once", most.printed));
    let rest: String = [beside, times, most].into_iter().flatten().collect();
    Some(format!("{} token slots{rest}", group_digits(tokens)))
}

fn launch_length(launch: &Launch) -> Option<u64> {
    launch.settings.max_model_len.filter(|length| *length > 0)
}
