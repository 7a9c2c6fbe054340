//! Runs that the server is asked for: one at a time, the others wait.
//!
//! A job is measured by a process of its own, which is this program again: so a step, a calibration or a filling that does
//! not look up can be ended at once, what a measurement takes of memory goes with it, and the server stays idle between
//! jobs. [`Jobs`] is the queue, `request` what can be asked for, `child` the process, `log` the events of a job by number.

mod child;
mod log;
mod request;

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::mpsc::{self, SyncSender, TrySendError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use kvscope_protocol::job::{Job, JobState};
use tokio::sync::watch;

use crate::bench::Store;
use child::Measuring;
pub(crate) use log::Event;
use log::Log;
pub(crate) use request::JobRequest;

/// More jobs than this do not wait.
const MOST_QUEUED: usize = 8;
/// So many jobs that have ended are remembered; their runs are stored.
const MOST_REMEMBERED: usize = 32;

/// Why a job was not taken, or not found.
#[derive(Debug, thiserror::Error)]
pub(crate) enum JobError {
    /// The request asks for what cannot be run.
    #[error("{0}")]
    Request(String),
    /// Too many wait.
    #[error("{MOST_QUEUED} runs wait already; cancel one, or ask again when one has ended")]
    Full,
    /// There is no such job, or it was of an agent that has ended.
    #[error("no job is called {0:?}; the agent may have been started anew since, its runs are stored")]
    Unknown(String),
    /// The server is going down.
    #[error("the agent is about to end")]
    Closing,
}

/// The queue. Clones are the same queue.
#[derive(Clone, Debug)]
pub(crate) struct Jobs {
    shared: Arc<Shared>,
    queue: SyncSender<String>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// Changes with every event of any job.
    changed: watch::Sender<u64>,
    store: Store,
    program: PathBuf,
    /// What begins the name of every job of this process.
    started: String,
}

#[derive(Debug, Default)]
struct State {
    jobs: VecDeque<Entry>,
    taken: u64,
    is_closed: bool,
}

#[derive(Debug)]
struct Entry {
    job: Job,
    arguments: Vec<String>,
    log: Log,
    /// The process that measures it now.
    measuring: Option<Measuring>,
    is_cancelled: bool,
}

impl Jobs {
    /// A queue whose jobs are measured by `program`, into `store`. Nothing runs until something is asked for.
    pub(crate) fn new(store: Store, program: PathBuf) -> std::io::Result<Self> {
        let started =
            humantime::format_rfc3339_seconds(SystemTime::now()).to_string().replace(['-', ':'], "");
        let (changed, _) = watch::channel(0);
        let state = Mutex::default();
        let shared = Arc::new(Shared { state, changed, store, program, started });
        let (queue, waiting) = mpsc::sync_channel::<String>(MOST_QUEUED);
        let of_worker = Arc::clone(&shared);
        std::thread::Builder::new().name("jobs".to_owned()).spawn(move || {
            while let Ok(job) = waiting.recv() {
                of_worker.run(&job);
            }
        })?;
        Ok(Self { shared, queue })
    }

    /// Takes a job, which waits until those before it have ended.
    pub(crate) fn start(&self, request: &JobRequest) -> Result<Job, JobError> {
        let asked =
            request.arguments(&self.shared.store).map_err(|error| JobError::Request(error.to_string()))?;
        let mut state = self.shared.state();
        if state.is_closed {
            return Err(JobError::Closing);
        }
        state.taken += 1;
        let job = Job {
            job: format!("{}-{}", self.shared.started, state.taken),
            state: JobState::Queued,
            about: asked.about,
            run: None,
            stage: None,
            fraction: 0.0,
            remaining_seconds: None,
            case: None,
            cases: 0,
            measured: 0,
            message: None,
        };
        match self.queue.try_send(job.job.clone()) {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => return Err(JobError::Full),
            Err(TrySendError::Disconnected(_)) => return Err(JobError::Closing),
        }
        let mut log = Log::default();
        log.push(&job);
        let entry =
            Entry { job: job.clone(), arguments: asked.arguments, log, measuring: None, is_cancelled: false };
        state.jobs.push_back(entry);
        state.forget();
        drop(state);
        self.shared.tell();
        Ok(job)
    }

    /// All jobs that are remembered, the newest first.
    pub(crate) fn list(&self) -> Vec<Job> {
        self.shared.state().jobs.iter().rev().map(|entry| entry.job.clone()).collect()
    }

    /// One job.
    pub(crate) fn find(&self, job: &str) -> Result<Job, JobError> {
        let state = self.shared.state();
        state.find(job).map(|entry| entry.job.clone()).ok_or_else(|| JobError::Unknown(job.to_owned()))
    }

    /// Asks a job to stop: one that waits ends now, one that goes on within 200 milliseconds. One that has ended stays as
    /// it is.
    pub(crate) fn cancel(&self, job: &str) -> Result<Job, JobError> {
        let mut state = self.shared.state();
        let entry = state.find_mut(job).ok_or_else(|| JobError::Unknown(job.to_owned()))?;
        entry.cancel();
        let job = entry.job.clone();
        drop(state);
        self.shared.tell();
        Ok(job)
    }

    /// Events of a job after the event `last`, the job as it is now, and whether more may come.
    pub(crate) fn events_after(&self, job: &str, last: u64) -> Result<(Vec<Event>, bool), JobError> {
        let state = self.shared.state();
        let entry = state.find(job).ok_or_else(|| JobError::Unknown(job.to_owned()))?;
        Ok((entry.log.after(last), entry.job.is_live() && !state.is_closed))
    }

    /// Whether the agent is about to end.
    pub(crate) fn is_closed(&self) -> bool {
        self.shared.state().is_closed
    }

    /// Changes whenever a job does.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.shared.changed.subscribe()
    }

    /// Takes no more jobs, cancels those that there are and ends every stream of events.
    pub(crate) fn close(&self) {
        let mut state = self.shared.state();
        state.is_closed = true;
        for entry in &mut state.jobs {
            entry.cancel();
        }
        drop(state);
        self.shared.tell();
    }
}

