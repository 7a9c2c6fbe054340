//! How far a run is: one line that is overwritten on a terminal, a line now and then elsewhere, and one JSON object a line
//! for the process that watches this one. And how it is asked to stop: by Ctrl-C, or by who watches it.

use std::io;
use std::process::exit;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::bench::{BenchError, Left, Progress, Stage, Store};
use crate::failure::{Failure, INTERRUPTED};
use crate::output;

/// How often something is said of a stage that goes on, where every line stays.
const SPARSE: Duration = Duration::from_secs(10);
/// The same for a reader that shows the last alone.
const OFTEN: Duration = Duration::from_millis(200);
/// So long after it was asked to stop, a run that has not ended by itself is ended in the middle of what it does: a step, a
/// filling or a calibration that does not look up may take minutes.
const GRACE: Duration = Duration::from_millis(80);

/// Tells how far a run is, also while nothing new is known: what is left goes down.
#[derive(Debug)]
pub(super) struct Teller {
    shared: Arc<Shared>,
    cancel: Arc<AtomicBool>,
}

/// Who reads it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Audience {
    /// A person at a terminal.
    Terminal,
    /// A log.
    Log,
    /// The process that started this one, on standard output; it asks to stop by ending standard input.
    Watcher,
}

impl Audience {
    /// Of standard error.
    pub(super) fn of_this_process() -> Self {
        if output::is_terminal() { Self::Terminal } else { Self::Log }
    }
}

#[derive(Debug)]
struct Shared {
    audience: Audience,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// What was known last.
    known: Option<(Instant, Progress)>,
    /// What was said last.
    told: Option<(Instant, Progress)>,
    is_finished: bool,
}

impl Teller {
    /// Begins to listen for who asks to stop: the run that `store` writes then ends within [`GRACE`], by itself or not.
    pub(super) fn new(audience: Audience, store: &Store) -> Self {
        let shared = Arc::new(Shared { audience, state: Mutex::default() });
        let cancel = Arc::new(AtomicBool::new(false));
        let ticking = Arc::clone(&shared);
        thread::spawn(move || ticking.tick());
        let stopping =
            Stopping { shared: Arc::clone(&shared), cancel: Arc::clone(&cancel), store: store.clone() };
        if audience == Audience::Watcher {
            thread::spawn(move || {
                let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
                stopping.stop();
            });
        } else {
            // Where there is no handler Ctrl-C ends the process, and the run can be resumed.
            let _ = ctrlc::set_handler(move || {
                if stopping.cancel.load(Ordering::Relaxed) {
                    exit(INTERRUPTED.into());
                }
                let stopping = stopping.clone();
                thread::spawn(move || stopping.stop());
            });
        }
        Self { shared, cancel }
    }

    /// Becomes true when someone asks to stop.
    pub(super) fn cancel(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.cancel)
    }

    /// Whether standard output is the watcher's, and no place for figures.
    pub(super) fn is_watched(&self) -> bool {
        self.shared.audience == Audience::Watcher
    }

    pub(super) fn tell(&self, progress: &Progress) {
        let mut state = self.shared.state();
        state.known = Some((Instant::now(), progress.clone()));
        state.tell(self.shared.audience, progress);
    }

    /// Ends the line.
    pub(super) fn finish(&self) {
        self.shared.state().is_finished = true;
        if self.shared.audience == Audience::Terminal {
            output::progress_done();
        }
    }
}

/// What it takes to stop.
#[derive(Clone, Debug)]
struct Stopping {
    shared: Arc<Shared>,
    cancel: Arc<AtomicBool>,
    store: Store,
}

