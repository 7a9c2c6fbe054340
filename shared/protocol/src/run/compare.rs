use kvscope_sizing::{Bytes, Tokens, UnitSystem};
use serde::{Deserialize, Serialize};

use super::{Cache, Case, Direction, Pattern, Run, SampleSummary, TierName, Transfer};

/// Two runs, case by case.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Comparison {
    /// The first run's name.
    pub a: String,
    /// The second run's name.
    pub b: String,
    /// Cases that both have, in the order of the first.
    pub differences: Vec<Difference>,
    /// Transfers that both have, in the order of the first.
    pub transfers: Vec<TransferDifference>,
    /// Cases and transfers that only one of them has a time of.
    pub unmatched: u32,
    /// What differs between the machines or the plans, in sentences; a difference of times may come from it.
    pub circumstances: Vec<String>,
}

/// One case of two runs. Times are of one layer, since the runs may have held different numbers of layers.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Difference {
    /// [`Case::form`].
    pub form: String,
    /// [`Case::model`].
    pub model: String,
    /// [`Case::context`].
    pub context: Tokens,
    /// [`Case::batch`].
    pub batch: u64,
    /// [`Case::cache`].
    pub cache: Cache,
    /// Median seconds of one layer in the first run.
    pub a_seconds: f64,
    /// Median seconds of one layer in the second run.
    pub b_seconds: f64,
    /// (b − a) / a.
    pub change: f64,
    /// Whether the change exceeds the noise: the ranges in which nine in ten samples lie do not touch. `null` where one of
    /// the two is not steady, so that nothing can be said.
    pub exceeds_noise: Option<bool>,
    /// In one sentence.
    pub sentence: String,
}

/// One transfer of two runs.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct TransferDifference {
    /// [`Transfer::tier`].
    pub tier: TierName,
    /// [`Transfer::direction`].
    pub direction: Direction,
    /// [`Transfer::pattern`].
    pub pattern: Pattern,
    /// What is moved: `256 blocks of 4096 bytes`, or the state that they are of.
    pub what: String,
    /// Median seconds of the first run.
    pub a_seconds: f64,
    /// Median seconds of the second run, for as many bytes as the first moved.
    pub b_seconds: f64,
    /// (b − a) / a.
    pub change: f64,
    /// As [`Difference::exceeds_noise`].
    pub exceeds_noise: Option<bool>,
    /// In one sentence.
    pub sentence: String,
}

/// Compares the cases and the transfers that both runs have a time of.
pub fn compare_runs(a: &Run, b: &Run) -> Comparison {
    let same = |x: &Case, y: &Case| {
        (&x.form, &x.model, x.context, x.batch, x.cache) == (&y.form, &y.model, y.context, y.batch, y.cache)
    };
    let timed = |run: &Run| run.cases.iter().filter(|case| case.timing().is_some()).count();
    let mut left: Vec<&Case> = b.cases.iter().filter(|case| case.timing().is_some()).collect();
    let mut differences = Vec::new();
    for x in a.cases.iter().filter(|case| case.timing().is_some()) {
        let Some(place) = left.iter().position(|y| same(x, y)) else { continue };
        // A case that was matched is none of the next one's.
        differences.extend(difference(x, left.remove(place)));
    }
    let (x, y) = (transfers(a), transfers(b));
    let transfers: Vec<TransferDifference> = x.iter().filter_map(|one| matched(one, &y)).collect();
    let of_cases = timed(a) + timed(b) - 2 * differences.len();
    let unmatched = of_cases + x.len() + y.len() - 2 * transfers.len();
    Comparison {
        a: a.run.clone(),
        b: b.run.clone(),
        differences,
        transfers,
        unmatched: u32::try_from(unmatched).unwrap_or(u32::MAX),
        circumstances: circumstances(a, b),
    }
}

fn difference(a: &Case, b: &Case) -> Option<Difference> {
    let (x, y) = (of_one_layer(a)?, of_one_layer(b)?);
    let change = y.median / x.median - 1.0;
    let exceeds_noise = (a.is_steady() && b.is_steady()).then(|| is_apart(x, y));
    let (form, tokens) = (a.form.to_uppercase(), a.context.short());
    let place = format!("{form} of {} at {tokens} tokens, batch {}, {}", a.model, a.batch, a.cache.word());
    let sentence = sentence(&place, change, exceeds_noise);
    Some(Difference {
        form: a.form.clone(),
        model: a.model.clone(),
        context: a.context,
        batch: a.batch,
        cache: a.cache,
        a_seconds: x.median,
        b_seconds: y.median,
        change,
        exceeds_noise,
        sentence,
    })
}

/// Whether the ranges in which nine in ten samples lie do not touch.
fn is_apart(x: SampleSummary, y: SampleSummary) -> bool {
    x.p95 < y.p05 || y.p95 < x.p05
}

