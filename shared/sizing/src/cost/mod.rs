//! What one decode step costs: the state that it reads and writes, and the operations of its attention core.
//!
//! [`StepCost`] counts what touches state: scores, weighted sums, indexers, compressors, recurrences and convolutions.
//! Projections and experts do not depend on the state; [`ModelCost`] has both. A multiply-add counts as two operations.
//! Exponentials, of a softmax's weights and of a recurrence's decay, are counted apart, since no machine is equally fast at
//! both and no published count of attention has them among its operations.

mod attention;
mod model;
mod part;
mod phase;
mod recurrent;
mod span;
mod types;

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::fact::Fact;
use crate::mixer::Mixer;
use crate::settings::Formats;
use crate::state::StateComponent;
use crate::{Bytes, Error, Result, Tokens, word_record};

pub(crate) use model::whole;
pub use model::{CostOf, CostRow, FlopWeights, ModelCost, Phase};
pub use part::Part;
pub(crate) use phase::PhaseWork;
use span::{Met, Span};
pub use types::{CheckpointWeights, Scale, Stored, Types, WeightChoice};

/// Operations of one part of a layer as they grow with the entries that it meets.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Work {
    part: Part,
    operand: Operand,
    rows: u64,
    flops_per_entry: u64,
    met: Met,
}

impl Work {
    fn flops(&self, span: Span) -> Result<u64> {
        product(&[self.flops_per_entry, span.met(self.met)?])
    }
}

/// What one decode step does to the state.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct StepCost {
    /// Bytes of state that are read, the layer's own and borrowed ones.
    pub read_bytes: Bytes,
    /// How many of [`StepCost::read_bytes`] an earlier layer keeps.
    pub borrowed_bytes: Bytes,
    /// How many of [`StepCost::read_bytes`] are written back changed: recurrent and convolution state.
    pub rewritten_bytes: Bytes,
    /// Bytes of new entries: the token that was just computed. The row of partial sums that a compressor overwrites in each
    /// step is in neither of the two written figures.
    pub appended_bytes: Bytes,
    /// Operations, by the type of the operand that comes from the state and by how often each of its values is used.
    pub operations: Vec<Operations>,
    /// Exponentials: one for each query head and entry that it attends to, and one for each value of a state whose decay
    /// differs from value to value (Mamba-1).
    #[serde(default)]
    pub exponentials: u64,
}

/// Operations of one kind.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Operations {
    /// The type of the values that come from the state.
    pub operand: Operand,
    /// Query rows that use each value once it is loaded: a group of query heads.
    pub rows: u64,
    /// Floating point operations; a multiply-add counts as two.
    pub flops: u64,
}

/// The element type that comes from the state, whatever the type of the sum.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Operand {
    /// 4-byte floats.
    F32,
    /// bf16 and f16.
    Bf16,
    /// 8-bit floats and integers, with or without scales.
    Fp8,
    /// 4-bit values with scales, and the 5-bit ones of llama.cpp.
    Fp4,
}

word_record!(Operand, name, [F32, Bf16, Fp8, Fp4]);

impl FromStr for Operand {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|one| one.name() == text).ok_or_else(|| {
            Error::setting("dtype", format!("{text:?} is no type of operands; known: f32, bf16, fp8, fp4"))
        })
    }
}

impl Operand {
    /// Every one, the widest first.
    pub const ALL: [Self; 4] = [Self::F32, Self::Bf16, Self::Fp8, Self::Fp4];

    /// The word in JSON and on screen.
    pub const fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::Bf16 => "bf16",
            Self::Fp8 => "fp8",
            Self::Fp4 => "fp4",
        }
    }
}

impl StepCost {
    /// All operations, of whatever type. Every sum of costs checks that they fit.
    pub fn flops(&self) -> u64 {
        self.checked_flops().unwrap_or(u64::MAX)
    }

    fn checked_flops(&self) -> Result<u64> {
        let mut flops = self.operations.iter().map(|operations| operations.flops);
        flops.try_fold(0, u64::checked_add).ok_or_else(|| Error::overflow("operations of a step"))
    }

    /// Operations for every byte of state that is read or written; `None` where no byte is.
    pub fn intensity(&self) -> Option<f64> {
        let bytes = self.read_bytes.get().saturating_add(self.rewritten_bytes.get());
        (bytes > 0).then(|| self.flops() as f64 / bytes as f64)
    }

    /// The cost of `count` of these: layers, requests.
    ///
    /// # Errors
    ///
    /// A figure beyond 64 bits.
    pub fn times(&self, count: u64) -> Result<Self> {
        let operations = self
            .operations
            .iter()
            .map(|one| Ok(Operations { flops: product(&[one.flops, count])?, ..*one }))
            .collect::<Result<_>>()?;
        let cost = Self {
            read_bytes: self.read_bytes.times(count)?,
            borrowed_bytes: self.borrowed_bytes.times(count)?,
            rewritten_bytes: self.rewritten_bytes.times(count)?,
            appended_bytes: self.appended_bytes.times(count)?,
            operations,
            exponentials: product(&[self.exponentials, count])?,
        };
        cost.checked_flops().map(|_| cost)
    }

    /// The sum; operations of equal operand and rows become one.
    ///
    /// # Errors
    ///
    /// A figure beyond 64 bits.
    pub fn plus(mut self, other: Self) -> Result<Self> {
        self.read_bytes = self.read_bytes.plus(other.read_bytes)?;
        self.borrowed_bytes = self.borrowed_bytes.plus(other.borrowed_bytes)?;
        self.rewritten_bytes = self.rewritten_bytes.plus(other.rewritten_bytes)?;
        self.appended_bytes = self.appended_bytes.plus(other.appended_bytes)?;
        self.exponentials = self
            .exponentials
            .checked_add(other.exponentials)
            .ok_or_else(|| Error::overflow("exponentials of a step"))?;
        for operations in other.operations {
            self.add(operations)?;
        }
        Ok(self)
    }