impl Stopping {
    /// Asks the run to stop and ends this process where it has not stopped soon; what was measured is stored.
    fn stop(&self) {
        self.cancel.store(true, Ordering::Relaxed);
        thread::sleep(GRACE);
        // One that ended by itself prints what it has.
        let left = self.store.leave();
        if left == Left::Ended {
            return;
        }
        #[cfg(target_os = "linux")]
        if let Ok(tiers) = crate::home::tiers() {
            crate::bench::remove_own_tiers(&tiers);
        }
        let mut state = self.shared.state();
        state.is_finished = true;
        if self.shared.audience == Audience::Terminal {
            output::progress_done();
        }
        let run =
            state.known.as_ref().and_then(|(_, known)| known.run.clone()).filter(|_| left == Left::Stored);
        output::error(&run.map_or_else(|| BenchError::Cancelled.to_string(), |run| cancelled(&run)));
        exit(INTERRUPTED.into());
    }
}

/// What is said of a run that was cancelled.
pub(super) fn cancelled(run: &str) -> String {
    format!(
        "cancelled; `kvscope bench show {run}` has what was measured, `kvscope bench run --resume {run}` goes on"
    )
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says what is left while nobody does.
    fn tick(&self) {
        loop {
            thread::sleep(OFTEN);
            let mut state = self.state();
            if state.is_finished {
                return;
            }
            if let Some((at, known)) = &state.known {
                let now = known.after(at.elapsed());
                state.tell(self.audience, &now);
            }
        }
    }
}

impl State {
    fn tell(&mut self, audience: Audience, progress: &Progress) {
        if self.is_finished || !self.is_due(audience, progress) {
            return;
        }
        self.told = Some((Instant::now(), progress.clone()));
        match audience {
            Audience::Terminal => output::progress(&line(progress)),
            Audience::Log if progress.stage == Stage::Done => {}
            Audience::Log => output::note(&line(progress)),
            // A watcher that is gone ends standard input as well.
            Audience::Watcher => drop(tell_watcher(progress)),
        }
    }

    fn is_due(&self, audience: Audience, progress: &Progress) -> bool {
        let Some((at, told)) = &self.told else { return true };
        let waited = at.elapsed();
        match audience {
            Audience::Log => told.stage != progress.stage && waited > OFTEN || waited > SPARSE,
            Audience::Terminal => waited > OFTEN || progress.stage == Stage::Done,
            Audience::Watcher => {
                waited > OFTEN
                    || (told.stage, told.measured, &told.run)
                        != (progress.stage, progress.measured, &progress.run)
            }
        }
    }
}

fn tell_watcher(progress: &Progress) -> Result<(), Failure> {
    let mut text = serde_json::to_string(progress).expect("progress has no keys that JSON cannot hold");
    text.push('\n');
    output::figures(&text)
}

/// `measuring, case 3 of 8 · 40 % · 12 s left`
fn line(progress: &Progress) -> String {
    let mut words = progress.stage.word().to_owned();
    if let Some(case) = progress.case {
        words = format!("{words}, case {} of {}", case + 1, progress.cases);
    }
    format!("{words} · {:.0} % · {:.0} s left", progress.fraction * 100.0, progress.remaining_seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_gets_a_line_a_stage_and_not_one_a_sample() {
        let mut state = State::default();
        let log = Audience::Log;
        let at = |stage, case| Progress { stage, case, cases: 8, ..Progress::default() };
        assert!(state.is_due(log, &at(Stage::Calibrating, None)));
        let past = |age| Instant::now().checked_sub(age).unwrap();
        state.told = Some((past(OFTEN * 2), at(Stage::Measuring, Some(1))));
        assert!(!state.is_due(log, &at(Stage::Measuring, Some(2))));
        assert!(state.is_due(log, &at(Stage::Done, None)));
        state.told = Some((past(SPARSE * 2), at(Stage::Measuring, Some(1))));
        assert!(state.is_due(log, &at(Stage::Measuring, Some(2))));
        let progress = Progress { fraction: 0.4, remaining_seconds: 12.2, ..at(Stage::Measuring, Some(2)) };
        assert_eq!(line(&progress), "measuring, case 3 of 8 · 40 % · 12 s left");
    }
}
