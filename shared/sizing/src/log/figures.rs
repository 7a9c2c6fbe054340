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
    /// The first process that prints it, by its `pid`.
    pub(super) process: Option<u64>,
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

/// A figure of a known line that cannot be read.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Unreadable {
    pub(super) topic: Topic,
    pub(super) line: usize,
    /// What stands there.
    pub(super) word: String,
    /// What is wrong with it.
    pub(super) why: &'static str,
}

/// All figures of one engine.
#[derive(Clone, Debug, Default)]
pub(super) struct Figures {
    pub(super) all: Vec<Figure>,
    pub(super) unreadable: Vec<Unreadable>,
}

impl Unreadable {
    /// What is wrong, as a clause.
    pub(super) fn words(&self) -> String {
        format!("line {}: {:?} {}", self.line, self.word, self.why)
    }
}

impl Figure {
    /// The recomputed figure less the printed one, where the two differ beyond what printing rounds.
    pub(super) fn difference(&self) -> Option<String> {
        self.printed.difference(self.recomputed?, self.printed.tolerance())
    }

    /// The data-parallel ranks that print it, each of which is an engine with a pool of its own: `DP0` of `DP0 TP1`.
    pub(super) fn engines(&self) -> Vec<&str> {
        let mut engines: Vec<&str> = Vec::new();
        for part in self.ranks.iter().flat_map(|rank| rank.split(' ')).filter(|part| part.starts_with("DP")) {
            if !engines.contains(&part) {
                engines.push(part);
            }
        }
        engines
    }

    /// Whether `engine` prints it; a line that names no data-parallel rank holds for all.
    pub(super) fn is_of(&self, engine: Option<&str>) -> bool {
        let own = self.engines();
        own.is_empty() || engine.is_none_or(|engine| own.contains(&engine))
    }

    /// Whether both name a rank that prints them.
    pub(super) fn names_rank_of(&self, other: &Self) -> bool {
        self.ranks.iter().any(|rank| other.ranks.contains(rank))
    }

    /// Whether a rank prints both; a line that names none holds for all.
    pub(super) fn shares_rank(&self, other: &Self) -> bool {
        self.ranks.is_empty()
            || other.ranks.is_empty()
            || self.ranks.iter().any(|rank| other.ranks.contains(rank))
    }
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
            process: line.process(start),
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

    /// Takes back what a rank said on some topics before.
    pub(super) fn take_back(&mut self, topics: &[Topic], rank: &str) {
        self.all.retain_mut(|figure| {
            if !topics.contains(&figure.topic) {
                return true;
            }
            figure.ranks.retain(|own| own != rank);
            !rank.is_empty() && !figure.ranks.is_empty()
        });
    }

    /// Adds what the patterns find in the line.
    pub(super) fn add_matches(&mut self, patterns: &[Pattern], line: &Line) {
        for pattern in patterns {
            if !pattern.within.is_empty() && !line.has(pattern.within) {
                continue;
            }
            let Some(scan) = line.after(pattern.before) else { continue };
            let Some((printed, end)) = figure(scan, pattern) else {
                self.check(pattern.topic, line, scan, pattern.after);
                continue;
            };
            let start = line.text.find(pattern.before).unwrap_or(0);
            self.add(pattern.topic, printed, line, start, end);
        }
    }

    /// Notes a figure on `topic` that stands at `scan`, in front of the unit `after`, and cannot be read.
    pub(super) fn check(&mut self, topic: Topic, line: &Line, scan: Scan<'_>, after: &str) {
        if scan.is_unreadable(after) {
            let why = "is no figure that can be read";
            self.unreadable.push(Unreadable { topic, line: line.number, word: scan.word(), why });
        }
    }

