//! Shares of a cache on devices, printed before its total: held against it, and against the model where no total is printed.

use super::CacheOf;
use crate::log::figures::{Figure, Figures};
use crate::log::line::Line;
use crate::log::printed::{Printed, Range, Unit};
use crate::log::topic::Topic;
use crate::log::{Contradiction, Reading};
use crate::settings::Settings;

/// Most bytes that a tensor takes beyond its content: it begins at a multiple, and CUDA fills the last row of quantised ones.
const PADDING_OF_TENSOR: u64 = 4 << 10;
/// Tensors of a layer at most, and layers where a line does not count them.
const TENSORS: u64 = 3;
const LAYERS: u64 = 128;

/// What announces a cache, in front of its cells.
const ANNOUNCES: &str = "KV cache, size =";

/// What one device holds of a cache, or of the recurrent memory.
#[derive(Clone, Copy, Debug)]
struct Share {
    topic: Topic,
    line: usize,
    printed: Printed,
}

/// What the log says of a cache beside its total, which builds of 2026 do not print unless they are asked for more.
#[derive(Clone, Debug)]
struct Told {
    of: CacheOf,
    announced: Option<Announced>,
    /// Where no total follows them.
    shares: Vec<Share>,
}

/// What the line says that announces a cache.
#[derive(Clone, Copy, Debug)]
struct Announced {
    cells: u64,
    line: usize,
}

/// The shares of a log.
#[derive(Clone, Debug, Default)]
pub(in crate::log) struct Shares {
    /// Those whose total may follow.
    waiting: Vec<Share>,
    announced: Option<Announced>,
    told: Vec<Told>,
}

impl Shares {
    /// Adds what stands in front of ` KV buffer size` or ` RS buffer size`.
    pub(super) fn add(&mut self, topic: Topic, line: usize, printed: Printed) {
        if matches!(topic, Topic::CacheBuffer | Topic::StateBuffer) {
            self.waiting.push(Share { topic, line, printed });
        }
    }

    /// What waits has no total; its cache is of `of`.
    fn close(&mut self, of: CacheOf) {
        let (caches, states): (Vec<Share>, Vec<Share>) =
            self.waiting.drain(..).partition(|share| share.topic == Topic::CacheBuffer);
        let announced = self.announced.take();
        for (of, announced, shares) in [(of, announced, caches), (CacheOf::States, None, states)] {
            if announced.is_some() || !shares.is_empty() {
                self.told.push(Told { of, announced, shares });
            }
        }
    }
}

/// `creating non-SWA KV cache, size = 131072 cells`: what came before it is over.
pub(super) fn announce(line: &Line, reading: &mut Reading) -> Option<()> {
    let mut scan = line.after(ANNOUNCES).filter(|_| line.has("creating"))?;
    let start = scan.at() - ANNOUNCES.len();
    reading.shares.close(reading.next_cache);
    reading.next_cache = CacheOf::announced(line);
    let number = scan.number()?;
    scan.expect("cells")?;
    reading.shares.announced = Some(Announced { cells: number.whole()?, line: line.number });
    let means = match reading.next_cache {
        CacheOf::EveryToken => "cells of the layers that keep every token, allocated in full at start",
        CacheOf::Windows => "cells of the window layers: their windows and a batch, not the context",
        CacheOf::States | CacheOf::Other => return None,
    };
    let printed = Printed::new(number, Unit::Cells);
    reading.figures.add(Topic::Cells, printed, line, start, scan.at()).means = Some(means.to_owned());
    Some(())
}

/// Takes the shares that wait for the total in `line`, and names what they do not add up to.
pub(super) fn totalled(line: &Line, topic: Topic, total: Option<Printed>, reading: &mut Reading) {
    let part = if topic == Topic::State { Topic::StateBuffer } else { Topic::CacheBuffer };
    let (own, rest): (Vec<Share>, Vec<Share>) =
        reading.shares.waiting.drain(..).partition(|share| share.topic == part);
    reading.shares.waiting = rest;
    if topic == Topic::Cache
        && let Some(announced) = reading.shares.announced.take()
    {
        let of = reading.next_cache;
        reading.shares.told.push(Told { of, announced: Some(announced), shares: Vec::new() });
    }
    let Some(total) = total else { return };
    if allocates_nothing(&own) {
        return;
    }
    let sum = added_up(&own);
    let content = Range { low: (sum.low - padding(&line.text)).max(0.0), high: sum.high };
    if total.difference(content, total.tolerance()).is_none() {
        return;
    }
    let what = format!(
        "{} {} on devices, but line {} says {total}; a line of a device is missing, or one was changed",
        holders(&own),
        total.show(middle(sum)),
        line.number,
    );
    let lines = own.iter().map(|share| share.line).chain([line.number]).collect();
    reading.doubts.push(Contradiction { lines, what, explained: false });
}

