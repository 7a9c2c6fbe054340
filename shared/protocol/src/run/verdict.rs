use serde::Serialize;

use kvscope_sizing::prediction::Bound;
use kvscope_sizing::{Tokens, record};

use super::{Cache, Case, quantile};

/// How well the prediction held over the cases of one form. Errors are ratios: 0.1 is 10 %.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verdict {
    /// The form, with `hot` behind it where its caches were left as they were.
    pub of: String,
    /// Cases with a measured time that holds (`ok`).
    pub points: u32,
    /// Cases that were measured and are not steady; they are not in the figures.
    pub unsteady: u32,
    /// Median of |predicted − measured| / measured; `null` without points.
    pub median_error: Option<f64>,
    /// The error that nine in ten cases stay within; `null` without points.
    pub p90_error: Option<f64>,
    /// Median of (predicted − measured) / measured: negative where steps are slower than predicted.
    pub bias: Option<f64>,
    /// The case with the largest error; `null` for a tier.
    pub worst: Option<WorstPoint>,
    /// The transfer with the largest error; `null` for a form.
    pub worst_transfer: Option<WorstTransfer>,
    /// Operations for every byte of state, the median over the cases; `null` where they are not known.
    pub intensity: Option<f64>,
    /// What bounds most of the cases by their predictions.
    pub bound: Option<Bound>,
    /// Median share of the bound that the steady cases reach: the larger of bytes over bandwidth and FLOPs over rate, over the
    /// measured time.
    pub bound_share: Option<f64>,
    /// How the fit did on the points that it has not seen; `null` where there are none.
    pub fit: Option<FitVerdict>,
    /// The verdict in words.
    pub sentence: String,
}

/// How well a fit to one half of the points describes the other half.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FitVerdict {
    /// Steady points that it was not made from.
    pub judged: u32,
    /// Median of |fitted − measured| / measured over those.
    pub median_error: f64,
    /// The error that nine in ten of those stay within.
    pub p90_error: f64,
    /// Median of (fitted − measured) / measured over those.
    pub bias: f64,
}

/// The case that is farthest from its prediction.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WorstPoint {
    /// [`Case::model`].
    pub model: String,
    /// [`Case::context`].
    pub context: Tokens,
    /// [`Case::batch`].
    pub batch: u64,
    /// (predicted − measured) / measured.
    pub error: f64,
}

/// The transfer that is farthest from what its fit or its prediction says.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WorstTransfer {
    /// Its number in the run.
    pub transfer: u32,
    /// (predicted or fitted − measured) / measured.
    pub error: f64,
}

record!(Verdict {
    of,
    points,
    unsteady,
    median_error,
    p90_error,
    bias,
    worst,
    intensity,
    bound,
    bound_share,
    fit,
    sentence;
    or default worst_transfer
});
record!(WorstTransfer { transfer, error });
record!(FitVerdict { judged, median_error, p90_error, bias });
record!(WorstPoint { model, context, batch, error });

/// One verdict per form and cache, in the order in which they appear. Unsteady cases are counted, never averaged in.
pub fn verdicts(cases: &[Case]) -> Vec<Verdict> {
    let mut groups: Vec<(&str, Cache)> = Vec::new();
    for case in cases {
        if !groups.contains(&(case.form.as_str(), case.cache)) {
            groups.push((&case.form, case.cache));
        }
    }
    groups.into_iter().map(|(form, cache)| verdict_of(form, cache, cases)).collect()
}

