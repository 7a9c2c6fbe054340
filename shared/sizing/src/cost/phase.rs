//! The operations of a phase as they grow with the tokens of a request: worked out once, asked at any length.

use super::attention::encoder_tokens;
use super::{CostOf, Operand, Part, Phase, Span, Stored, Work, product};
use crate::architecture::LayerClass;
use crate::mixer::{Generation, Mixer};
use crate::parameters::ParameterRow;
use crate::settings::Formats;
use crate::{Error, Result, Tokens};

/// What a phase of one model computes.
#[derive(Clone, Debug)]
pub(crate) struct PhaseWork {
    phase: Phase,
    /// Of each row of the parameters that a token uses, in their order.
    pub(super) weights: Vec<WeightWork>,
    /// Of each class of layers, in their order.
    pub(super) state: Vec<Vec<StateWork>>,
}

/// What matrices do.
#[derive(Clone, Copy, Debug)]
pub(super) struct WeightWork {
    pub(super) stored: Stored,
    flops_per_token: u64,
    passed: Passed,
}

/// Tokens of each request that pass a matrix.
#[derive(Clone, Copy, Debug)]
enum Passed {
    One,
    /// Those of the prompt, or the last of them up to so many.
    Prompt(Option<u64>),
    /// Those of the encoder's output; none in a decode step, which finds the keys and values made.
    Encoder(u64),
}

/// What one part of one mixer does on the state in all layers of a class.
#[derive(Clone, Copy, Debug)]
pub(super) struct StateWork {
    /// Which of the class's mixers.
    pub(super) mixer: usize,
    /// The type that it computes in, which is not always that of what is stored.
    pub(super) operand: Operand,
    work: Work,
    layers: u64,
    /// The most tokens of a prompt that these layers run for, its last ones.
    most: Option<u64>,
}

impl CostOf<'_> {
    /// The operations of a phase at any length.
    ///
    /// # Errors
    ///
    /// A config without a head count that the operations need, or a figure beyond 64 bits.
    pub(crate) fn work(&self, phase: Phase) -> Result<PhaseWork> {
        let formats = self.architecture.formats(self.settings);
        let last_store = self.last_store();
        let classes = self.architecture.classes();
        let most: Vec<Option<u64>> = classes.iter().map(|class| most_of_prompt(class, last_store)).collect();
        let rows = self.parameters.rows.iter().filter(|row| row.active > 0);
        let of_weights = |row: &ParameterRow| {
            let passed = match (phase, row.class) {
                (Phase::Decode, _) if row.part == Part::EncoderProjections => Passed::Encoder(0),
                (Phase::Prefill, Some(class)) if row.part == Part::EncoderProjections => {
                    Passed::Encoder(encoder_tokens_of(&classes[class], &formats)?)
                }
                (Phase::Decode, _) | (Phase::Prefill, None) => Passed::One,
                (Phase::Prefill, Some(class)) => Passed::Prompt(most[class]),
            };
            let stored = self.types.of_part(row.part);
            let flops_per_token = if row.part.works_on_state() { 0 } else { product(&[2, row.active])? };
            Ok(WeightWork { stored, flops_per_token, passed })
        };
        let weights = rows.map(of_weights).collect::<Result<_>>()?;
        let of_class = |(class, most): (&LayerClass, &Option<u64>)| {
            let mut all = Vec::new();
            for (mixer, one) in class.mixers.iter().enumerate() {
                all.extend(one.work(&formats, phase)?.into_iter().map(|work| StateWork {
                    mixer,
                    operand: if work.part == Part::Core { self.types.core } else { work.operand },
                    work,
                    layers: class.layers.len() as u64,
                    most: *most,
                }));
            }
            Ok(all)
        };
        let state = classes.iter().zip(&most).map(of_class).collect::<Result<_>>()?;
        Ok(PhaseWork { phase, weights, state })
    }

    /// The last layer that keeps entries of its own.
    fn last_store(&self) -> Option<usize> {
        let keeps = |class: &&LayerClass| {
            class.mixers.iter().any(|mixer| match mixer {
                Mixer::Compressed(attention) => {
                    attention.compression.as_ref().is_some_and(|branch| branch.own_store)
                }
                _ => false,
            })
        };
        let layers = self.architecture.classes().iter().filter(keeps).flat_map(|class| &class.layers);
        layers.copied().max()
    }
}

/// Tokens of the encoder's output that the layers of a class attend to.
fn encoder_tokens_of(class: &LayerClass, formats: &Formats) -> Result<u64> {
    let mut limits = class.mixers.iter().filter_map(|mixer| match mixer {
        Mixer::Cross { encoder_tokens, .. } => Some(encoder_tokens.as_ref()),
        _ => None,
    });
    limits.next().map_or(Ok(0), |limit| encoder_tokens(formats, limit))
}