/// Recomputes what is told of caches beside their totals from those that the profile plans, in its order: layers that keep every token first.
pub(super) fn recompute(own: &Figures, reading: &mut Reading) {
    reading.shares.close(reading.next_cache);
    let settings = &reading.launch.settings;
    // DeepSeek-V4's layers keep windows and entries: its cache of every token has no layers, and is planned by nobody.
    let keeps_entries = own.of(Topic::Compressor).next().is_some();
    for cache in std::mem::take(&mut reading.shares.told) {
        let planned: Vec<&Figure> = match cache.of {
            CacheOf::States => own.of(Topic::State).collect(),
            _ => own.of(Topic::Cache).collect(),
        };
        let (planned, knows_cells) = match (cache.of, &planned[..]) {
            (CacheOf::EveryToken, _) if keeps_entries => continue,
            (CacheOf::Windows, [windows, ..]) if keeps_entries => {
                (*windows, settings.n_seq_max.is_some() && settings.n_ubatch.is_some())
            }
            (CacheOf::EveryToken, [whole, ..]) => (*whole, settings.n_ctx.is_some()),
            (CacheOf::Windows, [.., windows]) => {
                (*windows, settings.n_seq_max.is_some() && settings.n_ubatch.is_some())
            }
            (CacheOf::States, [states]) => (*states, settings.n_seq_max.is_some()),
            _ => continue,
        };
        if let (Some(announced), true) = (cache.announced, knows_cells) {
            let figures = reading.figures.all.iter_mut();
            let cells = planned.of.map(|cells| Range::exactly(cells as f64));
            figures
                .filter(|figure| figure.topic == Topic::Cells && figure.line == announced.line)
                .for_each(|figure| figure.recomputed = cells);
        }
        let cells = cache.announced.map(|announced| announced.cells);
        let is_known = cells.is_some() && cache.of != CacheOf::States || knows_cells;
        let Some(bytes) = bytes(planned, cells).filter(|_| is_known && knows_streams(settings)) else {
            continue;
        };
        match &cache.shares[..] {
            [] => {}
            [share] if allocates_nothing(&[*share]) => {}
            [share] => {
                let figures = reading.figures.all.iter_mut();
                figures
                    .filter(|figure| figure.topic == share.topic && figure.line == share.line)
                    .for_each(|figure| figure.recomputed = Some(bytes));
            }
            shares => reading.doubts.extend(other_bytes(shares, bytes)),
        }
    }
}

/// Each sequence has cells of its own unless all share them.
fn knows_streams(settings: &Settings) -> bool {
    settings.n_seq_max.is_some() || settings.kv_unified == Some(true)
}

/// Bytes of a planned cache with `cells` in place of its own, and with what tensors take beyond their content.
fn bytes(planned: &Figure, cells: Option<u64>) -> Option<Range> {
    let own = planned.of.filter(|cells| *cells > 0)? as f64;
    let times = cells.map_or(1.0, |cells| cells as f64 / own);
    let range = planned.printed.range();
    Some(Range { low: range.low * times, high: range.high * times + padding(&planned.says) })
}

fn other_bytes(shares: &[Share], bytes: Range) -> Option<Contradiction> {
    let sum = added_up(shares);
    let first = shares.first()?.printed;
    if allocates_nothing(shares) || sum.low <= bytes.high && bytes.low <= sum.high {
        return None;
    }
    let what = format!(
        "{} {} on devices, but the cache takes {}; a line of a device is missing, or one was changed",
        holders(shares),
        first.show(middle(sum)),
        first.show(bytes)
    );
    Some(Contradiction { lines: shares.iter().map(|share| share.line).collect(), what, explained: false })
}

/// `lines 3 and 4 hold`
fn holders(shares: &[Share]) -> String {
    let lines: Vec<String> = shares.iter().map(|share| share.line.to_string()).collect();
    match &lines[..] {
        [line] => format!("line {line} holds"),
        _ => format!("lines {} hold", lines.join(", ")),
    }
}

/// A start that only measures what would fit prints shares of 0.
fn allocates_nothing(shares: &[Share]) -> bool {
    shares.iter().all(|share| share.printed.value() <= 0.0)
}

fn added_up(shares: &[Share]) -> Range {
    shares.iter().fold(Range::exactly(0.0), |sum, share| {
        let own = share.printed.range();
        Range { low: sum.low + own.low, high: sum.high + own.high }
    })
}

fn middle(sum: Range) -> Range {
    Range::exactly(f64::midpoint(sum.low, sum.high))
}

/// Bytes that the tensors of a cache take beyond their content at most, by the layers that its line counts.
fn padding(total: &str) -> f64 {
    let layers = total.split_once(" layers").and_then(|(head, _)| head.split_whitespace().next_back());
    let layers = layers.and_then(|layers| layers.parse().ok()).unwrap_or(LAYERS);
    (layers.min(1 << 20) * TENSORS * PADDING_OF_TENSOR) as f64
}
