//! One worker a core. A step's many short jobs are started by a barrier that workers spin at: to wake a sleeping thread takes
//! longer than many of them.
#![allow(
    unsafe_code,
    reason = "a job is shared for as long as its starter waits for it, which lifetimes cannot say"
)]

use std::any::Any;
use std::cell::{Cell, UnsafeCell};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use core_affinity::CoreId;
use rayon::{ThreadPool, ThreadPoolBuilder};

use super::barrier::Barrier;
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

    /// Runs `job` on the first worker, while the others wait for what [`Pool::each`] starts in it, without sleeping.
    pub(crate) fn enter<R: Send>(&self, job: impl FnOnce() -> R + Send) -> R {
        let team = Team::new(self.workers);
        let (job, result) = (Mutex::new(Some(job)), Mutex::new(None));
        self.threads.broadcast(|context| {
            if context.index() > 0 {
                team.follow(context.index());
                return;
            }
            let job = job.lock().expect("taken once").take().expect("there is one first worker");
            let entered = Entered::new(&team);
            let done = catch_unwind(AssertUnwindSafe(job));
            drop(entered);
            team.start(None);
            *result.lock().expect("set once") = Some(done);
        });
        let result = result.into_inner().expect("set once").expect("the first worker ran the job");
        result.unwrap_or_else(|panic| resume_unwind(panic))
    }

    /// Runs `job` once on every worker, with the worker's number, and waits for all. Not from within a job.
    pub(crate) fn each<F: Fn(usize) + Sync>(&self, job: F) {
        let team = TEAM.get();
        if team.is_null() {
            self.threads.broadcast(|context| job(context.index()));
            return;
        }
        // SAFETY: `Entered` clears the pointer before the team ends, and only this thread sees it.
        let team = unsafe { &*team };
        team.start(Some(Start::of(&job)));
        team.run(|| job(0));
        team.barrier.wait();
        let panic = team.panic.lock().expect("nothing panics while it is held").take();
        if let Some(panic) = panic {
            resume_unwind(panic);
        }
    }
}

thread_local! {
    /// The team whose first worker this thread is at the moment.
    static TEAM: Cell<*const Team> = const { Cell::new(std::ptr::null()) };
}

/// A job as the others see it.
#[derive(Clone, Copy)]
struct Start {
    job: *const (),
    call: unsafe fn(*const (), usize),
}

impl Start {
    fn of<F: Fn(usize) + Sync>(job: &F) -> Self {
        unsafe fn call<F: Fn(usize)>(job: *const (), worker: usize) {
            // SAFETY: made from such a job, which lives until its starter has met every worker again.
            unsafe { (*job.cast::<F>())(worker) }
        }
        Self { job: std::ptr::from_ref(job).cast(), call: call::<F> }
    }
}

/// Workers that wait for jobs at a barrier.
struct Team {
    barrier: Barrier,
    start: UnsafeCell<Option<Start>>,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

// SAFETY: the first worker writes `start` while all others are on their way to the barrier or wait at it, and they read it only
// after it; jobs may be shared.
unsafe impl Sync for Team {}

impl Team {
    fn new(workers: usize) -> Self {
        Self { barrier: Barrier::new(workers), start: UnsafeCell::new(None), panic: Mutex::new(None) }
    }

    /// Lets the others begin a job, or leave.
    fn start(&self, job: Option<Start>) {
        // SAFETY: nobody reads it before the barrier.
        unsafe { *self.start.get() = job };
        self.barrier.wait();
    }

    fn follow(&self, worker: usize) {
        loop {
            self.barrier.wait();
            // SAFETY: written before the barrier, and not again before the next one.
            let Some(Start { job, call }) = (unsafe { *self.start.get() }) else { return };
            // SAFETY: the starter waits at the next barrier, so that the job lives.
            self.run(|| unsafe { call(job, worker) });
            self.barrier.wait();
        }
    }

    /// Keeps a panic for the starter: whoever left early would leave the others with a job that has gone.
    fn run(&self, part: impl FnOnce()) {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(part)) {
            *self.panic.lock().expect("nothing panics while it is held") = Some(panic);
        }
    }
}

/// While it lives, this thread's [`Pool::each`] starts jobs of the team.
struct Entered;

impl Entered {
    fn new(team: &Team) -> Self {
        TEAM.set(team);
        Self
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        TEAM.set(std::ptr::null());
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
    fn every_worker_runs_every_job_once_inside_and_outside() {
        let pool = Pool::with_workers(3).unwrap();
        let counts = [const { AtomicUsize::new(0) }; 3];
        let count = |worker: usize| {
            counts[worker].fetch_add(1, Ordering::Relaxed);
        };
        pool.each(count);
        // What one job has written the next one sees.
        let answer = pool.enter(|| {
            for round in 2..100 {
                pool.each(count);
                assert!(counts.iter().all(|count| count.load(Ordering::Relaxed) == round));
            }
            42
        });
        assert_eq!(answer, 42);
        pool.each(count);
        assert!(counts.iter().all(|count| count.load(Ordering::Relaxed) == 100));
    }

    #[test]
    fn a_panic_ends_the_step_and_the_pool_goes_on() {
        let pool = Pool::with_workers(2).unwrap();
        for failing in 0..2 {
            let step = std::panic::AssertUnwindSafe(|| {
                pool.enter(|| pool.each(|worker| assert_ne!(worker, failing)));
            });
            assert!(std::panic::catch_unwind(step).is_err());
        }
        assert_eq!(pool.enter(|| 7), 7);
    }

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
