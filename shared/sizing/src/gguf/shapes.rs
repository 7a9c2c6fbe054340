//! The shape of each layer: heads, latents, indexers, states.

use super::class_rules;
use super::keys::{Keys, PerLayer};
use super::layers::Reach;
use crate::config::{csa, hca, kda_mixer, product, sum, uneven};
use crate::fact::Fact;
use crate::mixer::{
    CompressedAttention, Conv, Generation, Heads, IndexKeys, IndexLayout, Latent, Mixer, Recurrence,
    Recurrent,
};
use crate::warning::Warning;
use crate::{Error, Result};

const QUERY_HEADS: &str = "attention.head_count";
const KV_HEADS: &str = "attention.head_count_kv";

/// Reads shapes; keys that give one value a layer are read once.
#[derive(Debug)]
pub(super) struct Shapes<'k, 'm> {
    keys: &'k Keys<'m>,
    query_heads: Option<PerLayer>,
    kv_heads: Option<PerLayer>,
    compress_ratios: Option<PerLayer>,
    indexers: Option<PerLayer>,
    latent: Option<Latent>,
}

impl<'k, 'm> Shapes<'k, 'm> {
    pub(super) fn new(
        keys: &'k Keys<'m>,
        all: usize,
        own: usize,
        warnings: &mut Vec<Warning>,
    ) -> Result<Self> {
        let query_heads = keys.per_layer(QUERY_HEADS, all)?;
        let mut kv_heads = keys.per_layer(KV_HEADS, all)?;
        if kv_heads.is_none() && query_heads.is_some() {
            let has_heads =
                query_heads.as_ref().is_some_and(|heads| (0..all).any(|layer| heads.at(layer).get() > 0));
            if has_heads && !keys.has("attention.kv_lora_rank") {
                warnings.push(Warning::new(
                    keys.name(KV_HEADS),
                    "absent; every query head keeps K and V of its own (MHA)",
                ));
            }
            kv_heads.clone_from(&query_heads);
        }
        refuse_no_heads(query_heads.as_ref(), kv_heads.as_ref())?;
        warn_of_uneven_heads(keys, own, [query_heads.as_ref(), kv_heads.as_ref()], warnings)?;
        // Owners are listed for the model's own layers alone.
        let indexers = keys.per_layer("attention.indexer.types", own)?;
        let latent = latent(keys, query_heads.as_ref(), warnings)?;
        if indexers.is_none() && latent.is_some() {
            warn_of_shared_indexers(keys, warnings)?;
        }
        Ok(Self {
            keys,
            query_heads,
            kv_heads,
            compress_ratios: keys.per_layer("attention.compress_ratios", own)?,
            indexers,
            latent,
        })
    }

    pub(super) fn kv_heads(&self) -> Option<&PerLayer> {
        self.kv_heads.as_ref()
    }

    /// The attention of one layer; none where it has no K/V heads.
    pub(super) fn attention(&self, index: usize, reach: &Reach) -> Result<Option<Mixer>> {
        if let Some(heads) = &self.kv_heads
            && heads.at(index).get() == 0
        {
            return Ok(None);
        }
        let mixer = match (&self.latent, reach) {
            (Some(latent), Reach::Full) => self.latent_attention(latent, index)?,
            (Some(_), _) => {
                return Err(Error::field(
                    self.keys.name("attention.sliding_window"),
                    "a sliding window over latents is not modelled, and it is not sized as something else",
                ));
            }
            (None, Reach::Window(window)) if self.is_compressed() => {
                Mixer::Compressed(self.compressed(index, window.clone())?)
            }
            (None, Reach::Full) => self.full(index)?,
            (None, Reach::Window(window)) => {
                let heads = self.heads(index, &["attention.key_length_swa", "attention.value_length_swa"])?;
                Mixer::Sliding { heads, window: window.clone() }
            }
            (None, Reach::Chunk(chunk)) => {
                Mixer::Chunked { heads: self.heads(index, &[])?, chunk: chunk.clone() }
            }
        };
        Ok(Some(mixer))
    }

