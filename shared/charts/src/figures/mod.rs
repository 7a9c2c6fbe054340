//! The figures. Each takes plain data and makes a [`Scene`](crate::Scene).

mod comparison;
mod curves;
mod growth;
mod latency;
mod layers;
mod marks;
mod of_state;
mod plan_lines;
mod residuals;
mod spread;
mod table;
mod waterfall;

pub use comparison::{facts_table, kept_table};
pub use growth::{Cursor, Growth, GrowthInput, GrowthScale, Hit, Limit, MeasuredBytes, Reading, Series};
pub use latency::{Latency, LatencyCursor, LatencyInput, LatencySeries, MeasuredSeconds};
pub use layers::{Layer, LayerPart, LayerStrip, Layers, LayersHit, LayersInput, PartGrowth};
pub use marks::Standing;
pub use of_state::{StripName, USUAL_CONTEXTS, contexts_around, layer_strip, layers_reach};
pub use plan_lines::{Asked as PlanAsked, PlanLines};
pub use residuals::{ResidualPoint, ResidualSeries, Residuals, ResidualsInput};
pub use table::Table;
pub use waterfall::{Waterfall, WaterfallEnd, WaterfallInput, WaterfallStep};

use kvscope_sizing::Tokens;

use crate::scene::Dash;

/// Why a figure could not be laid out.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum FigureError {
    /// The context axis has no length.
    #[error("contexts from {0} to {1} tokens are no range; give two, the first smaller and above zero")]
    Domain(Tokens, Tokens),
    /// The figure has no room.
    #[error(
        "a figure of {width} by {height} pixels has no room; at least {least_width} by {least_height} are needed"
    )]
    Size {
        /// Width asked for, in CSS pixels, rounded.
        width: i64,
        /// Height asked for.
        height: i64,
        /// Least width.
        least_width: i64,
        /// Least height.
        least_height: i64,
    },
    /// The sampled contexts do not rise.
    #[error("sampled contexts must rise; sample {0} does not")]
    Contexts(usize),
    /// The steps of a waterfall do not lead from its start to its end.
    #[error("the steps do not add up to the difference of the two ends")]
    Sum,
    /// A series has more values than there are contexts.
    #[error("series {name:?} has {values} values for {contexts} contexts")]
    Values {
        /// The series.
        name: String,
        /// How many values it has.
        values: usize,
        /// How many contexts there are.
        contexts: usize,
    },
}

/// Where a line's values come from. Each has its own look; measured points are never lines.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Provenance {
    /// From the architecture: solid.
    #[default]
    Computed,
    /// What an engine sets aside: dashed.
    Reserved,
    /// Fitted to measurements: dotted.
    Fitted,
}

impl Provenance {
    pub(crate) const fn dash(self) -> Dash {
        match self {
            Self::Computed => Dash::Solid,
            Self::Reserved => Dash::Reserved,
            Self::Fitted => Dash::Fitted,
        }
    }
}

/// Contexts to compute a figure at: about `count` from one end of `domain` to the other in equal factors and a third as many
/// in equal steps (so that log and linear axes are both well covered), the powers of two among them, and those of `also`
/// (cursor, kinks, measured points) that lie inside. Strictly rising.
pub fn sample_contexts(domain: (Tokens, Tokens), count: usize, also: &[Tokens]) -> Vec<Tokens> {
    let (low, high) = (domain.0.get().max(1), domain.1.get());
    if high <= low {
        return vec![Tokens::new(low)];
    }
    let steps = count.max(2) - 1;
    let octaves = (high as f64 / low as f64).log2();
    let even = (0..=steps).map(|step| {
        let share = step as f64 / steps as f64;
        crate::label::nearest_u64(low as f64 * (octaves * share).exp2()).clamp(low, high)
    });
    let linear_steps = (steps as u64 / 3).max(1);
    let linear = (0..=linear_steps).map(|step| {
        low + u64::try_from(u128::from(high - low) * u128::from(step) / u128::from(linear_steps)).unwrap_or(0)
    });
    let powers = (0..63).map(|exponent| 1_u64 << exponent);
    let also = also.iter().map(|tokens| tokens.get());
    let mut contexts: Vec<u64> =
        even.chain(linear).chain(powers).chain(also).filter(|tokens| (low..=high).contains(tokens)).collect();
    contexts.sort_unstable();
    contexts.dedup();
    contexts.into_iter().map(Tokens::new).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_hold_the_ends_the_powers_and_what_was_asked_for() {
        let contexts =
            sample_contexts((Tokens::new(1000), Tokens::new(1_000_000)), 50, &[Tokens::new(100_000)]);
        let counts: Vec<u64> = contexts.iter().map(|tokens| tokens.get()).collect();
        assert!(counts.windows(2).all(|pair| pair[0] < pair[1]));
        for expected in [1000, 1024, 4096, 100_000, 524_288, 1_000_000] {
            assert!(counts.contains(&expected), "{expected}");
        }
        assert_eq!(sample_contexts((Tokens::new(5), Tokens::new(5)), 50, &[]), [Tokens::new(5)]);
    }
}
