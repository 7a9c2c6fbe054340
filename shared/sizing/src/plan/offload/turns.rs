//! Contexts at which restoring and computing change places.

use serde::Serialize;

use super::layout::Layouts;
use super::{CopyLayout, OffloadQuestion, Tier, computed_seconds};
use crate::{Result, Tokens};

/// A context from which on another way is the quicker one.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
pub struct Turn {
    /// The first context of it.
    pub from_tokens: Tokens,
    /// The way that is quicker from there on.
    pub quicker: Way,
}

/// A way to get the state.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Way {
    /// From the tier.
    Restore,
    /// Computed again.
    Recompute,
}

/// Where the quicker way changes, exact to one token between neighbours of the contexts that are tried; where chunks could
/// change it between two of them, at each of their boundaries.
pub(super) fn turns(
    question: &OffloadQuestion<'_>,
    tier: &Tier,
    layouts: &Layouts,
    layout: CopyLayout,
    computing: &[(u64, f64)],
) -> Result<Vec<Turn>> {
    let restoring = |tokens: u64| layouts.at(Tokens::new(tokens), layout).map(|copies| tier.seconds(copies));
    let quicker_at = |tokens: u64, computed: f64| Ok(quicker(restoring(tokens)?, computed));
    let mut turns = Turns { all: Vec::new(), last: None };
    let mut add = |tokens: u64, computed: f64| {
        turns.add(tokens, quicker_at(tokens, computed)?, |between| {
            quicker_at(between, computed_seconds(question, between)?)
        })
    };
    let Some(((first, computed), later)) = computing.split_first() else { return Ok(Vec::new()) };
    add(*first, *computed)?;
    let mut before = (*first, *computed);
    for (tokens, computed) in later {
        if let Some(chunk) = layouts.chunk() {
            let ends = [Tokens::new(before.0), Tokens::new(*tokens)];
            let [least, most] = layouts.between(ends, layout)?.map(|copies| tier.seconds(copies));
            if quicker(most, before.1) == Way::Recompute && quicker(least, *computed) == Way::Restore {
                for edge in edges(before.0, *tokens, chunk.get()) {
                    add(edge, computed_seconds(question, edge)?)?;
                }
            }
        }
        add(*tokens, *computed)?;
        before = (*tokens, *computed);
    }
    Ok(turns.all)
}

fn quicker(restoring: f64, computing: f64) -> Way {
    if restoring < computing { Way::Restore } else { Way::Recompute }
}

/// The last token of each chunk and the first of the next, strictly between two contexts.
fn edges(low: u64, high: u64, chunk: u64) -> impl Iterator<Item = u64> {
    let chunk = chunk.max(1);
    let boundaries = (low / chunk..=high / chunk).map(move |place| place * chunk);
    boundaries.flat_map(|edge| [edge, edge + 1]).filter(move |edge| (low + 1..high).contains(edge))
}

/// The turns so far, and the way at the context that was tried last.
struct Turns {
    all: Vec<Turn>,
    last: Option<(u64, Way)>,
}

impl Turns {
    /// The way at the next context; where it is another than at the last, it is looked for in between.
    fn add(&mut self, tokens: u64, way: Way, way_at: impl Fn(u64) -> Result<Way>) -> Result<()> {
        let from = match self.last {
            None => Some(tokens),
            Some((_, earlier)) if earlier == way => None,
            Some((last, _)) => {
                let (mut low, mut high) = (last, tokens);
                while high - low > 1 {
                    let middle = low + (high - low) / 2;
                    if way_at(middle)? == way {
                        high = middle;
                    } else {
                        low = middle;
                    }
                }
                Some(high)
            }
        };
        self.all.extend(from.map(|from| Turn { from_tokens: Tokens::new(from), quicker: way }));
        self.last = Some((tokens, way));
        Ok(())
    }
}

/// Seconds of computing at contexts four to a doubling, which every row compares with.
pub(super) fn computing_at(question: &OffloadQuestion<'_>, longest: u64) -> Result<Vec<(u64, f64)>> {
    let mut contexts = vec![1_u64];
    let mut power = 1_u64;
    while power < longest {
        for quarter in 4..8 {
            contexts.push((power.saturating_mul(quarter) / 4).min(longest));
        }
        power = power.saturating_mul(2);
    }
    contexts.push(longest);
    contexts.dedup();
    contexts.into_iter().map(|tokens| Ok((tokens, computed_seconds(question, tokens)?))).collect()
}
