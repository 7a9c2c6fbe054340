//! What one decode step costs: the state that it reads and writes, and the operations of its attention core.
//!
//! [`StepCost`] counts what touches state: scores, weighted sums, indexers, compressors, recurrences and convolutions.
//! Projections and experts do not depend on the state; [`ModelCost`] has both. A multiply-add counts as two operations.
//! Exponentials, of a softmax's weights and of a recurrence's decay, are counted apart, since no machine is equally fast at
//! both and no published count of attention has them among its operations.

mod attention;
mod model;
mod part;
mod recurrent;
mod span;
mod types;

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::fact::Fact;
use crate::mixer::Mixer;
use crate::settings::Formats;
use crate::{Bytes, Error, Result, Tokens, word_record};

pub(crate) use model::whole;
pub use model::{CostOf, CostRow, FlopWeights, ModelCost, Phase};
pub use part::Part;
pub(crate) use span::Span;
pub use types::{CheckpointWeights, Scale, Stored, Types};

/// Operations and the part of a layer that does them.
pub(crate) type PartOperations = (Part, Operations);

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
        if let Self::Compressed(attention) = self {
            cost.borrowed_bytes = Bytes::total(attention.borrowed_bytes(formats, n)?)?;
            cost.read_bytes = cost.read_bytes.plus(cost.borrowed_bytes)?;
        }
        let span = Span::Step(n);
        for (_, operations) in self.operations(formats, span)? {
            cost.add(operations)?;
        }
        cost.exponentials = match self {
            Self::Recurrent(recurrent) => recurrent.recurrence.exponentials()?,
            _ => product(&[self.query_heads()?, self.attended(formats, span)?])?,
        };
        Ok(cost)
    }

    /// Entries that each query head attends to; none without attention.
    fn attended(&self, formats: &Formats, span: Span) -> Result<u64> {
        match self {
            Self::Full(_) | Self::Mla(_) => span.entries(1, None),
            Self::IndexedFull(_, index) => span.entries(1, index.budget()),
            Self::Sliding { window, .. } => span.entries(1, Some(window.get())),
            Self::Chunked { chunk, .. } => span.chunk_entries(chunk.get()),
            Self::Cross { encoder_tokens, .. } => {
                span.each(attention::encoder_tokens(formats, encoder_tokens.as_ref())?)
            }
            Self::Dsa { top_k, .. } => span.entries(1, top_k.as_ref().map(Fact::get)),
            Self::Compressed(attention) => attention.attended(span),
            Self::Recurrent(_) | Self::None => Ok(0),
        }
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

    /// The operations on the state, by the part of the layer that does them.
    pub(crate) fn operations(&self, formats: &Formats, span: Span) -> Result<Vec<PartOperations>> {
        let attended = self.attended(formats, span)?;
        let core = |all: Vec<Operations>| all.into_iter().map(|one| (Part::Core, one)).collect::<Vec<_>>();
        Ok(match self {
            Self::Full(heads) | Self::Sliding { heads, .. } | Self::Chunked { heads, .. } => {
                core(heads.operations(formats, attended)?)
            }
            Self::IndexedFull(heads, index) => {
                let mut all = core(heads.operations(formats, attended)?);
                all.push(index.operations(formats, span, None)?);
                all
            }
            Self::Cross { heads, .. } => core(heads.cross_operations(formats, attended)?),
            Self::Mla(latent) => core(match span {
                Span::Step(_) => latent.operations(formats, attended)?,
                Span::Prefill(_) => latent.prefill_operations(formats, attended)?,
            }),
            Self::Dsa { latent, index, .. } => {
                let mut all = core(latent.operations(formats, attended)?);
                if let Some(index) = index {
                    all.push(index.operations(formats, span, None)?);
                }
                all
            }
            Self::Compressed(attention) => attention.operations(formats, span)?,
            Self::Recurrent(recurrent) => recurrent.operations(formats, span)?,
            Self::None => Vec::new(),
        })
    }

    /// Bytes of state that a step reads, by the part that reads them.
    pub(crate) fn part_reads(&self, formats: &Formats, n: Tokens) -> Result<Vec<(Part, Bytes)>> {
        let mut all = Vec::new();
        for component in self.components(formats)? {
            all.push((Part::reading(component.kind), component.read_bytes(n)?));
        }
        if let Self::Compressed(attention) = self {
            let [store, keys] = attention.borrowed_bytes(formats, n)?;
            all.extend([(Part::Core, store), (Part::Indexer, keys)]);
        }
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
