//! Every kernel and shape family on the device, each compared with the f64 reference.

mod list;

use std::rc::Rc;
use std::time::{Duration, Instant};

use serde::Serialize;

use self::list::cases;
use super::ceilings;
use super::numbers::Random;
use super::plan::{Extent, plan};
use crate::bench::BenchError;
use crate::bench::backend::Check;
use crate::bench::shape::FormShape;
use crate::gpu::{Exchange, Gpu, GpuError, Memory, Registered};

/// f32 sums over f32 values differ by rounding alone.
const CEILING_TOLERANCE: f64 = 1e-3;

/// One line of the selftest.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Outcome {
    /// The form and its widths.
    pub(crate) what: String,
    /// The kernels that ran.
    pub(crate) kernels: Vec<String>,
    /// The largest difference from the reference over the largest right value; `null` where there is none.
    pub(crate) largest_relative_error: Option<f64>,
    /// Whether it is within the tolerance.
    pub(crate) correct: bool,
    /// Why not, or what the comparison left out.
    pub(crate) detail: Option<String>,
    pub(crate) seconds: f64,
}

/// One shape to go through.
#[derive(Clone, Debug)]
pub(super) struct SelfCase {
    pub(super) what: String,
    pub(super) shape: FormShape,
    pub(super) context: usize,
    pub(super) requests: usize,
}

const CEILINGS: &str = "ceilings";
const COPIES: &str = "copies of locked and of plain memory, both ways";

/// Goes through everything that is described by words which contain `only`, and tells each line as it comes; whether it was
/// an emulation.
pub(crate) fn selftest(only: &str, tell: &mut dyn FnMut(Outcome)) -> Result<bool, BenchError> {
    let gpu = Gpu::open()?;
    for case in cases().into_iter().filter(|case| case.what.contains(only)) {
        let begun = Instant::now();
        let outcome = match run(&gpu, &case) {
            Ok((kernels, check)) => Outcome::of(case.what, kernels, &check, begun.elapsed()),
            Err(lost @ BenchError::DeviceLost(_)) => return Err(lost),
            Err(error) => Outcome::failed(case.what, &error, begun.elapsed()),
        };
        tell(outcome);
    }
    if CEILINGS.contains(only) {
        let begun = Instant::now();
        for (kernel, error) in ceilings::check(&gpu)? {
            tell(Outcome {
                what: CEILINGS.to_owned(),
                kernels: vec![kernel.to_owned()],
                largest_relative_error: error.is_finite().then_some(error),
                correct: error < CEILING_TOLERANCE,
                detail: None,
                seconds: begun.elapsed().as_secs_f64(),
            });
        }
    }
    if COPIES.contains(only) {
        let begun = Instant::now();
        let copied = copies(&gpu)?;
        tell(Outcome {
            what: COPIES.to_owned(),
            kernels: Vec::new(),
            largest_relative_error: None,
            correct: copied,
            detail: None,
            seconds: begun.elapsed().as_secs_f64(),
        });
    }
    Ok(gpu.is_emulated())
}

/// Whether blocks that go to the device in one order and come back in another are what they were.
fn copies(gpu: &Rc<Gpu>) -> Result<bool, BenchError> {
    const BLOCK: usize = 4096;
    let failed =
        |error: std::io::Error| BenchError::Memory { bytes: 4 * BLOCK as u64, why: error.to_string() };
    let mut host = memmap2::MmapMut::map_anon(4 * BLOCK).map_err(failed)?;
    let kept = Memory::new(gpu, 4 * BLOCK as u64)?;
    for is_locked in [true, false] {
        let before: Vec<u8> = Random::new(11).bf16(2 * BLOCK);
        host.copy_from_slice(&before);
        let _locked = if is_locked { Some(Registered::new(gpu, &mut host)?) } else { None };
        let offset = |place: usize| (place * BLOCK) as u64;
        let mut to: Vec<Exchange<'_>> = host
            .chunks(BLOCK)
            .enumerate()
            .map(|(place, bytes)| Exchange::To(offset(3 - place), bytes))
            .collect();
        kept.exchange(&mut to)?;
        host.fill(0);
        let mut from: Vec<Exchange<'_>> = host
            .chunks_mut(BLOCK)
            .enumerate()
            .map(|(place, bytes)| Exchange::From(offset(3 - place), bytes))
            .collect();
        kept.exchange(&mut from)?;
        if host[..] != before[..] {
            return Ok(false);
        }
    }
    Ok(true)
}

fn run(gpu: &Rc<Gpu>, case: &SelfCase) -> Result<(Vec<String>, Check), BenchError> {
    let plan = plan(&case.shape, gpu)?;
    let SelfCase { context, requests, .. } = *case;
    // The second of two layers, so that a wrong offset shows.
    let held = plan.hold(gpu, Extent { layers: 2, requests, context, seed: context as u64 })?;
    held.launch(0)?;
    let check = held.check(1)?;
    // What a step starts is also what a graph of it does.
    let graph = gpu.record(|| held.launch(1))?;
    graph.start()?;
    gpu.wait()?;
    let bytes = plan.layout(context as u64, requests as u64)?.layer_bytes * 2;
    if bytes != held.state_bytes() {
        let what = format!("{} bytes were asked for, {bytes} are predicted", held.state_bytes());
        return Err(GpuError::Image(what).into());
    }
    Ok((held.kernels(), check))
}

impl Outcome {
    fn of(what: String, kernels: Vec<String>, check: &Check, took: Duration) -> Self {
        let error = check.largest_relative_error;
        Self {
            what,
            kernels,
            largest_relative_error: error.is_finite().then_some(error),
            correct: check.is_correct(),
            detail: check.part.clone(),
            seconds: took.as_secs_f64(),
        }
    }

    fn failed(what: String, error: &BenchError, took: Duration) -> Self {
        Self {
            what,
            kernels: Vec::new(),
            largest_relative_error: None,
            correct: false,
            detail: Some(error.to_string()),
            seconds: took.as_secs_f64(),
        }
    }
}
