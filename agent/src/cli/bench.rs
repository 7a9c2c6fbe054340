mod choice;
mod print;
mod tiers;

use std::io;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use kvscope_protocol::run::{Case, TierName, compare_runs};

use self::choice::FormChoice;
use crate::bench::{self, CalibrationLength, CalibrationUse, Plan, Progress, Store};
use crate::failure::Failure;
use crate::home;
use crate::input::{label, read_text};
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
    /// Measure the ceilings of this machine and keep them for later runs
    Calibrate {
        /// Ten seconds instead of two minutes
        #[arg(long)]
        quick: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Two stored runs, case by case: which differences exceed the noise
    Compare {
        /// The first run's name
        a: String,
        /// The second run's name
        b: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
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
    /// Forms, each with the format of its state where another than the usual is wanted: gqa,mla,gqa@fp8,mamba2@bf16
    #[arg(long, value_delimiter = ',', value_name = "FORM[@FORMAT]", default_value = "gqa,mla")]
    forms: Vec<FormChoice>,
    /// Measure transfers to and from tiers instead of forms: dram, cache (a file in the page cache), file (past it), peer (another process over loopback TCP)
    #[arg(long, value_delimiter = ',', value_name = "TIER", value_parser = tiers::parse_tier, conflicts_with = "forms")]
    tiers: Vec<TierName>,
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
        Action::Calibrate { quick, json } => {
            let length = if quick { CalibrationLength::Quick } else { CalibrationLength::Full };
            let calibration =
                bench::calibrate(length, &store, &AtomicBool::new(false)).map_err(Failure::check)?;
            print::calibration(&calibration, json)
        }
        Action::Compare { a, b, json } => {
            let run = |name: &str| store.show(name).map(|read| read.run).map_err(Failure::input);
            print::comparison(&compare_runs(&run(&a)?, &run(&b)?), json)
        }
        Action::List { json } => list(&store, json),
        Action::Show { run, json } => {
            let read = store.show(&run).map_err(Failure::input)?;
            for warning in &read.warnings {
                output::warning(&format!("{run}: {warning}"));
            }
            print::run(&read.run, json)
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
    if arguments.backend == Backend::Cuda {
        return Err(Failure::input("backend: cuda is not measured yet; use --backend cpu"));
    }
    if !arguments.tiers.is_empty() {
        return tiers::measure(arguments, store);
    }
    if arguments.batch == 0 {
        return Err(Failure::input("batch: 0 requests hold nothing; give at least 1"));
    }
    let calibration = if arguments.recalibrate { CalibrationUse::New } else { CalibrationUse::Stored };
    let plan = Plan { calibration, ..Plan::new(budget(&arguments.budget)?) };
    let cases = choice::cases(arguments)?;
    let mut show = |progress: Progress| output::progress(&progress_line(&progress));
    let run = bench::run(&plan, &cases, store, &mut show, &AtomicBool::new(false));
    output::progress_done();
    let run = run.map_err(Failure::check)?;
    print::run(&run, arguments.json)?;
    let wrong: Vec<&Case> = run.cases.iter().filter(|case| case.correct == Some(false)).collect();
    match wrong.as_slice() {
        [] => Ok(()),
        [case, ..] => Err(Failure::check(format!("case {}: {}", case.case, case.status))),
    }
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
