//! What the capacity of a start is, in one sentence.

use super::{POOL_TOPICS, implied};
use crate::group_digits;
use crate::log::Reading;
use crate::log::figures::{Figures, capacity_of};
use crate::log::printed::whole;
use crate::log::topic::Topic;

/// One sentence: what the capacity is.
pub(in crate::log) fn capacity(reading: &Reading) -> Option<String> {
    let figures = &reading.figures;
    let length = reading.launch.settings.max_model_len;
    let request = length.map_or("one request of the longest length".to_owned(), |length| {
        format!("one request of {} tokens", group_digits(length))
    });
    if let Some(needed) = figures.first(Topic::Needed) {
        let there =
            figures.smallest(Topic::Available).map(|figure| format!(" and {} are there", figure.printed));
        let longest = figures.first(Topic::LongestLength);
        let fits = longest.map(|figure| format!("; a request of at most {} would fit", figure.printed));
        let (there, fits) = (there.unwrap_or_default(), fits.unwrap_or_default());
        return Some(format!("The start is refused: {request} needs {}{there}{fits}.", needed.printed));
    }
    if let Some(tokens) = figures.smallest(Topic::StorableTokens) {
        return Some(format!(
            "The start is refused: {request} does not fit the pool, which stores {}.",
            tokens.printed
        ));
    }
    if let Some(line) = reading.refused {
        return Some(format!("The start is refused: line {line} says that no memory is left for the cache."));
    }
    let engines = figures.engines(POOL_TOPICS);
    if figures.first(Topic::Concurrency).is_none() {
        return without_concurrency(reading, &engines);
    }
    let several = engines.len() < 2 && figures.of(Topic::Concurrency).count() > 1;
    let parallel = engines.is_empty() && reading.launch.settings.dp > Some(1);
    let sentence = capacity_of(&engines, |engine| requests_at_once(figures, engine))?;
    Some(match (several, parallel) {
        (true, _) => sentence.replacen("The capacity", "The capacity of the engine that has least", 1),
        (false, true) => sentence.replacen("The capacity", "The capacity of each data-parallel engine", 1),
        (false, false) => sentence,
    })
}

/// `33.04 requests of 32,768 tokens at once, about …` of one engine's pool.
fn requests_at_once(figures: &Figures, engine: Option<&str>) -> Option<String> {
    let times = figures.smallest_of(Topic::Concurrency, engine)?;
    let line =
        figures.smallest_of(Topic::Tokens, engine).or_else(|| figures.smallest_of(Topic::OldTokens, engine));
    let range = implied(times.printed, times.of);
    let fits = |value: f64| (range.low - 1.0..=range.high + 1.0).contains(&value);
    let tokens = match line {
        Some(line) if fits(line.printed.value()) => format!("which is {}", line.printed),
        other => {
            let (how, tokens) = match times.printed.value() {
                0.0 => ("at most", range.high),
                _ => ("about", range.low.midpoint(range.high)),
            };
            let tokens = whole(tokens).map_or_else(|| "many".to_owned(), group_digits);
            let not = other.map(|line| format!("; the {} of line {} are not it", line.printed, line.line));
            format!("{how} {tokens} tokens at that length{}", not.unwrap_or_default())
        }
    };
    Some(format!(
        "{} requests of {} tokens at once, {tokens}",
        times.printed.to_string().trim_end_matches('x'),
        group_digits(times.of.unwrap_or(0)),
    ))
}

/// The capacity of a log whose concurrency line is missing or cannot be read: recomputed where the model is known, else
/// the token line's where its version computes it from the concurrency.
fn without_concurrency(reading: &Reading, engines: &[&str]) -> Option<String> {
    let figures = &reading.figures;
    let why = match figures.unreadable(Topic::Concurrency) {
        Some(line) => format!("the concurrency in line {line} cannot be read"),
        None => "the log has no concurrency line".to_owned(),
    };
    let length = reading.launch.settings.max_model_len;
    if let (Some(first), Some(length)) = (reading.concurrencies.first(), length) {
        let least = reading.concurrencies.iter().fold(*first, |a, b| if b.low < a.low { *b } else { a });
        let each = if reading.concurrencies.len() > 1 { " of the engine that has least" } else { "" };
        return Some(format!(
            "The capacity{each} is {} requests of {} tokens at once, recomputed; {why}.",
            least.in_times().trim_end_matches('x'),
            group_digits(length),
        ));
    }
    if let Some(set) = figures.smallest(Topic::Override) {
        return Some(format!("The capacity is {}, as num_gpu_blocks_override sets; {why}.", set.printed));
    }
    let line = figures.smallest(Topic::Tokens).or_else(|| figures.smallest(Topic::OldTokens))?;
    if line.topic == Topic::Tokens && reading.launch.version.is_some() {
        let one = capacity_of(engines, |engine| {
            let tokens = figures.smallest_of(Topic::Tokens, engine)?.printed;
            Some(format!("{tokens} in requests of the longest length"))
        })?;
        return Some(format!("{}; {why}.", one.trim_end_matches('.')));
    }
    Some(format!(
        "The capacity is unknown: the {} of line {} are it only where every layer keeps every token, and {why}.",
        line.printed, line.line
    ))
}
