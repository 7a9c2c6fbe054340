use std::io;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use kvscope_protocol::run::{Case, Run};
use kvscope_sizing::{Settings, Tokens, UnitSystem};

use super::request::warn;
use crate::bench::{self, BenchError, CaseRequest, Form, Plan, Progress, Store, Subject};
use crate::failure::Failure;
use crate::home;
use crate::input::{label, read_text};
use crate::model::Model;
use crate::output::{self, Figures};

/// Thousands of cases with all their samples.
const LARGEST_RUN: u64 = 256 << 20;

#[derive(Args, Debug)]
pub(super) struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Measure attention forms over real state, each predicted before it is measured
    Run(RunArguments),
    /// The stored runs, newest first
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// One stored run
    Show {
        /// The run's name
        run: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Copy a run file out of the store
    Export {
        /// The run's name
        run: String,
        /// Where to; standard output where absent
        #[arg(short, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Add a run file of another machine to the store
    Import {
        /// The run file, or - for standard input
        file: String,
    },
    /// Remove a run from the store
    Delete {
        /// The run's name
        run: String,
    },
}

#[derive(Args, Debug)]
struct RunArguments {
    /// Where to measure
    #[arg(long, value_enum, default_value_t = Backend::Cpu)]
    backend: Backend,
    /// Forms, each with the format of its state where another than the usual is wanted: gqa,mla,gqa@fp8,mamba2@bf16
    #[arg(long, value_delimiter = ',', value_name = "FORM[@FORMAT]", default_value = "gqa,mla")]
    forms: Vec<FormChoice>,
    /// Contexts; each a multiple of 64 tokens is exact to the byte
    #[arg(long, value_delimiter = ',', value_name = "TOKENS")]
    lengths: Vec<String>,
    /// Requests in a decode step
    #[arg(long, default_value_t = 1)]
    batch: u64,
    /// The model whose layers of a form are measured: catalogue id, config.json or GGUF file, folder, or - for standard input
    #[arg(long = "model", value_name = "FORM=MODEL")]
    models: Vec<String>,
    /// The same as --model gqa=MODEL
    #[arg(long, value_name = "MODEL")]
    gqa_model: Option<String>,
    /// The same as --model mla=MODEL
    #[arg(long, value_name = "MODEL")]
    mla_model: Option<String>,
    /// The time that the whole run may take, calibration and warm-up included: 30s, 2m
    #[arg(long, default_value = "60s")]
    budget: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
enum Backend {
    /// All cores of this machine
    Cpu,
    /// The first GPU
    Cuda,
}

/// A form and the format of its state: `gqa@fp8`.
#[derive(Clone, Debug, Eq, PartialEq)]
struct FormChoice {
    form: Form,
    format: Option<String>,
}

impl FromStr for FormChoice {
    type Err = BenchError;

    fn from_str(text: &str) -> Result<Self, BenchError> {
        let (form, format) = match text.split_once('@') {
            Some((form, format)) => (form, Some(format.to_owned())),
            None => (text, None),
        };
        Ok(Self { form: form.parse()?, format })
    }
}

impl FormChoice {
    /// The name in run files and tables.
    fn label(&self) -> String {
        match &self.format {
            Some(format) => format!("{}@{format}", self.form.name()),
            None => self.form.name().to_owned(),
        }
    }

    fn settings(&self) -> Result<Settings, Failure> {
        let Some(format) = &self.format else { return Ok(Settings::default()) };
        Ok(if self.form.is_recurrent() {
            Settings { state_dtype: Some(format.parse()?), ..Settings::default() }
        } else {
            Settings { kv_dtype: Some(format.parse()?), ..Settings::default() }
        })
    }
}

pub(super) fn run(arguments: Arguments) -> Result<(), Failure> {
    let store = Store::open(home::runs()?).map_err(Failure::check)?;
    match arguments.action {
        Action::Run(arguments) => measure(&arguments, &store),
        Action::List { json } => list(&store, json),
        Action::Show { run, json } => {
            let read = store.show(&run).map_err(Failure::input)?;
            for warning in &read.warnings {
                output::warning(&format!("{run}: {warning}"));
            }
            print(&read.run, json)
        }
        Action::Export { run, output } => export(&store, &run, output),
        Action::Import { file } => {
            let text = read_text(&file, LARGEST_RUN, "it is no run file")?;
            let run = store.import(label(&file), &text).map_err(Failure::input)?;
            for warning in store.show(&run).map_err(Failure::input)?.warnings {
                output::warning(&format!("{}: {warning}", label(&file)));
            }
            output::figures(&format!("{run}\n"))
        }
        Action::Delete { run } => store.delete(&run).map_err(Failure::input),
    }
}

fn measure(arguments: &RunArguments, store: &Store) -> Result<(), Failure> {
    if arguments.backend == Backend::Cuda {
        return Err(Failure::input("backend: cuda is not measured yet; use --backend cpu"));
    }
    if arguments.batch == 0 {
        return Err(Failure::input("batch: 0 requests hold nothing; give at least 1"));
    }
    let plan = Plan::new(budget(&arguments.budget)?);
    let cases = cases(arguments)?;
    let mut show = |progress: Progress| output::progress(&progress_line(&progress));
    let run = bench::run(&plan, &cases, store, &mut show, &AtomicBool::new(false));
    output::progress_done();
    let run = run.map_err(Failure::check)?;
    print(&run, arguments.json)?;
    let wrong: Vec<&Case> = run.cases.iter().filter(|case| case.correct == Some(false)).collect();
    match wrong.as_slice() {
        [] => Ok(()),
        [case, ..] => Err(Failure::check(format!("case {}: {}", case.case, case.status))),
    }
}

fn cases(arguments: &RunArguments) -> Result<Vec<CaseRequest>, Failure> {
    let contexts: Vec<Tokens> = match arguments.lengths.as_slice() {
        [] => bench::DEFAULT_CONTEXTS.to_vec(),
        lengths => {
            let read = lengths.iter().map(|text| Ok(text.parse()?)).collect::<Result<Vec<_>, Failure>>()?;
            distinct(read)
        }
    };
    let choices = distinct(arguments.forms.iter().cloned());
    let models = chosen_models(arguments, &choices)?;
    let mut cases = Vec::new();
    for (choice, id) in choices.iter().zip(models) {
        let model = Model::load(&id)?;
        warn(model.architecture.warnings().iter().map(|warning| (model.label.as_str(), warning)));
        let subject = Subject::find(&model.architecture, choice.form, &choice.settings()?)
            .map_err(|error| Failure::input(format!("{}: {error}", model.label)))?;
        for context in &contexts {
            cases.push(CaseRequest {
                form: choice.label(),
                shape: subject.shape,
                layers: subject.layers,
                model: model.label.clone(),
                context: *context,
                batch: arguments.batch,
                sizing: subject.sizing.clone(),
            });
        }
    }
    Ok(cases)
}

/// The model of each form: the one that is named for it, else the usual one.
fn chosen_models(arguments: &RunArguments, choices: &[FormChoice]) -> Result<Vec<String>, Failure> {
    let mut named: Vec<(Form, String)> = Vec::new();
    for text in &arguments.models {
        let (form, model) = text.split_once('=').ok_or_else(|| {
            Failure::input(format!("model: {text:?} is not FORM=MODEL, such as gqa=minimax-m2.7"))
        })?;
        named.push((
            form.parse().map_err(|error| Failure::input(format!("model: {error}")))?,
            model.to_owned(),
        ));
    }
    named.extend(arguments.gqa_model.clone().map(|model| (Form::Gqa, model)));
    named.extend(arguments.mla_model.clone().map(|model| (Form::Mla, model)));
    for (index, (form, _)) in named.iter().enumerate() {
        if named[..index].iter().any(|(earlier, _)| earlier == form) {
            return Err(Failure::input(format!("model: {} is given two models; give one", form.name())));
        }
        if !choices.iter().any(|choice| choice.form == *form) {
            let name = form.name();
            return Err(Failure::input(format!(
                "model: {name} has a model and is not in --forms; add it there"
            )));
        }
    }
    let models: Vec<String> = choices
        .iter()
        .map(|choice| {
            let own = named.iter().find(|(form, _)| *form == choice.form).map(|(_, model)| model.clone());
            own.or_else(|| choice.form.usual_model().map(str::to_owned)).ok_or_else(|| {
                let name = choice.form.name();
                Failure::input(format!(
                    "forms: no catalogue version has {name}; name a model by --model {name}=MODEL"
                ))
            })
        })
        .collect::<Result<_, _>>()?;
    if models.iter().filter(|model| *model == "-").count() > 1 {
        return Err(Failure::input("model: standard input holds one model; name the others by a file or id"));
    }
    Ok(models)
}

/// The same values in the same order, each once.
fn distinct<T: PartialEq>(values: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut kept = Vec::new();
    for value in values {
        if !kept.contains(&value) {
            kept.push(value);
        }
    }
    kept
}

/// `30s`, `2m`, `90` (seconds): between five seconds and a day.
fn budget(text: &str) -> Result<Duration, Failure> {
    let plain = if text.chars().all(|c| c.is_ascii_digit()) { format!("{text}s") } else { text.to_owned() };
    let budget = humantime::parse_duration(&plain)
        .map_err(|_| Failure::input(format!("budget: {text:?} is not a time; write 30s or 2m")))?;
    if !(Duration::from_secs(5)..=Duration::from_hours(24)).contains(&budget) {
        return Err(Failure::input(format!("budget: {text} is outside 5s to 24h")));
    }
    Ok(budget)
}

fn progress_line(progress: &Progress) -> String {
    let stage = match progress.stage {
        bench::Stage::Calibrating => "calibrating",
        bench::Stage::Preparing => "preparing",
        bench::Stage::Measuring => "measuring",
        bench::Stage::Done => "done",
    };
    format!("{stage} · {:.0} % · {:.0} s left", progress.fraction * 100.0, progress.remaining_seconds)
}

fn list(store: &Store, json: bool) -> Result<(), Failure> {
    let runs = store.list().map_err(Failure::check)?;
    if json {
        return output::json(&runs);
    }
    if runs.is_empty() {
        return output::figures("no runs yet; start one with `kvscope bench run`\n");
    }
    let mut table = Figures::new(3, &["run", "backend", "ended", "cases", "measured"]);
    for run in &runs {
        table.row([
            run.run.clone(),
            run.backend.clone().unwrap_or_else(|| "–".to_owned()),
            run.ended.map_or("unreadable".to_owned(), |ended| format!("{ended:?}").to_lowercase()),
            run.cases.to_string(),
            run.measured.to_string(),
        ]);
    }
    output::figures(&table.render())
}

fn export(store: &Store, run: &str, file: Option<PathBuf>) -> Result<(), Failure> {
    let text = store.text(run).map_err(Failure::input)?;
    let Some(file) = file else {
        return output::figures(&text);
    };
    // A new name first, so that a full disk leaves no half of a file.
    let partial = file.with_extension("partial");
    let written: io::Result<()> =
        std::fs::write(&partial, &text).and_then(|()| std::fs::rename(&partial, &file));
    written.map_err(|error| {
        let _ = std::fs::remove_file(&partial);
        Failure::check(format!("{}: {error}", file.display()))
    })
}

fn print(run: &Run, json: bool) -> Result<(), Failure> {
    if json {
        return output::json(run);
    }
    let header = [
        "form",
        "model",
        "layers",
        "context",
        "batch",
        "predicted",
        "asked",
        "resident",
        "predicted time",
        "measured",
        "cv",
        "of ceiling",
        "status",
    ];
    let mut table = Figures::new(2, &header);
    for case in &run.cases {
        let measured = case.measured.as_ref();
        let or_dash = |text: Option<String>| text.unwrap_or_else(|| "–".to_owned());
        table.row([
            case.form.clone(),
            case.model.clone(),
            format!("{} of {}", case.layers_measured, case.layers_total),
            case.context.short(),
            case.batch.to_string(),
            or_dash(case.predicted.bytes.map(|bytes| bytes.display(UnitSystem::Decimal))),
            or_dash(measured.map(|m| m.asked_bytes.display(UnitSystem::Decimal))),
            or_dash(measured.and_then(|m| m.resident_bytes).map(|bytes| bytes.display(UnitSystem::Decimal))),
            or_dash(case.predicted.seconds.map(seconds)),
            or_dash(measured.map(|m| seconds(m.seconds.median))),
            or_dash(measured.and_then(|m| m.seconds.cv).map(|cv| format!("{:.1} %", cv * 100.0))),
            or_dash(case.bound_share.map(|share| format!("{:.0} %", share * 100.0))),
            case.status.clone(),
        ]);
    }
    let mut text = format!("run {}\n\n{}", run.run, table.render());
    for verdict in &run.verdicts {
        text.push('\n');
        text.push_str(&verdict.sentence);
    }
    if !run.verdicts.is_empty() {
        text.push('\n');
    }
    output::figures(&text)?;
    for line in warning_lines(&run.cases) {
        output::warning(&line);
    }
    Ok(())
}

/// What all cases share once, the rest with its case.
fn warning_lines(cases: &[Case]) -> Vec<String> {
    let of_all =
        |warning: &String| cases.len() > 1 && cases.iter().all(|case| case.warnings.contains(warning));
    let mut lines = Vec::new();
    for case in cases {
        for warning in &case.warnings {
            let line = if of_all(warning) {
                format!("all cases: {warning}")
            } else {
                format!("{} at {}: {warning}", case.form, case.context.short())
            };
            if !lines.contains(&line) {
                lines.push(line);
            }
        }
    }
    lines
}

/// Three significant figures, as on the charts: `35.0 µs`, `1.24 ms`, `1.23 s`.
fn seconds(seconds: f64) -> String {
    let (scaled, unit) = match seconds {
        // What would be written as 1000 belongs to the next unit.
        _ if seconds < 999.5e-6 => (seconds * 1e6, "µs"),
        _ if seconds < 999.5e-3 => (seconds * 1e3, "ms"),
        _ => (seconds, "s"),
    };
    let decimals = if scaled >= 99.95 { 0 } else { usize::from(scaled < 9.995) + 1 };
    format!("{scaled:.decimals$} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_three_figures_and_seconds_from_one_second_on() {
        for (value, text) in [
            (35.04e-6, "35.0 µs"),
            (999.6e-6, "1.00 ms"),
            (1.236e-3, "1.24 ms"),
            (0.1234, "123 ms"),
            (0.9996, "1.00 s"),
            (1.234, "1.23 s"),
        ] {
            assert_eq!(seconds(value), text);
        }
    }

    #[test]
    fn each_form_and_context_is_measured_once() {
        assert_eq!(distinct([Form::Gqa, Form::Mla, Form::Gqa]), [Form::Gqa, Form::Mla]);
    }

    #[test]
    fn a_form_may_have_a_format() {
        let choice: FormChoice = "gqa@fp8".parse().unwrap();
        assert_eq!((choice.label().as_str(), choice.form), ("gqa@fp8", Form::Gqa));
        assert_eq!(choice.settings().unwrap().kv_dtype, Some(kvscope_sizing::KvFormat::Fp8));
        let choice: FormChoice = "mamba2@bf16".parse().unwrap();
        assert_eq!(choice.settings().unwrap().state_dtype, Some(kvscope_sizing::StateFormat::Bf16));
        assert!("gqa@fp7".parse::<FormChoice>().unwrap().settings().is_err());
        assert!("gpa".parse::<FormChoice>().is_err());
    }
}