fn verdict_of(form: &str, cache: Cache, cases: &[Case]) -> Verdict {
    let of_form = || cases.iter().filter(|case| case.form == form && case.cache == cache);
    let measured = || of_form().filter(|case| case.timing().is_some());
    let steady: Vec<(&Case, f64)> = measured()
        .filter(|case| case.is_steady())
        .filter_map(|case| case.time_error().map(|error| (case, error)))
        .collect();
    let unsteady = measured().filter(|case| !case.is_steady()).count();
    let signed: Vec<f64> = steady.iter().map(|(_, error)| *error).collect();
    let absolute: Vec<f64> = signed.iter().map(|error| error.abs()).collect();
    let worst = steady.iter().max_by(|a, b| a.1.abs().total_cmp(&b.1.abs())).map(|(case, error)| {
        WorstPoint { model: case.model.clone(), context: case.context, batch: case.batch, error: *error }
    });

    let mut verdict = Verdict {
        of: match cache {
            Cache::Cold => form.to_owned(),
            Cache::Hot => format!("{form} hot"),
        },
        points: count(steady.len()),
        unsteady: count(unsteady),
        median_error: quantile(&absolute, 0.5),
        p90_error: quantile(&absolute, 0.9),
        bias: quantile(&signed, 0.5),
        worst,
        worst_transfer: None,
        intensity: quantile(&of_form().filter_map(Case::intensity).collect::<Vec<_>>(), 0.5),
        bound: most_common(of_form().filter_map(|case| case.predicted.bound)),
        bound_share: quantile(
            &steady.iter().filter_map(|(case, _)| case.bound_share).collect::<Vec<_>>(),
            0.5,
        ),
        fit: fit_verdict(steady.iter().map(|(case, _)| *case)),
        sentence: String::new(),
    };
    verdict.sentence = sentence(&verdict);
    verdict
}

fn fit_verdict<'a>(steady: impl Iterator<Item = &'a Case>) -> Option<FitVerdict> {
    let errors: Vec<f64> = steady
        .filter_map(|case| {
            let fitted = case.fitted.filter(|fitted| !fitted.used)?;
            let measured = case.timing()?.median;
            Some(fitted.seconds.0 / measured - 1.0)
        })
        .collect();
    let absolute: Vec<f64> = errors.iter().map(|error| error.abs()).collect();
    Some(FitVerdict {
        judged: count(errors.len()),
        median_error: quantile(&absolute, 0.5)?,
        p90_error: quantile(&absolute, 0.9)?,
        bias: quantile(&errors, 0.5)?,
    })
}

fn most_common(bounds: impl Iterator<Item = Bound>) -> Option<Bound> {
    let mut counts: Vec<(Bound, usize)> = Vec::new();
    for bound in bounds {
        match counts.iter_mut().find(|(known, _)| *known == bound) {
            Some((_, count)) => *count += 1,
            None => counts.push((bound, 1)),
        }
    }
    // The first of equals: smaller contexts come first, so a tie names what bounds those.
    counts.into_iter().rev().max_by_key(|(_, count)| *count).map(|(bound, _)| bound)
}

fn sentence(verdict: &Verdict) -> String {
    let form = in_capitals(&verdict.of);
    let (Some(median), Some(bias), Some(worst)) = (verdict.median_error, verdict.bias, &verdict.worst) else {
        return match verdict.unsteady {
            0 => format!("{form}: nothing was measured."),
            1 => {
                format!("{form}: the one measured point is unsteady, so the prediction could not be judged.")
            }
            n => format!(
                "{form}: all {n} measured points are unsteady, so the prediction could not be judged."
            ),
        };
    };
    let points =
        if verdict.points == 1 { "1 point".to_owned() } else { format!("{} points", verdict.points) };
    let side = if bias.abs() < 0.02 {
        "with no clear bias".to_owned()
    } else {
        format!("steps are typically {} than predicted", if bias < 0.0 { "slower" } else { "faster" })
    };
    let left_out = match verdict.unsteady {
        0 => String::new(),
        n => format!("; {n} unsteady left out"),
    };
    format!(
        "{form}: over {points} the predicted time is {:.1} % off in the median, {side}; the worst is {:+.0} % at {} tokens{left_out}.",
        median * 100.0,
        worst.error * 100.0,
        worst.context.short(),
    ) + &bound_words(verdict)
        + &fit_words(verdict)
}

/// `GQA@fp8`, `MLA hot`: the form in capitals, what is said of it as it is.
fn in_capitals(of: &str) -> String {
    let (form, rest) = of.split_at(of.find(['@', ' ']).unwrap_or(of.len()));
    form.to_uppercase() + rest
}

/// ` It does 6.0 operations a byte, memory bounds it, and steps reach 81 % of that bound.`
fn bound_words(verdict: &Verdict) -> String {
    let (Some(intensity), Some(bound)) = (verdict.intensity, verdict.bound) else { return String::new() };
    let side = match bound {
        Bound::Memory => "memory bounds it",
        Bound::Compute => "computing bounds it",
        Bound::Launch => "starting the workers bounds it",
    };
    let reached = verdict
        .bound_share
        .filter(|_| bound != Bound::Launch)
        .map_or(String::new(), |share| format!(", and steps reach {:.0} % of that bound", share * 100.0));
    let and = if reached.is_empty() { " and" } else { "," };
    format!(" It does {intensity:.1} operations a byte{and} {side}{reached}.")
}

