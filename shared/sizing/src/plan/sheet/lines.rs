//! What of an answer is drawn, over context or what stands in its place.

use super::super::compression::{AS_IT_IS, Choice};
use super::super::cost::CostCurve;
use super::super::offload::{CopyLayout, RestoreCurves};
use super::super::prefix::ReuseCurve;
use super::super::{
    CapacityPlan, CompressionAnswer, CostPlan, HandoverAt, HandoverCurve, LabelPlan, OffloadAnswer,
};
use crate::Tokens;

/// Lines over one axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Lines {
    /// What is drawn.
    pub title: String,
    /// What the vertical axis counts.
    pub quantity: LineQuantity,
    /// What the horizontal axis counts.
    pub across: LineAxis,
    /// Places along it, rising.
    pub places: Vec<u64>,
    /// The place of what was asked, whose values stand beside the names.
    pub at: u64,
    /// The lines, the most important first.
    pub lines: Vec<Line>,
    /// Figures of other quantities under it, over the same places.
    pub below: Vec<Lines>,
}

/// What the vertical axis counts.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum LineQuantity {
    /// Seconds.
    Seconds,
    /// Requests at once.
    Requests,
    /// Bytes.
    Bytes,
    /// Tokens, from none on.
    Tokens,
    /// Percent of a whole, from none on.
    Percent,
    /// Bytes, from none on.
    HeldBytes,
    /// Blocks and checkpoints, from none on.
    Objects,
}

impl LineQuantity {
    /// Whether it begins at none, in equal steps; others are above zero and count in powers.
    pub const fn begins_at_none(self) -> bool {
        matches!(self, Self::Tokens | Self::Percent | Self::HeldBytes | Self::Objects)
    }
}

/// What the horizontal axis counts.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum LineAxis {
    /// Tokens of a request.
    Context,
    /// Tokens that two requests share.
    Shared,
    /// Bits a second.
    BitRate,
    /// Requests of a trace, one after the other.
    Served,
}

/// One line.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// Its name.
    pub name: String,
    /// Its values, all above zero unless they are tokens; fewer than places where it ends.
    pub values: Vec<f64>,
}

impl Lines {
    fn over_context(title: &str, quantity: LineQuantity, contexts: &[Tokens], lines: Vec<Line>) -> Self {
        let places: Vec<u64> = contexts.iter().map(|n| n.get()).collect();
        let at = places.first().copied().unwrap_or_default();
        let (title, below) = (title.to_owned(), Vec::new());
        Self { title, quantity, across: LineAxis::Context, places, at, lines, below }
    }

    /// The same lines with what was asked among their places: `value` says by a line's name what it is there. A line that ends
    /// before stays as it is, and one without a value ends there.
    #[must_use]
    pub fn asked_at(mut self, at: Tokens, value: impl Fn(&str) -> Option<f64>) -> Self {
        self.at = at.get();
        let Err(place) = self.places.binary_search(&self.at) else { return self };
        self.places.insert(place, self.at);
        for line in self.lines.iter_mut().filter(|line| line.values.len() >= place) {
            match value(&line.name) {
                Some(value) => line.values.insert(place, value),
                None => line.values.truncate(place),
            }
        }
        self
    }
}

impl Line {
    /// Up to the first value that is nothing.
    fn above_zero(name: &str, values: &mut dyn Iterator<Item = f64>) -> Self {
        Self { name: name.to_owned(), values: values.take_while(|value| *value > 0.0).collect() }
    }
}

impl CapacityPlan {
    /// The most requests over their length, down to the last length of which one fits.
    pub fn lines(&self) -> Lines {
        let asked = self.at.iter().map(|at| (at.context, at.requests));
        let mut points: Vec<_> =
            self.frontier.iter().map(|point| (point.context, point.requests)).chain(asked).collect();
        crate::sort_short(&mut points, |a, b| a.0 > b.0);
        points.dedup_by_key(|point| point.0);
        let mut fits = points.iter().map_while(|(_, requests)| requests.map(|requests| requests as f64));
        let line = Line::above_zero("requests", &mut fits);
        let contexts: Vec<Tokens> = points.iter().map(|(context, _)| *context).collect();
        let title = "The most requests at once by their length";
        let lines = Lines::over_context(title, LineQuantity::Requests, &contexts, vec![line]);
        Lines { at: self.at.first().map_or(lines.at, |at| at.context.get()), ..lines }
    }
}

