//! What a whole model costs: projections, experts and head beside what touches the state.

use serde::Serialize;

use super::phase::{StateWork, WeightWork};
use super::{Operand, Part, Types};
use crate::architecture::{Architecture, LayerClass};
use crate::parameters::{ParameterRow, Parameters};
use crate::settings::{Formats, Settings};
use crate::{Bytes, Error, Ratio, Result, Tokens};

/// How much an operation of each type counts.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct FlopWeights {
    /// FP32.
    pub f32: Ratio,
    /// bf16 and f16.
    pub bf16: Ratio,
    /// 8-bit floats.
    pub fp8: Ratio,
    /// 4-bit floats.
    pub fp4: Ratio,
}

/// Which phase of a request.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// One token of every request of a batch.
    Decode,
    /// A whole prompt of every request, to its first token.
    Prefill,
}

/// What one phase of one model costs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ModelCost {
    /// Which phase.
    pub phase: Phase,
    /// Operations, of whatever type; a multiply-add is two.
    pub flops: u64,
    /// The same with each type's weight.
    pub weighted_flops: Ratio,
    /// Bytes of state that are read. A prefill reads what it has just made; that is not counted.
    pub state_read_bytes: Option<Bytes>,
    /// Bytes of weights that are read: every matrix once, of the experts those that a batch is expected to touch. Scales are
    /// those of the checkpoint; types that are given have none.
    pub weight_read_bytes: Bytes,
    /// The same by part and kind of layer.
    pub rows: Vec<CostRow>,
}

/// What one part of equal layers costs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CostRow {
    /// Which part.
    pub part: Part,
    /// The layers' mixers; empty for what stands around the layers.
    pub mixer: String,
    /// How many layers have it.
    pub layers: u64,
    /// The type that it computes in.
    pub operand: Operand,
    /// Operations of all these layers.
    pub flops: u64,
    /// Bytes of state that they read.
    pub state_read_bytes: Bytes,
    /// Bytes of weights that they read.
    pub weight_read_bytes: Bytes,
}

/// What is asked of a cost.
#[derive(Clone, Copy, Debug)]
pub struct CostOf<'a> {
    /// The layers.
    pub architecture: &'a Architecture,
    /// Their weights.
    pub parameters: &'a Parameters,
    /// Formats of the state.
    pub settings: &'a Settings,
    /// Types of the rest.
    pub types: Types,
    /// What an operation of each type counts.
    pub weights: FlopWeights,
}

impl FlopWeights {
    /// Every operation counts one.
    pub fn plain() -> Self {
        let one = Ratio::whole(1);
        Self { f32: one, bf16: one, fp8: one, fp4: one }
    }

    /// In FP8 operations, by what tensor cores do in the same time: bf16 counts 2, FP4 half (the rule of the DeepSeek-V4.1
    /// report's figure 2).
    pub fn fp8_equivalents() -> Self {
        let half = Ratio::new(1, 2).expect("two is not zero");
        Self { f32: Ratio::whole(4), bf16: Ratio::whole(2), fp8: Ratio::whole(1), fp4: half }
    }

    /// What one operation of a type counts.
    pub fn of(&self, operand: Operand) -> Ratio {
        match operand {
            Operand::F32 => self.f32,
            Operand::Bf16 => self.bf16,
            Operand::Fp8 => self.fp8,
            Operand::Fp4 => self.fp4,
        }
    }

    /// Reads `plain`, `fp8` or `bf16=2,fp8=1,fp4=0.5`; a type that is left out counts one.
    ///
    /// # Errors
    ///
    /// An unknown type, or a weight that is no number above 0.
    pub fn given(text: &str) -> Result<Self> {
        let wrong = |what: String| Error::setting("flop_weights", what);
        match text {
            "plain" => return Ok(Self::plain()),
            "fp8" => return Ok(Self::fp8_equivalents()),
            _ => {}
        }
        let mut weights = Self::plain();
        for pair in text.split(',') {
            let expected = || wrong(format!("{pair:?} is not plain, fp8 or TYPE=WEIGHT, such as bf16=2"));
            let (name, weight) = pair.split_once('=').ok_or_else(expected)?;
            let number: f64 = weight.trim().parse().map_err(|_| expected())?;
            if !number.is_finite() || number <= 0.0 {
                return Err(wrong(format!("{number} is not a number above 0")));
            }
            let weight = Ratio::decimal(number)?;
            let slot = match name.trim() {
                "f32" => &mut weights.f32,
                "bf16" => &mut weights.bf16,
                "fp8" => &mut weights.fp8,
                "fp4" => &mut weights.fp4,
                other => return Err(wrong(format!("{other:?} is no type; known: f32, bf16, fp8, fp4"))),
            };
            *slot = weight;
        }
        Ok(weights)
    }
}

