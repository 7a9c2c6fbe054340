use std::fmt::Debug;
use std::ops::Range;

use super::element::Values;
use super::reference::Outcome;
use crate::bench::cpu::simd::InstructionSet;

/// One recurrence: what it keeps of a request in one layer, and how a token changes that.
///
/// The state of a request is `units` equal parts, heads or channels, that do not depend on each other: workers share
/// them. Sizes are counts of values.
pub(crate) trait Recurrence: Debug + Send + Sync {
    /// Independent parts of a request's state.
    fn units(&self) -> usize;

    /// State values of a unit.
    fn unit_values(&self) -> usize;

    /// Output values of a unit.
    fn unit_outputs(&self) -> usize;

    /// What a request's convolution gives to a step, or its projections where there is no convolution.
    fn activations(&self) -> usize;

    /// What else a request's projections give to a step: decays, step sizes and the like.
    fn gates(&self) -> usize;

    /// f32 weights of a layer that a step uses.
    fn weights(&self) -> usize {
        0
    }

    /// State values that are multiplied with one vector of the token.
    fn row(&self) -> usize;

    /// Whether `set` can walk the state's rows: in pairs of vectors.
    fn fits(&self, set: InstructionSet) -> bool {
        set.divides(&[self.row()])
    }

    /// f32 places of scratch that [`Recurrence::update`] needs.
    fn scratch(&self) -> usize;

    /// Fills a request's gates with values as trained models have them.
    fn draw_gates(&self, random: &mut fastrand::Rng, gates: &mut [f32]);

    /// Fills a layer's weights with values as trained models have them.
    fn draw_weights(&self, _random: &mut fastrand::Rng, _weights: &mut [f32]) {}

    /// Takes one token into the state of some units of a request and gives their output.
    fn update(&self, set: InstructionSet, span: Span<'_>);

    /// The same for a whole request in f64, written for clarity.
    fn reference(&self, before: &Before<'_>) -> Outcome;
}

/// What [`Recurrence::update`] works on: some units of one request in one layer.
#[derive(Debug)]
pub(crate) struct Span<'a> {
    pub(crate) units: Range<usize>,
    /// The state of those units.
    pub(crate) state: Values<'a>,
    /// Of the whole request.
    pub(crate) activations: &'a [f32],
    /// Of the whole request.
    pub(crate) gates: &'a [f32],
    /// Of the layer.
    pub(crate) weights: &'a [f32],
    /// The output of those units.
    pub(crate) output: &'a mut [f32],
    pub(crate) scratch: &'a mut [f32],
}

impl Span<'_> {
    /// Panics unless `set` fits `form` and every length is what `form` says.
    pub(crate) fn check(&self, form: &dyn Recurrence, set: InstructionSet) {
        let units = self.units.len();
        assert!(form.fits(set));
        assert!(self.units.end <= form.units());
        assert_eq!(self.state.len(), units * form.unit_values());
        assert_eq!(self.output.len(), units * form.unit_outputs());
        assert_eq!(self.activations.len(), form.activations());
        assert_eq!(self.gates.len(), form.gates());
        assert_eq!(self.weights.len(), form.weights());
        assert!(self.scratch.len() >= form.scratch());
    }
}

/// What [`Recurrence::reference`] starts from: a whole request in one layer, laid out as in [`Span`].
#[derive(Debug)]
pub(crate) struct Before<'a> {
    pub(crate) state: &'a [f64],
    pub(crate) activations: &'a [f64],
    pub(crate) gates: &'a [f64],
    pub(crate) weights: &'a [f64],
}

/// What a token leaves of a state: from 0.6 (forgets within a few tokens) to 0.999 (keeps for a thousand), evenly on a
/// logarithmic scale.
pub(crate) fn draw_decay(random: &mut fastrand::Rng) -> f32 {
    (-draw_logarithmic(random, 0.001, 0.5)).exp()
}

/// Between `low` and `high`, evenly on a logarithmic scale.
pub(crate) fn draw_logarithmic(random: &mut fastrand::Rng, low: f32, high: f32) -> f32 {
    low * (high / low).powf(random.f32())
}
