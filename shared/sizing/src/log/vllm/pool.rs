//! The pool that figures of a start were computed from.

use super::{Figure, Figures, Range, Topic, whole};
use crate::engine::{Engine, Quantity, Query, answer};
use crate::settings::Settings;
use crate::{Architecture, Result, sort_short};

/// The pool's size in bytes: as printed, least first; else what the printed blocks or concurrency imply.
#[derive(Clone, Debug)]
pub(super) struct Pool {
    pub(super) low: u64,
    pub(super) high: u64,
    /// The topic that it was inferred from, which is not recomputed from it.
    pub(super) from: Topic,
}

/// Where a data-parallel engine says how large its pool is.
pub(super) const POOL_TOPICS: &[Topic] =
    &[Topic::Available, Topic::Blocks, Topic::Concurrency, Topic::Tokens, Topic::OldTokens];

pub(super) struct Planner<'a> {
    pub(super) architecture: &'a Architecture,
    pub(super) engine: &'a Engine,
    pub(super) settings: Settings,
}

impl Planner<'_> {
    pub(super) fn figure(&self, quantity: Quantity, available: Option<u64>) -> Result<f64> {
        let settings = Settings { available_kv_bytes: available, ..self.settings.clone() };
        let query = Query::new(self.architecture, self.engine.clone(), &settings)?;
        answer(&query, quantity).map(crate::engine::Figure::as_f64)
    }

    pub(super) fn range(&self, quantity: Quantity, pool: &Pool) -> Result<Range> {
        let low = self.figure(quantity, Some(pool.low))?;
        Ok(Range { low, high: self.figure(quantity, Some(pool.high))? })
    }

    /// The pool of one data-parallel engine.
    pub(super) fn pool(&self, figures: &Figures, engine: Option<&str>) -> Option<Pool> {
        // Blocks that are set are the pool, whatever the memory.
        match self.inferred(figures, engine, Topic::Override, Quantity::NumBlocks) {
            None => self.pool_of_memory(figures, engine),
            set => set,
        }
    }

    /// The pool that a figure on `topic` needs.
    fn inferred(
        &self,
        figures: &Figures,
        engine: Option<&str>,
        topic: Topic,
        quantity: Quantity,
    ) -> Option<Pool> {
        let range = figures.smallest_of(topic, engine)?.printed.range();
        let low = self.least(quantity, range.low)?;
        let above = self.least(quantity, range.high.next_up())?;
        Some(Pool { low, high: above - 1, from: topic })
    }

    /// The same without blocks that are set.
    pub(super) fn pool_of_memory(&self, figures: &Figures, engine: Option<&str>) -> Option<Pool> {
        if let Some(least) = figures.smallest_of(Topic::Available, engine) {
            // Ranks of a pipeline have blocks of their own sizes, so any of them may be the one that is short.
            let own = figures.of(Topic::Available).filter(|figure| figure.is_of(engine));
            let most = own.map(|figure| figure.printed.range().high).fold(0.0, f64::max);
            let high = if self.settings.pp() > 1 { most } else { least.printed.range().high };
            return Some(Pool {
                low: whole(least.printed.range().low)?,
                high: whole(high)?,
                from: Topic::Available,
            });
        }
        let inferred = |topic: Topic, quantity: Quantity| self.inferred(figures, engine, topic, quantity);
        inferred(Topic::Blocks, Quantity::NumBlocks)
            .or_else(|| inferred(Topic::Concurrency, Quantity::MaxConcurrency))
            .or_else(|| inferred(Topic::OldTokens, Quantity::LoggedKvTokens))
            .or_else(|| inferred(Topic::Tokens, Quantity::LoggedKvTokens))
    }

    /// The pools of figures whose worker planned from its own memory, where workers that differ each print what they have (vLLM up
    /// to about 0.10): by the rank that both name, else least with least, since every figure of a pool grows with it.
    pub(super) fn own_pools(&self, figures: &Figures, engine: Option<&str>) -> Vec<(usize, Pool)> {
        let mut memories: Vec<&Figure> =
            figures.of(Topic::Available).filter(|figure| figure.is_of(engine)).collect();
        if self.settings.pp() > 1 || memories.len() < 2 || figures.first(Topic::Override).is_some() {
            return Vec::new();
        }
        sort_short(&mut memories, |a, b| a.printed.value() > b.printed.value());
        let mut found = Vec::new();
        for topic in PRINTED_BY_WORKERS {
            let is_own = |(_, figure): &(usize, &Figure)| figure.topic == topic && figure.is_of(engine);
            let mut lines: Vec<(usize, &Figure)> = figures.all.iter().enumerate().filter(is_own).collect();
            if lines.len() < 2 {
                continue;
            }
            sort_short(&mut lines, |(_, a), (_, b)| a.printed.value() > b.printed.value());
            let own: Vec<&Figure> = lines.iter().map(|(_, figure)| *figure).collect();
            let by_order = in_order(&own, &memories);
            for (place, (index, figure)) in lines.iter().enumerate() {
                let named = memories.iter().copied().filter(|memory| figure.names_rank_of(memory));
                let mut of_figure: Vec<&Figure> = named.collect();
                if of_figure.is_empty() {
                    of_figure =
                        by_order.iter().filter(|(line, _)| *line == place).map(|(_, own)| *own).collect();
                }
                found.extend(pool_between(&of_figure).map(|pool| (*index, pool)));
            }
        }
        found
    }

    /// The smallest pool that reaches `wanted`, by halving: every figure of a pool grows with it.
    fn least(&self, quantity: Quantity, wanted: f64) -> Option<u64> {
        let (mut below, mut reaches) = (0_u64, 1_u64 << 50);
        while reaches - below > 1 {
            let middle = below.midpoint(reaches);
            // A pool that is too small for a plan reaches nothing.
            if self.figure(quantity, Some(middle)).is_ok_and(|figure| figure >= wanted) {
                reaches = middle;
            } else {
                below = middle;
            }
        }
        (reaches < 1 << 50).then_some(reaches)
    }
}

/// What every worker prints of the pool that it planned.
const PRINTED_BY_WORKERS: [Topic; 4] = [Topic::Tokens, Topic::OldTokens, Topic::Concurrency, Topic::Blocks];

/// The memories of lines, both least first: one for each time that a line stands in the log, or one for each line. None where
/// their numbers fit neither way.
fn in_order<'f>(lines: &[&Figure], memories: &[&'f Figure]) -> Vec<(usize, &'f Figure)> {
    let times = |figures: &[&Figure]| figures.iter().map(|figure| figure.times).sum::<usize>();
    if times(lines) == times(memories) {
        let places =
            lines.iter().enumerate().flat_map(|(place, line)| std::iter::repeat_n(place, line.times));
        let each = memories.iter().flat_map(|memory| std::iter::repeat_n(*memory, memory.times));
        return places.zip(each).collect();
    }
    if lines.len() == memories.len() { memories.iter().copied().enumerate().collect() } else { Vec::new() }
}

/// From the least to the most that these memories may be.
fn pool_between(memories: &[&Figure]) -> Option<Pool> {
    let ranges = || memories.iter().map(|memory| memory.printed.range());
    let low = ranges().map(|range| range.low).reduce(f64::min)?;
    let high = ranges().map(|range| range.high).reduce(f64::max)?;
    Some(Pool { low: whole(low)?, high: whole(high)?, from: Topic::Available })
}
