use serde::Serialize;

use super::Copies;
use crate::prediction::LinkFit;
use crate::{Bytes, Error, Result};

/// A place that state is restored from.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Tier {
    /// Its name.
    pub name: String,
    /// Seconds that a transfer takes to start.
    pub start_seconds: f64,
    /// α: seconds that each piece adds.
    pub alpha_seconds: f64,
    /// β: bytes a second beside that, of each rank's link where there are several.
    pub beta_bytes_per_second: f64,
    /// Tensor-parallel ranks that restore at once, each what it holds, over a link of its own.
    pub ranks: u64,
    /// Where the figures come from.
    pub grade: TierGrade,
    /// The same in words: the run, the publication.
    pub source: String,
}

/// Where the figures of a tier come from.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TierGrade {
    /// From a datasheet or a publication.
    Datasheet,
    /// Fitted to transfers that were measured on this machine.
    Fitted,
    /// Given by whoever asks.
    Given,
}

impl Tier {
    /// The tier of a fit to measured transfers.
    pub fn fitted(name: impl Into<String>, fit: &LinkFit, source: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            start_seconds: fit.start_seconds,
            alpha_seconds: fit.alpha_seconds,
            beta_bytes_per_second: fit.beta_bytes_per_second,
            ranks: 1,
            grade: TierGrade::Fitted,
            source: source.into(),
        }
    }

    /// start + α·pieces + bytes/β, with the bytes of the fullest rank.
    pub fn seconds(&self, copies: Copies) -> f64 {
        self.start_seconds
            + self.alpha_seconds * copies.pieces as f64
            + copies.rank_bytes.get() as f64 / self.beta_bytes_per_second
    }

    /// Bytes a second where every piece has so many bytes: n / (α + n/β).
    pub fn rate_of(&self, piece: Bytes) -> f64 {
        let bytes = piece.get() as f64;
        let seconds = self.alpha_seconds + bytes / self.beta_bytes_per_second;
        if seconds > 0.0 { bytes / seconds } else { 0.0 }
    }

    /// Checks the figures.
    ///
    /// # Errors
    ///
    /// A rate that moves nothing, or a time that is none.
    pub fn check(&self) -> Result<()> {
        let (name, rate) = (&self.name, self.beta_bytes_per_second);
        if self.ranks == 0 {
            return Err(Error::setting("tier", format!("{name}: 0 ranks restore nothing; give at least 1")));
        }
        if !(rate.is_finite() && rate > 0.0) {
            return Err(Error::setting("tier", format!("{name}: a rate of {rate} B/s moves nothing")));
        }
        for seconds in [self.start_seconds, self.alpha_seconds] {
            if !(seconds.is_finite() && seconds >= 0.0) {
                return Err(Error::setting("tier", format!("{name}: {seconds} s is no time")));
            }
        }
        Ok(())
    }
}