    /// KDA, a short convolution, gated DeltaNet, lightning or Mamba, by the keys that give its shape.
    pub(super) fn recurrent(&self, index: usize) -> Result<Recurrent> {
        let keys = self.keys;
        if let Some(dim) = keys.count("kda.head_dim")? {
            let heads = self.query_heads_of(index, "KDA")?;
            return kda_mixer(heads, dim, keys.require("ssm.conv_kernel", "KDA")?);
        }
        if let Some(kernel) = keys.count("shortconv.l_cache")? {
            let channels = keys.require("embedding_length", "a short convolution")?;
            let conv = Some(Conv { kernel, channels });
            return Ok(Recurrent { recurrence: Recurrence::ShortConv, conv });
        }
        let Some(d_state) = keys.count("ssm.state_size")? else {
            let heads = self.query_heads_of(index, "lightning attention")?;
            let dim = self.width(&["attention.key_length"])?;
            return Ok(Recurrent { recurrence: Recurrence::Lightning { heads, dim }, conv: None });
        };
        let kernel = keys.require("ssm.conv_kernel", "a recurrent layer")?;
        let inner = keys.require("ssm.inner_size", "a recurrent layer")?;
        let Some(groups) = keys.count("ssm.group_count")? else {
            let conv = Some(Conv { kernel, channels: inner.clone() });
            return Ok(Recurrent { recurrence: Recurrence::Mamba1 { d_inner: inner, d_state }, conv });
        };
        let heads = keys.require("ssm.time_step_rank", "a recurrent layer")?;
        if !inner.get().is_multiple_of(heads.get()) {
            return Err(Error::field(
                inner.source().to_string(),
                format!(
                    "{} channels are no multiple of {} heads ({})",
                    inner.get(),
                    heads.get(),
                    heads.source()
                ),
            ));
        }
        let width =
            Fact::derived(inner.get() / heads.get(), format!("{} / {}", inner.source(), heads.source()));
        let channels = sum(&[inner.get(), product(&[2, groups.get(), d_state.get()])?])?;
        let rule = format!("{} + 2 × {} × {}", inner.source(), groups.source(), d_state.source());
        let recurrence = if self.is_delta_net() {
            Recurrence::GatedDeltaNet { v_heads: heads, v_dim: width, k_dim: d_state }
        } else {
            Recurrence::Mamba2 { heads, head_dim: width, d_state, groups }
        };
        Ok(Recurrent { recurrence, conv: Some(Conv { kernel, channels: Fact::derived(channels, rule) }) })
    }

    /// The convolution over n-gram embeddings that some layers have beside their own mixer (Qwen's `qwen4exp`): its taps
    /// are an n-gram apart, over every stream of the residual.
    pub(super) fn ngram_convolution(&self, index: usize) -> Result<Option<Recurrent>> {
        let keys = self.keys;
        if !keys.numbers("ple.layers")?.contains(&(index as u64)) {
            return Ok(None);
        }
        let needed = "the convolution over n-gram embeddings";
        let kernel = keys.require("ple.conv_kernel", needed)?;
        let ngram = keys.require("ple.ngram_size", needed)?;
        let streams = keys.require("hyper_connection.count", needed)?;
        let width = keys.require("embedding_length", needed)?;
        let rule = format!("{} × {} × {}", ngram.source(), streams.source(), width.source());
        let channels = Fact::derived(product(&[ngram.get(), streams.get(), width.get()])?, rule);
        Ok(Some(Recurrent { recurrence: Recurrence::ShortConv, conv: Some(Conv { kernel, channels }) }))
    }

    /// The keys of gated DeltaNet and Mamba-2 are the same, and so are their bytes; an interval of full attention tells
    /// them apart.
    fn is_delta_net(&self) -> bool {
        self.keys.has("full_attention_interval")
            || class_rules::full_attention_interval(self.keys.architecture()).is_some()
    }

    /// DeepSeek-V4 states ratios and has neither latents nor a recurrence; Qwen's indexed attention has a recurrence.
    fn is_compressed(&self) -> bool {
        self.compress_ratios.is_some() && !self.keys.has("ssm.state_size")
    }

    fn full(&self, index: usize) -> Result<Mixer> {
        let heads = self.heads(index, &[])?;
        let Some(width) = self.keys.count("attention.indexer.key_length")? else {
            return Ok(Mixer::Full(heads));
        };
        let pool = match &self.compress_ratios {
            Some(ratios) => ratios.at(index),
            None => Fact::layout(1, "a key for every token"),
        };
        if pool.get() == 0 {
            return Ok(Mixer::Full(heads));
        }
        let keys = IndexKeys {
            width,
            heads: Fact::layout(1, "one key head"),
            query_heads: self.keys.count("attention.indexer.head_count")?,
            pool,
            layout: IndexLayout::Plain,
            top_k: self.keys.count("attention.indexer.top_k")?,
        };
        Ok(Mixer::IndexedFull(heads, keys))
    }

