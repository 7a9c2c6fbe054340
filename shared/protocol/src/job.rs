//! What agent and page say of a run that the agent was asked for.

use std::fmt::Write;

use kvscope_sizing::{record, word_record};
use serde::Serialize;

/// A run that an agent was asked for: one at a time goes on, the others wait.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Job {
    /// The job's name: when its agent started, and a number.
    pub job: String,
    /// Whether it waits, goes on or has ended.
    pub state: JobState,
    /// What it measures, in words.
    pub about: String,
    /// The run's name, as soon as its file is there.
    pub run: Option<String>,
    /// `calibrating`, `preparing`, `measuring` or `done`.
    pub stage: Option<String>,
    /// Share of the expected time that has passed, 0 to 1.
    pub fraction: f64,
    /// Seconds that it is expected to go on; `null` while it waits.
    pub remaining_seconds: Option<f64>,
    /// The case that it is at, counted from 0.
    pub case: Option<u64>,
    /// Cases in all, as far as they are known.
    pub cases: u64,
    /// Cases that have a figure.
    pub measured: u64,
    /// Why it failed or what else has to be known, in a sentence.
    pub message: Option<String>,
}

/// Where a job is.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum JobState {
    /// Another one goes on.
    Queued,
    /// It measures.
    Running,
    /// Its run is stored to its end.
    Done,
    /// It could not be run, or its process ended early; what was measured is stored.
    Failed,
    /// Someone asked it to stop; what was measured is stored.
    Cancelled,
}

impl JobState {
    /// The word in JSON and on screen.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

record!(Job { job, state, about, run, stage, fraction, remaining_seconds, case, cases, measured, message });
word_record!(JobState, word, [Queued, Running, Done, Failed, Cancelled]);

impl Job {
    /// Whether it waits or goes on.
    pub fn is_live(&self) -> bool {
        matches!(self.state, JobState::Queued | JobState::Running)
    }

    /// `measuring, case 3 of 8 · 12 s left`
    pub fn sentence(&self) -> String {
        let mut words = match (self.state, &self.stage) {
            (JobState::Running, Some(stage)) => stage.clone(),
            (state, _) => state.word().to_owned(),
        };
        if let (JobState::Running, Some(case)) = (self.state, self.case) {
            let _ = write!(words, ", case {} of {}", case + 1, self.cases);
        }
        if let (JobState::Running, Some(seconds)) = (self.state, self.remaining_seconds) {
            let _ = write!(words, " · {seconds:.0} s left");
        }
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_running_job_says_where_it_is_and_how_long_it_takes() {
        let text = r#"{"job": "a-1", "state": "running", "about": "gqa", "run": null, "stage": "measuring",
            "fraction": 0.5, "remaining_seconds": 11.6, "case": 2, "cases": 8, "measured": 1, "message": null}"#;
        let mut job: Job = serde_json::from_str(text).unwrap();
        assert_eq!(job.sentence(), "measuring, case 3 of 8 · 12 s left");
        job.state = JobState::Cancelled;
        assert_eq!((job.sentence().as_str(), job.is_live()), ("cancelled", false));
    }
}
