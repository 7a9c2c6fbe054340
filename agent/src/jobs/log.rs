use std::collections::VecDeque;

use kvscope_protocol::job::Job;

/// So many events of a job are kept. Each holds the whole job, so that what was forgotten is not missed.
const MOST: usize = 256;

/// One change of a job.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Event {
    /// Its number in the job, from 1.
    pub(crate) id: u64,
    /// The job after it, as JSON.
    pub(crate) job: String,
}

/// The events of one job.
#[derive(Debug, Default)]
pub(super) struct Log {
    events: VecDeque<Event>,
    last: u64,
}

impl Log {
    pub(super) fn push(&mut self, job: &Job) {
        self.last += 1;
        let job = serde_json::to_string(job).expect("a job has no keys that JSON cannot hold");
        self.events.push_back(Event { id: self.last, job });
        if self.events.len() > MOST {
            self.events.pop_front();
        }
    }

    /// Those after event `last`, as far as they are kept. A number that is not of this log gets everything.
    pub(super) fn after(&self, last: u64) -> Vec<Event> {
        let last = if last > self.last { 0 } else { last };
        self.events.iter().filter(|event| event.id > last).cloned().collect()
    }
}
