//! Cases grouped into lines: one a form, model, batch and cache state.

use std::fmt::Write as _;

use kvscope_charts::palette::{SeriesColour, assign_colours};
use kvscope_protocol::run::{Cache, Case, Run};
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
            let id = format!("{}-{}-{}-{:?}", first.form, first.model, first.batch, first.cache)
                .to_ascii_lowercase();
            CaseSeries { id, name, form: &first.form, colour, cases }
        })
        .collect()
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
    /// The values of a line at `contexts`, from the first up to where the series has no case.
    pub(super) fn line<T>(&self, contexts: &[Tokens], value: impl Fn(&Case) -> Option<T>) -> Vec<T> {
        let case = |context: &Tokens| self.cases.iter().find(|case| case.context == *context);
        contexts.iter().map_while(|context| value(case(context)?)).collect()
    }
}

fn are_one_line(a: &Case, b: &Case) -> bool {
    let key = |case: &Case| (case.batch, case.cache == Cache::Hot, case.layers_measured);
    a.form == b.form && a.model == b.model && key(a) == key(b)
}
