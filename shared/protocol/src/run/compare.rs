use kvscope_sizing::Tokens;
use serde::{Deserialize, Serialize};

use super::{Cache, Case, Run, SampleSummary};

/// Two runs, case by case.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Comparison {
    /// The first run's name.
    pub a: String,
    /// The second run's name.
    pub b: String,
    /// Cases that both have, in the order of the first.
    pub differences: Vec<Difference>,
    /// Cases that only one of them has a time of.
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

/// Compares the cases that both runs have a time of.
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
    let unmatched = timed(a) + timed(b) - 2 * differences.len();
    Comparison {
        a: a.run.clone(),
        b: b.run.clone(),
        differences,
        unmatched: u32::try_from(unmatched).unwrap_or(u32::MAX),
        circumstances: circumstances(a, b),
    }
}

fn difference(a: &Case, b: &Case) -> Option<Difference> {
    let (x, y) = (of_one_layer(a)?, of_one_layer(b)?);
    let change = y.median / x.median - 1.0;
    let exceeds_noise = (a.is_steady() && b.is_steady()).then_some(x.p95 < y.p05 || y.p95 < x.p05);
    let (form, tokens) = (a.form.to_uppercase(), a.context.short());
    let place = format!("{form} of {} at {tokens} tokens, batch {}, {}", a.model, a.batch, a.cache.word());
    let by = format!("{:.1} %", change.abs() * 100.0);
    let sentence = match exceeds_noise {
        None => format!("{place}: not judged, since a run is not steady there."),
        Some(false) => format!("{place}: no difference beyond the noise ({by})."),
        Some(true) if change > 0.0 => {
            format!("{place}: the second run is slower by {by}, more than the noise.")
        }
        Some(true) => format!("{place}: the second run is faster by {by}, more than the noise."),
    };
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
            ended: Ended::Complete,
            plan: PlanRecord { budget_seconds: 1.0, forms: Vec::new(), seed: 1, fit_half: Vec::new() },
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
    fn another_machine_is_told() {
        let (a, mut b) = (run("a", Vec::new()), run("b", Vec::new()));
        b.machine.cpu = Some("another".to_owned());
        assert_eq!(compare_runs(&a, &b).circumstances, ["processor: unknown and another"]);
        assert!(compare_runs(&a, &a).circumstances.is_empty());
    }
}
