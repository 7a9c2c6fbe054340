//! What of an answer is drawn over context.

use super::super::offload::{CopyLayout, RestoreCurves};
use super::super::{CapacityPlan, HandoverPlan};
use crate::Tokens;

/// Lines over context.
#[derive(Clone, Debug, PartialEq)]
pub struct Lines {
    /// What is drawn.
    pub title: String,
    /// What the vertical axis counts.
    pub quantity: LineQuantity,
    /// The lengths, rising.
    pub contexts: Vec<Tokens>,
    /// The lines, the most important first.
    pub lines: Vec<Line>,
}

/// What the vertical axis counts.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum LineQuantity {
    /// Seconds.
    Seconds,
    /// Requests at once.
    Requests,
}

/// One line.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// Its name.
    pub name: String,
    /// Its values, all above zero; fewer than lengths where it ends.
    pub values: Vec<f64>,
}

impl CapacityPlan {
    /// The most requests over their length, down to the last length of which one fits.
    pub fn lines(&self) -> Lines {
        let asked = self.at.iter().map(|at| (at.context, at.requests));
        let mut points: Vec<_> =
            self.frontier.iter().map(|point| (point.context, point.requests)).chain(asked).collect();
        crate::sort_short(&mut points, |a, b| a.0 > b.0);
        points.dedup_by_key(|point| point.0);
        let fits = points.iter().map_while(|(_, requests)| *requests).take_while(|requests| *requests > 0);
        Lines {
            title: "The most requests at once by their length".to_owned(),
            quantity: LineQuantity::Requests,
            lines: vec![Line {
                name: "requests".to_owned(),
                values: fits.map(|requests| requests as f64).collect(),
            }],
            contexts: points.iter().map(|(context, _)| *context).collect(),
        }
    }
}

impl HandoverPlan {
    /// The prefill and what each link takes, over the lengths of the plan.
    pub fn lines(&self) -> Lines {
        let prefill = self.at.iter().map(|at| at.prefill_seconds).collect();
        let mut lines = vec![Line { name: "prefill".to_owned(), values: prefill }];
        for (place, link) in self.at.first().map_or(&[][..], |at| &at.links).iter().enumerate() {
            let seconds = |at: &super::super::HandoverAt| at.links.get(place).map(|link| link.seconds);
            let values = self.at.iter().map_while(seconds).take_while(|seconds| *seconds > 0.0);
            lines.push(Line { name: link.link.link.clone(), values: values.collect() });
        }
        Lines {
            title: "Seconds of the prefill and of sending its state".to_owned(),
            quantity: LineQuantity::Seconds,
            contexts: self.at.iter().map(|at| at.context).collect(),
            lines,
        }
    }
}

impl RestoreCurves {
    /// Computing again and restoring from each tier.
    pub fn lines(&self) -> Lines {
        let recompute = Line { name: "recompute".to_owned(), values: self.recompute_seconds.clone() };
        let name = |tier: &str, layout: CopyLayout| format!("{tier}, {}", layout.name().replace('_', " "));
        let restores = self.restores.iter().map(|restore| Line {
            name: name(&restore.tier, restore.layout),
            values: restore.seconds.clone(),
        });
        Lines {
            title: "Seconds of restoring and of computing again".to_owned(),
            quantity: LineQuantity::Seconds,
            contexts: self.contexts.clone(),
            lines: std::iter::once(recompute).chain(restores).collect(),
        }
    }
}