/// ` A fit to the other half is 2.1 % off in the median over 3 points that it has not seen.`
fn fit_words(verdict: &Verdict) -> String {
    let Some(fit) = &verdict.fit else { return String::new() };
    let points = if fit.judged == 1 { "1 point".to_owned() } else { format!("{} points", fit.judged) };
    format!(
        " A fit to the declared half is {:.1} % off in the median over {points} that it has not seen.",
        fit.median_error * 100.0
    )
}

fn count(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::tests::{case, measured};

    #[test]
    fn errors_bias_and_worst_by_hand() {
        // predicted 1.0 against 1.25, 1.0, 0.8 and 2.0 measured: −0.2, 0, +0.25, −0.5.
        let mut cases: Vec<Case> = [1.25, 1.0, 0.8, 2.0]
            .into_iter()
            .zip(0..)
            .map(|(seconds, index)| case(index, "gqa", 1.0, Some(measured(seconds))))
            .collect();
        cases[3].context = Tokens::new(65_536);
        let mut noisy = case(4, "gqa", 1.0, Some(measured(9.0)));
        noisy.status = "unsteady: 30 % spread".to_owned();
        cases.push(noisy);

        let verdict = &verdicts(&cases)[0];
        assert_eq!((verdict.points, verdict.unsteady), (4, 1));
        // Absolute errors sorted: 0, 0.2, 0.25, 0.5: median 0.225; p90 at 2.7: 0.25 + 0.7 × 0.25.
        assert!((verdict.median_error.unwrap() - 0.225).abs() < 1e-12);
        assert!((verdict.p90_error.unwrap() - 0.425).abs() < 1e-12);
        assert!((verdict.bias.unwrap() + 0.1).abs() < 1e-12);
        assert_eq!(verdict.worst.as_ref().unwrap().context, Tokens::new(65_536));
        assert_eq!(
            verdict.sentence,
            "GQA: over 4 points the predicted time is 22.5 % off in the median, steps are typically slower than predicted; \
             the worst is -50 % at 64Ki tokens; 1 unsteady left out. It does 6.0 operations a byte and memory bounds it."
        );
    }

    #[test]
    fn the_bound_and_the_fit_are_in_the_words() {
        let mut cases: Vec<Case> =
            (0..4).map(|index| case(index, "gqa", 1.0, Some(measured(1.25)))).collect();
        for (case, seconds) in cases.iter_mut().zip([1.25, 1.3, 1.25, 1.2]) {
            case.bound_share = Some(0.8);
            case.fitted = Some(crate::run::Fitted {
                seconds: kvscope_sizing::prediction::FittedTime(seconds),
                used: case.case % 2 == 0,
            });
        }
        let verdict = &verdicts(&cases)[0];
        // Of the two points that the fit has not seen, one is 4 % above and one 4 % below.
        let fit = verdict.fit.as_ref().unwrap();
        assert_eq!(fit.judged, 2);
        assert!((fit.median_error - 0.04).abs() < 1e-9 && fit.bias.abs() < 1e-9);
        assert!(
            verdict.sentence.ends_with(
                "It does 6.0 operations a byte, memory bounds it, and steps reach 80 % of that bound. \
                 A fit to the declared half is 4.0 % off in the median over 2 points that it has not seen."
            ),
            "{}",
            verdict.sentence
        );
    }

    #[test]
    fn nothing_measured_gives_null_and_says_so() {
        let verdict = &verdicts(&[case(0, "mla", 1.0, None)])[0];
        assert_eq!((verdict.median_error, verdict.p90_error, verdict.bias), (None, None, None));
        assert_eq!(verdict.sentence, "MLA: nothing was measured.");
        assert!(verdicts(&[]).is_empty());

        let hot = Case { cache: Cache::Hot, ..case(1, "mla", 1.0, None) };
        let of: Vec<String> =
            verdicts(&[case(0, "mla", 1.0, None), hot]).into_iter().map(|verdict| verdict.of).collect();
        assert_eq!(of, ["mla", "mla hot"]);
        assert_eq!(
            (in_capitals("mla hot"), in_capitals("gqa@fp8")),
            ("MLA hot".to_owned(), "GQA@fp8".to_owned())
        );
    }
}