fn sentence(place: &str, change: f64, exceeds_noise: Option<bool>) -> String {
    let by = format!("{:.1} %", change.abs() * 100.0);
    match exceeds_noise {
        None => format!("{place}: not judged, since a run is not steady there."),
        Some(false) => format!("{place}: no difference beyond the noise ({by})."),
        Some(true) if change > 0.0 => {
            format!("{place}: the second run is slower by {by}, more than the noise.")
        }
        Some(true) => format!("{place}: the second run is faster by {by}, more than the noise."),
    }
}

/// Those that have a time. What cannot be read of another version's is left out.
fn transfers(run: &Run) -> Vec<Transfer> {
    let read = run.transfers.iter().filter_map(|stored| Transfer::read(stored).ok());
    read.filter(|one| one.measured.is_some() && one.correct != Some(false)).collect()
}

/// The same blocks between the same places; of a state as many as each run moved.
fn matched(x: &Transfer, others: &[Transfer]) -> Option<TransferDifference> {
    let key = |one: &Transfer| {
        let state = one.state.as_ref();
        let blocks =
            state.map_or((one.blocks, one.block_bytes), |state| (state.blocks_total, one.block_bytes));
        let whose = state.map(|state| (state.model.clone(), state.engine.clone(), state.context));
        (one.tier, one.direction, one.pattern, blocks, whose)
    };
    let y = others.iter().find(|y| key(y) == key(x))?;
    let (a, b) = (x.measured.as_ref()?.seconds, y.measured.as_ref()?.seconds);
    let scale = x.bytes.get() as f64 / y.bytes.get().max(1) as f64;
    let b = SampleSummary { median: b.median * scale, p05: b.p05 * scale, p95: b.p95 * scale, ..b };
    let change = b.median / a.median - 1.0;
    let exceeds_noise = (x.is_steady() && y.is_steady()).then(|| is_apart(a, b));
    let what = match &x.state {
        Some(state) => format!("{} at {} tokens", state.model, state.context.short()),
        None => format!("{} blocks of {} bytes", x.blocks, x.block_bytes.get()),
    };
    let place = format!("{} {} of {what} ({})", x.tier.word(), x.direction.word(), x.pattern.word());
    Some(TransferDifference {
        tier: x.tier,
        direction: x.direction,
        pattern: x.pattern,
        what,
        a_seconds: a.median,
        b_seconds: b.median,
        change,
        exceeds_noise,
        sentence: sentence(&place, change, exceeds_noise),
    })
}

fn of_one_layer(case: &Case) -> Option<SampleSummary> {
    let time = case.timing()?;
    let layers = case.layers_measured.max(1) as f64;
    Some(SampleSummary {
        median: time.median / layers,
        p05: time.p05 / layers,
        p95: time.p95 / layers,
        ..time
    })
}

