//! The growth figure's data: exact values, line by line and at the cursor.

use kvscope_charts::Growth;
use kvscope_charts::figures::{Cursor, Limit, Provenance, Series, sample_contexts};
use kvscope_charts::versions::level;
use kvscope_sizing::engine::{Engine, EngineKind};
use kvscope_sizing::plan::{Gpus, Left};
use kvscope_sizing::{ByteKind, Bytes, LargestContext, Tokens, UnitSystem};

use crate::state::{Chosen, Page};

/// Exact values of everything that could be sized.
#[derive(Debug)]
pub(super) struct Curves {
    pub(super) contexts: Vec<Tokens>,
    pub(super) lines: Vec<Series>,
    pub(super) room: Option<Room>,
    pub(super) beside_weights: Option<BesideWeights>,
    /// Ranks of which the lines are of one; none without an engine.
    pub(super) ranks: Option<u64>,
}

impl Curves {
    /// Whether there is anything to draw: an axis without values would be made up.
    pub(super) fn has_figures(&self) -> bool {
        self.lines.iter().any(|line| !line.values.is_empty() || !line.reserved.is_empty())
    }
}

/// What fits the memory that was given.
#[derive(Debug)]
pub(super) struct Room {
    pub(super) memory: Bytes,
    /// The longest context of each version, or why there is none.
    pub(super) longest: Vec<(Chosen, Result<LargestContext, String>)>,
}

/// What GPUs leave beside the weights of each version, or why that is not known.
#[derive(Debug)]
pub(super) struct BesideWeights {
    pub(super) gpus: Gpus,
    pub(super) left: Vec<(Chosen, Result<Left, String>)>,
}

impl BesideWeights {
    fn of(page: Page, gpus: Gpus) -> Self {
        let (set, batch) = (page.drawn(), page.batch());
        let left = |chosen: &Chosen| Some((chosen.clone(), set.left(chosen, batch, gpus)?));
        Self { gpus, left: set.list.iter().filter_map(left).collect() }
    }

    /// A level for each version.
    pub(super) fn levels(&self, units: UnitSystem) -> impl Iterator<Item = Limit> {
        self.left.iter().filter_map(move |(chosen, left)| {
            level((&chosen.name, chosen.colour), self.gpus, left.as_ref().ok()?, units)
        })
    }
}

impl Room {
    pub(super) fn of(page: Page, memory: Bytes) -> Self {
        let (set, batch) = (page.chosen(), page.batch());
        let longest = |chosen: &Chosen| Some((chosen.clone(), set.longest(chosen, batch, memory)?));
        Self { memory, longest: set.list.iter().filter_map(longest).collect() }
    }

    /// The memory as a level of the figure, with the contexts at which versions reach it.
    pub(super) fn level(&self) -> Limit {
        let crossing = |(chosen, longest): &(Chosen, Result<LargestContext, String>)| match longest {
            Ok(LargestContext::Budget { tokens }) => Some((chosen.colour, *tokens)),
            _ => None,
        };
        Limit {
            bytes: self.memory,
            label: format!("{} for state", self.memory.as_given()),
            colour: None,
            crossings: self.longest.iter().filter_map(crossing).collect(),
        }
    }
}