impl HandoverCurve {
    /// The prefill and what each link takes.
    pub fn lines(&self) -> Lines {
        let mut lines = vec![Line::above_zero(PREFILL, &mut self.prefill_seconds.iter().copied())];
        for (link, seconds) in &self.links {
            lines.push(Line::above_zero(link, &mut seconds.iter().copied()));
        }
        let title = "Seconds of the prefill and of sending its state";
        Lines::over_context(title, LineQuantity::Seconds, &self.contexts, lines)
    }
}

const PREFILL: &str = "prefill";

impl HandoverAt {
    /// Seconds of the line of this name.
    pub fn drawn(&self, name: &str) -> Option<f64> {
        if name == PREFILL {
            return Some(self.prefill_seconds);
        }
        self.links.iter().find(|link| link.link.link == name).map(|link| link.seconds)
    }
}

const RECOMPUTE: &str = "recompute";

fn restored(tier: &str, layout: CopyLayout) -> String {
    format!("{tier}, {}", layout.name().replace('_', " "))
}

impl RestoreCurves {
    /// Computing again and restoring from each tier.
    pub fn lines(&self) -> Lines {
        let mut lines = vec![Line::above_zero(RECOMPUTE, &mut self.recompute_seconds.iter().copied())];
        for restore in &self.restores {
            let name = restored(&restore.tier, restore.layout);
            lines.push(Line::above_zero(&name, &mut restore.seconds.iter().copied()));
        }
        let title = "Seconds of restoring and of computing again";
        Lines::over_context(title, LineQuantity::Seconds, &self.contexts, lines)
    }
}

impl OffloadAnswer {
    /// Seconds of the line of this name.
    pub fn drawn(&self, name: &str) -> Option<f64> {
        if name == RECOMPUTE {
            return Some(self.plan.recompute_seconds);
        }
        self.plan.rows.iter().find(|row| restored(&row.tier, row.layout) == name)?.seconds
    }
}

const WEIGHTS: &str = "weights";
const STATE: &str = "state";

impl CostCurve {
    /// What a decode step reads.
    pub fn lines(&self) -> Lines {
        let weights = self.weights.get() as f64;
        let mut weights = self.contexts.iter().map(|_| weights);
        let mut state = self.state.iter().map(|bytes| bytes.get() as f64);
        let lines = vec![Line::above_zero(WEIGHTS, &mut weights), Line::above_zero(STATE, &mut state)];
        let title = "Bytes that a decode step reads";
        Lines::over_context(title, LineQuantity::Bytes, &self.contexts, lines)
    }
}

impl CostPlan {
    /// Bytes of the line of this name.
    pub fn drawn(&self, name: &str) -> Option<f64> {
        let bytes = match name {
            WEIGHTS => self.decode.weight_read_bytes,
            _ => self.decode.state_read_bytes?,
        };
        Some(bytes.get() as f64).filter(|bytes| *bytes > 0.0)
    }
}

impl LabelPlan {
    /// What a request of each version holds, over the lengths of their labels.
    pub fn lines(plans: &[Self]) -> Lines {
        let contexts = plans.iter().map(|plan| plan.labels.iter().map(|label| label.context));
        let contexts: Vec<Tokens> =
            contexts.max_by_key(ExactSizeIterator::len).into_iter().flatten().collect();
        let held = |plan: &Self| {
            let mut bytes = plan.labels.iter().map(|label| label.resident_bytes.get() as f64);
            Line::above_zero(&plan.model, &mut bytes)
        };
        let title = "Bytes that a request holds";
        Lines::over_context(title, LineQuantity::Bytes, &contexts, plans.iter().map(held).collect())
    }

    /// Bytes of the line of this name.
    pub fn drawn(plans: &[Self], name: &str) -> Option<f64> {
        let label = plans.iter().find(|plan| plan.model == name)?.labels.first()?;
        Some(label.resident_bytes.get() as f64).filter(|bytes| *bytes > 0.0)
    }
}

