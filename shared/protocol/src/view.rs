//! What the explorer shows, as a value: everything that a link must bring back, and nothing else.
//!
//! [`ViewState::to_query`] writes the query of a link, with short keys and defaults left out; [`ViewState::from_query`]
//! reads it back. A link never fails to open: what it cannot say is a [`LinkNotice`] for the reader.

mod engine;
mod link;
mod list;
mod plans;
mod versions;

use kvscope_sizing::claims::VerdictKind;
use kvscope_sizing::engine::{Engine, EngineKind};
use kvscope_sizing::plan::Gpus;
use kvscope_sizing::{ByteKind, Bytes, IndexFormat, KvFormat, Settings, StateFormat, Tokens, UnitSystem};

pub use engine::{EngineSetting, Standing};
pub use link::LinkNotice;
pub use list::{ListView, ModelColumn};
pub use plans::PlansView;
pub use versions::{Moved, VersionsView};

/// The versions that the article which started this project compares, in its order.
pub const FIRST_VISIT_MODELS: [&str; 6] =
    ["minimax-m2.7", "glm-5.1", "deepseek-v3.2", "kimi-k2.6", "qwen3.5-397b-a17b", "deepseek-v4-pro"];

/// The article's context.
pub const FIRST_VISIT_CONTEXT: Tokens = Tokens::new(100_000);

/// The most requests that the page lets one ask for: enough for any server, small enough that no total overflows.
pub const MOST_REQUESTS: u64 = 1 << 20;

/// Everything that a link brings back.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ViewState {
    /// Which part of the explorer is open.
    pub room: Room,
    /// The versions that are drawn, by id, in the order in which they were chosen.
    pub models: Vec<String>,
    /// The cursor's context.
    pub context: Tokens,
    /// Requests of that context, 1 to [`MOST_REQUESTS`].
    pub batch: u64,
    /// Storage of K/V; absent where each model's own config decides.
    pub kv_format: Option<KvFormat>,
    /// Storage of index keys; absent where the mixer's layout decides.
    pub index_format: Option<IndexFormat>,
    /// Storage of recurrent state; absent where each model's own config decides.
    pub state_format: Option<StateFormat>,
    /// Whose reserved bytes stand beside the logical ones; `logical` for nobody's.
    pub engine: Engine,
    /// Settings of engines, those of [`EngineSetting::all`]; see [`ViewState::engine_settings`].
    pub engine_own: Settings,
    /// Bytes for state on one rank, which the largest context and batch that fit are found for.
    pub memory: Option<Bytes>,
    /// GPUs whose memory beside each version's weights is compared with its curve.
    pub gpus: Option<Gpus>,
    /// Which bytes the growth figure draws.
    pub bytes: ByteKind,
    /// Units of byte figures.
    pub units: UnitSystem,
    /// The byte axis.
    pub scale: AxisScale,
    /// The version whose layers are explained; absent for the first one.
    pub selected: Option<String>,
    /// The run whose measurements are shown.
    pub run: Option<String>,
    /// Which claims are shown.
    pub claims: ClaimsView,
    /// Which two versions are compared.
    pub versions: VersionsView,
    /// Which plan is open, and what it is asked.
    pub plans: PlansView,
    /// How the list of all versions is sorted and filtered.
    pub list: ListView,
}

/// What is shown of the published figures.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ClaimsView {
    /// Only those with this verdict.
    pub verdict: Option<VerdictKind>,
    /// Only those of this publication, by id.
    pub publication: Option<String>,
    /// The claim whose working is open, by id.
    pub open: Option<String>,
}

/// The parts of the explorer.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub enum Room {
    /// Growth curves and layers.
    #[default]
    Growth,
    /// What changed from one version to another.
    Versions,
    /// What growth means for capacity, reuse, hand-over and the like.
    Plans,
    /// All versions in one list.
    Models,
    /// Published figures beside the computed ones.
    Claims,
    /// What an engine's start-up log means.
    Log,
    /// Measured over predicted.
    Measure,
}

/// How the byte axis of the growth figure counts.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub enum AxisScale {
    /// Powers.
    #[default]
    Log,
    /// Equal steps, on both axes.
    Linear,
    /// Times the first version at the same context.
    Times,
}

impl AxisScale {
    /// Every one, in the order of the page.
    pub const ALL: [Self; 3] = [Self::Log, Self::Linear, Self::Times];

    /// The word in links.
    pub fn name(self) -> &'static str {
        match self {
            Self::Log => "log",
            Self::Linear => "linear",
            Self::Times => "times",
        }
    }
}

impl ViewState {
    /// Memory as it is typed: `60 GiB`, `80GB`.
    ///
    /// # Errors
    ///
    /// A sentence, where it is no number of bytes, or none at all.
    pub fn memory(typed: &str) -> Result<Bytes, String> {
        match Bytes::given(typed) {
            Ok(Bytes::ZERO) => Err("0 bytes hold nothing; give more".to_owned()),
            Ok(memory) => Ok(memory),
            Err(error) => Err(error.what().to_owned()),
        }
    }
}

impl Default for ViewState {
    /// The first visit: the article's question.
    fn default() -> Self {
        Self {
            room: Room::Growth,
            models: FIRST_VISIT_MODELS.map(str::to_owned).to_vec(),
            context: FIRST_VISIT_CONTEXT,
            batch: 1,
            kv_format: None,
            index_format: None,
            state_format: None,
            engine: Engine::newest(EngineKind::Logical),
            engine_own: Settings::default(),
            memory: None,
            gpus: None,
            bytes: ByteKind::Resident,
            units: UnitSystem::Decimal,
            scale: AxisScale::Log,
            selected: None,
            run: None,
            claims: ClaimsView::default(),
            versions: VersionsView::default(),
            plans: PlansView::default(),
            list: ListView::default(),
        }
    }
}
