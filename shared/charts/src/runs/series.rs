//! Cases grouped into lines: one a form, model, batch and cache state.

use std::fmt::Write as _;

use kvscope_protocol::run::{Cache, Case, Run};
use kvscope_sizing::prediction::Grade;
use kvscope_sizing::{Bytes, Tokens, find_entry};

use crate::figures::Provenance;
use crate::palette::{SeriesColour, assign_colours};

/// Cases that differ in their context alone, by rising context.
#[derive(Clone, Debug)]
pub(super) struct CaseSeries<'a> {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) form: &'a str,
    pub(super) colour: SeriesColour,
    pub(super) cases: Vec<&'a Case>,
}

/// Groups a run's cases in the order in which they appear.
pub(super) fn series(run: &Run) -> Vec<CaseSeries<'_>> {
    let mut groups: Vec<Vec<&Case>> = Vec::new();
    for case in &run.cases {
        match groups.iter_mut().find(|group| are_one_line(group[0], case)) {
            Some(group) => {
                let place =
                    group.iter().position(|other| other.context > case.context).unwrap_or(group.len());
                group.insert(place, case);
            }
            None => groups.push(vec![case]),
        }
    }
    let entries: Vec<_> = groups.iter().map(|group| find_entry(&group[0].model).ok()).collect();
    let family = |(group, entry): (&Vec<&'_ Case>, Option<&'static kvscope_sizing::CatalogueEntry>)| {
        entry.map_or_else(|| group[0].model.clone(), |entry| entry.family.clone())
    };
    let families: Vec<String> = groups.iter().zip(entries.iter().copied()).map(family).collect();
    let families: Vec<&str> = families.iter().map(String::as_str).collect();
    let grades_differ = run.cases.iter().any(|case| case.predicted.grade != run.cases[0].predicted.grade);
    let several_batches = run.cases.iter().any(|case| case.batch != run.cases[0].batch);
    groups
        .into_iter()
        .zip(entries)
        .zip(assign_colours(&families))
        .map(|((cases, entry), colour)| {
            let first = cases[0];
            let model = entry.map_or(first.model.as_str(), |entry| entry.name.as_str());
            let mut name = format!("{model} {}", first.form.to_ascii_uppercase());
            if several_batches {
                let _ = write!(name, ", batch {}", first.batch);
            }
            if first.cache == Cache::Hot {
                name.push_str(", hot");
            }
            let mut id = format!("{}-{}-{}-{:?}", first.form, first.model, first.batch, first.cache)
                .to_ascii_lowercase();
            if grades_differ {
                let grade = grade_word(first.predicted.grade);
                let _ = write!(name, ", {grade}");
                let _ = write!(id, "-{grade}");
            }
            CaseSeries { id, name, form: &first.form, colour, cases }
        })
        .collect()
}

/// The word in JSON.
fn grade_word(grade: Grade) -> &'static str {
    match grade {
        Grade::Datasheet => "datasheet",
        Grade::Calibrated => "calibrated",
        Grade::Fitted => "fitted",
    }
}

/// What a run's figures are of. A run that shrinks its cases to fit holds fewer layers at long contexts: only what one layer
/// takes lies on one line then.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Share {
    /// All layers that were held, as many in every case of a line.
    Whole,
    /// One layer: the step divided by the layers that were held.
    Layer,
}

impl Share {
    /// Of one layer where a line's cases held different numbers of them.
    pub(super) fn of(run: &Run) -> Self {
        let differ = |group: &CaseSeries| {
            group.cases.iter().any(|case| case.layers_measured != group.cases[0].layers_measured)
        };
        if series(run).iter().any(differ) { Self::Layer } else { Self::Whole }
    }

    /// What a case's figures are divided by.
    pub(super) fn divisor(self, case: &Case) -> u64 {
        match self {
            Self::Whole => 1,
            Self::Layer => case.layers_measured.max(1),
        }
    }

    pub(super) fn seconds(self, seconds: f64, case: &Case) -> f64 {
        seconds / self.divisor(case) as f64
    }

    pub(super) fn bytes(self, bytes: Bytes, case: &Case) -> Bytes {
        Bytes::new(bytes.get() / self.divisor(case))
    }
}

/// Every context of a run, rising.
pub(super) fn contexts(run: &Run) -> Vec<Tokens> {
    let mut contexts: Vec<u64> = run.cases.iter().map(|case| case.context.get()).collect();
    contexts.sort_unstable();
    contexts.dedup();
    contexts.into_iter().map(Tokens::new).collect()
}

/// The octaves that hold every context, at least two.
pub(super) fn domain(contexts: &[Tokens]) -> Option<(Tokens, Tokens)> {
    let (first, last) = (contexts.first()?.get().max(2), contexts.last()?.get().max(2));
    Some((Tokens::new((1 << first.ilog2()) / 2), Tokens::new(last.next_power_of_two().saturating_mul(2))))
}

impl CaseSeries<'_> {
    /// The look of its predicted times. All cases of a series have one grade.
    pub(super) fn provenance(&self) -> Provenance {
        match self.cases[0].predicted.grade {
            Grade::Datasheet | Grade::Calibrated => Provenance::Computed,
            Grade::Fitted => Provenance::Fitted,
        }
    }

    /// The values of a line at `contexts`, from the first up to where the series has no case.
    pub(super) fn line<T>(&self, contexts: &[Tokens], value: impl Fn(&Case) -> Option<T>) -> Vec<T> {
        let case = |context: &Tokens| self.cases.iter().find(|case| case.context == *context);
        contexts.iter().map_while(|context| value(case(context)?)).collect()
    }
}

fn are_one_line(a: &Case, b: &Case) -> bool {
    let key = |case: &Case| (case.batch, case.cache == Cache::Hot, case.predicted.grade);
    a.form == b.form && a.model == b.model && key(a) == key(b)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runs::tests::{case, run};

    #[test]
    fn cases_over_other_layers_are_one_line_of_one_layer() {
        let run = run(&[case(4096, 50, "calibrated"), case(65_536, 1, "calibrated")]);
        let (series, share) = (series(&run), Share::of(&run));
        assert_eq!((series.len(), share), (1, Share::Layer));
        // 0.1 s over 50 layers are 2 ms a layer.
        assert!((share.seconds(0.1, series[0].cases[0]) - 0.002).abs() < 1e-15);
        assert!((share.seconds(0.1, series[0].cases[1]) - 0.1).abs() < 1e-15);
    }

    #[test]
    fn cases_over_the_same_layers_are_shown_whole() {
        let run = run(&[case(4096, 62, "calibrated"), case(8192, 62, "calibrated")]);
        assert_eq!(Share::of(&run), Share::Whole);
        assert!((Share::of(&run).seconds(0.1, &run.cases[0]) - 0.1).abs() < 1e-15);
    }

    #[test]
    fn a_fitted_line_is_no_computed_one() {
        let run = run(&[case(4096, 62, "calibrated"), case(4096, 62, "fitted")]);
        let series = series(&run);
        assert_eq!(series[0].provenance(), Provenance::Computed);
        assert_eq!(series[1].provenance(), Provenance::Fitted);
        assert_ne!((&series[0].id, &series[0].name), (&series[1].id, &series[1].name));
    }
}
