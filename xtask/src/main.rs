//! The project's own tasks. `cargo xtask serve` and `cargo xtask test` are all that a fresh machine needs.

mod bench;
mod check;
mod error;
mod fuzz;
mod kernels;
mod output;
mod process;
mod rules;
mod serve;
mod site;
mod workspace;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use error::Result;
use workspace::Workspace;

#[derive(Debug, Parser)]
#[command(name = "cargo xtask", about = "The project's own tasks", version)]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Build what is missing, start the agent and open the explorer
    Serve {
        /// Print the address without opening a browser
        #[arg(long)]
        no_open: bool,
        /// Passed on to `kvscope serve`
        #[arg(last = true)]
        agent_arguments: Vec<String>,
    },
    /// Build the explorer as a static site
    Site {
        /// Also copy the finished site into this folder
        #[arg(long, value_name = "DIR")]
        out: Option<PathBuf>,
    },
    /// Build images of all GPU kernels for all targets and list what each takes; needs no GPU
    Kernels {
        /// Build everything twice and demand equal bytes
        #[arg(long)]
        twice: bool,
    },
    /// Fuzz the readers of configs, GGUF files and logs, and the engine profiles
    Fuzz {
        /// Targets, all where none is named
        #[arg(value_name = "TARGET", value_parser = fuzz::TARGETS)]
        targets: Vec<String>,
        /// Time for each
        #[arg(long, default_value_t = 10)]
        minutes: u32,
    },
    /// Everything that is checked before a change lands
    Test,
    /// Print the speed table: sizing, the command line, the page, the site's size
    Bench,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(arguments.task) {
        Ok(code) => code,
        Err(error) => {
            output::error(&error);
            ExitCode::FAILURE
        }
    }
}

fn run(task: Task) -> Result<ExitCode> {
    let workspace = Workspace::find()?;
    match task {
        Task::Serve { no_open, agent_arguments } => {
            let browser = if no_open { serve::Browser::LeaveClosed } else { serve::Browser::Open };
            serve::serve(&workspace, browser, &agent_arguments)
        }
        Task::Site { out } => {
            let site = site::build(&workspace)?;
            output::line(&site.size_table());
            if let Some(folder) = out {
                site.copy_to(&folder)?;
            }
            site.check_budget()?;
            Ok(ExitCode::SUCCESS)
        }
        Task::Kernels { twice } => {
            let builds = if twice { kernels::Builds::Two } else { kernels::Builds::Missing };
            let kernels = kernels::build(&workspace, builds)?;
            output::line(&kernels.table());
            kernels.check_spills()?;
            Ok(ExitCode::SUCCESS)
        }
        Task::Fuzz { targets, minutes } if targets.is_empty() => {
            fuzz::fuzz(&workspace, &fuzz::TARGETS.map(str::to_owned), minutes)
        }
        Task::Fuzz { targets, minutes } => fuzz::fuzz(&workspace, &targets, minutes),
        Task::Test => Ok(check::test(&workspace)),
        Task::Bench => bench::bench(&workspace),
    }
}
