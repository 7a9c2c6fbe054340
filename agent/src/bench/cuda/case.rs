//! A case on a device: its state, and a graph of steps over it that is replayed for each sample.

use std::rc::Rc;
use std::time::Duration;

use kvscope_protocol::run::Cache;
use kvscope_sizing::Bytes;

use super::ceilings::ClockWatch;
use super::plan::{Extent, Held, plan, sizes};
use crate::bench::backend::{CaseOrder, Check, Disturbance, PreparedCase, Resident, Timed};
use crate::bench::{BenchError, in_words};
use crate::gpu::{Gpu, GpuError, Graph, Stopwatch, Telemetry};

/// A sample takes at least so long, so that starting it does not show.
const LEAST_SAMPLE: Duration = Duration::from_millis(2);
/// What was read is out of the second-level cache once so many times its size was read meanwhile.
const CACHE_MULTIPLE: u64 = 5;
/// Kernels of a graph: more take long to make and send.
const MOST_KERNELS: usize = 8192;

pub(super) struct CudaCase {
    graph: Graph,
    watch: Stopwatch,
    clock: ClockWatch,
    telemetry: Option<Rc<Telemetry>>,
    held: Box<dyn Held>,
    layers: usize,
    sets: usize,
    /// Steps of a replay.
    steps: usize,
    resident: Option<Resident>,
    set_limit: Option<String>,
}

impl CudaCase {
    pub(super) fn new(
        gpu: &Rc<Gpu>,
        telemetry: Option<Rc<Telemetry>>,
        order: &CaseOrder,
    ) -> Result<Self, BenchError> {
        let plan = plan(&order.shape, gpu)?;
        let [layers, context, requests] = sizes(order, [order.layers, order.context, order.batch])?;
        let layout = plan.layout(order.context, order.batch)?;
        let kernels = usize::try_from(layout.launches).unwrap_or(MOST_KERNELS) * layers;
        let free = gpu.free_bytes()?;
        let bytes = layout.layer_bytes * order.layers;
        if bytes > free {
            let why = format!("the device has {} left", in_words(free));
            return Err(BenchError::Memory { bytes, why });
        }
        let room = Room { free, kernels };
        let cache = gpu.device().second_level_cache.get();
        let (sets, set_limit) = match order.cache {
            Cache::Cold => room.sets(bytes, cache),
            Cache::Hot => (1, None),
        };
        let extent = Extent { layers: layers * sets, requests, context, seed: order.seed };
        let held = plan.hold(gpu, extent)?;
        let used = free.saturating_sub(gpu.free_bytes()?);
        let resident = Resident { bytes: Bytes::new(used / sets as u64), huge_page_bytes: None };

        let watch = Stopwatch::new(gpu)?;
        // Twice: the first time code and tables come to the device.
        let step = |set: usize| (0..layers).try_for_each(|layer| held.launch(set * layers + layer));
        watch.time(|| step(0))?;
        let once = watch.time(|| step(sets - 1))?;
        let steps = steps_of_a_sample(once, sets, kernels);
        let graph = gpu.record(|| (0..steps).try_for_each(|number| step(number % sets)))?;
        Ok(Self {
            clock: ClockWatch::new(gpu)?,
            graph,
            watch,
            telemetry,
            held,
            layers,
            sets,
            steps,
            resident: Some(resident),
            set_limit,
        })
    }

    fn replay(&self) -> Result<Duration, GpuError> {
        self.watch.time(|| self.graph.start())
    }
}

impl PreparedCase for CudaCase {
    fn asked_bytes(&self) -> Bytes {
        Bytes::new(self.held.state_bytes() / self.sets as u64)
    }

    fn resident(&self) -> Option<Resident> {
        self.resident
    }

    fn check(&mut self) -> Result<Check, BenchError> {
        Ok(self.held.check(self.layers * self.sets - 1)?)
    }

    fn step(&mut self) -> Result<Timed, BenchError> {
        let elapsed = self.replay()?;
        let by_telemetry = self.telemetry.as_ref().and_then(|telemetry| telemetry.held_back());
        let held_back = match by_telemetry {
            Some(why) => Some(why),
            None => self.clock.held_back()?,
        };
        #[allow(clippy::cast_precision_loss, reason = "some thousand steps")]
        let elapsed = elapsed.div_f64(self.steps as f64);
        Ok(Timed { elapsed, disturbance: Disturbance::OfDevice(held_back) })
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.sets > 1 {
            notes.push(format!(
                "{} equal sets of state take turns, so that none is in the second-level cache; all bytes are of one set",
                self.sets
            ));
        }
        notes.extend(self.set_limit.clone());
        notes
    }
}

/// What bounds how many sets of state are held.
#[derive(Clone, Copy, Debug)]
struct Room {
    free: u64,
    /// Of a step.
    kernels: usize,
}

impl Room {
    /// How many equal sets take turns so that nothing of one is left in the cache, and what the limit means where there is
    /// room for fewer.
    fn sets(self, bytes: u64, cache: u64) -> (usize, Option<String>) {
        let bytes = bytes.max(1);
        if bytes >= CACHE_MULTIPLE * cache {
            return (1, None);
        }
        let wanted = (CACHE_MULTIPLE * cache).div_ceil(bytes) + 1;
        let by_memory = (self.free / 4 / bytes).max(1);
        let by_kernels = (MOST_KERNELS / self.kernels.max(1)).max(1) as u64;
        let sets = wanted.min(by_memory).min(by_kernels);
        let why = (sets < wanted).then(|| {
            format!(
                "{sets} of the {wanted} sets that keep the second-level cache of {} cold were held; some of the state may have been in it",
                in_words(cache)
            )
        });
        (usize::try_from(sets).unwrap_or(1), why)
    }
}

/// So many steps that a sample is long enough, and every set has its turn.
fn steps_of_a_sample(once: Duration, sets: usize, kernels: usize) -> usize {
    let most = (MOST_KERNELS / kernels.max(1)).max(sets);
    let wanted = LEAST_SAMPLE.as_nanos().div_ceil(once.as_nanos().max(1));
    let rounds = usize::try_from(wanted).unwrap_or(most).div_ceil(sets).max(1);
    (rounds * sets).min(most / sets * sets).max(sets)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_exceed_five_times_the_cache_where_memory_and_graphs_allow() {
        // H100: 50 MB of cache; 10 MB of state: 25 sets and one more.
        let room = Room { free: 70_000_000_000, kernels: 2 };
        assert_eq!(room.sets(10_000_000, 50_000_000), (26, None));
        assert_eq!(room.sets(250_000_000, 50_000_000), (1, None));
        let (sets, why) = Room { free: 80_000_000, kernels: 2 }.sets(10_000_000, 50_000_000);
        assert_eq!(sets, 2);
        assert!(why.unwrap().starts_with("2 of the 26 sets"));
        assert_eq!(Room { free: 70_000_000_000, kernels: 4096 }.sets(10_000_000, 50_000_000).0, 2);
    }

    #[test]
    fn a_sample_is_long_enough_and_gives_every_set_its_turn() {
        let steps = |microseconds, sets, kernels| {
            steps_of_a_sample(Duration::from_micros(microseconds), sets, kernels)
        };
        assert_eq!(steps(100, 1, 2), 20);
        assert_eq!(steps(100, 6, 2), 24);
        assert_eq!(steps(5000, 3, 2), 3);
        // At most 8,192 kernels, but each set once.
        assert_eq!(steps(1, 1, 8), 1024);
        assert_eq!(steps(1, 3, 8192), 3);
        assert_eq!(steps(0, 1, 8192), 1);
    }
}
