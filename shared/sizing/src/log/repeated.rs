//! Figures of which a rank prints one a start, and prints two.

use super::figures::Figure;
use super::topic::Topic;
use super::{Contradiction, Reading};

/// Such figures.
const ONE_A_RANK: [Topic; 10] = [
    Topic::Available,
    Topic::Blocks,
    Topic::Override,
    Topic::Tokens,
    Topic::Concurrency,
    Topic::LongestLength,
    Topic::PoolTokens,
    Topic::FullTokens,
    Topic::StateSlots,
    Topic::MaxRunning,
];

/// The pairs of lines in which one rank says two figures.
pub(super) fn contradictions(reading: &Reading) -> Vec<Contradiction> {
    let mut found = Vec::new();
    for topic in ONE_A_RANK {
        let all: Vec<&Figure> = reading.figures.of(topic).collect();
        for (at, later) in all.iter().enumerate() {
            let earlier = all[..at].iter().rev().find(|earlier| is_contradicted(reading, earlier, later));
            let Some((earlier, rank)) =
                earlier.and_then(|earlier| Some((earlier, own_rank(reading, earlier, later)?)))
            else {
                continue;
            };
            let who = if rank.is_empty() { "the log".to_owned() } else { rank };
            let what = format!(
                "{who} says {} in line {} and {} in line {}; one start prints it once, so one of them is of another start \
                 or was changed",
                earlier.printed, earlier.line, later.printed, later.line
            );
            found.push(Contradiction { lines: vec![earlier.line, later.line], what, explained: false });
        }
    }
    found
}

fn is_contradicted(reading: &Reading, earlier: &Figure, later: &Figure) -> bool {
    let agree = later.printed.difference(earlier.printed.range(), later.printed.tolerance()).is_none();
    (!agree || earlier.of != later.of) && own_rank(reading, earlier, later).is_some()
}

/// The rank that prints both. One process prints the lines of several ranks where the log names it by less than its
/// tensor- and pipeline-parallel rank.
fn own_rank(reading: &Reading, one: &Figure, other: &Figure) -> Option<String> {
    let settings = &reading.launch.settings;
    let is_one_process = settings.tp().saturating_mul(settings.pp()) <= 1;
    if one.ranks.is_empty() && other.ranks.is_empty() {
        if one.process.zip(other.process).is_some_and(|(one, other)| one != other) {
            return None;
        }
        let alone = is_one_process && settings.dp.unwrap_or(1) <= 1;
        return alone.then(String::new);
    }
    let names_process =
        |rank: &&String| is_one_process || ["TP", "PP", "rank"].iter().any(|kind| rank.contains(kind));
    one.ranks.iter().filter(|rank| other.ranks.contains(rank)).find(names_process).cloned()
}
