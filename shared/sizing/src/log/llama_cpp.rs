//! llama.cpp: one line for each cache of cells, one for the recurrent memory, and buffers by device.
//!
//! Line shapes: llama.cpp of 2023 to October 2026 (`llama-kv-cache*.cpp`, `llama-memory-recurrent.cpp`,
//! `llama-context.cpp`) and logs in public reports.

mod shares;

use super::figures::{Figure, Figures};
use super::launch::{Key, plain, truth};
use super::line::{Line, Scan};
use super::printed::{Printed, Range, Unit};
use super::stated::By;
use super::topic::Topic;
use super::{Contradiction, Reading};
use crate::engine::{Engine, Query, report};
use crate::state::counted;
use crate::{Architecture, Result, group_digits};
pub(super) use shares::Shares;

const KEYS: &[Key] = &[
    ("n_ctx", "n_ctx", plain),
    ("n_seq_max", "n_seq_max", plain),
    ("n_ubatch", "n_ubatch", plain),
    ("kv_unified", "kv_unified", truth),
    ("flash_attn", "flash_attn", truth),
    ("n_rs_seq", "n_rs_seq", plain),
];

/// Prefixes of the lines in which a context states its parameters.
const CONTEXT_LINES: [&str; 4] = [
    "llama_context:",
    "llama_new_context_with_model:",
    "llama_init_from_model:",
    "llama_model_load_internal:",
];

/// What a cache is of, by the line that announces it. A cache that no line announces has a cell for every token.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) enum CacheOf {
    #[default]
    EveryToken,
    Windows,
    /// Recurrent memory, which is no cache.
    States,
    /// Entries for several tokens, and whatever else a class makes.
    Other,
}

/// Cells for every token, in each of several streams.
#[derive(Clone, Copy, Debug)]
pub(super) struct WholeCache {
    line: usize,
    cells: u64,
    streams: u64,
}

impl CacheOf {
    /// `creating non-SWA KV cache, size = 131072 cells`, `creating DSV4 HCA compressed KV cache, …`.
    fn announced(line: &Line) -> Self {
        if ["non-SWA KV cache", "main KV cache", "DSA KV cache"].iter().any(|words| line.has(words)) {
            return Self::EveryToken;
        }
        if line.has("SWA KV cache") { Self::Windows } else { Self::Other }
    }
}

/// What a line of a cache or of the recurrent memory says.
struct Allocation<'l> {
    total: Printed,
    cells: Option<u64>,
    sequences: Option<u64>,
    streams: Option<u64>,
    /// Snapshots of each state to roll back to.
    snapshots: Option<u64>,
    /// Type and size of K and V, or of R and S; no size where the line is cut in it.
    sides: Vec<(&'l str, Option<Printed>, usize, usize)>,
    start: usize,
    end: usize,
}

/// Reads one line.
pub(super) fn read(line: &Line, reading: &mut Reading) {
    if reading.other_model {
        return;
    }
    if let Some(name) = name(line) {
        if reading.launch.model.as_deref().is_some_and(|known| known != name)
            && !reading.figures.all.is_empty()
        {
            reading.other_model = true;
            let what = format!(
                "line {} loads a second model, {name:?}; it and what follows are left out",
                line.number
            );
            reading.launch.warn("model", what);
            return;
        }
        reading.launch.model(Some(&name), By::Engine, line.number);
        reading.launch.seen = true;
    }
    if CONTEXT_LINES.iter().any(|prefix| line.has(prefix)) && reading.figures.first(Topic::Cache).is_none() {
        reading.launch.read(line, KEYS);
    }
    if line.has("Flash Attention was auto, set to enabled") {
        reading.launch.set("flash_attn", "true", line.number);
    }
    if line.has("using full-size SWA cache") {
        reading.launch.set("swa_full", "true", line.number);
    }
    if let Some(number) = build(line) {
        reading.launch.version(Some(number), line.number);
        reading.launch.seen = true;
    }
    shares::announce(line, reading);
    cache(line, reading);
    compressor(line, reading);
    buffer(line, reading);
}