    /// Notes the figures of a known line behind `markers`, each in front of a unit, that were not read: those that cannot
    /// be, else the first, where all of them can be and not be taken together.
    pub(super) fn check_all(&mut self, topic: Topic, line: &Line, markers: &[(&str, &str)]) {
        let known = self.unreadable.len();
        let scans = || markers.iter().filter_map(|(marker, unit)| Some((line.after(marker)?, *unit)));
        for (scan, unit) in scans() {
            self.check(topic, line, scan, unit);
        }
        let reads =
            |(mut scan, unit): (Scan<'_>, &str)| scan.number().is_some() && scan.expect(unit).is_some();
        if self.unreadable.len() == known
            && scans().all(reads)
            && let Some((scan, _)) = scans().next()
        {
            let why = "and the figures behind it cannot be taken together";
            self.unreadable.push(Unreadable { topic, line: line.number, word: scan.word(), why });
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
        self.smallest_of(topic, None)
    }

    /// The same among the ranks of one data-parallel engine.
    pub(super) fn smallest_of(&self, topic: Topic, engine: Option<&str>) -> Option<&Figure> {
        let own = self.of(topic).filter(|figure| figure.is_of(engine));
        own.min_by(|a, b| a.printed.value().total_cmp(&b.printed.value()))
    }

    /// The whole figures on a topic that a rank of `figure` prints too.
    pub(super) fn beside<'f>(&'f self, figure: &'f Figure, topic: Topic) -> impl Iterator<Item = u64> + 'f {
        self.of(topic).filter(|other| other.shares_rank(figure)).filter_map(|other| other.printed.whole())
    }

    /// The data-parallel engines that print figures on `topics`, in their order; none where none is named.
    pub(super) fn engines(&self, topics: &[Topic]) -> Vec<&str> {
        let mut engines: Vec<&str> = Vec::new();
        for figure in self.all.iter().filter(|figure| topics.contains(&figure.topic)) {
            for engine in figure.engines() {
                if !engines.contains(&engine) {
                    engines.push(engine);
                }
            }
        }
        sort_short(&mut engines, |a, b| (a.len(), *a) > (b.len(), *b));
        engines
    }

    /// The line of the first figure on a topic that cannot be read.
    pub(super) fn unreadable(&self, topic: Topic) -> Option<usize> {
        self.unreadable.iter().find(|found| found.topic == topic).map(|found| found.line)
    }
}

fn figure(mut scan: Scan<'_>, pattern: &Pattern) -> Option<(Printed, usize)> {
    let printed = Printed::new(scan.number()?, pattern.unit);
    if !pattern.after.is_empty() {
        scan.expect(pattern.after)?;
    }
    Some((printed, scan.at()))
}

/// What the pools of data-parallel engines hold, `each` of them apart: what all hold is said once.
pub(super) fn capacity_of(engines: &[&str], each: impl Fn(Option<&str>) -> Option<String>) -> Option<String> {
    let [_, _, ..] = engines else { return each(None).map(|one| format!("The capacity is {one}.")) };
    let held: Vec<(&str, String)> =
        engines.iter().filter_map(|engine| Some((*engine, each(Some(engine))?))).collect();
    let (_, first) = held.first()?;
    let count = held.len();
    let names: Vec<&str> = held.iter().map(|(engine, _)| *engine).collect();
    let silent: Vec<&str> = engines.iter().filter(|engine| !names.contains(engine)).copied().collect();
    let of_others = match silent.as_slice() {
        [] => String::new(),
        others => format!(" Nothing is printed for {}.", others.join(", ")),
    };
    if held.iter().all(|(_, other)| other == first) {
        let pools = if count == 1 {
            format!("in the pool of {}", names.join(", "))
        } else {
            format!("in each of {count} pools ({})", names.join(", "))
        };
        return Some(format!("The capacity is {first}, {pools}.{of_others}"));
    }
    let held: Vec<String> = held.iter().map(|(engine, held)| format!("{engine} {held}")).collect();
    Some(format!("The capacity is that of {count} pools: {}.{of_others}", held.join("; ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_engine_that_prints_nothing_is_said_to() {
        let both = ["DP0", "DP1"];
        let of = |silent: &str| {
            capacity_of(&both, |engine| (engine != Some(silent)).then(|| "100 tokens".to_owned())).unwrap()
        };
        assert_eq!(of("DP1"), "The capacity is 100 tokens, in the pool of DP0. Nothing is printed for DP1.");
        assert_eq!(of(""), "The capacity is 100 tokens, in each of 2 pools (DP0, DP1).");
    }
}