    fn latent_attention(&self, latent: &Latent, index: usize) -> Result<Mixer> {
        let mut latent = latent.clone();
        latent.query_heads = self.query_heads.as_ref().map(|heads| heads.at(index));
        let Some(width) = self.keys.count("attention.indexer.key_length")? else {
            return Ok(Mixer::Mla(latent));
        };
        let top_k = self.keys.count("attention.indexer.top_k")?;
        let owns = self.indexers.as_ref().is_none_or(|owners| owners.at(index).get() != 0);
        let own_keys = IndexKeys {
            width,
            heads: Fact::layout(1, "one key for all index heads"),
            query_heads: self.keys.count("attention.indexer.head_count")?,
            pool: self
                .keys
                .count("attention.indexer.kpool")?
                .unwrap_or_else(|| Fact::layout(1, "a key for every token")),
            layout: IndexLayout::Dsa,
            top_k: top_k.clone(),
        };
        Ok(Mixer::Dsa { latent, index: owns.then_some(own_keys), top_k })
    }

    fn compressed(&self, index: usize, window: Fact) -> Result<CompressedAttention> {
        let keys = self.keys;
        let needed = "compressed attention";
        let width = keys.require("attention.key_length", needed)?;
        let ratio = self.compress_ratios.as_ref().expect("ratios are there where this is chosen").at(index);
        let compression = match ratio.get() {
            0 => None,
            4 => {
                let index_keys = IndexKeys {
                    width: keys.require("attention.indexer.key_length", "CSA")?,
                    heads: Fact::layout(1, "one key for all index heads"),
                    query_heads: keys.count("attention.indexer.head_count")?,
                    pool: ratio.clone(),
                    layout: IndexLayout::Csa,
                    top_k: keys.count("attention.indexer.top_k")?,
                };
                Some(csa(ratio, &width, index_keys)?)
            }
            128 => Some(hca(ratio, &width)?),
            other => {
                return Err(Error::field(
                    ratio.source().to_string(),
                    format!("unknown compression ratio {other}; known: 4 (CSA), 128 (HCA)"),
                ));
            }
        };
        Ok(CompressedAttention {
            width,
            rope: keys.require("rope.dimension_count", needed)?,
            query_heads: self.query_heads.as_ref().map(|heads| heads.at(index)),
            window,
            compression,
            generation: Generation::V4,
        })
    }

    /// K and V of one layer; `own` are the width keys that its kind has for itself, K first.
    fn heads(&self, index: usize, own: &[&str]) -> Result<Heads> {
        let query_heads = self.query_heads_of(index, "attention")?;
        let kv_heads = self.kv_heads.as_ref().map_or_else(|| query_heads.clone(), |heads| heads.at(index));
        if kv_heads.get() > query_heads.get() {
            return Err(Error::field(
                kv_heads.source().to_string(),
                format!(
                    "{} K/V heads, but only {} query heads ({})",
                    kv_heads.get(),
                    query_heads.get(),
                    query_heads.source()
                ),
            ));
        }
        let of = |position: usize, plain| {
            let special = own.get(position).copied();
            self.width(&special.into_iter().chain([plain]).collect::<Vec<_>>())
        };
        Ok(Heads {
            k_width: of(0, "attention.key_length")?,
            v_width: of(1, "attention.value_length")?,
            query_heads: Some(query_heads),
            kv_heads,
        })
    }

    /// The first of some width keys, else the width that the residual stream leaves for each head.
    fn width(&self, keys: &[&str]) -> Result<Fact> {
        for key in keys {
            if let Some(fact) = self.keys.count(key)? {
                return Ok(fact);
            }
        }
        let absent = keys.last().copied().unwrap_or_default();
        let embedding = self.keys.require("embedding_length", absent)?;
        let heads = self.query_heads_of(0, absent)?;
        match embedding.get() / heads.get() {
            0 => Err(Error::field(
                embedding.source().to_string(),
                format!("{} is smaller than {} heads", embedding.get(), heads.get()),
            )),
            width => {
                let rule = format!("{absent} absent: {} / {}", embedding.source(), heads.source());
                Ok(Fact::derived(width, rule))
            }
        }
    }

    fn query_heads_of(&self, index: usize, needed_for: &str) -> Result<Fact> {
        let fact = self.query_heads.as_ref().map(|heads| heads.at(index)).filter(|fact| fact.get() > 0);
        fact.ok_or_else(|| {
            let key = self
                .query_heads
                .as_ref()
                .map_or_else(|| self.keys.name(QUERY_HEADS), |heads| heads.key().to_owned());
            Error::field(key, format!("no heads for layer {index}, and {needed_for} needs them"))
        })
    }
}

