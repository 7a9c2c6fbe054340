//! Attention to every token: heads, latents (MLA), and either with an indexer (DSA).

use super::{HeadSet, Shapes};
use crate::config::fields::{LATENT_NOPES, LATENT_RANKS, LATENT_ROPES, LATENT_VALUES, QUERY_HEADS};
use crate::fact::Fact;
use crate::mixer::{IndexKeys, IndexLayout, Latent, Mixer};
use crate::warning::Warning;
use crate::{Error, Result};

/// Widths inside a query that latents alone have.
const OF_LATENTS: [[&str; 2]; 2] = [LATENT_ROPES, LATENT_NOPES];

impl Shapes<'_, '_> {
    /// Heads, MLA or DSA.
    pub(super) fn full(&self, index: usize, warnings: &mut Vec<Warning>) -> Result<Mixer> {
        let Some(rank) = self.latent_rank(warnings)? else {
            let heads = self.heads(HeadSet::Full, index, warnings)?;
            return Ok(match self.pooled_indexer(warnings)? {
                Some(index) => Mixer::IndexedFull(heads, index),
                None => Mixer::Full(heads),
            });
        };
        let latent = Latent {
            rank,
            rope: self.rope()?,
            query_heads: self.fields.count_any(&QUERY_HEADS)?,
            nope: self.fields.count_any(&LATENT_NOPES)?,
            v_width: self.fields.count_any(&LATENT_VALUES)?,
        };
        if !self.fields.has("index_head_dim")
            && !self.fields.has("index_topk")
            && self.fields.model_type() != Some("hy_v4")
        {
            return Ok(Mixer::Mla(latent));
        }
        let owns = self.indexers.as_ref().is_none_or(|owners| owners[index]);
        if self.fields.list("indexer_types")?.is_none() && self.indexers.is_some() {
            let what =
                "absent; layers own index keys as index_topk_pattern, index_topk_freq or the class says";
            warnings.push(Warning::new(self.fields.path_of("indexer_types"), what));
        }
        // `dsa_layer_skips_topk` of SGLang 0.5.23 (`configs/model_config.py`); no other reader of the field is known.
        if let Some(every) = self.fields.count("cli_factor")?.filter(|every| every.get() > 1) {
            let what = format!(
                "{}: SGLang keeps index keys in one of so many layers; every layer's are counted, which errs high",
                every.get()
            );
            warnings.push(Warning::new(self.fields.path_of("cli_factor"), what));
        }
        let top_k = self.top_k("index_topk", "token", warnings)?;
        let index = if owns {
            Some(IndexKeys {
                width: self.fields.require(&["index_head_dim"], "an indexer")?,
                heads: Fact::layout(1, "one key for all index heads"),
                query_heads: self.fields.count("index_n_heads")?,
                pool: self
                    .fields
                    .count("index_kpool")?
                    .unwrap_or_else(|| Fact::layout(1, "a key for every token")),
                layout: IndexLayout::Dsa,
                top_k: top_k.clone(),
            })
        } else {
            None
        };
        Ok(Mixer::Dsa { latent, index, top_k })
    }

    /// The indexer of attention with heads (Qwen's `qwen4_exp`): one key for every `indexer_compress_ratio` tokens.
    fn pooled_indexer(&self, warnings: &mut Vec<Warning>) -> Result<Option<IndexKeys>> {
        let Some(width) = self.fields.count("indexer_head_dim")? else { return Ok(None) };
        Ok(Some(IndexKeys {
            width,
            heads: self.fields.count("indexer_kv_heads")?.unwrap_or_else(|| Fact::layout(1, "one key head")),
            query_heads: self.fields.count("indexer_n_heads")?,
            pool: self
                .fields
                .count("indexer_compress_ratio")?
                .unwrap_or_else(|| Fact::layout(1, "a key for every token")),
            layout: IndexLayout::Plain,
            top_k: self.top_k("indexer_budget", "token", warnings)?,
        }))
    }

    /// The part of a latent that carries positions; 0 is a width of its own.
    fn rope(&self) -> Result<Fact> {
        for key in LATENT_ROPES {
            if let Some(stated) = self.fields.number(key)? {
                return Ok(stated);
            }
        }
        let what = "missing, and MLA needs it; no default is defined";
        Err(Error::field(self.fields.path_of(LATENT_ROPES[0]), what))
    }

    /// The rank of MLA's latents; none where attention has heads. A config with MLA's other fields is never sized by its
    /// head counts, which are those of the queries.
    fn latent_rank(&self, warnings: &mut Vec<Warning>) -> Result<Option<Fact>> {
        const RANK: &str = LATENT_RANKS[0];
        let fields = self.fields;
        if LATENT_RANKS.iter().any(|key| fields.has(key)) {
            return fields.require(&LATENT_RANKS, "MLA").map(Some);
        }
        // Small DeepSeek-VL2 models switch MLA off and say null.
        if matches!(fields.flag("use_mla")?, Some((_, false))) {
            return Ok(None);
        }
        if let Some(default) = fields.count(RANK)?.filter(|_| !fields.is_null(RANK)) {
            let what = format!("absent; {} is taken, the default of its class", default.get());
            warnings.push(Warning::new(fields.path_of(RANK), what));
            return Ok(Some(default));
        }
        let stated = OF_LATENTS.into_iter().flatten().find_map(|key| {
            fields.find(key).filter(|(_, value)| value.as_u64().is_some_and(|width| width > 0))
        });
        let Some((other, _)) = stated else { return Ok(None) };
        let state = if fields.is_null(RANK) { "null" } else { "missing" };
        let what =
            format!("{state}, but {other} says that latents are kept (MLA), which need it; give the rank");
        Err(Error::field(fields.path_of(RANK), what))
    }

    /// How many tokens or entries an indexer chooses.
    pub(super) fn top_k(&self, key: &str, read: &str, warnings: &mut Vec<Warning>) -> Result<Option<Fact>> {
        let top_k = self.fields.count(key)?;
        if top_k.is_none() {
            let state = if self.fields.zero(&[key]).is_some() { "0" } else { "absent" };
            let what = format!("{state}; a decode step is taken to read every {read}");
            warnings.push(Warning::new(self.fields.path_of(key), what));
        }
        Ok(top_k)
    }
}