impl Entry {
    fn cancel(&mut self) {
        if !self.job.is_live() {
            return;
        }
        self.is_cancelled = true;
        match &mut self.measuring {
            Some(measuring) => measuring.stop(),
            None => self.set(|job| job.state = JobState::Cancelled),
        }
    }

    fn set(&mut self, change: impl FnOnce(&mut Job)) {
        change(&mut self.job);
        self.log.push(&self.job);
    }
}

impl State {
    fn find(&self, job: &str) -> Option<&Entry> {
        self.jobs.iter().find(|entry| entry.job.job == job)
    }

    fn find_mut(&mut self, job: &str) -> Option<&mut Entry> {
        self.jobs.iter_mut().find(|entry| entry.job.job == job)
    }

    /// Forgets the oldest jobs that have ended.
    fn forget(&mut self) {
        while self.jobs.len() > MOST_REMEMBERED {
            let Some(place) = self.jobs.iter().position(|entry| !entry.job.is_live()) else { return };
            self.jobs.remove(place);
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self) {
        self.changed.send_modify(|number| *number += 1);
    }

    fn change(&self, job: &str, change: impl FnOnce(&mut Entry)) {
        if let Some(entry) = self.state().find_mut(job) {
            change(entry);
        }
        self.tell();
    }

    /// Measures one job to its end, unless it was cancelled while it waited.
    fn run(&self, job: &str) {
        let started = {
            let mut state = self.state();
            let Some(entry) = state.find_mut(job).filter(|entry| !entry.is_cancelled) else { return };
            match Measuring::start(&self.program, &entry.arguments, &self.store) {
                Ok((measuring, output)) => {
                    entry.measuring = Some(measuring);
                    entry.set(|job| job.state = JobState::Running);
                    Ok(output)
                }
                Err(error) => Err(error),
            }
        };
        self.tell();
        let output = match started {
            Ok(output) => output,
            Err(error) => {
                let message = format!("the process that measures did not start: {error}");
                self.change(job, |entry| {
                    entry.set(|job| (job.state, job.message) = (JobState::Failed, Some(message)));
                });
                return;
            }
        };
        let said =
            output.follow(|progress| self.change(job, |entry| entry.set(|job| progress.put_into(job))));
        let (measuring, run) = {
            let mut state = self.state();
            let Some(entry) = state.find_mut(job) else { return };
            (entry.measuring.take(), entry.job.run.clone())
        };
        let ended = measuring.map(Measuring::wait);
        let is_cancelled = self.state().find(job).is_some_and(|entry| entry.is_cancelled);
        // A process that was ended in the middle of something could not store how its run ended.
        if is_cancelled
            && let Some(run) = &run
            && let Err(error) = self.store.close_cancelled(run)
        {
            crate::output::warning(&format!("run {run}: its end is not stored: {error}"));
        }
        self.change(job, |entry| {
            entry.set(|job| {
                (job.state, job.message) = match ended {
                    _ if is_cancelled => (JobState::Cancelled, None),
                    Some(Ok(status)) if status.success() => (JobState::Done, None),
                    Some(Ok(status)) => (
                        JobState::Failed,
                        Some(said.unwrap_or_else(|| {
                            format!("the process that measures ended early ({status}); what it had is stored")
                        })),
                    ),
                    Some(Err(error)) => (JobState::Failed, Some(error.to_string())),
                    None => (JobState::Failed, said),
                };
                job.remaining_seconds = None;
            });
        });
    }
}

#[cfg(test)]
mod tests;