/// The most tokens of a prompt that layers of a class compute: CSA2 behind the last store, those of its window.
fn most_of_prompt(class: &LayerClass, last_store: Option<usize>) -> Option<u64> {
    let is_behind = class.layers.first() > Some(&last_store?);
    class.mixers.iter().filter(|_| is_behind).find_map(|mixer| match mixer {
        Mixer::Compressed(attention) if attention.generation == Generation::V41 => {
            Some(attention.window.get())
        }
        _ => None,
    })
}

impl PhaseWork {
    /// Operations of `batch` requests of `n` tokens, by the type that they are computed in, in the order of [`Operand::ALL`].
    ///
    /// # Errors
    ///
    /// A figure beyond 64 bits.
    pub(crate) fn flops_by_operand(&self, n: Tokens, batch: u64) -> Result<[u64; Operand::ALL.len()]> {
        let mut all = [0_u64; Operand::ALL.len()];
        let mut add = |operand: Operand, flops: u64| {
            let sum = &mut all[operand as usize];
            *sum = sum.checked_add(flops).ok_or_else(|| Error::overflow("operations"))?;
            Ok(())
        };
        for work in &self.weights {
            add(work.stored.computed, work.flops(n, batch)?)?;
        }
        for work in self.state.iter().flatten() {
            add(work.operand, work.flops(self.phase, n, batch)?)?;
        }
        Ok(all)
    }

    /// Operations of one request of `n` tokens, of whatever type.
    ///
    /// # Errors
    ///
    /// A figure beyond 64 bits.
    pub(crate) fn flops(&self, n: Tokens) -> Result<u64> {
        let mut all = self.flops_by_operand(n, 1)?.into_iter();
        all.try_fold(0_u64, u64::checked_add).ok_or_else(|| Error::overflow("operations"))
    }
}

impl WeightWork {
    /// Tokens of all requests that pass.
    pub(super) fn tokens(&self, n: Tokens, batch: u64) -> Result<u64> {
        match self.passed {
            Passed::One => Ok(batch),
            Passed::Encoder(tokens) => product(&[batch, tokens]),
            Passed::Prompt(most) => product(&[batch, n.get().min(most.unwrap_or(u64::MAX))]),
        }
    }

    pub(super) fn flops(&self, n: Tokens, batch: u64) -> Result<u64> {
        product(&[self.flops_per_token, self.tokens(n, batch)?])
    }
}

impl StateWork {
    pub(super) fn part(&self) -> Part {
        self.work.part
    }

    pub(super) fn flops(&self, phase: Phase, n: Tokens, batch: u64) -> Result<u64> {
        let flops = match phase {
            Phase::Decode => self.work.flops(Span::Step(n))?,
            Phase::Prefill => {
                let skipped = n.get().saturating_sub(self.most.unwrap_or(u64::MAX));
                let before = self.work.flops(Span::Prefill(Tokens::new(skipped)))?;
                self.work.flops(Span::Prefill(n))? - before
            }
        };
        product(&[flops, self.layers, batch])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::{FlopWeights, Types};
    use crate::{Settings, catalogue};

    /// One way of adding up is by type alone, the other by rows; each version at lengths around windows and groups.
    #[test]
    fn sums_by_type_are_the_sums_of_all_rows() {
        let settings = Settings::default();
        let mut compared = 0;
        for entry in catalogue() {
            let architecture = entry.architecture().unwrap();
            let subject = crate::plan::Subject::of(entry, &architecture);
            let Ok(parameters) = subject.parameters() else { continue };
            let of = CostOf {
                architecture: &architecture,
                parameters: &parameters,
                settings: &settings,
                types: Types::of(&architecture),
                weights: FlopWeights::plain(),
            };
            for phase in [Phase::Decode, Phase::Prefill] {
                let Ok(work) = of.work(phase) else { continue };
                for n in [1, 127, 128, 129, 4097, 100_000] {
                    let cost = of.cost(phase, Tokens::new(n), 3).unwrap();
                    let by_operand = work.flops_by_operand(Tokens::new(n), 3).unwrap();
                    for operand in Operand::ALL {
                        let rows = cost.rows.iter().filter(|row| row.operand == operand);
                        let sum: u64 = rows.map(|row| row.flops).sum();
                        assert_eq!(
                            by_operand[operand as usize], sum,
                            "{} {phase:?} {n} {operand:?}",
                            entry.id
                        );
                        compared += 1;
                    }
                }
            }
        }
        assert!(compared > 3000, "{compared} sums were compared");
    }
}
