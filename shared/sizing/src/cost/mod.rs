//! What one decode step costs: the state that it reads and writes, and the operations of its attention core.
//!
//! Counted is what touches state: scores, weighted sums, indexers, compressors, recurrences and convolutions.
//! Projections, experts and norms do not depend on the state and are not here. A multiply-add counts as two operations.
//! Exponentials, of a softmax's weights and of a recurrence's decay, are counted apart, since no machine is equally fast at
//! both and no published count of attention has them among its operations.

mod attention;
mod recurrent;

use serde::{Deserialize, Serialize};

use crate::mixer::Mixer;
use crate::settings::Formats;
use crate::{Bytes, Error, Result, Tokens, word_record};

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

impl Operand {
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
            cost.borrowed_bytes = attention.borrowed_bytes(formats, n)?;
            cost.read_bytes = cost.read_bytes.plus(cost.borrowed_bytes)?;
        }
        for operations in self.operations(formats, n)? {
            cost.add(operations)?;
        }
        cost.exponentials = match self {
            Self::Recurrent(recurrent) => recurrent.recurrence.exponentials()?,
            _ => product(&[self.query_heads()?, self.attended(formats, n)?])?,
        };
        Ok(cost)
    }

    /// Entries that each query head attends to at `n` tokens; none without attention.
    fn attended(&self, formats: &Formats, n: Tokens) -> Result<u64> {
        let up_to = |limit: u64| limit.min(n.get());
        Ok(match self {
            Self::Full(_) | Self::Mla(_) => n.get(),
            Self::IndexedFull(_, index) => index.budget().map_or(n.get(), up_to),
            Self::Sliding { window: limit, .. } | Self::Chunked { chunk: limit, .. } => up_to(limit.get()),
            Self::Cross { encoder_tokens, .. } => {
                attention::encoder_tokens(formats, encoder_tokens.as_ref())?
            }
            Self::Dsa { top_k, .. } => top_k.as_ref().map_or(n.get(), |limit| up_to(limit.get())),
            Self::Compressed(attention) => attention.attended(formats, n)?,
            Self::Recurrent(_) | Self::None => 0,
        })
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

    fn operations(&self, formats: &Formats, n: Tokens) -> Result<Vec<Operations>> {
        let attended = self.attended(formats, n)?;
        match self {
            Self::Full(heads) | Self::Sliding { heads, .. } | Self::Chunked { heads, .. } => {
                heads.operations(formats, attended)
            }
            Self::IndexedFull(heads, index) => {
                let mut all = heads.operations(formats, attended)?;
                all.push(index.operations(formats, n)?);
                Ok(all)
            }
            Self::Cross { heads, .. } => heads.cross_operations(formats, attended),
            Self::Mla(latent) => latent.operations(formats, attended),
            Self::Dsa { latent, index, .. } => {
                let mut all = latent.operations(formats, attended)?;
                if let Some(index) = index {
                    all.push(index.operations(formats, n)?);
                }
                Ok(all)
            }
            Self::Compressed(attention) => attention.operations(formats, n),
            Self::Recurrent(recurrent) => recurrent.operations(formats),
            Self::None => Ok(Vec::new()),
        }
    }
}

