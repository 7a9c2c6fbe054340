//! The matrices before and behind each mixer.
//!
//! Sources: the modelling code of each class in transformers 5.24 and vLLM 0.33. Biases and norms are left out; they are
//! below a thousandth of every model.

use super::product::Matrix;
use super::shapes::WeightShapes;
use crate::cost::Part;
use crate::fact::Fact;
use crate::mixer::{CompressedAttention, Conv, Heads, IndexKeys, Latent, Mixer, Recurrence, Recurrent};
use crate::{Error, Result};

/// Where the V of heads is from.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Values {
    /// A projection of its own.
    Projected,
    /// The projection of K.
    AsKeys,
}

impl Mixer {
    pub(super) fn matrices(&self, shapes: &WeightShapes) -> Result<Vec<Matrix>> {
        match self {
            Self::Full(heads) if shapes.attention.full_layers_share_k => {
                heads.matrices(shapes, Values::AsKeys)
            }
            Self::Full(heads) => heads.matrices(shapes, Values::Projected),
            Self::Sliding { heads, .. } | Self::Chunked { heads, .. } => {
                heads.matrices(shapes, Values::Projected)
            }
            Self::Cross { heads, .. } => heads.cross_matrices(shapes),
            Self::IndexedFull(heads, index) => {
                let mut all = heads.matrices(shapes, Values::Projected)?;
                all.extend(index.matrices(shapes)?);
                Ok(all)
            }
            Self::Mla(latent) => latent.matrices(shapes),
            Self::Dsa { latent, index, .. } => {
                let mut all = latent.matrices(shapes)?;
                if let Some(index) = index {
                    all.extend(index.matrices(shapes)?);
                }
                Ok(all)
            }
            Self::Compressed(attention) => attention.matrices(shapes),
            Self::Recurrent(recurrent) => recurrent.matrices(shapes),
            Self::None => Ok(Vec::new()),
        }
    }
}

impl Heads {
    fn matrices(&self, shapes: &WeightShapes, values: Values) -> Result<Vec<Matrix>> {
        let hidden = shapes.hidden.get();
        let query = query_heads(self.query_heads.as_ref())?;
        let (k_width, v_width) = (self.k_width.get(), self.v_width.get());
        let mut all = vec![
            Matrix::projection("q", hidden, wide(query, k_width)?),
            Matrix::projection("k", hidden, wide(self.kv_heads.get(), k_width)?),
        ];
        if values == Values::Projected {
            all.push(Matrix::projection("v", hidden, wide(self.kv_heads.get(), v_width)?));
        }
        if shapes.attention.gates_output {
            all.push(Matrix::projection("gate", hidden, wide(query, v_width)?));
        }
        all.push(Matrix::projection("o", wide(query, v_width)?, hidden));
        Ok(all)
    }
}

impl Heads {
    /// K and V are made of the encoder's output, as wide as the layers.
    fn cross_matrices(&self, shapes: &WeightShapes) -> Result<Vec<Matrix>> {
        let all = self.matrices(shapes, Values::Projected)?.into_iter();
        let of = |matrix: &Matrix| if matrix.makes_state() { Part::EncoderProjections } else { matrix.part };
        Ok(all.map(|matrix| Matrix { part: of(&matrix), ..matrix }).collect())
    }
}

impl Latent {
    fn matrices(&self, shapes: &WeightShapes) -> Result<Vec<Matrix>> {
        let hidden = shapes.hidden.get();
        let heads = query_heads(self.query_heads.as_ref())?;
        let nope = needed(self.nope.as_ref(), "qk_nope_head_dim")?;
        let v_width = needed(self.v_width.as_ref(), "v_head_dim")?;
        let (rank, rope) = (self.rank.get(), self.rope.get());
        let mut all = queries(shapes, wide(heads, nope + rope)?);
        all.push(Matrix::projection("kv_a", hidden, rank + rope));
        all.push(Matrix::projection("kv_b", rank, wide(heads, nope + v_width)?));
        if shapes.attention.gates_output {
            all.push(Matrix::projection("gate", hidden, wide(heads, v_width)?));
        }
        all.push(Matrix::projection("o", wide(heads, v_width)?, hidden));
        Ok(all)
    }
}

