use serde::Serialize;

/// What can change between two versions, in the order in which the changes are taken.
///
/// Each step keeps everything that comes later as the first version has it. In another order the same changes would
/// share the total otherwise: what 14 layers cost depends on what a layer keeps.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// How many layers there are.
    Layers,
    /// What each layer does.
    Mixer,
    /// Which layers use another layer's cache.
    Sharing,
    /// Heads that keep something of their own.
    Heads,
    /// Values of a key, a value vector, a latent, a state.
    Widths,
    /// Tokens of a window or chunk.
    Window,
    /// Tokens that become one compressed entry.
    Compression,
    /// The keys of an indexer.
    IndexKeys,
    /// How values are stored.
    Format,
}

impl Cause {
    /// Every cause, in order.
    pub const ALL: [Self; 9] = [
        Self::Layers,
        Self::Mixer,
        Self::Sharing,
        Self::Heads,
        Self::Widths,
        Self::Window,
        Self::Compression,
        Self::IndexKeys,
        Self::Format,
    ];

    /// The word in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Layers => "layers",
            Self::Mixer => "mixer",
            Self::Sharing => "sharing",
            Self::Heads => "heads",
            Self::Widths => "widths",
            Self::Window => "window",
            Self::Compression => "compression",
            Self::IndexKeys => "index_keys",
            Self::Format => "format",
        }
    }

    /// The words on screen.
    pub fn label(self) -> &'static str {
        match self {
            Self::Layers => "layers",
            Self::Mixer => "mixer",
            Self::Sharing => "cache sharing between layers",
            Self::Heads => "heads",
            Self::Widths => "widths",
            Self::Window => "window",
            Self::Compression => "compression",
            Self::IndexKeys => "index keys",
            Self::Format => "format",
        }
    }
}
