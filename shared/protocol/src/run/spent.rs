use kvscope_sizing::record;
use serde::Serialize;

/// Where the time of a run went, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct TimeSpent {
    /// Measuring the machine's ceilings, or probing whether stored ones hold.
    pub calibrating_seconds: f64,
    /// Filling state and checking results against the reference.
    pub preparing_seconds: f64,
    /// Warm-up and samples.
    pub measuring_seconds: f64,
    /// All of it, storing included.
    pub whole_seconds: f64,
}

record!(TimeSpent { calibrating_seconds, preparing_seconds, measuring_seconds, whole_seconds });

impl TimeSpent {
    /// `of 30.1 s, calibrating took 7.2 s, preparing 8.0 s, measuring 14.5 s`
    pub fn sentence(&self) -> String {
        format!(
            "of {:.1} s, calibrating took {:.1} s, preparing {:.1} s, measuring {:.1} s",
            self.whole_seconds, self.calibrating_seconds, self.preparing_seconds, self.measuring_seconds
        )
    }
}