impl IndexKeys {
    /// Queries of the indexer from the low-rank queries, its keys, and a weight for each head.
    fn matrices(&self, shapes: &WeightShapes) -> Result<Vec<Matrix>> {
        let mut all = self.query_matrices(shapes)?;
        let keys = wide(self.heads.get(), self.width.get())?;
        all.push(Matrix::projection("index k", shapes.hidden.get(), keys));
        Ok(all)
    }

    fn query_matrices(&self, shapes: &WeightShapes) -> Result<Vec<Matrix>> {
        let hidden = shapes.hidden.get();
        let heads = needed(self.query_heads.as_ref(), "index_n_heads")?;
        let from = shapes.attention.query_rank.as_ref().map_or(hidden, Fact::get);
        Ok(vec![
            Matrix::projection("index q", from, wide(heads, self.width.get())?),
            Matrix::projection("index weights", hidden, heads),
        ])
    }
}

impl CompressedAttention {
    /// DeepSeek-V4: low-rank queries, one K/V vector, grouped low-rank outputs; a compressor makes values and weights of
    /// each token, twice where groups overlap, and the indexer has a compressor of its own. CSA2 makes its index keys of the
    /// entries, and a ratio of 1 needs no weights (vLLM 0.33, `models/deepseek_v4`).
    fn matrices(&self, shapes: &WeightShapes) -> Result<Vec<Matrix>> {
        let hidden = shapes.hidden.get();
        let width = self.width.get();
        let heads = query_heads(self.query_heads.as_ref())?;
        let mut all = queries(shapes, wide(heads, width)?);
        all.push(Matrix::projection("kv", hidden, width));
        match &shapes.attention.output {
            Some((rank, groups)) => {
                all.push(Matrix::projection(
                    "o_a",
                    wide(heads, width)? / groups.get().max(1),
                    wide(groups.get(), rank.get())?,
                ));
                all.push(Matrix::projection("o_b", wide(groups.get(), rank.get())?, hidden));
            }
            None => all.push(Matrix::projection("o", wide(heads, width)?, hidden)),
        }
        let Some(branch) = &self.compression else { return Ok(all) };
        let compress = |name, width: u64, overlap: u64, sides: u64| {
            Matrix::projection(name, hidden, width * overlap).times(sides, sides)
        };
        match (&branch.rows, branch.own_store) {
            (Some(_), _) => {
                let overlap = if branch.index.is_some() { 2 } else { 1 };
                all.push(compress("compressor", width, overlap, 2));
                if let Some(index) = &branch.index {
                    all.push(compress("index compressor", index.width.get(), overlap, 2));
                }
            }
            (None, true) => {
                let sides = if branch.ratio.get() > 1 { 2 } else { 1 };
                all.push(compress("compressor", width, 1, sides));
                if let Some(index) = &branch.index {
                    all.push(Matrix::projection("index k", width, index.width.get()));
                }
            }
            (None, false) => {}
        }
        let keys = branch.index.as_ref().or(branch.reindex.as_ref().map(|other| &other.keys));
        if let Some(keys) = keys {
            all.extend(keys.query_matrices(shapes)?);
        }
        Ok(all)
    }
}

