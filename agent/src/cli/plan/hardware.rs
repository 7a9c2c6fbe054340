use clap::Args;
use kvscope_sizing::UnitSystem;
use kvscope_sizing::hardware::{Gpu, Link, gpus, links};
use serde::Serialize;

use super::{Around, Asked};
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
}

impl Asked for Arguments {
    type Answer = Known;

    fn answer(&self, _: &Around<'_>) -> Result<Known, Failure> {
        Ok(Known { gpus: gpus(), links: links() })
    }

    fn wants_json(&self) -> bool {
        self.json
    }

    fn print(&self, known: &Known) -> Result<(), Failure> {
        output::figures(&format!("{}\n{}", gpu_table(known.gpus), link_table(known.links)))
    }
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