fn circumstances(a: &Run, b: &Run) -> Vec<String> {
    let mut found = Vec::new();
    let mut differs = |what: &str, a: Option<String>, b: Option<String>| {
        if a != b {
            let word = |value: Option<String>| value.unwrap_or_else(|| "unknown".to_owned());
            found.push(format!("{what}: {} and {}", word(a), word(b)));
        }
    };
    let (x, y) = (&a.machine, &b.machine);
    let bytes = |bytes: Option<Bytes>| bytes.map(|bytes| bytes.display(UnitSystem::Binary));
    differs("kvscope version", a.version.clone(), b.version.clone());
    differs("architecture", Some(x.architecture.clone()), Some(y.architecture.clone()));
    differs("memory", bytes(x.memory_bytes), bytes(y.memory_bytes));
    differs("last-level cache", bytes(x.last_level_cache_bytes), bytes(y.last_level_cache_bytes));
    differs("large pages", x.huge_pages.clone(), y.huge_pages.clone());
    differs("backend", Some(a.backend.clone()), Some(b.backend.clone()));
    differs("processor", x.cpu.clone(), y.cpu.clone());
    differs("cores", x.cores.map(|cores| cores.to_string()), y.cores.map(|cores| cores.to_string()));
    differs("instructions", x.instructions.clone(), y.instructions.clone());
    differs("system", x.system.clone(), y.system.clone());
    differs("governor", x.governor.clone(), y.governor.clone());
    let read = |run: &Run| run.calibration.as_ref().map(|c| c.ceilings.read_bytes_per_second);
    if let (Some(x), Some(y)) = (read(a), read(b))
        && (y / x - 1.0).abs() > 0.05
    {
        found.push(format!("read ceiling: {:.1} and {:.1} GB/s", x / 1e9, y / 1e9));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::tests::{case, measured};
    use crate::run::{Ended, Machine, Measured, PlanRecord};

    fn run(name: &str, cases: Vec<Case>) -> Run {
        Run {
            run: name.to_owned(),
            schema: 1,
            backend: "cpu".to_owned(),
            started: "2026-11-29T15:00:00Z".to_owned(),
            version: None,
            ended: Ended::Complete,
            plan: PlanRecord::default(),
            machine: Machine::default(),
            calibration: None,
            cases,
            transfers: Vec::new(),
            verdicts: Vec::new(),
            notes: Vec::new(),
            spent: None,
        }
    }

    fn spread(median: f64, p05: f64, p95: f64) -> Measured {
        let mut measured = measured(median);
        (measured.seconds.p05, measured.seconds.p95) = (p05, p95);
        measured
    }

    #[test]
    fn each_case_is_matched_once() {
        let of = |seconds| case(0, "gqa", 1.0, Some(measured(seconds)));
        let (two, one) = (run("a", vec![of(1.0), of(1.0)]), run("b", vec![of(1.0)]));
        for (a, b) in [(&two, &one), (&one, &two)] {
            let comparison = compare_runs(a, b);
            assert_eq!((comparison.differences.len(), comparison.unmatched), (1, 1));
        }
    }

    #[test]
    fn ranges_that_do_not_touch_are_a_difference() {
        let of = |measured| case(0, "gqa", 1.0, Some(measured));
        let a = run("a", vec![of(spread(1.0, 0.95, 1.05))]);
        for (b, exceeds, word) in [
            (spread(1.2, 1.1, 1.3), Some(true), "slower by 20.0 %"),
            (spread(0.8, 0.7, 0.9), Some(true), "faster by 20.0 %"),
            (spread(1.04, 1.0, 1.1), Some(false), "no difference beyond the noise (4.0 %)"),
        ] {
            let comparison = compare_runs(&a, &run("b", vec![of(b)]));
            let difference = &comparison.differences[0];
            assert_eq!(difference.exceeds_noise, exceeds);
            assert!(difference.sentence.contains(word), "{}", difference.sentence);
            assert_eq!(comparison.unmatched, 0);
        }
    }

    #[test]
    fn layers_are_divided_out_and_what_is_unsteady_is_not_judged() {
        let a = run("a", vec![case(0, "gqa", 1.0, Some(measured(4.0)))]);
        let mut twice = case(0, "gqa", 1.0, Some(measured(8.0)));
        twice.layers_measured *= 2;
        let comparison = compare_runs(&a, &run("b", vec![twice.clone()]));
        assert!(comparison.differences[0].change.abs() < 1e-12);
        assert_eq!(comparison.differences[0].exceeds_noise, Some(false));

        twice.status = "unsteady: noise".to_owned();
        let comparison = compare_runs(&a, &run("b", vec![twice, case(1, "mla", 1.0, Some(measured(1.0)))]));
        assert_eq!(comparison.differences[0].exceeds_noise, None);
        assert_eq!(comparison.unmatched, 1);
    }

    #[test]
    fn transfers_of_the_same_blocks_are_compared_and_states_for_as_many_bytes() {
        use crate::run::transfer::tests::{Half, state, transfer};
        let of = |transfers: &[Transfer]| {
            let mut run = run("a", Vec::new());
            run.transfers = transfers.iter().map(|one| serde_json::to_value(one).unwrap()).collect();
            run
        };
        // Of the state the second run moved twice the blocks in three times the time: half as long again for each byte.
        let mut twice = state(1, 3.0);
        (twice.blocks, twice.bytes) = (twice.blocks * 2, twice.bytes.times(2).unwrap());
        let a = of(&[transfer(0, 1.0, Half::Judged, 1.0, "ok"), state(1, 1.0)]);
        let b = of(&[
            transfer(0, 1.0, Half::Judged, 1.0, "unsteady"),
            twice,
            transfer(2, 1.0, Half::Judged, 1.0, "ok"),
        ]);
        let found = compare_runs(&a, &b);
        assert_eq!((found.transfers.len(), found.unmatched), (2, 1));
        assert_eq!(found.transfers[0].exceeds_noise, None);
        let of_state = &found.transfers[1];
        assert!((of_state.change - 0.5).abs() < 1e-12);
        assert_eq!(
            of_state.sentence,
            "file restore of minimax-m2.7 at 16Ki tokens (fragments): the second run is slower by 50.0 %, more than the noise."
        );
    }

    #[test]
    fn another_machine_is_told() {
        let (a, mut b) = (run("a", Vec::new()), run("b", Vec::new()));
        b.machine.cpu = Some("another".to_owned());
        b.version = Some("0.2.0".to_owned());
        let told = ["kvscope version: unknown and 0.2.0", "processor: unknown and another"];
        assert_eq!(compare_runs(&a, &b).circumstances, told);
        assert!(compare_runs(&a, &a).circumstances.is_empty());
    }
}
