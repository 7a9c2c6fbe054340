//! Tiers and links as runs measured them.

use serde::Serialize;

use super::ChosenLink;
use super::offload::{Tier, TierGrade};
use crate::warning::Warning;

/// What runs of a machine measured of its tiers and of the way to another process.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Measured {
    /// The newest run first.
    pub measured: Vec<MeasuredLink>,
    /// What of newer runs could not be used, and why.
    pub warnings: Vec<Warning>,
}

crate::record!(Measured { measured, warnings });

impl Measured {
    /// The tiers of the newest run.
    pub fn tiers(&self) -> impl Iterator<Item = Tier> {
        let newest = self.measured.first().map(|first| first.run.as_str());
        self.measured.iter().filter(move |one| Some(one.run.as_str()) == newest).map(MeasuredLink::as_tier)
    }

    /// The links to another process, which keeps the blocks as a decode worker would.
    pub fn links(&self) -> impl Iterator<Item = ChosenLink> {
        self.measured.iter().filter(|one| one.is_peer()).map(MeasuredLink::as_link)
    }
}

/// α and β of blocks that a run restored, in one tier and pattern.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MeasuredLink {
    /// The run.
    pub run: String,
    /// `dram`, `file`, `peer`, …
    pub tier: String,
    /// How its blocks lay.
    pub pattern: String,
    /// The run with how many transfers it is fitted to, in words.
    pub source: String,
    /// Seconds that a transfer takes to start.
    pub start_seconds: f64,
    /// α: seconds that each block adds.
    pub alpha_seconds: f64,
    /// β: bytes a second beside that.
    pub beta_bytes_per_second: f64,
}

crate::record!(MeasuredLink {
    run,
    tier,
    pattern,
    source,
    start_seconds,
    alpha_seconds,
    beta_bytes_per_second
});

impl MeasuredLink {
    /// Whether another process keeps the blocks.
    pub fn is_peer(&self) -> bool {
        self.tier == "peer"
    }

    /// What it is called among tiers and links.
    pub fn name(&self) -> String {
        format!("{}, {}", self.tier, self.pattern)
    }

    /// As a place that state is restored from.
    pub fn as_tier(&self) -> Tier {
        Tier {
            name: self.name(),
            start_seconds: self.start_seconds,
            alpha_seconds: self.alpha_seconds,
            beta_bytes_per_second: self.beta_bytes_per_second,
            ranks: 1,
            grade: TierGrade::Fitted,
            source: self.source.clone(),
        }
    }

    /// As a link that a payload goes over.
    pub fn as_link(&self) -> ChosenLink {
        ChosenLink {
            link: self.name(),
            grade: "fitted",
            source: self.source.clone(),
            start_seconds: self.start_seconds,
            alpha_seconds: self.alpha_seconds,
            bytes_per_second: self.beta_bytes_per_second,
        }
    }
}
