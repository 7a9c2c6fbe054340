//! Shapes of compressed attention: CSA, HCA, CSA2 and their window branch.

use super::{QUERY_HEADS, Shapes, product, sum};
use crate::fact::{Fact, Source};
use crate::mixer::{
    CompressedAttention, Compression, CompressorRows, Generation, IndexKeys, IndexLayout, Reindex,
};
use crate::{Error, Result};

impl Shapes<'_, '_> {
    /// DeepSeek-V4's and V4.1's attention.
    pub(super) fn compressed(&self, ratio: u64, index: usize) -> Result<CompressedAttention> {
        let fields = self.fields;
        let needed = "compressed attention";
        let generation = if self.stores.is_some() { Generation::V41 } else { Generation::V4 };
        let width = fields.require(&["head_dim"], needed)?;
        let list = if fields.has("compress_ratios") { "compress_ratios" } else { "layer_types" };
        let ratio_source = Source::field(format!("{}[{index}]", fields.path_of(list)));
        let ratio = Fact::new(ratio, ratio_source);
        let compression = match (generation, ratio.get()) {
            (_, 0) => None,
            (Generation::V4, 4) => Some(csa(ratio.clone(), &width, self.csa_index(&ratio)?)?),
            (Generation::V4, 128) => Some(hca(ratio, &width)?),
            (Generation::V41, 1 | 2) => Some(self.csa2(ratio, index)?),
            (_, other) => {
                return Err(Error::field(
                    ratio.source().to_string(),
                    format!(
                        "unknown compression ratio {other}; known: 4 (CSA), 128 (HCA), 1 and 2 with kv_source_layer_ids (CSA2)"
                    ),
                ));
            }
        };
        Ok(CompressedAttention {
            width,
            rope: fields.require(&["qk_rope_head_dim"], needed)?,
            query_heads: fields.count_any(&QUERY_HEADS)?,
            window: fields.require(&["sliding_window"], needed)?,
            compression,
            generation,
        })
    }

    fn csa2(&self, ratio: Fact, index: usize) -> Result<Compression> {
        let keys = self.csa_index(&ratio)?;
        let (_, owners) = self.stores.as_ref().expect("CSA2 is chosen where the list is present");
        let own_store = owners.contains(&(index as u64));
        let scores_again = !own_store
            && self.index_sources.as_ref().is_some_and(|(_, layers)| layers.contains(&(index as u64)));
        let reindex = if scores_again {
            Some(Box::new(Reindex { keys: keys.clone(), candidates: self.candidates(index)? }))
        } else {
            None
        };
        Ok(Compression {
            own_store,
            reindex,
            top_k: keys.top_k.clone(),
            index: own_store.then_some(keys),
            ratio,
            rows: None,
        })
    }

    /// Keys that layers behind `candidate_source_layer_id` score: the blocks that it chose, and their width.
    fn candidates(&self, index: usize) -> Result<Option<Fact>> {
        let fields = self.fields;
        let Some(source) = fields.number("candidate_source_layer_id")? else { return Ok(None) };
        let (Some(blocks), Some(width)) =
            (fields.count("candidate_topk_blocks")?, fields.count("candidate_block_size")?)
        else {
            return Ok(None);
        };
        if index as u64 <= source.get() {
            return Ok(None);
        }
        let candidates = product(&[blocks.get(), width.get()])?;
        Ok(Some(Fact::derived(candidates, format!("{} × {}", blocks.source(), width.source()))))
    }

    fn csa_index(&self, ratio: &Fact) -> Result<IndexKeys> {
        Ok(IndexKeys {
            width: self.fields.require(&["index_head_dim"], "CSA")?,
            heads: Fact::layout(1, "one key for all index heads"),
            query_heads: self.fields.count("index_n_heads")?,
            pool: ratio.clone(),
            layout: IndexLayout::Csa,
            top_k: self.fields.count("index_topk")?,
        })
    }
}

/// A CSA branch with its own store and indexer.
pub(crate) fn csa(ratio: Fact, width: &Fact, index: IndexKeys) -> Result<Compression> {
    let rows = product(&[2, ratio.get()])?;
    let values = product(&[4, sum(&[width.get(), index.width.get()])?])?;
    Ok(Compression {
        own_store: true,
        reindex: None,
        top_k: index.top_k.clone(),
        rows: Some(CompressorRows {
            rows: Fact::derived(rows, "2 × ratio: groups overlap by one"),
            values: Fact::derived(
                values,
                "2 overlapping halves × (value + weight) × (head_dim + index_head_dim)",
            ),
        }),
        index: Some(index),
        ratio,
    })
}

/// An HCA branch: its own store, read in full.
pub(crate) fn hca(ratio: Fact, width: &Fact) -> Result<Compression> {
    let values = product(&[2, width.get()])?;
    Ok(Compression {
        own_store: true,
        reindex: None,
        index: None,
        top_k: None,
        rows: Some(CompressorRows {
            rows: Fact::derived(ratio.get(), "ratio: a whole group"),
            values: Fact::derived(values, "(value + weight) × head_dim"),
        }),
        ratio,
    })
}