impl ReuseCurve {
    /// Tokens that are computed under each rule.
    pub fn lines(&self, at: Tokens) -> Lines {
        let lines = self.rules.iter().map(|(rule, computed)| Line {
            name: rule.replace('_', " "),
            values: computed.iter().map(|tokens| tokens.get() as f64).collect(),
        });
        Lines {
            across: LineAxis::Shared,
            at: at.get(),
            ..Lines::over_context(
                "Tokens of the second prompt that are computed",
                LineQuantity::Tokens,
                &self.shared,
                lines.collect(),
            )
        }
    }
}

/// Powers of ten that a figure of bandwidths shows on either side of what was asked.
const DECADES: f64 = 100.0;
/// Places of a figure of bandwidths.
const RATES: u32 = 48;

impl CompressionAnswer {
    /// Seconds of each option that may be chosen, over bandwidths.
    pub fn lines(&self) -> Lines {
        let asked = self.bandwidth_bytes_per_second * 8.0;
        let turns = self.plan.by_bandwidth.iter().map(|one| one.from_bytes_per_second * 8.0);
        let turns: Vec<f64> = turns.filter(|rate| *rate > 0.0).collect();
        let least = turns.iter().fold(asked / DECADES, |least, rate| least.min(rate / 2.0)).max(1.0);
        let most = turns.iter().fold(asked * DECADES, |most, rate| most.max(rate * 2.0));
        let even = (0..=RATES).map(|step| least * (most / least).powf(f64::from(step) / f64::from(RATES)));
        let bits = even.chain(turns.iter().copied()).chain([asked]);
        let mut places: Vec<u64> = bits.filter_map(|rate| crate::cost::whole(rate).ok()).collect();
        places.sort_unstable();
        places.dedup();
        let seconds = |option: &Choice, bits: u64| {
            let beside = option.seconds - option.sent_bytes / self.bandwidth_bytes_per_second;
            beside + option.sent_bytes * 8.0 / bits as f64
        };
        let touches =
            |option: &&Choice| option.name == AS_IT_IS || option.pays_below_bytes_per_second.is_some();
        let lines = self.plan.options.iter().filter(touches).map(|option| {
            Line::above_zero(&option.name, &mut places.iter().map(|bits| seconds(option, *bits)))
        });
        Lines {
            title: "Seconds of sending by what the link moves".to_owned(),
            quantity: LineQuantity::Seconds,
            across: LineAxis::BitRate,
            lines: lines.collect(),
            at: crate::cost::whole(asked).unwrap_or_default(),
            below: Vec::new(),
            places,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines() -> Lines {
        let contexts = [1000, 2000, 4000].map(Tokens::new);
        let lines = vec![
            Line::above_zero("all", &mut [1.0, 2.0, 4.0].into_iter()),
            Line::above_zero("ends", &mut [8.0, 0.0].into_iter()),
        ];
        Lines::over_context("", LineQuantity::Seconds, &contexts, lines)
    }

    #[test]
    fn what_was_asked_stands_among_the_places() {
        let asked = lines().asked_at(Tokens::new(3000), |name| (name == "all").then_some(3.0));
        assert_eq!((asked.at, asked.places.as_slice()), (3000, &[1000, 2000, 3000, 4000][..]));
        assert_eq!(asked.lines[0].values, [1.0, 2.0, 3.0, 4.0]);
        assert_eq!(asked.lines[1].values, [8.0], "it had ended before");
        let same = lines().asked_at(Tokens::new(2000), |_| panic!("its values are there"));
        assert_eq!((same.at, same.places.len()), (2000, 3));
    }

    #[test]
    fn a_line_without_a_value_ends_there() {
        let asked = lines().asked_at(Tokens::new(1500), |_| None);
        assert_eq!((&asked.lines[0].values[..], &asked.lines[1].values[..]), (&[1.0][..], &[8.0][..]));
        let before = lines().asked_at(Tokens::new(500), |_| Some(0.5));
        assert_eq!((before.places[0], before.lines[1].values.as_slice()), (500, &[0.5, 8.0][..]));
    }
}