/// `general.name = X` as it is printed, or as it is dumped from the file.
fn name(line: &Line) -> Option<String> {
    let scan = line.after("general.name")?;
    let (_, name) = line.text[scan.at()..].split_once('=')?;
    Some(name.trim().to_owned()).filter(|name| !name.is_empty())
}

/// `build: 6123 (…)` or `build_info: b9100-…`.
fn build(line: &Line) -> Option<String> {
    let mut scan =
        line.after("build_info: b").or_else(|| line.after("build: ")).or_else(|| line.after("build = "))?;
    Some(format!("b{}", scan.number()?.whole()?))
}

fn cache(line: &Line, reading: &mut Reading) -> Option<()> {
    let recurrent = line.has("llama_memory_recurrent:");
    if !recurrent && !line.has("llama_kv_cache") && !line.has("KV self size") && !line.has("kv self size") {
        return None;
    }
    let topic = if recurrent { Topic::State } else { Topic::Cache };
    let Some(found) = allocation(line) else {
        if let Some(scan) = line.after(size_marker(line)).and_then(behind_equals) {
            reading.figures.check(topic, line, scan, "M");
            shares::totalled(line, topic, None, reading);
        }
        return None;
    };
    shares::totalled(line, topic, Some(found.total), reading);
    let settings = &reading.launch.settings;
    let (no_sequences, no_streams) = (settings.n_seq_max.is_none(), settings.kv_unified.is_none());
    if let Some(sequences) = found.sequences.filter(|sequences| no_sequences && *sequences > 0) {
        reading.launch.set("n_seq_max", &sequences.to_string(), line.number);
    }
    if let Some(streams) = found.streams.filter(|_| no_streams && !recurrent && found.sequences > Some(1)) {
        reading.launch.set("kv_unified", if streams == 1 { "true" } else { "false" }, line.number);
    }
    if let Some(snapshots) = found.snapshots {
        reading.launch.set("n_rs_seq", &snapshots.to_string(), line.number);
    }
    let of = if recurrent { CacheOf::States } else { std::mem::take(&mut reading.next_cache) };
    let window = of == CacheOf::Windows;
    if let (CacheOf::EveryToken, Some(cells)) = (of, found.cells) {
        let streams = found.streams.unwrap_or(1).max(1);
        reading.whole_caches.push(WholeCache { line: line.number, cells, streams });
    }
    if of == CacheOf::EveryToken
        && reading.launch.settings.n_ctx.is_none()
        && let Some(cells) = found.cells
    {
        let total = cells.saturating_mul(found.streams.unwrap_or(1));
        reading.launch.set("n_ctx", &total.to_string(), line.number);
    }
    let topics = if recurrent {
        [Topic::State, Topic::StateR, Topic::StateS]
    } else {
        [Topic::Cache, Topic::CacheK, Topic::CacheV]
    };
    let added = reading.figures.add(topics[0], found.total, line, found.start, found.end);
    added.of = found.cells;
    added.means = match (recurrent, window) {
        (true, _) => None,
        (false, true) => {
            Some(format!("window layers: {}, the window and a batch, not the context", cells_of(&found)))
        }
        (false, false) => Some(format!("{}, allocated in full at start", cells_of(&found))),
    };
    for ((kind, size, start, end), (topic, setting)) in
        found.sides.iter().zip([(topics[1], "k_dtype"), (topics[2], "v_dtype"), (Topic::StateP, "")])
    {
        if let Some(size) = size {
            reading.figures.add(topic, *size, line, *start, *end).of = found.cells;
        }
        if !recurrent {
            reading.launch.set(setting, kind, line.number);
        }
    }
    Some(())
}

/// `a cache of 4,096 cells for each of 4 sequences`
fn cells_of(found: &Allocation<'_>) -> String {
    let cells = found.cells.map_or(String::new(), |cells| format!(" of {} cells", group_digits(cells)));
    let shared = match (found.sequences, found.streams) {
        (Some(sequences), Some(1)) if sequences > 1 => format!(", shared by {sequences} sequences"),
        (Some(sequences), Some(streams)) if streams > 1 && sequences == streams => {
            format!(" for each of {sequences} sequences")
        }
        _ => String::new(),
    };
    format!("a cache{cells}{shared}")
}