/// K/V heads and groups of a recurrence that do not divide the heads that share them, as in a config.
fn warn_of_uneven_heads(
    keys: &Keys<'_>,
    own: usize,
    [query, kv]: [Option<&PerLayer>; 2],
    warnings: &mut Vec<Warning>,
) -> Result<()> {
    let of_layer = |index| {
        let (query, kv) = (query?.at(index), kv?.at(index));
        let has_both = kv.get() > 0 && query.get() > 0;
        has_both.then(|| uneven((&kv, "K/V heads"), (&query, "query heads"))).flatten()
    };
    // What one count says of every layer is said once.
    let layers =
        if kv.is_some_and(PerLayer::is_list) || query.is_some_and(PerLayer::is_list) { own } else { 1 };
    warnings.extend((0..layers).filter_map(of_layer));
    if let (Some(groups), Some(heads)) = (keys.count("ssm.group_count")?, keys.count("ssm.time_step_rank")?) {
        warnings.extend(uneven((&groups, "groups"), (&heads, "heads")));
    }
    Ok(())
}

/// Layers without K/V heads are listed one by one. One 0 for all of them beside query heads is no count, as in a config.
fn refuse_no_heads(query_heads: Option<&PerLayer>, kv_heads: Option<&PerLayer>) -> Result<()> {
    let none = |heads: &&PerLayer| !heads.is_list() && heads.at(0).get() == 0;
    let (Some(query), Some(kv)) = (query_heads, kv_heads.filter(none)) else { return Ok(()) };
    if none(&query) {
        return Ok(());
    }
    let what = format!("0, but {} counts query heads; a model has at least one", query.key());
    Err(Error::field(kv.key().to_owned(), what))
}

/// The latent that all layers have in common. Its rotary part is what a cached row holds beyond the rank.
fn latent(
    keys: &Keys<'_>,
    query_heads: Option<&PerLayer>,
    warnings: &mut Vec<Warning>,
) -> Result<Option<Latent>> {
    let Some(rank) = keys.count("attention.kv_lora_rank")? else { return Ok(None) };
    let stated_rope = keys.number("rope.dimension_count")?;
    let row = keys.count("attention.key_length")?;
    let (rope, k_width, v_width) = if let Some(k_width) = keys.count("attention.key_length_mla")? {
        let row = row.map_or_else(|| keys.require("attention.key_length", "MLA"), Ok)?;
        let rope = difference(&row, &rank)?;
        if let Some(stated) = stated_rope.filter(|stated| stated.get() != rope.get()) {
            warnings.push(Warning::new(
                stated.source().to_string(),
                format!(
                    "{} rotary values, but a cached row of {} leaves {} beside the latent; the row is taken",
                    stated.get(),
                    row.get(),
                    rope.get()
                ),
            ));
        }
        (rope, Some(k_width), keys.count("attention.value_length_mla")?)
    } else {
        let what = "absent, as in files of before 2025-04 and in some classes; logical bytes count a latent, while llama.cpp \
                    keeps K and V of every head for such a file (mla_storage = expanded)";
        warnings.push(Warning::new(keys.name("attention.key_length_mla"), what));
        let rope = stated_rope.ok_or_else(|| {
            Error::field(
                keys.name("rope.dimension_count"),
                "missing, and MLA needs it; no default is defined",
            )
        })?;
        let v_width = match keys.count("attention.value_length")? {
            None => {
                query_heads.and_then(|heads| embedding_of_head(keys, &heads.at(0)).transpose()).transpose()?
            }
            stated => stated,
        };
        (rope, row, v_width)
    };
    let nope = k_width.map(|width| difference(&width, &rope)).transpose()?;
    let query_heads = query_heads.map(|heads| heads.at(0));
    Ok(Some(Latent { rank, rope, query_heads, nope, v_width }))
}

/// What the residual stream leaves for each head, which is the width of V where a file names none.
fn embedding_of_head(keys: &Keys<'_>, heads: &Fact) -> Result<Option<Fact>> {
    let Some(embedding) = keys.count("embedding_length")? else { return Ok(None) };
    let rule = format!("attention.value_length absent: {} / {}", embedding.source(), heads.source());
    let width = embedding.get().checked_div(heads.get()).filter(|width| *width > 0);
    Ok(width.map(|width| Fact::derived(width, rule)))
}

fn difference(from: &Fact, part: &Fact) -> Result<Fact> {
    let rule = format!("{} − {}", from.source(), part.source());
    from.get().checked_sub(part.get()).map(|value| Fact::derived(value, rule)).ok_or_else(|| {
        Error::field(
            from.source().to_string(),
            format!("{} is less than {} ({})", from.get(), part.get(), part.source()),
        )
    })
}

fn warn_of_shared_indexers(keys: &Keys<'_>, warnings: &mut Vec<Warning>) -> Result<()> {
    let Some(from) = class_rules::shares_indexers_from(keys.architecture()) else { return Ok(()) };
    if keys.count("context_length")?.is_some_and(|context| context.get() >= from) {
        warnings.push(Warning::new(
            keys.name("attention.indexer.types"),
            "absent, so every layer is taken to own index keys; llama.cpp lets most layers share them, so this errs high",
        ));
    }
    Ok(())
}