impl Recurrent {
    fn matrices(&self, shapes: &WeightShapes) -> Result<Vec<Matrix>> {
        let hidden = shapes.hidden.get();
        let channels = self.conv.as_ref().map_or(0, |conv| conv.channels.get());
        let mut all = match &self.recurrence {
            // q, k and v pass the convolution; z gates the output; a and b are a number a head.
            Recurrence::GatedDeltaNet { v_heads, v_dim, .. } => {
                let values = wide(v_heads.get(), v_dim.get())?;
                vec![
                    Matrix::projection("qkv", hidden, channels),
                    Matrix::projection("z", hidden, values),
                    Matrix::projection("a and b", hidden, 2 * v_heads.get()),
                    Matrix::projection("out", values, hidden),
                ]
            }
            // Decay and output gate go through one head's width, unless the gate is whole; b is a number a head.
            Recurrence::Kda { heads, dim } => {
                let values = wide(heads.get(), dim.get())?;
                let low_rank = if shapes.recurrence.gate_is_whole { 1 } else { 2 };
                let mut all = vec![
                    Matrix::projection("q, k and v", hidden, values).times(3, 3),
                    Matrix::projection("gates_a", hidden, dim.get()).times(low_rank, low_rank),
                    Matrix::projection("gates_b", dim.get(), values).times(low_rank, low_rank),
                    Matrix::projection("b", hidden, heads.get()),
                    Matrix::projection("out", values, hidden),
                ];
                if shapes.recurrence.gate_is_whole {
                    all.push(Matrix::projection("gate", hidden, values));
                }
                all
            }
            Recurrence::Mamba1 { d_inner, d_state } => {
                let inner = d_inner.get();
                let rank = shapes.recurrence.step_rank.as_ref().map_or(hidden.div_ceil(16), Fact::get);
                vec![
                    Matrix::projection("x and z", hidden, 2 * inner),
                    Matrix::projection("dt, B and C", inner, rank + 2 * d_state.get()),
                    Matrix::projection("dt", rank, inner),
                    Matrix::new(Part::Recurrence, "A", inner, d_state.get()),
                    Matrix::projection("out", inner, hidden),
                ]
            }
            Recurrence::Mamba2 { heads, head_dim, .. } => {
                let inner = wide(heads.get(), head_dim.get())?;
                vec![
                    Matrix::projection("z", hidden, inner),
                    Matrix::projection("x, B and C", hidden, channels),
                    Matrix::projection("dt", hidden, heads.get()),
                    Matrix::projection("out", inner, hidden),
                ]
            }
            Recurrence::Lightning { heads, dim } => {
                let values = wide(heads.get(), dim.get())?;
                vec![
                    Matrix::projection("q, k and v", hidden, values).times(3, 3),
                    Matrix::projection("gate", hidden, values),
                    Matrix::projection("out", values, hidden),
                ]
            }
            Recurrence::ShortConv => vec![
                Matrix::projection("B, C and x", hidden, 3 * channels),
                Matrix::projection("out", channels, hidden),
            ],
        };
        all.extend(self.conv.as_ref().map(Conv::matrix));
        Ok(all)
    }
}

impl Conv {
    fn matrix(&self) -> Matrix {
        Matrix::new(Part::Convolution, "taps", self.kernel.get(), self.channels.get())
    }
}

/// Queries of `width` values, through a lower rank where there is one.
fn queries(shapes: &WeightShapes, width: u64) -> Vec<Matrix> {
    let hidden = shapes.hidden.get();
    match &shapes.attention.query_rank {
        None => vec![Matrix::projection("q", hidden, width)],
        Some(rank) => {
            vec![Matrix::projection("q_a", hidden, rank.get()), Matrix::projection("q_b", rank.get(), width)]
        }
    }
}

fn query_heads(heads: Option<&Fact>) -> Result<u64> {
    needed(heads, "num_attention_heads")
}

fn needed(fact: Option<&Fact>, field: &str) -> Result<u64> {
    let missing = || Error::field(field, "the config does not say it, and the count of parameters needs it");
    fact.map(Fact::get).ok_or_else(missing)
}

fn wide(heads: u64, width: u64) -> Result<u64> {
    heads.checked_mul(width).ok_or_else(super::product::overflow)
}