impl CostOf<'_> {
    /// The cost of one decode step of `batch` requests whose state holds `n` tokens each.
    ///
    /// # Errors
    ///
    /// A config without a head count that the operations need, a batch of zero, or a figure beyond 64 bits.
    pub fn decode(&self, n: Tokens, batch: u64) -> Result<ModelCost> {
        self.cost(Phase::Decode, n, batch)
    }

    /// The cost of computing `batch` prompts of `n` tokens each.
    ///
    /// Latents are expanded to heads, as engines do. Layers of CSA2 behind the last that keeps entries run for the tokens of
    /// their window alone, since nothing later depends on the others. The head runs once for each prompt.
    ///
    /// # Errors
    ///
    /// As [`Self::decode`].
    pub fn prefill(&self, n: Tokens, batch: u64) -> Result<ModelCost> {
        self.cost(Phase::Prefill, n, batch)
    }

    /// The cost of a phase.
    ///
    /// # Errors
    ///
    /// As [`Self::decode`].
    pub fn cost(&self, phase: Phase, n: Tokens, batch: u64) -> Result<ModelCost> {
        if batch == 0 {
            return Err(Error::setting("batch", "0 requests cost nothing; give at least 1"));
        }
        let work = self.work(phase)?;
        let formats = self.architecture.formats(self.settings);
        let mut rows = Vec::new();
        let weights = self.parameters.rows.iter().filter(|row| row.active > 0);
        for (row, work) in weights.zip(&work.weights) {
            rows.push(of_weights(row, work, n, batch)?);
        }
        // What a decode step finds made by the prefill.
        rows.retain(|row| row.flops > 0 || row.weight_read_bytes > Bytes::ZERO);
        for (class, work) in self.architecture.classes().iter().zip(&work.state) {
            rows.extend(self.of_state(class, work, &formats, phase, n, batch)?);
        }
        crate::sort_short(&mut rows, |a, b| a.part > b.part);
        let sum = |of: &dyn Fn(&CostRow) -> u64| {
            let mut parts = rows.iter().map(of);
            parts.try_fold(0_u64, u64::checked_add).ok_or_else(|| Error::overflow("operations"))
        };
        let weighted = rows.iter().try_fold(Ratio::ZERO, |total, row| {
            total.plus(Ratio::whole(row.flops).times(self.weights.of(row.operand))?)
        })?;
        let state = Bytes::new(sum(&|row| row.state_read_bytes.get())?);
        Ok(ModelCost {
            phase,
            flops: sum(&|row| row.flops)?,
            weighted_flops: weighted,
            state_read_bytes: (phase == Phase::Decode).then_some(state),
            weight_read_bytes: Bytes::new(sum(&|row| row.weight_read_bytes.get())?),
            rows,
        })
    }

    fn of_state(
        &self,
        class: &LayerClass,
        work: &[StateWork],
        formats: &Formats,
        phase: Phase,
        n: Tokens,
        batch: u64,
    ) -> Result<Vec<CostRow>> {
        let layers = class.layers.len() as u64;
        let mut rows: Vec<CostRow> = Vec::new();
        let mut row = |part: Part, operand: Operand| -> usize {
            let known = rows.iter().position(|row| (row.part, row.operand) == (part, operand));
            known.unwrap_or_else(|| {
                rows.push(CostRow {
                    part,
                    mixer: class.name(),
                    layers,
                    operand,
                    flops: 0,
                    state_read_bytes: Bytes::ZERO,
                    weight_read_bytes: Bytes::ZERO,
                });
                rows.len() - 1
            })
        };
        let mut flops_of = Vec::new();
        let mut reads_of = Vec::new();
        for (place, mixer) in class.mixers.iter().enumerate() {
            let of_mixer = || work.iter().filter(|one| one.mixer == place);
            for one in of_mixer() {
                flops_of.push((row(one.part(), one.operand), one.flops(phase, n, batch)?));
            }
            if phase == Phase::Prefill {
                continue;
            }
            for component in mixer.read(formats)? {
                let (part, bytes) = (Part::reading(component.kind), component.read_bytes(n)?);
                let operand = of_mixer().find(|one| one.part() == part);
                let operand = operand.map_or(self.types.core, |one| one.operand);
                reads_of.push((row(part, operand), bytes.times(layers)?.times(batch)?));
            }
        }
        for (place, flops) in flops_of {
            let sum = rows[place].flops.checked_add(flops);
            rows[place].flops = sum.ok_or_else(|| Error::overflow("operations"))?;
        }
        for (place, bytes) in reads_of {
            rows[place].state_read_bytes = rows[place].state_read_bytes.plus(bytes)?;
        }
        rows.retain(|row| row.flops > 0 || row.state_read_bytes > Bytes::ZERO);
        Ok(rows)
    }
}

fn of_weights(row: &ParameterRow, work: &WeightWork, n: Tokens, batch: u64) -> Result<CostRow> {
    let tokens = work.tokens(n, batch)?;
    let touched = match row.part {
        _ if tokens == 0 => 0,
        Part::Experts => touched(row, tokens)?,
        _ => row.active,
    };
    Ok(CostRow {
        part: row.part,
        mixer: row.mixer.clone(),
        layers: row.layers,
        operand: work.stored.computed,
        flops: work.flops(n, batch)?,
        state_read_bytes: Bytes::ZERO,
        weight_read_bytes: work.stored.bytes(touched)?,
    })
}

/// Parameters of the experts that `tokens` tokens are expected to touch, if each chooses independently of the others.
fn touched(row: &ParameterRow, tokens: u64) -> Result<u64> {
    let share = row.active as f64 / row.pool.max(1) as f64;
    if tokens <= 1 || row.active == row.pool {
        return Ok(row.active);
    }
    let missed = (1.0 - share).powf(tokens as f64);
    whole(row.pool as f64 * (1.0 - missed)).map(|touched| touched.clamp(row.active, row.pool))
}

/// The nearest whole number.
pub(crate) fn whole(figure: f64) -> Result<u64> {
    format!("{figure:.0}").parse().map_err(|_| Error::overflow("a count"))
}