    fn add(&mut self, more: Operations) -> Result<()> {
        if more.flops == 0 {
            return Ok(());
        }
        let same = |one: &&mut Operations| (one.operand, one.rows) == (more.operand, more.rows);
        match self.operations.iter_mut().find(same) {
            Some(known) => {
                known.flops = known
                    .flops
                    .checked_add(more.flops)
                    .ok_or_else(|| Error::overflow("operations of a step"))?;
            }
            None => self.operations.push(more),
        }
        self.checked_flops().map(|_| ())
    }
}

impl Mixer {
    /// What one decode step of one layer costs for one request whose state holds `n` tokens.
    ///
    /// # Errors
    ///
    /// A config without a head count that the operations need, a format that does not fit the shape, or a figure beyond
    /// 64 bits.
    pub fn step_cost(&self, formats: &Formats, n: Tokens) -> Result<StepCost> {
        let mut cost = StepCost::default();
        for component in self.components(formats)? {
            cost.read_bytes = cost.read_bytes.plus(component.read_bytes(n)?)?;
            cost.rewritten_bytes = cost.rewritten_bytes.plus(component.rewritten_bytes())?;
            cost.appended_bytes = cost.appended_bytes.plus(component.appended_bytes(n))?;
        }
        for component in self.borrowed(formats)? {
            cost.borrowed_bytes = cost.borrowed_bytes.plus(component.read_bytes(n)?)?;
        }
        cost.read_bytes = cost.read_bytes.plus(cost.borrowed_bytes)?;
        let span = Span::Step(n);
        for work in self.work(formats, Phase::Decode)? {
            cost.add(Operations { operand: work.operand, rows: work.rows, flops: work.flops(span)? })?;
        }
        cost.exponentials = if let Self::Recurrent(recurrent) = self {
            recurrent.recurrence.exponentials()?
        } else {
            let [met, beside] = self.attended(formats)?;
            product(&[self.query_heads()?, span.met(met)?.saturating_add(span.met(beside)?)])?
        };
        Ok(cost)
    }

    /// Entries that each query head attends to, and those of a window beside them.
    fn attended(&self, formats: &Formats) -> Result<[Met; 2]> {
        let met = match self {
            Self::Full(_) | Self::Mla(_) => Met::tokens(None),
            Self::IndexedFull(_, index) => Met::tokens(index.budget()),
            Self::Sliding { window, .. } => Met::tokens(Some(window.get())),
            Self::Chunked { chunk, .. } => Met::Chunk(chunk.get()),
            Self::Cross { encoder_tokens, .. } => {
                Met::Each(attention::encoder_tokens(formats, encoder_tokens.as_ref())?)
            }
            Self::Dsa { top_k, .. } => Met::tokens(top_k.as_ref().map(Fact::get)),
            Self::Compressed(attention) => return Ok(attention.attended()),
            Self::Recurrent(_) | Self::None => Met::NOTHING,
        };
        Ok([met, Met::NOTHING])
    }

    fn query_heads(&self) -> Result<u64> {
        let heads = match self {
            Self::Full(heads)
            | Self::IndexedFull(heads, _)
            | Self::Sliding { heads, .. }
            | Self::Chunked { heads, .. }
            | Self::Cross { heads, .. } => &heads.query_heads,
            Self::Mla(latent) | Self::Dsa { latent, .. } => &latent.query_heads,
            Self::Compressed(attention) => &attention.query_heads,
            Self::Recurrent(_) | Self::None => return Ok(0),
        };
        attention::query_heads(heads.as_ref())
    }

    /// The operations on the state in one phase, by the part of the layer that does them.
    fn work(&self, formats: &Formats, phase: Phase) -> Result<Vec<Work>> {
        let [met, _] = self.attended(formats)?;
        Ok(match self {
            Self::Full(heads) | Self::Sliding { heads, .. } | Self::Chunked { heads, .. } => {
                heads.work(formats, met)?
            }
            Self::IndexedFull(heads, index) => {
                let mut all = heads.work(formats, met)?;
                all.push(index.work(formats, None)?);
                all
            }
            Self::Cross { heads, .. } => heads.cross_work(formats, met)?,
            Self::Mla(latent) => match phase {
                Phase::Decode => latent.work(formats, met)?,
                Phase::Prefill => latent.prefill_work(formats, met)?,
            },
            Self::Dsa { latent, index, .. } => {
                let mut all = latent.work(formats, met)?;
                if let Some(index) = index {
                    all.push(index.work(formats, None)?);
                }
                all
            }
            Self::Compressed(attention) => attention.work(formats)?,
            Self::Recurrent(recurrent) => recurrent.work(formats)?,
            Self::None => Vec::new(),
        })
    }

    /// Components of earlier layers that a step reads, with what it reads of them.
    pub(crate) fn borrowed(&self, formats: &Formats) -> Result<Vec<StateComponent>> {
        match self {
            Self::Compressed(attention) => attention.borrowed(formats),
            _ => Ok(Vec::new()),
        }
    }

    /// All components that a step reads: the layer's own, then those of earlier layers.
    fn read(&self, formats: &Formats) -> Result<Vec<StateComponent>> {
        let mut all = self.components(formats)?;
        all.extend(self.borrowed(formats)?);
        Ok(all)
    }
}

fn product(factors: &[u64]) -> Result<u64> {
    factors
        .iter()
        .try_fold(1_u64, |total, factor| total.checked_mul(*factor))
        .ok_or_else(|| Error::overflow("operations of a step"))
}

#[cfg(test)]
mod tests;
