use std::time::{Duration, Instant};

use kvscope_protocol::run::{Line, Transfer};
use serde_json::Value;

use crate::bench::Interrupt;
use crate::bench::plan::Progress;
use crate::bench::store::RunWriter;

/// What measuring asks and tells on its way.
pub(crate) trait Watch {
    /// Whether to stop before the next transfer. Tells how far the run is.
    fn stop(&mut self) -> bool;

    /// What a transfer asks on its way.
    fn interrupt(&self) -> Interrupt<'_>;

    /// The tier is there and filled.
    fn ready(&mut self);

    /// The transfer has another sample, which is kept in case this process has to end.
    fn keep(&mut self, transfer: &Transfer);

    /// These have enough new samples to be stored, or failed. Those that cannot be stored have failed.
    fn store(&mut self, transfers: &mut [&mut Transfer]);
}

/// The run that is being measured.
pub(super) struct OfRun<'w> {
    pub(super) begun: Instant,
    pub(super) budget: Duration,
    /// What else progress says.
    pub(super) known: &'w Progress,
    pub(super) progress: &'w mut dyn FnMut(Progress),
    pub(super) writer: &'w mut RunWriter,
    pub(super) interrupt: Interrupt<'w>,
    /// When the tier was asked for, and how long it took to have and to fill tiers.
    pub(super) opened: Instant,
    pub(super) preparing: &'w mut Duration,
}

impl Watch for OfRun<'_> {
    fn stop(&mut self) -> bool {
        let (passed, budget) = (self.begun.elapsed().as_secs_f64(), self.budget.as_secs_f64());
        let fraction = (passed / budget).min(1.0);
        let remaining_seconds = (budget - passed).max(0.0);
        (self.progress)(Progress { fraction, remaining_seconds, ..self.known.clone() });
        self.interrupt.is_set()
    }

    fn interrupt(&self) -> Interrupt<'_> {
        self.interrupt
    }

    fn ready(&mut self) {
        *self.preparing += self.opened.elapsed();
    }

    fn keep(&mut self, transfer: &Transfer) {
        self.writer.keep(line(transfer));
    }

    fn store(&mut self, transfers: &mut [&mut Transfer]) {
        store(self.writer, transfers);
    }
}

/// Stores transfers as they are now, in one piece. Where the file takes no more of them they have failed, since their figures
/// would be lost with this process, and the run goes on.
pub(super) fn store(writer: &mut RunWriter, transfers: &mut [&mut Transfer]) {
    let lines: Vec<Line> = transfers.iter().map(|transfer| line(transfer)).collect();
    if let Err(error) = writer.append_all(&lines) {
        for transfer in transfers {
            transfer.measured = None;
            transfer.status = format!("failed: not stored: {error}");
        }
    }
}

fn line(transfer: &Transfer) -> Line {
    Line::Transfer(Box::new(json(transfer)))
}

pub(super) fn json(transfer: &Transfer) -> Value {
    serde_json::to_value(transfer).expect("a transfer has no keys that JSON cannot hold")
}

/// Nobody watches.
#[cfg(test)]
#[derive(Debug)]
pub(crate) struct Unwatched;

#[cfg(test)]
impl Watch for Unwatched {
    fn stop(&mut self) -> bool {
        false
    }

    fn interrupt(&self) -> Interrupt<'_> {
        Interrupt::never()
    }

    fn ready(&mut self) {}

    fn keep(&mut self, _: &Transfer) {}

    fn store(&mut self, _: &mut [&mut Transfer]) {}
}