fn product(factors: &[u64]) -> Result<u64> {
    factors
        .iter()
        .try_fold(1_u64, |total, factor| total.checked_mul(*factor))
        .ok_or_else(|| Error::overflow("operations of a step"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Settings, find_entry};

    /// The cost of the layer classes of a catalogue version that have `name`, one layer each.
    fn cost(id: &str, name: &str, n: u64) -> StepCost {
        let architecture = find_entry(id).unwrap().architecture().unwrap();
        let formats = architecture.formats(&Settings::default());
        let mixers = architecture.classes().iter().flat_map(|class| &class.mixers);
        let mixer = mixers.into_iter().find(|mixer| mixer.name() == name).unwrap();
        mixer.step_cost(&formats, Tokens::new(n)).unwrap()
    }

    fn one(operand: Operand, rows: u64, flops: u64) -> Operations {
        Operations { operand, rows, flops }
    }

    #[test]
    fn grouped_queries() {
        // MiniMax-M2.7: 48 query heads on 8 K/V heads of 128: 2 × 48 × 256 operations and 8 × 256 × 2 bytes a token.
        let cost = cost("minimax-m2.7", "GQA", 1000);
        assert_eq!(cost.operations, [one(Operand::Bf16, 6, 24_576_000)]);
        assert_eq!((cost.read_bytes.get(), cost.appended_bytes.get()), (4_096_000, 4096));
        assert_eq!(cost.exponentials, 48 * 1000);
        // Operations over bytes: the group of 6 queries for each bf16 value.
        assert!((cost.intensity().unwrap() - 6.0).abs() < 1e-12);
    }

    /// DeepSeek-V3.2 (arXiv 2512.02556; terms of the count by hand): core 128 × min(2048, L) × 2 × (576 + 512), indexer
    /// 64 × 128 × 2 × L; times 61 layers at L = 1e6 they are 35 GFLOP in bf16 and 999 GFLOP in fp8.
    #[test]
    fn sparse_latents_and_their_indexer() {
        let cost = cost("deepseek-v3.2", "DSA", 1_000_000);
        assert_eq!(
            cost.operations,
            [one(Operand::Bf16, 128, 570_425_344), one(Operand::Fp8, 64, 16_384_000_000)]
        );
        let total = cost.times(61).unwrap();
        assert_eq!(total.operations[0].flops / 1_000_000_000, 34);
        assert_eq!(total.operations[1].flops / 1_000_000_000, 999);
    }

    /// DeepSeek-V4-Pro (arXiv 2606.19348): 30 CSA layers of 128 heads, 64 × 128 indexer over L / 4 keys in FP4, top 1024;
    /// 31 HCA layers. At L = 1e6 the core is 147 and the indexer 61 GFLOP in FP8-equivalents (bf16 2, FP4 0.5).
    #[test]
    fn compressed_attention_adds_up_to_core_and_indexer() {
        let csa = cost("deepseek-v4-pro", "CSA", 1_000_000).times(30).unwrap();
        let hca = cost("deepseek-v4-pro", "HCA", 1_000_000).times(31).unwrap();
        let all = csa.plus(hca).unwrap();
        let flops = |operand| {
            all.operations.iter().filter(|one| one.operand == operand).map(|one| one.flops).sum::<u64>()
        };
        // Core in entries: 30 × (1024 + 128) + 31 × (7812 + 128), each 128 heads × 2 × 1024; records are fp8.
        let entries = 30 * (1024 + 128) + 31 * (7812 + 128);
        assert_eq!(flops(Operand::Fp8), entries * 128 * 2 * 1024);
        assert_eq!(all.exponentials, entries * 128);
        assert_eq!(flops(Operand::Fp8) * 2 / 1_000_000_000, 147);
        assert_eq!(flops(Operand::Fp4), 30 * 64 * 128 * 2 * 250_000);
        assert_eq!(flops(Operand::Fp4) / 2 / 1_000_000_000, 61);
    }

    /// DeepSeek-V4.1: a layer that borrows its store still reads 512 entries of 288 bytes, and its window of 128 × 528.
    #[test]
    fn a_borrowed_store_is_read() {
        let architecture = find_entry("deepseek-v4.1-flash").unwrap().architecture().unwrap();
        let formats = architecture.formats(&Settings::default());
        let borrower = architecture.layers().nth(3).unwrap();
        let cost = borrower.mixers[0].step_cost(&formats, Tokens::new(100_000)).unwrap();
        assert_eq!(cost.borrowed_bytes.get(), 512 * 288);
        assert_eq!(cost.read_bytes.get(), 512 * 288 + 128 * 528);
    }

    #[test]
    fn recurrences_read_and_write_their_state() {
        // Qwen3-Next: 32 value heads of 128 × 128, a 4-tap convolution over 2 × 16 × 128 + 32 × 128 channels.
        let cost = cost("qwen3-next-80b-a3b", "gated DeltaNet", 5);
        let state = 32 * 128 * 128;
        assert_eq!(cost.rewritten_bytes, cost.read_bytes);
        assert_eq!(cost.appended_bytes, Bytes::ZERO);
        let flops = |rows| cost.operations.iter().filter(|o| o.rows == rows).map(|o| o.flops).sum::<u64>();
        assert_eq!(flops(1), 7 * state + 2 * 4 * 8192);
    }

    #[test]
    fn a_decay_for_every_value_needs_an_exponential_for_every_value() {
        // Jamba-1.5-Large: 16,384 channels with a state of 16, a 4-tap convolution.
        let mamba1 = cost("jamba-1.5-large", "Mamba-1", 5);
        let state = 16_384 * 16;
        assert_eq!((mamba1.exponentials, mamba1.flops()), (state, 6 * state + 2 * 4 * 16_384));
        assert_eq!(mamba1.times(3).unwrap().plus(mamba1).unwrap().exponentials, 4 * state);
        assert_eq!(cost("nemotron-3-nano-30b-a3b", "Mamba-2", 5).exponentials, 0);
    }

    /// Its published config says how many heads keys have, not how many queries.
    const WITHOUT_HEADS: [&str; 1] = ["gemma-4-12b"];

    #[test]
    fn every_layer_of_the_catalogue_has_a_cost_or_says_what_is_missing() {
        let mut without_heads = Vec::new();
        for entry in crate::catalogue() {
            let architecture = entry.architecture().unwrap();
            let settings = Settings { encoder_tokens: Some(1500), ..Settings::default() };
            let formats = architecture.formats(&settings);
            for mixer in architecture.classes().iter().flat_map(|class| &class.mixers) {
                match mixer.step_cost(&formats, Tokens::new(4096)) {
                    Ok(cost) => assert!(cost.flops() > 0 || *mixer == Mixer::None, "{}: {mixer:?}", entry.id),
                    Err(error) => {
                        assert!(error.place().is_some_and(|place| place.contains("heads")), "{error}");
                        without_heads.push(entry.id.as_str());
                    }
                }
            }
        }
        without_heads.dedup();
        assert_eq!(without_heads, WITHOUT_HEADS);
    }

    #[test]
    fn each_side_computes_in_its_own_format() {
        let operations = |id: &str, settings: &Settings| {
            let architecture = find_entry(id).unwrap().architecture().unwrap();
            let formats = architecture.formats(settings);
            let mixer = architecture.classes()[0].mixers[0].clone();
            mixer.step_cost(&formats, Tokens::new(1000)).unwrap().operations
        };
        let mut settings = Settings::default();
        settings.set("k_dtype", "q8_0").unwrap();
        settings.set("v_dtype", "q4_0").unwrap();
        // Qwen3-8B: 32 query heads on 8 of 128: 2 × 32 × 128 × 1000 for the score, as many for the sum.
        let half = 2 * 32 * 128 * 1000;
        assert_eq!(
            operations("qwen3-8b", &settings),
            [one(Operand::Fp8, 4, half), one(Operand::Fp4, 4, half)]
        );
        // DeepSeek-V3 expanded: 128 heads, K of 128 + 64 values, V of 128.
        settings.set("mla_storage", "expanded").unwrap();
        let side = |width: u64| 2 * 128 * width * 1000;
        assert_eq!(
            operations("deepseek-v3", &settings),
            [one(Operand::Fp8, 1, side(192)), one(Operand::Fp4, 1, side(128))]
        );
    }

    #[test]
    fn operations_beyond_64_bits_are_an_error() {
        let half = |operand| StepCost { operations: vec![one(operand, 1, 1 << 63)], ..StepCost::default() };
        assert!(half(Operand::F32).plus(half(Operand::Bf16)).is_err());
        assert!(half(Operand::F32).times(2).is_err());
    }
}