fn allocation(line: &Line) -> Option<Allocation<'_>> {
    let marker = size_marker(line);
    let mut scan = line.after(marker)?;
    scan.expect("=")?;
    let total = mebibytes(&mut scan)?;
    let mut found = Allocation {
        total,
        cells: None,
        sequences: None,
        streams: None,
        snapshots: None,
        sides: Vec::new(),
        start: line.text.find(marker)? + marker.len() - "size".len(),
        end: scan.at(),
    };
    if scan.expect("(").is_some() {
        let mut inside = scan;
        found.cells = inside.number().and_then(super::printed::Decimal::whole);
        let words = scan.up_to(")").unwrap_or("");
        if let Some((head, _)) = words.split_once(" seqs") {
            let count = head.rsplit(',').next().unwrap_or("").trim();
            // Builds without the second number have one stream.
            let (sequences, streams) = count.split_once('/').unwrap_or((count, "1"));
            found.sequences = sequences.trim().parse().ok();
            found.streams = streams.trim().parse().ok();
        }
        let snapshots = words.split_once(" rs_seq").and_then(|(head, _)| head.split_whitespace().next_back());
        found.snapshots = snapshots.and_then(|count| count.parse().ok());
        found.end = scan.at();
    }
    for side in ["K (", "V (", "R (", "S (", "P ("] {
        let Some(at) = line.text.get(found.end..).and_then(|rest| rest.find(side)).map(|at| at + found.end)
        else {
            continue;
        };
        // `c^KV (q8_0)` is a latent, neither K nor V.
        if line.text[..at].ends_with('K') {
            continue;
        }
        let mut scan = line.after(side)?;
        let Some(kind) = scan.up_to("):") else { continue };
        found.sides.push((kind, mebibytes(&mut scan), at, scan.at()));
    }
    Some(found)
}

fn size_marker(line: &Line) -> &'static str {
    if line.has("self size") { "self size" } else { ": size" }
}

