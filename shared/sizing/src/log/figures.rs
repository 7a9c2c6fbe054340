//! The figures that a log holds, in order, equal ones of several ranks merged.

use super::line::{Line, Scan};
use super::printed::{Printed, Range};
use super::topic::{Pattern, Topic};
use crate::sort_short;

/// One figure of the log.
#[derive(Clone, Debug)]
pub(super) struct Figure {
    pub(super) topic: Topic,
    pub(super) line: usize,
    /// Where it begins in the line.
    start: usize,
    pub(super) ranks: Vec<String>,
    pub(super) times: usize,
    pub(super) says: String,
    /// In place of the topic's own words.
    pub(super) means: Option<String>,
    pub(super) printed: Printed,
    /// The other count of the line: the length of a concurrency, the tokens or cells of a pool.
    pub(super) of: Option<u64>,
    pub(super) recomputed: Option<Range>,
    /// Why it was not recomputed, where that is no matter of the model being unknown.
    pub(super) not_computed: Option<String>,
}

/// All figures of one engine.
#[derive(Clone, Debug, Default)]
pub(super) struct Figures {
    pub(super) all: Vec<Figure>,
}

impl Figures {
    /// Adds a figure that stands in `line` from `start` to `end`, or counts it with an equal one.
    pub(super) fn add(
        &mut self,
        topic: Topic,
        printed: Printed,
        line: &Line,
        start: usize,
        end: usize,
    ) -> &mut Figure {
        let says = line.text.get(start..end).unwrap_or(&line.text).trim();
        let says = says.split_whitespace().collect::<Vec<_>>().join(" ");
        let rank = line.rank(start);
        let same = |known: &Figure| known.topic == topic && known.printed == printed && known.says == says;
        if let Some(at) = self.all.iter().position(same) {
            let known = &mut self.all[at];
            known.times += 1;
            if !rank.is_empty() && !known.ranks.contains(&rank) {
                known.ranks.push(rank);
                sort_short(&mut known.ranks, |a, b| a > b);
            }
            return &mut self.all[at];
        }
        self.all.push(Figure {
            topic,
            line: line.number,
            start,
            ranks: Some(rank).filter(|rank| !rank.is_empty()).into_iter().collect(),
            times: 1,
            says,
            means: None,
            printed,
            of: None,
            recomputed: None,
            not_computed: None,
        });
        self.all.last_mut().expect("one was pushed")
    }

    /// Adds what the patterns find in the line.
    pub(super) fn add_matches(&mut self, patterns: &[Pattern], line: &Line) {
        for pattern in patterns {
            if !pattern.within.is_empty() && !line.has(pattern.within) {
                continue;
            }
            let Some((printed, end)) = line.after(pattern.before).and_then(|scan| figure(scan, pattern))
            else {
                continue;
            };
            let start = line.text.find(pattern.before).unwrap_or(0);
            self.add(pattern.topic, printed, line, start, end);
        }
    }

    /// Puts the figures in the order of the log.
    pub(super) fn sort(&mut self) {
        sort_short(&mut self.all, |a, b| (a.line, a.start) > (b.line, b.start));
    }

    pub(super) fn of(&self, topic: Topic) -> impl Iterator<Item = &Figure> {
        self.all.iter().filter(move |figure| figure.topic == topic)
    }

    pub(super) fn first(&self, topic: Topic) -> Option<&Figure> {
        self.of(topic).next()
    }

    /// The smallest figure on a topic: what the engine goes by where ranks differ.
    pub(super) fn smallest(&self, topic: Topic) -> Option<&Figure> {
        self.of(topic).min_by(|a, b| a.printed.value().total_cmp(&b.printed.value()))
    }
}

fn figure(mut scan: Scan<'_>, pattern: &Pattern) -> Option<(Printed, usize)> {
    let printed = Printed::new(scan.number()?, pattern.unit);
    if !pattern.after.is_empty() {
        scan.expect(pattern.after)?;
    }
    Some((printed, scan.at()))
}
