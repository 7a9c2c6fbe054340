use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use kvscope_protocol::run::{Case, Run};
use kvscope_sizing::{Bytes, Heads, Latent, Mixer, Settings, StateComponent, Tokens, UnitSystem};

use super::request::warn;
use crate::bench::{self, CaseRequest, CaseSizing, FormShape, GqaShape, MlaShape, Plan, Progress, Store};
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
    /// Attention forms
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Form::Gqa, Form::Mla])]
    forms: Vec<Form>,
    /// Contexts; each a multiple of 64 tokens is exact to the byte
    #[arg(long, value_delimiter = ',', value_name = "TOKENS")]
    lengths: Vec<String>,
    /// Requests in a decode step
    #[arg(long, default_value_t = 1)]
    batch: u64,
    /// The model whose GQA layers are measured: catalogue id, config.json or GGUF file, folder, or - for standard input
    #[arg(long, default_value = "minimax-m2.7", value_name = "MODEL")]
    gqa_model: String,
    /// The model whose MLA layers are measured
    #[arg(long, default_value = "kimi-k2.6", value_name = "MODEL")]
    mla_model: String,
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

#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
enum Form {
    /// Full attention with shared K/V heads
    Gqa,
    /// Multi-head latent attention, absorbed
    Mla,
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
    let forms = distinct(arguments.forms.iter().copied());
    if forms.len() > 1 && arguments.gqa_model == "-" && arguments.mla_model == "-" {
        return Err(Failure::input(
            "gqa-model: standard input holds one model; name the other by a file or id",
        ));
    }
    let mut cases = Vec::new();
    for form in forms {
        let id = match form {
            Form::Gqa => &arguments.gqa_model,
            Form::Mla => &arguments.mla_model,
        };
        let model = Model::load(id)?;
        warn(model.architecture.warnings().iter().map(|warning| (model.label.as_str(), warning)));
        let subject = Subject::find(form, &model)?;
        for context in &contexts {
            cases.push(CaseRequest {
                shape: subject.shape,
                layers: subject.layers,
                model: subject.model.clone(),
                context: *context,
                batch: arguments.batch,
                sizing: subject.sizing.clone(),
            });
        }
    }
    Ok(cases)
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

/// The layers of one form of a model.
struct Subject {
    model: String,
    shape: FormShape,
    layers: u64,
    sizing: Arc<LayerSizing>,
}

/// Sizing of one layer, multiplied by the layers that are held.
#[derive(Debug)]
struct LayerSizing {
    components: Vec<StateComponent>,
}

impl Subject {
    fn find(form: Form, model: &Model) -> Result<Self, Failure> {
        let Model { label, architecture, .. } = model;
        // The kernels hold bf16 state, whatever dtype the checkpoint has.
        let settings = Settings { kv_dtype: Some(kvscope_sizing::KvFormat::Bf16), ..Settings::default() };
        let formats = architecture.formats(&settings);
        for class in architecture.classes() {
            let [mixer] = class.mixers.as_slice() else { continue };
            let Some(shape) = shape(form, mixer)? else { continue };
            return Ok(Self {
                model: label.clone(),
                shape,
                layers: class.layers.len() as u64,
                sizing: Arc::new(LayerSizing { components: mixer.components(&formats)? }),
            });
        }
        let name = form.to_possible_value().map_or(String::new(), |value| value.get_name().to_owned());
        Err(Failure::input(format!("{label}: no layer has the form {name}; choose another model")))
    }
}

fn shape(form: Form, mixer: &Mixer) -> Result<Option<FormShape>, Failure> {
    let missing =
        || Failure::input("num_attention_heads: the config does not say it, and a measurement needs it");
    Ok(match (form, mixer) {
        (Form::Gqa, Mixer::Full(Heads { query_heads, kv_heads, k_width, v_width })) => {
            Some(FormShape::Gqa(GqaShape {
                query_heads: query_heads.as_ref().ok_or_else(missing)?.get(),
                kv_heads: kv_heads.get(),
                k_width: k_width.get(),
                v_width: v_width.get(),
            }))
        }
        (Form::Mla, Mixer::Mla(Latent { rank, rope, query_heads, .. })) => Some(FormShape::Mla(MlaShape {
            query_heads: query_heads.as_ref().ok_or_else(missing)?.get(),
            latent: rank.get(),
            rope: rope.get(),
        })),
        _ => None,
    })
}

impl CaseSizing for LayerSizing {
    fn state_bytes(&self, layers: u64, context: Tokens, batch: u64) -> kvscope_sizing::Result<Bytes> {
        total(&self.components, |component| component.bytes(context))?.times(layers)?.times(batch)
    }

    fn read_bytes(&self, layers: u64, context: Tokens, batch: u64) -> kvscope_sizing::Result<Bytes> {
        total(&self.components, |component| component.read_bytes(context))?.times(layers)?.times(batch)
    }
}

fn total(
    components: &[StateComponent],
    bytes: impl Fn(&StateComponent) -> kvscope_sizing::Result<Bytes>,
) -> kvscope_sizing::Result<Bytes> {
    components.iter().try_fold(Bytes::ZERO, |sum, component| sum.plus(bytes(component)?))
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
}
