//! What GPUs leave beside weights, as levels of a growth figure.

use kvscope_sizing::plan::{Gpus, Left};
use kvscope_sizing::{LargestContext, UnitSystem};

use crate::figures::Limit;
use crate::palette::SeriesColour;

/// The level of one version, which its curve reaches at the longest context that fits; none where nothing is left, and where
/// any context fits.
pub fn level(
    (name, colour): (&str, SeriesColour),
    gpus: Gpus,
    left: &Left,
    units: UnitSystem,
) -> Option<Limit> {
    let bytes = left.level?;
    let shown = bytes.display(units);
    let label = match (gpus.count, left.memory.state_bytes == Some(bytes)) {
        (1, _) => format!("{name}: {shown} left"),
        (_, true) => format!("{name}: {shown} left on each GPU"),
        // Of the whole model: what each GPU has whole counts once.
        (count, false) => format!("{name}: {count} GPUs hold {shown}"),
    };
    let crossings = match left.longest {
        LargestContext::Budget { tokens } => vec![(colour, tokens)],
        LargestContext::Nothing | LargestContext::Limit { .. } => Vec::new(),
    };
    Some(Limit { bytes, label, colour: Some(colour), crossings })
}
