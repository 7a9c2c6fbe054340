//! How far a run is: one line that is overwritten on a terminal, a line now and then elsewhere, and one JSON object a line
//! for the process that watches this one.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::bench::{Progress, Stage};
use crate::failure::Failure;
use crate::output;

/// How often something is said of a stage that goes on, where every line stays.
const SPARSE: Duration = Duration::from_secs(10);
/// The same for a reader that shows the last alone.
const OFTEN: Duration = Duration::from_millis(200);

/// Tells how far a run is.
#[derive(Debug)]
pub(super) struct Teller {
    audience: Audience,
    told: Option<(Instant, Progress)>,
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

impl Teller {
    pub(super) fn new(audience: Audience) -> Self {
        let cancel = Arc::new(AtomicBool::new(false));
        if audience == Audience::Watcher {
            let cancel = Arc::clone(&cancel);
            std::thread::spawn(move || {
                let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
                cancel.store(true, Ordering::Relaxed);
            });
        }
        Self { audience, told: None, cancel }
    }

    /// Becomes true when someone asks to stop.
    pub(super) fn cancel(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.cancel)
    }

    /// Whether standard output is the watcher's, and no place for figures.
    pub(super) fn is_watched(&self) -> bool {
        self.audience == Audience::Watcher
    }

    pub(super) fn tell(&mut self, progress: &Progress) {
        if !self.is_due(progress) {
            return;
        }
        self.told = Some((Instant::now(), progress.clone()));
        match self.audience {
            Audience::Terminal => output::progress(&line(progress)),
            Audience::Log if progress.stage == Stage::Done => {}
            Audience::Log => output::note(&line(progress)),
            // A watcher that is gone ends standard input as well.
            Audience::Watcher => drop(tell_watcher(progress)),
        }
    }

    /// Ends the line.
    pub(super) fn finish(&self) {
        if self.audience == Audience::Terminal {
            output::progress_done();
        }
    }

    fn is_due(&self, progress: &Progress) -> bool {
        let Some((at, told)) = &self.told else { return true };
        let waited = at.elapsed();
        match self.audience {
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
        let mut teller = Teller::new(Audience::Log);
        let at = |stage, case| Progress { stage, case, cases: 8, ..Progress::default() };
        assert!(teller.is_due(&at(Stage::Calibrating, None)));
        let past = |age| Instant::now().checked_sub(age).unwrap();
        teller.told = Some((past(OFTEN * 2), at(Stage::Measuring, Some(1))));
        assert!(!teller.is_due(&at(Stage::Measuring, Some(2))));
        assert!(teller.is_due(&at(Stage::Done, None)));
        teller.told = Some((past(SPARSE * 2), at(Stage::Measuring, Some(1))));
        assert!(teller.is_due(&at(Stage::Measuring, Some(2))));
        let progress = Progress { fraction: 0.4, remaining_seconds: 12.2, ..at(Stage::Measuring, Some(2)) };
        assert_eq!(line(&progress), "measuring, case 3 of 8 · 40 % · 12 s left");
    }
}
