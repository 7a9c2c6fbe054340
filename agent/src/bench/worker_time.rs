//! How much of its core each worker got while it worked: what another process takes, a worker does not get.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Processor time and wall time of every worker.
#[derive(Debug)]
pub(crate) struct WorkerTime {
    workers: Vec<Spent>,
}

#[derive(Debug, Default)]
struct Spent {
    processor_nanoseconds: AtomicU64,
    wall_nanoseconds: AtomicU64,
}

impl WorkerTime {
    pub(crate) fn new(workers: usize) -> Self {
        Self { workers: (0..workers).map(|_| Spent::default()).collect() }
    }

    /// Runs `work` on the calling thread, which is worker `worker`.
    pub(crate) fn measure(&self, worker: usize, work: impl FnOnce()) {
        let (wall, processor) = (Instant::now(), of_this_thread());
        work();
        let Some(processor) =
            of_this_thread().zip(processor).map(|(after, before)| after.saturating_sub(before))
        else {
            return;
        };
        let spent = &self.workers[worker];
        spent.processor_nanoseconds.fetch_add(nanoseconds(processor), Ordering::Relaxed);
        spent.wall_nanoseconds.fetch_add(nanoseconds(wall.elapsed()), Ordering::Relaxed);
    }

    /// The worker that got the smallest share of its core, and the share; `None` where the system does not say.
    pub(crate) fn least_share(&self) -> Option<(usize, f64)> {
        let share = |spent: &Spent| {
            let wall = spent.wall_nanoseconds.load(Ordering::Relaxed);
            (wall > 0).then(|| spent.processor_nanoseconds.load(Ordering::Relaxed) as f64 / wall as f64)
        };
        let shares =
            self.workers.iter().enumerate().filter_map(|(worker, spent)| Some((worker, share(spent)?)));
        shares.min_by(|a, b| a.1.total_cmp(&b.1))
    }
}

/// Processor time of the whole process so far; `None` where the system does not say.
pub(crate) fn of_this_process() -> Option<Duration> {
    clock(Clock::Process)
}

fn of_this_thread() -> Option<Duration> {
    clock(Clock::Thread)
}

#[derive(Clone, Copy)]
enum Clock {
    Process,
    Thread,
}

#[cfg(unix)]
fn clock(which: Clock) -> Option<Duration> {
    use rustix::time::{ClockId, clock_gettime};

    let time = clock_gettime(match which {
        Clock::Process => ClockId::ProcessCPUTime,
        Clock::Thread => ClockId::ThreadCPUTime,
    });
    Some(Duration::new(u64::try_from(time.tv_sec).ok()?, u32::try_from(time.tv_nsec).ok()?))
}

#[cfg(not(unix))]
fn clock(which: Clock) -> Option<Duration> {
    match which {
        Clock::Process | Clock::Thread => None,
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    /// Sleeping takes wall time and no processor time: the share of a worker that slept is near zero, whatever the machine
    /// does meanwhile.
    #[test]
    fn time_without_the_core_lowers_the_share() {
        let time = WorkerTime::new(3);
        time.measure(1, || std::thread::sleep(Duration::from_millis(60)));
        time.measure(2, || {
            let until = of_this_thread().unwrap() + Duration::from_millis(20);
            while of_this_thread().unwrap() < until {}
        });
        let (worker, share) = time.least_share().unwrap();
        assert_eq!(worker, 1);
        assert!(share < 0.5, "{share}");
        assert!(WorkerTime::new(2).least_share().is_none());
    }
}
