use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Spins this often, some 20 µs, before it lets others run: workers that have their cores are hardly further apart.
const SPINS: u32 = 1024;

/// Where the workers of one job wait for each other. Sleeping and waking would take longer than what follows.
#[derive(Debug)]
pub(crate) struct Barrier {
    workers: usize,
    arrived: AtomicUsize,
    round: AtomicUsize,
    broken: AtomicBool,
}

impl Barrier {
    pub(crate) fn new(workers: usize) -> Self {
        Self {
            workers,
            arrived: AtomicUsize::new(0),
            round: AtomicUsize::new(0),
            broken: AtomicBool::new(false),
        }
    }

    /// Returns when all workers have called it; what each wrote before, all see after. Panics where another worker did,
    /// since that one never comes.
    pub(crate) fn wait(&self) {
        let round = self.round.load(Ordering::Acquire);
        if self.arrived.fetch_add(1, Ordering::AcqRel) + 1 == self.workers {
            self.arrived.store(0, Ordering::Relaxed);
            self.round.store(round + 1, Ordering::Release);
            return;
        }
        let mut spins = 0;
        while self.round.load(Ordering::Acquire) == round {
            assert!(!self.broken.load(Ordering::Relaxed), "another worker panicked");
            if spins < SPINS {
                spins += 1;
                std::hint::spin_loop();
            } else {
                std::thread::yield_now();
            }
        }
    }

    /// To be held by each worker while others may wait for it.
    pub(crate) fn member(&self) -> Member<'_> {
        Member { barrier: self }
    }
}

/// Releases the others where its holder panics.
#[derive(Debug)]
pub(crate) struct Member<'a> {
    barrier: &'a Barrier,
}

impl Drop for Member<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.barrier.broken.store(true, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;

    use super::*;

    #[test]
    fn nobody_passes_before_all_have_come_in_every_round() {
        let barrier = Barrier::new(3);
        let arrived = AtomicU32::new(0);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for round in 1..=200 {
                        arrived.fetch_add(1, Ordering::Relaxed);
                        barrier.wait();
                        let seen = arrived.load(Ordering::Relaxed);
                        assert!(seen >= 3 * round, "round {round}: {seen} had come");
                        barrier.wait();
                    }
                });
            }
        });
        assert_eq!(arrived.into_inner(), 600);
    }

    #[test]
    fn a_panic_releases_the_others() {
        let barrier = Barrier::new(2);
        let waits = std::thread::scope(|scope| {
            let waiting = scope.spawn(|| {
                let _member = barrier.member();
                barrier.wait();
            });
            let failing = scope.spawn(|| {
                let _member = barrier.member();
                std::panic::resume_unwind(Box::new("failed"));
            });
            assert!(failing.join().is_err());
            waiting.join()
        });
        assert!(waits.is_err());
    }
}
