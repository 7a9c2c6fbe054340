use super::Subject;
use crate::cost::{CostOf, FlopWeights, Phase, Types};
use crate::size::Size;
use crate::warning::Warning;

impl Size {
    /// Adds the operations of a decode step and of a prefill, which need the widths of weights; what they lack becomes a
    /// warning. Without a context there are none.
    #[must_use]
    pub fn with_work(mut self, subject: &Subject<'_>) -> Self {
        let Some(n) = self.context else { return self };
        let parameters = subject.parameters();
        let cost = |phase: Phase| {
            let of = CostOf {
                architecture: subject.architecture,
                parameters: parameters.as_ref().map_err(Clone::clone)?,
                settings: &self.settings,
                types: Types::of(subject.architecture),
                weights: FlopWeights::plain(),
            };
            of.cost(phase, n, self.batch).map(|cost| cost.flops)
        };
        let (decode, prefill) = (cost(Phase::Decode), cost(Phase::Prefill));
        for (field, figure, flops) in [
            ("decode_flops", &mut self.decode_flops, decode),
            ("prefill_flops", &mut self.prefill_flops, prefill),
        ] {
            match flops {
                Ok(flops) => *figure = Some(flops),
                Err(error) => self.warnings.push(Warning::new(field, format!("not computed: {error}"))),
            }
        }
        self
    }
}
