//! How a published figure is computed, as data.

use serde_json::{Map, Value};

use super::published::Published;
use crate::settings::Settings;
use crate::state::ComponentKind;
use crate::{Ratio, Result};

/// A figure to compute: a leaf that asks the model, or a combination of others.
#[derive(Clone, Debug)]
pub enum Recipe {
    /// Bytes of state.
    State(Box<StateOf>),
    /// A number of layers.
    Layers(LayersOf),
    /// Layers from the first on that follow an order: `first`, then `then` again and again.
    Pattern {
        /// Catalogue id.
        model: String,
        /// Names of the first mixers.
        first: Vec<String>,
        /// Names of those that repeat.
        then: Vec<String>,
    },
    /// Tokens that become one entry in the layers of a mixer.
    TokensPerEntry {
        /// Catalogue id.
        model: String,
        /// The mixer's name: `CSA`.
        mixer: String,
    },
    /// The longest context that the config allows.
    MaxContext {
        /// Catalogue id.
        model: String,
    },
    /// A number that the config states.
    Field {
        /// Catalogue id.
        model: String,
        /// Where it stands: `text_config.kv_lora_rank`.
        path: String,
    },
    /// A figure that the source prints elsewhere, to check the source against itself.
    Quoted {
        /// The figure.
        figure: Published,
        /// What it is.
        of: String,
    },
    /// One figure over another.
    Ratio {
        /// Numerator.
        of: Box<Recipe>,
        /// Denominator.
        over: Box<Recipe>,
    },
    /// The largest over the smallest.
    Spread(Vec<Recipe>),
    /// A figure of a plan: `{"of": "…", …}` with the inputs that this figure takes.
    Plan(Map<String, Value>),
    /// Nothing can compute it yet.
    Needs(String),
}

/// Bytes of state of one version.
#[derive(Clone, Debug)]
pub struct StateOf {
    /// Catalogue id; or
    pub model: Option<String>,
    /// a config, for versions that the catalogue lacks.
    pub config: Option<Value>,
    /// Config fields to set, by path, for a shape that the source assumes and the version does not have.
    pub with: Map<String, Value>,
    /// Formats and the like.
    pub settings: Settings,
    /// Which figure.
    pub figure: StateFigure,
    /// Tokens of the request.
    pub context: Option<u64>,
    /// Component kinds that count; all where absent.
    pub kinds: Option<Vec<ComponentKind>>,
}

/// Which figure of the state.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum StateFigure {
    /// Bytes held at the context.
    Resident,
    /// Bytes that one more token adds, beyond every window where no context is given.
    Slope,
    /// Bytes that do not grow.
    Fixed,
    /// Bytes that a disk store keeps which stores the window entries of every token.
    PersistedWithAllWindows,
    /// Bytes held if every layer kept what one layer keeps that grows with every token.
    EveryLayerFull,
}

/// A number of layers.
#[derive(Clone, Debug)]
pub struct LayersOf {
    /// Catalogue id.
    pub model: String,
    /// Only layers with this mixer: `GQA`, `gated DeltaNet`.
    pub mixer: Option<String>,
}

/// The unit of a claim.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Unit {
    /// 10^9 bytes.
    Gigabyte,
    /// 2^30 bytes.
    Gibibyte,
    /// Bytes that a token adds.
    BytesPerToken,
    /// A hundredth.
    Percent,
    /// A ratio.
    Times,
    /// Layers.
    Layers,
    /// Tokens.
    Tokens,
    /// 1,024 tokens.
    KibiTokens,
    /// Values of a vector.
    Values,
    /// Heads.
    Heads,
    /// 10^6 bytes.
    Megabyte,
    /// 2^20 bytes.
    Mebibyte,
    /// 10^9 bits a second.
    GigabitPerSecond,
    /// 10^12 bits a second.
    TerabitPerSecond,
    /// 10^9 bytes a second.
    GigabytePerSecond,
    /// Seconds.
    Seconds,
    /// Thousandths of a second.
    Milliseconds,
    /// 10^9 parameters.
    GigaParameters,
    /// Operations for each byte.
    FlopPerByte,
}

impl StateFigure {
    pub(super) const ALL: [Self; 5] =
        [Self::Resident, Self::Slope, Self::Fixed, Self::PersistedWithAllWindows, Self::EveryLayerFull];

    /// The name in data.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Resident => "resident",
            Self::Slope => "slope",
            Self::Fixed => "fixed",
            Self::PersistedWithAllWindows => "persisted_with_all_windows",
            Self::EveryLayerFull => "every_layer_full",
        }
    }
}

impl Unit {
    pub(super) const ALL: [Self; 19] = [
        Self::Gigabyte,
        Self::Gibibyte,
        Self::BytesPerToken,
        Self::Percent,
        Self::Times,
        Self::Layers,
        Self::Tokens,
        Self::KibiTokens,
        Self::Values,
        Self::Heads,
        Self::Megabyte,
        Self::Mebibyte,
        Self::GigabitPerSecond,
        Self::TerabitPerSecond,
        Self::GigabytePerSecond,
        Self::Seconds,
        Self::Milliseconds,
        Self::GigaParameters,
        Self::FlopPerByte,
    ];

    /// The name in data and on screen.
    pub fn name(self) -> &'static str {
        match self {
            Self::Gigabyte => "GB",
            Self::Gibibyte => "GiB",
            Self::BytesPerToken => "B/token",
            Self::Percent => "%",
            Self::Times => "×",
            Self::Layers => "layers",
            Self::Tokens => "tokens",
            Self::KibiTokens => "Ki tokens",
            Self::Values => "values",
            Self::Heads => "heads",
            Self::Megabyte => "MB",
            Self::Mebibyte => "MiB",
            Self::GigabitPerSecond => "Gbps",
            Self::TerabitPerSecond => "Tbps",
            Self::GigabytePerSecond => "GB/s",
            Self::Seconds => "s",
            Self::Milliseconds => "ms",
            Self::GigaParameters => "billion parameters",
            Self::FlopPerByte => "FLOP/B",
        }
    }

    /// `plain` (bytes, bytes a second, tokens, a ratio) in this unit.
    pub(super) fn of(self, plain: Ratio) -> Result<Ratio> {
        plain.over(match self {
            Self::Gigabyte | Self::GigabytePerSecond | Self::GigaParameters => Ratio::whole(1_000_000_000),
            Self::GigabitPerSecond => Ratio::whole(1_000_000_000 / 8),
            Self::TerabitPerSecond => Ratio::whole(1_000_000_000_000 / 8),
            Self::Megabyte => Ratio::whole(1_000_000),
            Self::Mebibyte => Ratio::whole(1 << 20),
            Self::Gibibyte => Ratio::whole(1 << 30),
            Self::KibiTokens => Ratio::whole(1 << 10),
            Self::Percent => Ratio::new(1, 100)?,
            Self::Milliseconds => Ratio::new(1, 1000)?,
            Self::BytesPerToken
            | Self::Times
            | Self::Layers
            | Self::Tokens
            | Self::Values
            | Self::Heads
            | Self::Seconds
            | Self::FlopPerByte => Ratio::whole(1),
        })
    }
}

impl Recipe {
    /// What it needs that is not there, if anything.
    pub(super) fn missing(&self) -> Option<&str> {
        match self {
            Self::Needs(what) => Some(what),
            Self::Plan(_) => super::plans::MISSING,
            Self::Ratio { of, over } => of.missing().or_else(|| over.missing()),
            Self::Spread(parts) => parts.iter().find_map(Self::missing),
            _ => None,
        }
    }
}
