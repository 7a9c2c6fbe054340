//! Fits: which half of the points they are made from, and what they say of every point.

use kvscope_sizing::prediction::{Fit, FitPoint, Grade, PredictedTime};

use super::{Cache, Case, Fitted};

/// The numbers of the cases that fits are to be made from: every other point of each form, model and cache, by context and
/// batch, the smallest among them. Both halves so span the same range.
pub fn fit_half(cases: &[Case]) -> Vec<u32> {
    let mut half: Vec<u32> = groups(cases)
        .into_iter()
        .flat_map(|group| {
            let mut points: Vec<&Case> = cases.iter().filter(|case| Group::of(case) == group).collect();
            points.sort_by_key(|case| (case.context, case.batch, case.case));
            points.into_iter().step_by(2).map(|case| case.case).collect::<Vec<_>>()
        })
        .collect();
    half.sort_unstable();
    half
}

/// Fits each form to its steady points of the declared half, and puts the fitted time into all of its cases. Returns what was
/// fitted, by form.
pub fn put_fits(cases: &mut [Case], half: &[u32]) -> Vec<(String, Fit)> {
    let mut fits = Vec::new();
    for group in groups(cases) {
        let of_group = |case: &&Case| Group::of(case) == group;
        let points: Vec<FitPoint> = cases
            .iter()
            .filter(of_group)
            .filter(|case| half.contains(&case.case) && case.is_steady())
            .filter_map(|case| {
                let (predicted, launches) = terms(case)?;
                Some(FitPoint { predicted, launches, measured_seconds: case.timing()?.median })
            })
            .collect();
        let Some(fit) = Fit::of(&points) else { continue };
        for case in cases.iter_mut().filter(|case| Group::of(case) == group) {
            case.fitted = terms(case).map(|(predicted, launches)| Fitted {
                seconds: fit.time(&predicted, launches),
                used: half.contains(&case.case),
            });
        }
        fits.push((group.form, fit));
    }
    fits
}

/// Cases that one fit describes.
#[derive(Clone, Debug, Eq, PartialEq)]
struct Group {
    form: String,
    model: String,
    cache: Cache,
}

impl Group {
    fn of(case: &Case) -> Self {
        Self { form: case.form.clone(), model: case.model.clone(), cache: case.cache }
    }
}

fn groups(cases: &[Case]) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for group in cases.iter().map(Group::of) {
        if !groups.contains(&group) {
            groups.push(group);
        }
    }
    groups
}

/// The terms of a case's calibrated prediction; runs of before they were stored have none.
fn terms(case: &Case) -> Option<(PredictedTime, u64)> {
    let predicted = &case.predicted;
    if predicted.grade != Grade::Calibrated {
        return None;
    }
    let (memory_seconds, compute_seconds) = (predicted.memory_seconds?, predicted.compute_seconds?);
    let streamed_seconds = predicted.streamed_seconds;
    let seconds = predicted.seconds?;
    let time = PredictedTime {
        seconds,
        grade: predicted.grade,
        bound: predicted.bound?,
        launch_seconds: seconds - memory_seconds.max(compute_seconds).max(streamed_seconds.unwrap_or(0.0)),
        memory_seconds,
        compute_seconds,
        streamed_seconds,
    };
    Some((time, predicted.launches?))
}

#[cfg(test)]
mod tests {
    use kvscope_sizing::Tokens;

    use super::*;
    use crate::run::tests::{case, measured};

    fn at(index: u32, form: &str, context: u64, predicted: f64, seconds: f64) -> Case {
        Case { context: Tokens::new(context), ..case(index, form, predicted, Some(measured(seconds))) }
    }

    #[test]
    fn every_other_context_of_each_form_is_declared() {
        let cases = [
            at(0, "gqa", 4096, 0.1, 0.1),
            at(1, "gqa", 1024, 0.1, 0.1),
            at(2, "gqa", 2048, 0.1, 0.1),
            at(3, "mla", 1024, 0.1, 0.1),
            at(4, "mla", 2048, 0.1, 0.1),
        ];
        // By context the forms' points are 1, 2, 0 and 3, 4.
        assert_eq!(fit_half(&cases), [0, 1, 3]);
        assert!(fit_half(&[]).is_empty());
    }

    #[test]
    fn a_fit_is_made_from_steady_points_of_the_half_and_said_of_all() {
        // Steps that always take a quarter longer than reading alone; a fit finds 1.25 whatever the unsteady point says.
        let mut cases = [
            at(0, "gqa", 1, 0.1, 0.125),
            at(1, "gqa", 2, 0.2, 0.3),
            at(2, "gqa", 3, 0.4, 0.5),
            at(3, "gqa", 4, 0.8, 1.0),
        ];
        let mut noisy = at(4, "gqa", 5, 1.0, 9.0);
        noisy.status = "unsteady: noise".to_owned();
        let mut all: Vec<Case> = cases.to_vec();
        all.push(noisy);
        let half = fit_half(&all);
        assert_eq!(half, [0, 2, 4]);
        let fits = put_fits(&mut all, &half);
        assert_eq!((fits[0].0.as_str(), fits[0].1.points), ("gqa", 2));
        assert!((fits[0].1.factor - 1.25).abs() < 1e-9);
        let unseen = all[3].fitted.unwrap();
        assert!((unseen.seconds.0 - 1.0).abs() < 1e-9 && !unseen.used && all[0].fitted.unwrap().used);

        cases[0].predicted.memory_seconds = None;
        cases[2].predicted.memory_seconds = None;
        assert!(put_fits(&mut cases, &[0, 2]).is_empty(), "older runs have no terms to fit");
    }
}