fn behind_equals(mut scan: Scan<'_>) -> Option<Scan<'_>> {
    scan.expect("=")?;
    Some(scan)
}

fn mebibytes(scan: &mut Scan<'_>) -> Option<Printed> {
    let number = scan.number()?;
    scan.expect("MiB").or_else(|| scan.expect("MB"))?;
    Some(Printed::new(number, Unit::MiB))
}

/// `csa ratio = 4, state = 8 x 2048, streams = 1, rs_seq = 0, layers = 21, size = 1.31 MiB` of DeepSeek-V4's compressors.
fn compressor(line: &Line, reading: &mut Reading) -> Option<()> {
    let start = line.after(" ratio = ")?.at() - " ratio = ".len();
    let mut scan = line.after(", state = ")?;
    scan.seek("layers =")?;
    scan.seek("size =")?;
    let size = mebibytes(&mut scan)?;
    reading.figures.add(Topic::Compressor, size, line, start, scan.at());
    Some(())
}

/// `CUDA0 compute buffer size = 488.00 MiB` and its like.
fn buffer(line: &Line, reading: &mut Reading) -> Option<()> {
    const KINDS: [(&str, Topic); 5] = [
        (" KV buffer size", Topic::CacheBuffer),
        (" RS buffer size", Topic::StateBuffer),
        (" compute buffer size", Topic::ComputeBuffer),
        (" output buffer size", Topic::OutputBuffer),
        (" model buffer size", Topic::ModelBuffer),
    ];
    let (marker, topic) = KINDS.into_iter().find(|(marker, _)| line.has(marker))?;
    let mut scan = line.after(marker)?;
    scan.expect("=")?;
    let figure = scan;
    let Some(size) = mebibytes(&mut scan) else {
        reading.figures.check(topic, line, figure, "M");
        return None;
    };
    let head = line.text.split(marker).next().unwrap_or("").trim_end();
    let start = head.rfind(char::is_whitespace).map_or(0, |at| at + 1);
    reading.figures.add(topic, size, line, start, scan.at());
    reading.shares.add(topic, line.number, size);
    Some(())
}

/// Tokens that the caches for every token have room for, of all streams: of the smallest, where they differ.
fn least_cache(reading: &Reading) -> Option<(WholeCache, u64)> {
    let sized = reading.whole_caches.iter().map(|cache| (*cache, cache.cells.saturating_mul(cache.streams)));
    sized.min_by_key(|(_, tokens)| *tokens)
}

/// A context that its caches have no room for, or far more. Each stream is rounded up, and the context before it is divided.
fn other_cells(reading: &Reading) -> Option<Contradiction> {
    const ROUNDING: u64 = 256;
    let stated = reading.launch.read.iter().find(|setting| setting.name == "n_ctx")?;
    let (cache, tokens) = least_cache(reading)?;
    let n_ctx = reading.launch.settings.n_ctx?;
    let most = n_ctx.saturating_add(ROUNDING.saturating_mul(cache.streams + 1));
    if (n_ctx..=most).contains(&tokens) {
        return None;
    }
    let cells = counted(cache.cells, "cell", "cells");
    let of_streams =
        if cache.streams > 1 { format!(" in each of {} streams", cache.streams) } else { String::new() };
    let what = format!(
        "line {} says n_ctx {}, but the cache of line {} has {cells}{of_streams}; the smaller is the capacity",
        stated.line,
        group_digits(n_ctx),
        cache.line,
    );
    Some(Contradiction { lines: vec![stated.line, cache.line], what, explained: false })
}

/// A total that is not the sum of its parts, and cells that are not those of the context.
pub(super) fn contradictions(
    _: &Engine,
    _: Option<&Architecture>,
    reading: &mut Reading,
) -> Vec<Contradiction> {
    let mut found: Vec<Contradiction> = other_cells(reading).into_iter().collect();
    for total in
        reading.figures.all.iter().filter(|figure| matches!(figure.topic, Topic::Cache | Topic::State))
    {
        let parts: Vec<&Figure> = reading
            .figures
            .all
            .iter()
            .filter(|part| part.line == total.line && is_part(part.topic))
            .collect();
        if parts.len() < 2 {
            continue;
        }
        let sum = parts.iter().fold(0.0, |sum, part| sum + part.printed.value());
        let tolerance =
            total.printed.tolerance() + parts.iter().fold(0.0, |sum, part| sum + part.printed.tolerance());
        if total.printed.difference(Range::exactly(sum), tolerance).is_some() {
            let parts = total.printed.show(Range::exactly(sum));
            let what = format!("line {} says {}, but its parts add up to {parts}", total.line, total.printed);
            found.push(Contradiction { lines: vec![total.line], what, explained: false });
        }
    }
    found
}

fn is_part(topic: Topic) -> bool {
    matches!(topic, Topic::CacheK | Topic::CacheV | Topic::StateR | Topic::StateS | Topic::StateP)
}

/// Recomputes the caches for `architecture`: the profile prints its own lines, and each line of the log is held
/// against the one with as many cells, else against the next that is left.
pub(super) fn recompute(engine: &Engine, architecture: &Architecture, reading: &mut Reading) -> Result<()> {
    let settings = reading.launch.settings.clone();
    let query = Query::new(architecture, engine.clone(), &settings)?;
    let report = report(&query)?;
    let says_type = settings.kv_dtype.is_some() || settings.k_dtype.is_some();
    if !says_type && reading.figures.first(Topic::Cache).is_some() {
        let what =
            "no line says the type of K and V; recomputed in f16, which llama.cpp takes where none is given";
        reading.launch.warn("kv_dtype", what);
    }
    reading.launch.warnings.extend(report.warnings.iter().cloned());
    let mut own = Reading::default();
    for line in super::line::lines(&(report.log_lines.join("\n") + "\n")) {
        cache(&line, &mut own);
        compressor(&line, &mut own);
    }
    for topic in [Topic::Cache, Topic::State] {
        for (line, partner) in pairs(&reading.figures, &own.figures, topic) {
            for figure in reading.figures.all.iter_mut().filter(|figure| figure.line == line) {
                let computed = own.figures.of(figure.topic).find(|other| other.line == partner);
                figure.recomputed = computed.map(|other| Range::exactly(other.printed.value()));
                if let Some(what) = computed.and_then(|other| wrong_counts(figure, other)) {
                    reading.doubts.push(Contradiction { lines: vec![line], what, explained: false });
                }
            }
        }
    }
    // Printed one after the other in one order: CSA, HCA, the indexer's.
    let compressors: Vec<f64> =
        own.figures.of(Topic::Compressor).map(|figure| figure.printed.value()).collect();
    if compressors.len() == reading.figures.of(Topic::Compressor).count() {
        let logged = reading.figures.all.iter_mut().filter(|figure| figure.topic == Topic::Compressor);
        logged.zip(compressors).for_each(|(figure, bytes)| figure.recomputed = Some(Range::exactly(bytes)));
    }
    shares::recompute(&own.figures, reading);
    Ok(())
}

/// Cells and layers that do not make up the bytes of their line, which are right. Of a cache whose bytes differ that is
/// said already.
fn wrong_counts(figure: &Figure, computed: &Figure) -> Option<String> {
    let tolerance = figure.printed.tolerance();
    if figure.topic != Topic::Cache
        || figure.printed.difference(computed.printed.range(), tolerance).is_some()
    {
        return None;
    }
    let counts = [("cells", figure.of, computed.of), ("layers", layers(figure), layers(computed))];
    let wrong = counts.into_iter().filter_map(|(name, printed, right)| {
        let (printed, right) = (printed?, right?);
        (printed != right).then(|| {
            format!(
                "says {} {name}, but {} take {}",
                group_digits(printed),
                group_digits(right),
                figure.printed
            )
        })
    });
    let wrong: Vec<String> = wrong.collect();
    (!wrong.is_empty()).then(|| format!("line {} {}", figure.line, wrong.join(" and ")))
}

/// `36` of `4096 cells, 36 layers`.
fn layers(figure: &Figure) -> Option<u64> {
    figure.says.split_once(" layers")?.0.split_whitespace().next_back()?.parse().ok()
}

/// Line numbers of a cache in the log and of its counterpart.
fn pairs(logged: &Figures, own: &Figures, topic: Topic) -> Vec<(usize, usize)> {
    let mut left: Vec<&Figure> = own.of(topic).collect();
    let mut pairs = Vec::new();
    let mut take = |figure: &Figure, fits: &dyn Fn(&Figure) -> bool| {
        let at = left.iter().position(|other| fits(other))?;
        pairs.push((figure.line, left.remove(at).line));
        Some(())
    };
    // The same size decides between caches of as many cells, such as those of two layer kinds.
    let exact = |figure: &Figure, other: &Figure| {
        other.of == figure.of
            && figure.printed.difference(other.printed.range(), figure.printed.tolerance()).is_none()
    };
    let logged: Vec<&Figure> = logged.of(topic).collect();
    let rest: Vec<&&Figure> =
        logged.iter().filter(|figure| take(figure, &|other| exact(figure, other)).is_none()).collect();
    let rest: Vec<&&&Figure> =
        rest.iter().filter(|figure| take(figure, &|other| other.of == figure.of).is_none()).collect();
    for figure in rest {
        take(figure, &|_| true);
    }
    pairs
}

/// One sentence: what the capacity is.
pub(super) fn capacity(reading: &Reading) -> Option<String> {
    let settings = &reading.launch.settings;
    let whole = least_cache(reading);
    let sequences = settings.n_seq_max.unwrap_or(1).max(1);
    let cells = settings.n_ctx.into_iter().chain(whole.map(|(_, tokens)| tokens)).min();
    let Some(cells) = cells else {
        reading.figures.first(Topic::State)?;
        return Some(format!(
            "The capacity is that of {sequences} recurrent states; the log shows no cache of tokens."
        ));
    };
    if settings.kv_unified == Some(true) && settings.n_seq_max.is_none() {
        return Some(format!(
            "The capacity is {} tokens, shared by all sequences; the log does not say how many.",
            group_digits(cells)
        ));
    }
    if sequences == 1 {
        return Some(format!("The capacity is one sequence of {} tokens.", group_digits(cells)));
    }
    if settings.kv_unified == Some(true) {
        return Some(format!(
            "The capacity is {} tokens, shared by {sequences} sequences.",
            group_digits(cells)
        ));
    }
    let each = match whole {
        Some((cache, _)) if cache.streams > 1 => cache.cells.min(cells),
        _ => cells / sequences,
    };
    Some(format!("The capacity is {sequences} sequences of {} tokens each.", group_digits(each)))
}
