use clap::Args;
use kvscope_sizing::UnitSystem;
use kvscope_sizing::hardware::{Gpu, Link, gpus, links};
use kvscope_sizing::plan::words::{rate_words, time_words};
use kvscope_sizing::plan::{Measured, MeasuredLink};
use serde::Serialize;

use super::{Around, Asked, measured};
use crate::failure::Failure;
use crate::output::{self, Figures};

#[derive(Args, Debug)]
pub(super) struct Arguments {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
pub(super) struct Known {
    gpus: &'static [Gpu],
    links: &'static [Link],
    /// What the newest runs of this machine measured: of its tiers, and of the way to another process.
    #[serde(flatten)]
    measured: Measured,
}

impl Asked for Arguments {
    type Answer = Known;

    fn answer(&self, around: &Around<'_>) -> Result<Known, Failure> {
        let mut found = measured::newest(around, |_| true)?;
        if !found.measured.iter().any(MeasuredLink::is_peer) {
            found.measured.extend(measured::newest(around, MeasuredLink::is_peer)?.measured);
        }
        Ok(Known { gpus: gpus(), links: links(), measured: found })
    }

    fn wants_json(&self) -> bool {
        self.json
    }

    fn print(&self, known: &Known) -> Result<(), Failure> {
        let Measured { measured, warnings } = &known.measured;
        let measured = match measured.as_slice() {
            [] => String::new(),
            links => format!("\n{}", measured_table(links)),
        };
        output::figures(&format!("{}\n{}{measured}", gpu_table(known.gpus), link_table(known.links)))?;
        for warning in warnings {
            output::warning(&warning.to_string());
        }
        Ok(())
    }
}

fn measured_table(links: &[MeasuredLink]) -> String {
    let mut table = Figures::new(1, &["measured here", "start", "each block", "rate", "figures"]).text_last();
    for link in links {
        table.row([
            link.name(),
            time_words(link.start_seconds),
            time_words(link.alpha_seconds),
            rate_words(link.beta_bytes_per_second),
            link.source.clone(),
        ]);
    }
    table.render()
}

fn gpu_table(gpus: &[Gpu]) -> String {
    let header =
        ["gpu", "memory", "bandwidth", "bf16", "fp8", "fp4", "to other GPUs", "to the host", "figures"];
    let mut table = Figures::new(1, &header).text_last();
    for gpu in gpus {
        let link = |link: &Option<kvscope_sizing::hardware::NamedLink>| {
            link.as_ref().map_or("–".to_owned(), |link| rate(link.bytes_per_second))
        };
        table.row([
            gpu.id.clone(),
            gpu.memory_bytes.display(UnitSystem::Decimal),
            rate(gpu.memory_bytes_per_second),
            flop_rate(gpu.flops_per_second.bf16),
            flop_rate(gpu.flops_per_second.fp8),
            flop_rate(gpu.flops_per_second.fp4),
            link(&gpu.peer_link),
            link(&gpu.host_link),
            gpu.confidence.clone(),
        ]);
    }
    table.render()
}

fn link_table(links: &[Link]) -> String {
    let mut table = Figures::new(2, &["link", "class", "one direction", "figures"]).text_last();
    for link in links {
        table.row([
            link.id.clone(),
            link.class.name().to_owned(),
            rate(link.bytes_per_second),
            link.confidence.clone(),
        ]);
    }
    table.render()
}

/// `4.8 TB/s`
fn rate(bytes_per_second: u64) -> String {
    format!("{}/s", kvscope_sizing::Bytes::new(bytes_per_second).display(UnitSystem::Decimal))
}

/// `1979 TFLOP/s`
fn flop_rate(flops_per_second: Option<u64>) -> String {
    flops_per_second.map_or("–".to_owned(), |rate| format!("{} TFLOP/s", rate as f64 / 1e12))
}