pub(super) fn curves(page: Page, domain: (Tokens, Tokens), width: f64) -> Curves {
    let (chosen, batch) = (page.drawn(), page.batch());
    let kinks = chosen.sized().flat_map(|(_, state)| state.kinks());
    let ends = chosen.sized().filter_map(|(chosen, _)| allowed(chosen));
    let kinks: Vec<Tokens> = kinks.chain(ends).collect();
    // llama.cpp's plan goes by the length of its one context, so that each sample takes a plan of its own.
    let is_planned_anew = |(engine, _): &(Engine, _)| engine.kind() == EngineKind::LlamaCpp;
    let share = if chosen.engine.as_ref().is_some_and(is_planned_anew) { 0.25 } else { 1.0 };
    let contexts = readable_contexts(domain, width * share, &kinks);
    let chosen_set = &chosen;
    let line = |chosen: &Chosen| Series {
        id: chosen.id.clone(),
        name: chosen.name.clone(),
        colour: chosen.colour,
        provenance: Provenance::Computed,
        values: chosen_set.logical_curve(chosen, &contexts, batch),
        reserved: chosen_set.reserved_curve(chosen, &contexts, batch),
        allowed: allowed(chosen),
    };
    let lines = chosen.sized().map(|(chosen, _)| line(chosen)).collect();
    let is_resident = chosen.bytes == ByteKind::Resident;
    let room = page.memory().filter(|_| is_resident).map(|memory| Room::of(page, memory));
    let beside_weights = chosen.gpus.map(|gpus| BesideWeights::of(page, gpus));
    Curves { contexts, lines, room, beside_weights, ranks: chosen.ranks() }
}

/// The longest context that the version's config allows.
fn allowed(chosen: &Chosen) -> Option<Tokens> {
    chosen.model.as_ref()?.max_context()
}

/// About a context a pixel, rounded to three digits where nothing asks for more: what the pointer reads and sets.
fn readable_contexts(domain: (Tokens, Tokens), width: f64, kinks: &[Tokens]) -> Vec<Tokens> {
    const MOST: u16 = 1200;
    let count = (1..MOST).rev().step_by(50).find(|count| f64::from(*count) <= width * 0.8).unwrap_or(120);
    let exact = |n: u64| n.is_power_of_two() || kinks.iter().any(|kink| kink.get() == n);
    let (first, last) = (domain.0.get(), domain.1.get());
    let mut contexts: Vec<u64> = sample_contexts(domain, usize::from(count), kinks)
        .into_iter()
        .map(Tokens::get)
        .map(|n| if exact(n) || n == last { n } else { three_digits(n) })
        .filter(|n| (first..=last).contains(n))
        .collect();
    contexts.sort_unstable();
    contexts.dedup();
    contexts.into_iter().map(Tokens::new).collect()
}

fn three_digits(n: u64) -> u64 {
    let unit = 10_u64.pow(n.max(1).ilog10().saturating_sub(2));
    (n + unit / 2) / unit * unit
}

/// Exact values at any context: those of the figure where it was sampled, else asked for.
pub(super) fn cursor(page: Page, growth: &Growth, context: Tokens, emphasis: Option<usize>) -> Cursor {
    let sampled = growth.cursor_at(context);
    if sampled.values.iter().any(Option::is_some) {
        return Cursor { emphasis, ..sampled };
    }
    let (chosen, batch) = (page.drawn(), page.batch());
    let sized = || chosen.sized().map(|(chosen, _)| chosen);
    let values = sized().map(|of| chosen.logical(of, (context, batch)).ok()).collect();
    let reserved = |of: &Chosen| chosen.reserved(of, (context, batch))?.ok();
    let reserved = if chosen.engine.is_some() { sized().map(reserved).collect() } else { Vec::new() };
    Cursor { context, values, reserved, emphasis }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sampled_contexts_rise_and_are_readable() {
        let domain = (Tokens::new(1024), Tokens::new(1 << 20));
        for width in [0.0, 360.0, 900.0, 3000.0] {
            let contexts = readable_contexts(domain, width, &[Tokens::new(1025)]);
            assert!(contexts.windows(2).all(|pair| pair[0] < pair[1]));
            assert_eq!((contexts[0], contexts[contexts.len() - 1]), domain);
            assert!(contexts.contains(&Tokens::new(1025)) && contexts.contains(&Tokens::new(65_536)));
        }
        assert_eq!(three_digits(103_219), 103_000);
        assert_eq!(three_digits(999_600), 1_000_000);
        assert_eq!(three_digits(7), 7);
    }
}
