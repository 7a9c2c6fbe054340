//! vLLM's planner.

use super::{Figure, Profile, Quantity, Query};
use crate::Result;

/// What vLLM plans at start-up.
#[derive(Debug)]
pub(super) struct VllmPlan;

impl VllmPlan {
    pub(super) fn new(query: &Query<'_>) -> Result<Self> {
        query.max_model_len()?;
        Ok(Self)
    }
}

impl Profile for VllmPlan {
    fn figure(&self, _: Quantity) -> Result<Option<Figure>> {
        Ok(None)
    }
}
