use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use core_affinity::CoreId;
use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::bench::BenchError;

/// One worker a core, each bound to its core where the system allows it.
#[derive(Debug)]
pub(crate) struct Pool {
    threads: ThreadPool,
    workers: usize,
    pinned: bool,
}

impl Pool {
    /// A worker for every core that this process may use, a control group's quota included.
    pub(crate) fn for_all_cores() -> Result<Self, BenchError> {
        let cores = core_affinity::get_core_ids().unwrap_or_default();
        let allowed = std::thread::available_parallelism().map_or(1, usize::from);
        Self::new(if cores.is_empty() { allowed } else { allowed.min(cores.len()) }, cores)
    }

    /// So many workers, whatever the cores.
    #[cfg(test)]
    pub(crate) fn with_workers(workers: usize) -> Result<Self, BenchError> {
        Self::new(workers, core_affinity::get_core_ids().unwrap_or_default())
    }

    /// `workers` workers, the first of them on `cores`.
    fn new(workers: usize, cores: Vec<CoreId>) -> Result<Self, BenchError> {
        let pinned = Arc::new(AtomicUsize::new(0));
        let pinned_by_workers = Arc::clone(&pinned);
        let threads = ThreadPoolBuilder::new()
            .num_threads(workers)
            .thread_name(|worker| format!("bench-{worker}"))
            .start_handler(move |worker| {
                if cores.get(worker).is_some_and(|core| core_affinity::set_for_current(*core)) {
                    pinned_by_workers.fetch_add(1, Ordering::Relaxed);
                }
            })
            .build()
            .map_err(|error| BenchError::Workers(error.to_string()))?;
        // Every start handler has run once every worker has answered.
        threads.broadcast(|_| ());
        let pinned = pinned.load(Ordering::Relaxed) == workers;
        Ok(Self { threads, workers, pinned })
    }

    /// How many workers there are.
    pub(crate) fn workers(&self) -> usize {
        self.workers
    }

    /// Whether every worker is bound to its own core.
    pub(crate) fn pinned(&self) -> bool {
        self.pinned
    }

    /// Runs `job` on a worker; [`Pool::each`] inside starts the others without waking the caller's thread in between.
    pub(crate) fn enter<R: Send>(&self, job: impl FnOnce() -> R + Send) -> R {
        self.threads.install(job)
    }

    /// Runs `job` once on every worker, with the worker's number, and waits for all.
    pub(crate) fn each(&self, job: impl Fn(usize) + Sync) {
        self.threads.broadcast(|context| job(context.index()));
    }
}

/// The part of `total` units that `worker` of `workers` takes: contiguous, sizes differ by one at most.
pub(crate) fn share(total: usize, worker: usize, workers: usize) -> std::ops::Range<usize> {
    total * worker / workers..total * (worker + 1) / workers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_cover_everything_once() {
        for (total, workers) in [(0, 3), (1, 4), (7, 2), (64, 7), (100, 1)] {
            let mut next = 0;
            for worker in 0..workers {
                let range = share(total, worker, workers);
                assert_eq!(range.start, next);
                assert!(range.len() <= total.div_ceil(workers));
                next = range.end;
            }
            assert_eq!(next, total);
        }
    }
}
