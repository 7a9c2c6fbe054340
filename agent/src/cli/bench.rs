mod choice;
mod print;
mod progress;
mod tiers;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use kvscope_protocol::run::{Case, Ended, Run, TierName, compare_runs};

use self::choice::FormChoice;
use self::print::{Form, Printed};
use self::progress::{Audience, Teller};
use crate::bench::{
    self, BenchError, CalibrationLength, CalibrationUse, CaseRequest, Place, Plan, Progress, Resumed, Store,
};
use crate::failure::Failure;
use crate::home;
use crate::input::{label, read_text};
use crate::output::{self, Figures};

/// Thousands of cases with all their samples.
pub(super) const LARGEST_RUN: u64 = 256 << 20;

#[derive(Args, Debug)]
pub(super) struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Measure attention forms over real state, each predicted before it is measured
    Run(Box<RunArguments>),
    /// Measure the ceilings of this machine and keep them for later runs
    Calibrate {
        /// Ten seconds instead of two minutes
        #[arg(long)]
        quick: bool,
        /// Whose ceilings
        #[arg(long, value_enum, default_value_t = Backend::Cpu)]
        backend: Backend,
        #[command(flatten)]
        printed: Printed,
    },
    /// Two stored runs, case by case: which differences exceed the noise
    Compare {
        /// The first run's name
        a: String,
        /// The second run's name
        b: String,
        #[command(flatten)]
        printed: Printed,
    },
    /// The stored runs, newest first
    List {
        #[command(flatten)]
        printed: Printed,
    },
    /// One stored run
    Show {
        /// The run's name
        run: String,
        #[command(flatten)]
        printed: Printed,
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
    /// Keep bytes for the process that started this one, until standard input ends
    #[command(hide = true)]
    Peer {
        /// How many
        #[arg(long)]
        bytes: usize,
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
    /// Forms, each with the format of its state where another than the usual is wanted: gqa,mla,gqa@fp8,mamba2@bf16; gqa,mla where no tier is named either
    #[arg(long, value_delimiter = ',', value_name = "FORM[@FORMAT]")]
    forms: Vec<FormChoice>,
    /// Transfers to and from tiers, after the forms that are named: dram, cache (a file in the page cache), file (past it), peer (another process over loopback TCP), hbm and hbm-pageable (memory of a GPU, from locked and from plain memory)
    #[arg(long, value_delimiter = ',', value_name = "TIER", value_parser = tiers::parse_tier)]
    tiers: Vec<TierName>,
    #[command(flatten)]
    state: tiers::StateArguments,
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
    /// Empty caches before each step, leave them, or measure both as separate rows
    #[arg(long, value_enum, default_value_t = CacheChoice::Cold)]
    cache: CacheChoice,
    /// Measure the ceilings again, though a stored calibration may hold
    #[arg(long)]
    recalibrate: bool,
    /// The time that the whole run may take, calibration and warm-up included: 30s, 2m [default: 60s, with --resume that of the run]
    #[arg(long)]
    budget: Option<String>,
    /// Measure the cases that a stored run is missing, and add them to its file
    #[arg(long, value_name = "RUN", conflicts_with_all = ["forms", "tiers", "lengths", "batch", "models", "gqa_model", "mla_model", "cache"])]
    resume: Option<String>,
    /// Print progress as JSON lines and stop when standard input ends
    #[arg(long, hide = true)]
    watched: bool,
    #[command(flatten)]
    printed: Printed,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
enum Backend {
    /// All cores of this machine
    Cpu,
    /// The first GPU
    Cuda,
}

impl Backend {
    fn place(self) -> Place {
        match self {
            Self::Cpu => Place::Cpu,
            Self::Cuda => Place::Cuda,
        }
    }
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
enum CacheChoice {
    /// No state is in a cache when a step starts
    Cold,
    /// Whatever the step before left in the caches
    Hot,
    /// Both, as separate rows
    Both,
}

pub(super) fn run(arguments: Arguments) -> Result<(), Failure> {
    let store = Store::open(home::runs()?).map_err(Failure::check)?;
    match arguments.action {
        Action::Run(arguments) => measure(&arguments, &store),
        Action::Calibrate { quick, backend, printed } => {
            let length = if quick { CalibrationLength::Quick } else { CalibrationLength::Full };
            let _turn = store.take_turn("kvscope bench calibrate").map_err(Failure::check)?;
            let teller = Teller::new(Audience::of_this_process(), &store);
            teller.tell(&Progress { remaining_seconds: length.time().as_secs_f64(), ..Progress::default() });
            let calibration = bench::calibrate(backend.place(), length, &store, &teller.cancel());
            teller.finish();
            print::calibration(&calibration.map_err(failed)?, printed.form())
        }
        Action::Compare { a, b, printed } => {
            let run = |name: &str| store.show(name).map(|read| read.run).map_err(Failure::input);
            print::comparison(&compare_runs(&run(&a)?, &run(&b)?), printed.form())
        }
        Action::List { printed } => list(&store, printed.form()),
        Action::Show { run, printed } => {
            let read = store.show(&run).map_err(Failure::input)?;
            for warning in &read.warnings {
                output::warning(&format!("{run}: {warning}"));
            }
            print::run(&read.run, printed.form())
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
        Action::Peer { bytes } => tiers::keep(bytes),
        Action::Delete { run } => store.delete(&run).map_err(Failure::input),
    }
}

fn measure(arguments: &RunArguments, store: &Store) -> Result<(), Failure> {
    let Order { plan, cases, tiers } = order(arguments, store)?;
    // A run goes on where it began.
    let place = match &plan.resumed {
        Some(resumed) => Place::of_stored(&resumed.run.backend),
        None => arguments.backend.place(),
    };
    let who = if arguments.watched { "a run that the agent was asked for" } else { "kvscope bench run" };
    let _turn = store.take_turn(who).map_err(Failure::check)?;
    let audience = if arguments.watched { Audience::Watcher } else { Audience::of_this_process() };
    let teller = Teller::new(audience, store);
    let cancel = teller.cancel();
    let mut tell = |progress| teller.tell(&progress);
    let run = if tiers.is_empty() {
        bench::run(place, &plan, &cases, store, &mut tell, &cancel).map_err(failed)
    } else {
        tiers.measure(place, plan, &cases, store, &mut tell, &cancel)
    };
    teller.finish();
    let run = run?;
    if !teller.is_watched() {
        print::run(&run, arguments.printed.form())?;
    }
    let is_bad = |case: &&Case| {
        let is_fatal = ["failed: not stored", "failed: the device was lost"];
        case.correct == Some(false) || is_fatal.iter().any(|begin| case.status.starts_with(begin))
    };
    if let Some(case) = run.cases.iter().find(is_bad) {
        return Err(Failure::check(format!("case {}: {}", case.case, case.status)));
    }
    if let Some(wrong) = tiers::wrong(&run) {
        return Err(Failure::check(wrong));
    }
    match (run.ended, run.notes.last()) {
        (Ended::Interrupted, Some(note)) => Err(Failure::check(note)),
        (Ended::Cancelled, _) => Err(Failure::interrupted(progress::cancelled(&run.run))),
        _ => Ok(()),
    }
}

/// Why nothing was measured.
fn failed(error: BenchError) -> Failure {
    match error {
        BenchError::Cancelled => Failure::interrupted(error),
        _ => Failure::check(error),
    }
}

/// What a run is asked to do.
struct Order {
    plan: Plan,
    cases: Vec<CaseRequest>,
    tiers: tiers::Tiers,
}

fn order(arguments: &RunArguments, store: &Store) -> Result<Order, Failure> {
    let calibration = if arguments.recalibrate { CalibrationUse::New } else { CalibrationUse::Stored };
    let Some(name) = &arguments.resume else {
        if arguments.batch == 0 {
            return Err(Failure::input("batch: 0 requests hold nothing; give at least 1"));
        }
        let plan = Plan { calibration, ..Plan::new(budget(arguments.budget.as_deref())?) };
        let tiers = tiers::Tiers::asked(arguments)?;
        return Ok(Order { plan, cases: choice::cases(arguments)?, tiers });
    };
    let run = store.show(name).map_err(Failure::input)?.run;
    if run.ended == Ended::Running {
        return Err(Failure::input(BenchError::Running(name.clone())));
    }
    resumed(run, calibration, arguments.budget.as_deref())
}

/// The cases and the tiers that a stored run is missing.
fn resumed(run: Run, calibration: CalibrationUse, asked: Option<&str>) -> Result<Order, Failure> {
    let missing: Vec<&Case> = run.cases.iter().filter(|case| case.is_missing()).collect();
    let tiers = tiers::Tiers::missing(&run)?;
    if missing.is_empty() && tiers.is_empty() {
        return Err(Failure::input(BenchError::NothingMissing(run.run)));
    }
    let own = format!("{:.0}s", run.plan.budget_seconds.max(5.0));
    let budget = budget(Some(asked.unwrap_or(&own)))?;
    let cases = choice::of_stored(&missing)?;
    let numbers = missing.iter().map(|case| case.case).collect();
    let seed = run.plan.seed;
    let resumed = Some(Resumed { cases: numbers, run });
    Ok(Order { plan: Plan { seed, calibration, resumed, ..Plan::new(budget) }, cases, tiers })
}

/// Reads the arguments of `kvscope bench run` as the command does, without running anything.
pub(super) fn check(arguments: &[String], store: &Store) -> Result<(), Failure> {
    #[derive(Debug, Parser)]
    struct Whole {
        #[command(flatten)]
        run: RunArguments,
    }
    let words = std::iter::once("run").chain(arguments.iter().map(String::as_str));
    let read = Whole::try_parse_from(words).map_err(|error| Failure::input(super::usage(&error)))?.run;
    order(&read, store).map(|_| ())
}

/// `30s`, `2m`, `90` (seconds): between five seconds and a day; a minute where nothing is said.
fn budget(text: Option<&str>) -> Result<Duration, Failure> {
    let text = text.unwrap_or("60s");
    let plain = if text.chars().all(|c| c.is_ascii_digit()) { format!("{text}s") } else { text.to_owned() };
    let budget = humantime::parse_duration(&plain)
        .map_err(|_| Failure::input(format!("budget: {text:?} is not a time; write 30s or 2m")))?;
    if !(Duration::from_secs(5)..=Duration::from_hours(24)).contains(&budget) {
        return Err(Failure::input(format!("budget: {text} is outside 5s to 24h")));
    }
    Ok(budget)
}

fn list(store: &Store, form: Form) -> Result<(), Failure> {
    let runs = store.list().map_err(Failure::check)?;
    if form == Form::Json {
        return output::json(&runs);
    }
    if runs.is_empty() {
        return output::figures("no runs yet; start one with `kvscope bench run`\n");
    }
    let mut table = Figures::new(3, &["run", "backend", "ended", "cases", "transfers"]);
    let of = |measured: usize, all: usize| match all {
        0 => "–".to_owned(),
        _ => format!("{measured} of {all}"),
    };
    for run in &runs {
        table.row([
            run.run.clone(),
            run.backend.clone().unwrap_or_else(|| "–".to_owned()),
            run.state(),
            of(run.measured, run.cases),
            of(run.transfers_measured, run.transfers),
        ]);
    }
    output::figures(&table.render())?;
    for run in &runs {
        for warning in &run.warnings {
            output::warning(&format!("{}: {warning}", run.run));
        }
    }
    Ok(())
}

fn export(store: &Store, run: &str, file: Option<PathBuf>) -> Result<(), Failure> {
    let text = store.text(run).map_err(Failure::input)?;
    let Some(file) = file else {
        return output::figures(&text);
    };
    output::whole_file(&file, text.as_bytes())
        .map_err(|error| Failure::check(format!("{}: {error}", file.display())))
}
