//! What one of several ranks has of a batch.

use super::{EngineKind, Query};
use crate::group_digits;
use crate::settings::Settings;
use crate::state::counted;
use crate::warning::Warning;

/// What the rank that holds most has of a query's batch and model.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Share {
    /// Groups of ranks that divide the batch among them; each holds whole requests.
    pub(crate) groups: u64,
    /// Requests of the batch in the fullest group.
    pub(crate) requests: u64,
    /// Ranks that share each layer of those requests.
    pub(crate) tp: u64,
    /// Pipeline ranks that share the layers.
    pub(crate) pp: u64,
    /// Layers of the rank, where they are set.
    pub(crate) layers_on_rank: Option<u64>,
}

impl Share {
    /// The whole batch, with layers and heads divided as the settings say.
    pub(crate) fn of_ranks(query: &Query<'_>) -> Self {
        let settings = query.settings;
        Self {
            groups: 1,
            requests: query.batch,
            tp: settings.tp(),
            pp: settings.pp(),
            layers_on_rank: settings.layers_on_rank,
        }
    }

    /// The same with the batch divided by `groups`, each of which has `tp` ranks.
    pub(crate) fn of_groups(query: &Query<'_>, groups: u64, tp: u64) -> Self {
        Self { groups, requests: query.batch.div_ceil(groups.max(1)), tp, ..Self::of_ranks(query) }
    }

    /// Says that figures of the batch are of one group's part of it.
    pub(super) fn warning(self, batch: u64) -> Option<Warning> {
        let message = format!(
            "each of {} groups of ranks runs whole requests; bytes of the batch are of {} on one rank",
            self.groups,
            counted(self.requests, "request", "requests"),
        );
        (self.requests < batch).then(|| Warning::new("dp", message))
    }

    /// The query's settings with this division of layers and heads, for dense bytes.
    pub(super) fn dense(self, settings: &Settings) -> Settings {
        Settings {
            tp: (self.tp > 1).then_some(self.tp),
            pp: (self.pp > 1).then_some(self.pp),
            layers_on_rank: self.layers_on_rank,
            ..settings.clone()
        }
    }
}

/// The factor of a batch in a line of arithmetic: ` × 2 requests`; nothing for one.
pub(super) fn times_requests(requests: u64) -> String {
    match requests {
        1 => String::new(),
        several => format!(" × {} requests", group_digits(several)),
    }
}

/// Groups of ranks of one copy that run requests of their own: SGLang's data-parallel attention.
pub fn request_groups(engine: EngineKind, settings: &Settings) -> u64 {
    match engine {
        EngineKind::SgLang => settings.dp.unwrap_or(1).max(1),
        _ => 1,
    }
}

/// Ranks that share one copy of the model; llama.cpp has no such setting.
pub fn ranks(engine: EngineKind, settings: &Settings) -> u64 {
    match engine {
        EngineKind::LlamaCpp => 1,
        _ => settings.tp().saturating_mul(settings.pp()),
    }
}
