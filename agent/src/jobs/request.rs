use std::collections::BTreeMap;

use kvscope_sizing::find_entry;
use serde::Deserialize;

use crate::bench::Store;
use crate::cli;
use crate::failure::Failure;

/// What a run is to measure: the options of `kvscope bench run` that need no file of this machine.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct JobRequest {
    /// Forms, each with its format where another than the usual is wanted.
    #[serde(default)]
    forms: Vec<String>,
    /// Tiers.
    #[serde(default)]
    tiers: Vec<String>,
    /// Catalogue ids whose states go to the tiers and come back.
    #[serde(default)]
    states: Vec<String>,
    /// Whose blocks the states lie in.
    engine: Option<String>,
    /// Contexts: 4Ki, 100000.
    #[serde(default)]
    lengths: Vec<String>,
    /// Requests in a step.
    batch: Option<u64>,
    /// Catalogue ids by form.
    #[serde(default)]
    models: BTreeMap<String, String>,
    /// `cold`, `hot` or `both`.
    cache: Option<String>,
    /// The time that the whole run may take.
    budget_seconds: Option<u64>,
    /// A stored run whose missing cases are asked for.
    resume: Option<String>,
}

/// A request as arguments of the command line, which were read and found to be right.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) arguments: Vec<String>,
    /// What is measured, in words.
    pub(super) about: String,
}

impl JobRequest {
    /// The command line's own checks and sentences, before anything is started.
    pub(super) fn arguments(&self, store: &Store) -> Result<Asked, Failure> {
        for id in self.models.values().chain(&self.states) {
            find_entry(id)?;
        }
        if let Some(run) = &self.resume {
            // A run file may come from anywhere; what it names is looked up in the catalogue alone.
            let run = store.show(run).map_err(Failure::input)?.run;
            for model in
                run.cases.iter().map(|case| &case.model).chain(run.plan.states.iter().map(|s| &s.model))
            {
                find_entry(model)?;
            }
        }
        let list = |name: &str, values: &[String]| {
            (!values.is_empty()).then(|| format!("--{name}={}", values.join(",")))
        };
        let one = |name: &str, value: Option<String>| value.map(|value| format!("--{name}={value}"));
        let mut arguments: Vec<String> = [
            list("forms", &self.forms),
            list("tiers", &self.tiers),
            list("state", &self.states),
            one("engine", self.engine.clone()),
            list("lengths", &self.lengths),
            one("batch", self.batch.map(|batch| batch.to_string())),
            one("cache", self.cache.clone()),
            one("budget", self.budget_seconds.map(|seconds| format!("{seconds}s"))),
            one("resume", self.resume.clone()),
        ]
        .into_iter()
        .flatten()
        .collect();
        arguments.extend(self.models.iter().map(|(form, model)| format!("--model={form}={model}")));
        cli::check_bench_run(&arguments, store)?;
        let about = match &self.resume {
            Some(run) => format!("the rest of {run}"),
            None => [self.forms.join(", "), self.tiers.join(", "), self.states.join(", ")]
                .into_iter()
                .filter(|words| !words.is_empty())
                .collect::<Vec<_>>()
                .join("; "),
        };
        Ok(Asked { arguments, about })
    }
}
