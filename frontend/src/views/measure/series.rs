//! Cases grouped into lines: one a form, model, batch and cache state.

use std::fmt::Write as _;

use kvscope_charts::figures::Provenance;
use kvscope_charts::palette::{SeriesColour, assign_colours};
use kvscope_protocol::run::{Cache, Case, Run};
use kvscope_sizing::prediction::Grade;
use kvscope_sizing::{Tokens, find_entry};

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
    // A run that shrinks its cases to fit holds fewer layers of some: lines over other layers are other lines.
    let layers_differ = |case: &Case| {
        let is_twin = |other: &&Case| other.form == case.form && other.model == case.model;
        run.cases.iter().filter(is_twin).any(|other| other.layers_measured != case.layers_measured)
    };
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
            if layers_differ(first) {
                let layers = first.layers_measured;
                let _ = write!(name, ", {layers} {}", if layers == 1 { "layer" } else { "layers" });
                let _ = write!(id, "-{layers}");
            }
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
    let key =
        |case: &Case| (case.batch, case.cache == Cache::Hot, case.layers_measured, case.predicted.grade);
    a.form == b.form && a.model == b.model && key(a) == key(b)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::views::measure::tests::{case, run};

    #[test]
    fn lines_over_other_layers_have_names_and_ids_of_their_own() {
        let run =
            run(&[case(4096, 62, "calibrated"), case(8192, 62, "calibrated"), case(65_536, 1, "calibrated")]);
        let series = series(&run);
        let names: Vec<&str> = series.iter().map(|series| series.name.as_str()).collect();
        assert_eq!(names, ["MiniMax-M2.7 GQA, 62 layers", "MiniMax-M2.7 GQA, 1 layer"]);
        assert_ne!(series[0].id, series[1].id);
    }

    #[test]
    fn one_line_says_nothing_of_layers() {
        let run = run(&[case(4096, 62, "calibrated"), case(8192, 62, "calibrated")]);
        assert_eq!(series(&run)[0].name, "MiniMax-M2.7 GQA");
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
