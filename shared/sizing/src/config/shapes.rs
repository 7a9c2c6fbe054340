//! The shape of each kind of layer: heads, widths, windows, states.

use super::fields::{Fields, whole_number};
use super::kinds::LayerKind;
use crate::fact::{Fact, Source};
use crate::mixer::{
    CompressedAttention, Compression, CompressorRows, Conv, Generation, Heads, IndexKeys, IndexLayout,
    Latent, Mixer, Recurrence, Recurrent,
};
use crate::warning::Warning;
use crate::{Error, Result};

const KV_HEADS: [&str; 4] = ["num_key_value_heads", "num_kv_heads", "n_head_kv", "num_attention_groups"];
const QUERY_HEADS: [&str; 5] =
    ["decoder_attention_heads", "num_attention_heads", "num_query_heads", "n_head", "n_heads"];
const HIDDEN: [&str; 4] = ["hidden_size", "model_dim", "n_embd", "d_model"];
const HEAD_WIDTHS: [&str; 4] = ["head_dim", "hidden_size_per_head", "attention_head_dim", "kv_channels"];

/// Which set of head fields a layer reads.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum HeadSet {
    /// The plain fields, or those of global layers where the config has them (Gemma 4).
    Full,
    /// The plain fields, or those of sliding layers where the config has them (MiMo-V2).
    Sliding,
}

/// Reads shapes; lists that give one value a layer are read once.
#[derive(Debug)]
pub(super) struct Shapes<'f, 'a> {
    fields: &'f Fields<'a>,
    kv_heads: Option<(String, Vec<u64>)>,
    query_heads: Option<(String, Vec<u64>)>,
    indexers: Option<Vec<bool>>,
    stores: Option<(String, Vec<u64>)>,
}

impl<'f, 'a> Shapes<'f, 'a> {
    pub(super) fn new(fields: &'f Fields<'a>, total: usize) -> Result<Self> {
        Ok(Self {
            fields,
            kv_heads: match per_layer(fields, &KV_HEADS, total)? {
                Some(list) => Some(list),
                None => block_config_heads(fields, total)?,
            },
            query_heads: per_layer(fields, &QUERY_HEADS, total)?,
            indexers: indexer_owners(fields, total)?,
            stores: fields.numbers("kv_source_layer_ids")?,
        })
    }

    /// Whether two layers of one kind can have different shapes.
    pub(super) fn vary_by_layer(&self) -> bool {
        self.kv_heads.is_some()
            || self.query_heads.is_some()
            || self.indexers.is_some()
            || self.stores.is_some()
    }

    pub(super) fn mixers(
        &self,
        kind: LayerKind,
        index: usize,
        warnings: &mut Vec<Warning>,
    ) -> Result<Vec<Mixer>> {
        let one = match kind {
            LayerKind::Full => self.full(index, warnings)?,
            LayerKind::Sliding => {
                let window =
                    self.fields.require(&["sliding_window", "sliding_window_size"], "a sliding layer")?;
                Mixer::Sliding { heads: self.heads(HeadSet::Sliding, index, warnings)?, window }
            }
            LayerKind::Chunked => {
                let chunk = self.fields.require(&["attention_chunk_size"], "a chunked layer")?;
                Mixer::Chunked { heads: self.heads(HeadSet::Full, index, warnings)?, chunk }
            }
            LayerKind::Linear => Mixer::Recurrent(self.linear()?),
            LayerKind::Lightning => Mixer::Recurrent(self.lightning(index, warnings)?),
            LayerKind::Mamba => Mixer::Recurrent(self.mamba()?),
            LayerKind::ShortConv => Mixer::Recurrent(self.short_conv()?),
            LayerKind::Compressed(ratio) => {
                if ratio > 0 && self.fields.has("index_head_dim") && !self.fields.has("index_topk") {
                    warnings.push(Warning::new(
                        self.fields.path_of("index_topk"),
                        "absent; a decode step is taken to read every compressed entry",
                    ));
                }
                Mixer::Compressed(self.compressed(ratio, index)?)
            }
            LayerKind::Cross => self.cross(index, warnings)?,
            LayerKind::SelfAndCross => {
                let own = Mixer::Full(self.heads(HeadSet::Full, index, warnings)?);
                return Ok(vec![own, self.cross(index, warnings)?]);
            }
            LayerKind::Parallel => {
                let attention = Mixer::Full(self.heads(HeadSet::Full, index, warnings)?);
                return Ok(vec![attention, Mixer::Recurrent(self.mamba()?)]);
            }
            LayerKind::None => return Ok(Vec::new()),
        };
        Ok(vec![one])
    }

    /// Heads, MLA or DSA.
    fn full(&self, index: usize, warnings: &mut Vec<Warning>) -> Result<Mixer> {
        if !self.fields.has("kv_lora_rank") {
            let heads = self.heads(HeadSet::Full, index, warnings)?;
            return Ok(match self.pooled_indexer()? {
                Some(index) => Mixer::IndexedFull(heads, index),
                None => Mixer::Full(heads),
            });
        }
        let latent = Latent {
            rank: self.fields.require(&["kv_lora_rank"], "MLA")?,
            rope: self.fields.number("qk_rope_head_dim")?.ok_or_else(|| {
                Error::field(
                    self.fields.path_of("qk_rope_head_dim"),
                    "missing, and MLA needs it; no default is defined",
                )
            })?,
            query_heads: self.fields.count_any(&QUERY_HEADS)?,
            nope: self.fields.count("qk_nope_head_dim")?,
            v_width: self.fields.count("v_head_dim")?,
        };
        if !self.fields.has("index_head_dim") && !self.fields.has("index_topk") {
            return Ok(Mixer::Mla(latent));
        }
        let owns = self.indexers.as_ref().is_none_or(|owners| owners[index]);
        if self.indexers.is_none()
            && self.fields.count("index_topk_freq")?.is_some_and(|every| every.get() > 1)
        {
            warnings.push(Warning::new(
                self.fields.path_of("index_topk_freq"),
                "indexer_types is absent, so every layer is taken to own index keys; that errs high",
            ));
        }
        let top_k = self.fields.count("index_topk")?;
        let index = if owns {
            Some(IndexKeys {
                width: self.fields.require(&["index_head_dim"], "an indexer")?,
                heads: Fact::layout(1, "one key for all index heads"),
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
    fn pooled_indexer(&self) -> Result<Option<IndexKeys>> {
        let Some(width) = self.fields.count("indexer_head_dim")? else { return Ok(None) };
        Ok(Some(IndexKeys {
            width,
            heads: self.fields.count("indexer_kv_heads")?.unwrap_or_else(|| Fact::layout(1, "one key head")),
            pool: self
                .fields
                .count("indexer_compress_ratio")?
                .unwrap_or_else(|| Fact::layout(1, "a key for every token")),
            layout: IndexLayout::Plain,
            top_k: self.fields.count("indexer_budget")?,
        }))
    }

    fn heads(&self, set: HeadSet, index: usize, warnings: &mut Vec<Warning>) -> Result<Heads> {
        let query_heads = match &self.query_heads {
            Some(list) => Some(entry(list, index)),
            None => self.fields.count_any(&QUERY_HEADS)?,
        };
        let kv_heads = self.kv_heads_of(set, index, query_heads.as_ref(), warnings)?;
        if let Some(query) = query_heads.as_ref().filter(|query| kv_heads.get() > query.get()) {
            return Err(Error::field(
                kv_heads.source().to_string(),
                format!(
                    "{} K/V heads, but only {} query heads ({})",
                    kv_heads.get(),
                    query.get(),
                    query.source()
                ),
            ));
        }
        if let Some(query) = query_heads.as_ref().filter(|query| !query.get().is_multiple_of(kv_heads.get()))
        {
            let message = format!("{} K/V heads do not divide {} query heads", kv_heads.get(), query.get());
            warnings.push(Warning::new(kv_heads.source().to_string(), message));
        }
        let k_width = self.k_width(set, query_heads.as_ref(), warnings)?;
        let v_width = self.special(set, [None, Some("swa_v_head_dim")])?;
        let v_width = match v_width {
            Some(width) => width,
            None => self.fields.count("v_head_dim")?.unwrap_or_else(|| k_width.clone()),
        };
        Ok(Heads { query_heads, kv_heads, k_width, v_width })
    }

    fn kv_heads_of(
        &self,
        set: HeadSet,
        index: usize,
        query_heads: Option<&Fact>,
        warnings: &mut Vec<Warning>,
    ) -> Result<Fact> {
        if let Some(fact) =
            self.special(set, [Some("num_global_key_value_heads"), Some("swa_num_key_value_heads")])?
        {
            return Ok(fact);
        }
        if let Some(list) = &self.kv_heads {
            return Ok(entry(list, index));
        }
        if let Some(fact) = self.fields.count_any(&KV_HEADS)? {
            return Ok(fact);
        }
        if let Some(nested) = self.fields.object("attn_config")?
            && let Some(fact) = nested.count("kv_n_heads")?
        {
            return Ok(fact);
        }
        let falcon = self.fields.flag("new_decoder_architecture")?.is_some_and(|(_, on)| on);
        for key in ["multi_query", "multi_query_attention"] {
            if let Some((path, true)) = self.fields.flag(key)? {
                if let Some(groups) = self.fields.count("multi_query_group_num")? {
                    return Ok(groups);
                }
                if !falcon {
                    return Ok(Fact::derived(1, format!("{path}: all query heads share one K/V head")));
                }
            }
        }
        let query = query_heads.ok_or_else(|| {
            Error::field(
                self.fields.path_of("num_attention_heads"),
                "missing, and so is num_key_value_heads; attention needs them, and no default is defined",
            )
        })?;
        let path = self.fields.path_of("num_key_value_heads");
        warnings.push(Warning::new(
            &path,
            format!("absent; every one of {} query heads keeps K and V (MHA)", query.get()),
        ));
        Ok(Fact::default(query.get(), path, format!("as many as query heads ({})", query.source())))
    }

    fn k_width(&self, set: HeadSet, query_heads: Option<&Fact>, warnings: &mut Vec<Warning>) -> Result<Fact> {
        if let Some(width) = self.special(set, [Some("global_head_dim"), Some("swa_head_dim")])? {
            return Ok(width);
        }
        if let Some(width) = self.fields.count_any(&HEAD_WIDTHS)? {
            return Ok(width);
        }
        let needed = "the width of a head";
        let hidden = self.fields.count_any(&HIDDEN)?.ok_or_else(|| {
            Error::field(
                self.fields.path_of("head_dim"),
                "missing, and so is hidden_size to derive it; no default is defined",
            )
        })?;
        let heads = match query_heads {
            Some(heads) => heads.clone(),
            None => self.fields.require(&QUERY_HEADS, needed)?,
        };
        let rule = format!("head_dim absent: {} / {}", hidden.source(), heads.source());
        if !hidden.get().is_multiple_of(heads.get()) {
            warnings.push(Warning::new(
                self.fields.path_of("head_dim"),
                format!(
                    "absent, and {} is no multiple of {} heads; {} is taken",
                    hidden.get(),
                    heads.get(),
                    hidden.get() / heads.get()
                ),
            ));
        }
        match hidden.get() / heads.get() {
            0 => Err(Error::field(
                hidden.source().to_string(),
                format!("{} is smaller than {} heads", hidden.get(), heads.get()),
            )),
            width => Ok(Fact::derived(width, rule)),
        }
    }

    /// The field that one set of layers has for itself: `[global layers, sliding layers]`.
    fn special(&self, set: HeadSet, keys: [Option<&str>; 2]) -> Result<Option<Fact>> {
        let key = match set {
            HeadSet::Full => keys[0],
            HeadSet::Sliding => keys[1],
        };
        key.map_or(Ok(None), |key| self.fields.count(key))
    }

    fn cross(&self, index: usize, warnings: &mut Vec<Warning>) -> Result<Mixer> {
        let heads = self.heads(HeadSet::Full, index, warnings)?;
        let encoder_tokens = self.fields.count_any(&["max_source_positions", "encoder_tokens"])?;
        Ok(Mixer::Cross { heads, encoder_tokens })
    }

    /// Gated DeltaNet or KDA, by the fields that give its shape.
    fn linear(&self) -> Result<Recurrent> {
        let fields = self.fields;
        if let Some(kda) = fields.object("linear_attn_config")? {
            let heads = kda.require(&["num_heads"], "KDA")?;
            let dim = kda.require(&["head_dim"], "KDA")?;
            let kernel = kda.require(&["short_conv_kernel_size"], "KDA")?;
            return kda_mixer(heads, dim, kernel);
        }
        if let Some(heads) = fields.count("linear_num_heads")? {
            let dim = fields.require(&["linear_head_dim"], "KDA")?;
            return kda_mixer(heads, dim, fields.require(&["linear_conv_kernel_dim"], "KDA")?);
        }
        if !fields.has("linear_num_value_heads") {
            return Err(Error::field(
                fields.path_of("linear_num_value_heads"),
                "missing, and a linear_attention layer needs its shape (linear_num_value_heads or linear_attn_config)",
            ));
        }
        let k_heads = fields.require(&["linear_num_key_heads"], "gated DeltaNet")?;
        let v_heads = fields.require(&["linear_num_value_heads"], "gated DeltaNet")?;
        let k_dim = fields.require(&["linear_key_head_dim"], "gated DeltaNet")?;
        let v_dim = fields.require(&["linear_value_head_dim"], "gated DeltaNet")?;
        let kernel = fields.require(&["linear_conv_kernel_dim"], "gated DeltaNet")?;
        let channels =
            sum(&[product(&[2, k_heads.get(), k_dim.get()])?, product(&[v_heads.get(), v_dim.get()])?])?;
        let rule =
            "2 × linear_num_key_heads × linear_key_head_dim + linear_num_value_heads × linear_value_head_dim";
        Ok(Recurrent {
            recurrence: Recurrence::GatedDeltaNet { v_heads, v_dim, k_dim },
            conv: Some(Conv { kernel, channels: Fact::derived(channels, rule) }),
        })
    }

    fn lightning(&self, index: usize, warnings: &mut Vec<Warning>) -> Result<Recurrent> {
        let heads = self.fields.require(&QUERY_HEADS, "lightning attention")?;
        let dim = self.k_width(HeadSet::Full, Some(&heads), warnings)?;
        let _ = index;
        Ok(Recurrent { recurrence: Recurrence::Lightning { heads, dim }, conv: None })
    }

    /// Mamba-2 where the config has heads, else Mamba-1.
    fn mamba(&self) -> Result<Recurrent> {
        let fields = self.fields;
        let d_state = fields.require(&["ssm_state_size", "mamba_d_state", "state_size"], "Mamba")?;
        let kernel = fields.require(&["conv_kernel", "mamba_d_conv"], "Mamba")?;
        let Some(heads) = fields.count_any(&["mamba_num_heads", "mamba_n_heads"])? else {
            let d_inner = self.d_inner()?;
            let conv = Conv { kernel, channels: d_inner.clone() };
            return Ok(Recurrent { recurrence: Recurrence::Mamba1 { d_inner, d_state }, conv: Some(conv) });
        };
        let head_dim = fields.require(&["mamba_head_dim", "mamba_d_head"], "Mamba-2")?;
        let groups = fields.require(&["n_groups", "mamba_n_groups"], "Mamba-2")?;
        let inner = product(&[heads.get(), head_dim.get()])?;
        let channels = sum(&[inner, product(&[2, groups.get(), d_state.get()])?])?;
        let rule = format!(
            "{} × {} + 2 × {} × {}",
            heads.source(),
            head_dim.source(),
            groups.source(),
            d_state.source()
        );
        Ok(Recurrent {
            recurrence: Recurrence::Mamba2 { heads, head_dim, d_state, groups },
            conv: Some(Conv { kernel, channels: Fact::derived(channels, rule) }),
        })
    }

    /// Channels of a Mamba-1 block.
    fn d_inner(&self) -> Result<Fact> {
        if let Some(fact) = self.fields.count_any(&["mamba_d_ssm", "d_inner"])? {
            return Ok(fact);
        }
        let expand = self.fields.require(&["mamba_expand", "expand"], "Mamba-1")?;
        let hidden = self.fields.require(&HIDDEN, "Mamba-1")?;
        let rule = format!("{} × {}", expand.source(), hidden.source());
        Ok(Fact::derived(product(&[expand.get(), hidden.get()])?, rule))
    }

    fn short_conv(&self) -> Result<Recurrent> {
        let kernel = self.fields.require(&["conv_L_cache"], "a short convolution")?;
        let channels = self.fields.require(&["conv_dim", "hidden_size"], "a short convolution")?;
        Ok(Recurrent { recurrence: Recurrence::ShortConv, conv: Some(Conv { kernel, channels }) })
    }

    /// DeepSeek-V4's and V4.1's attention.
    fn compressed(&self, ratio: u64, index: usize) -> Result<CompressedAttention> {
        let fields = self.fields;
        let needed = "compressed attention";
        let generation = if self.stores.is_some() { Generation::V41 } else { Generation::V4 };
        let width = fields.require(&["head_dim"], needed)?;
        let ratio_source = Source::Field { path: format!("{}[{index}]", fields.path_of("compress_ratios")) };
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
            window: fields.require(&["sliding_window"], needed)?,
            compression,
            generation,
        })
    }

    fn csa2(&self, ratio: Fact, index: usize) -> Result<Compression> {
        let keys = self.csa_index(&ratio)?;
        let (_, owners) = self.stores.as_ref().expect("CSA2 is chosen where the list is present");
        let own_store = owners.contains(&(index as u64));
        Ok(Compression {
            own_store,
            top_k: keys.top_k.clone(),
            index: own_store.then_some(keys),
            ratio,
            rows: None,
        })
    }

    fn csa_index(&self, ratio: &Fact) -> Result<IndexKeys> {
        Ok(IndexKeys {
            width: self.fields.require(&["index_head_dim"], "CSA")?,
            heads: Fact::layout(1, "one key for all index heads"),
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
        index: None,
        top_k: None,
        rows: Some(CompressorRows {
            rows: Fact::derived(ratio.get(), "ratio: a whole group"),
            values: Fact::derived(values, "(value + weight) × head_dim"),
        }),
        ratio,
    })
}

/// Kimi Delta Attention: convolutions over q, k and v.
pub(crate) fn kda_mixer(heads: Fact, dim: Fact, kernel: Fact) -> Result<Recurrent> {
    let channels = Fact::derived(product(&[3, heads.get(), dim.get()])?, "3 × heads × head_dim (q, k and v)");
    Ok(Recurrent { recurrence: Recurrence::Kda { heads, dim }, conv: Some(Conv { kernel, channels }) })
}

/// A field that gives one value a layer.
fn per_layer(fields: &Fields<'_>, keys: &[&str], total: usize) -> Result<Option<(String, Vec<u64>)>> {
    for key in keys {
        if !fields.find(key).is_some_and(|(_, value)| value.is_array()) {
            continue;
        }
        let Some((path, list)) = fields.numbers(key)? else { continue };
        if list.len() < total {
            return Err(Error::field(path, format!("{} entries for {total} layers", list.len())));
        }
        if let Some(zero) = list.iter().position(|heads| *heads == 0) {
            return Err(Error::field(
                format!("{path}[{zero}]"),
                "no heads; a layer without attention needs a layer kind",
            ));
        }
        return Ok(Some((path, list)));
    }
    Ok(None)
}

/// `block_configs[].attention.n_heads_in_group`: query heads that share one K/V head, layer by layer (Nemotron-NAS).
fn block_config_heads(fields: &Fields<'_>, total: usize) -> Result<Option<(String, Vec<u64>)>> {
    let Some((path, list)) = fields.list("block_configs")? else { return Ok(None) };
    let query = fields.require(&QUERY_HEADS, "block_configs")?.get();
    if list.len() < total {
        return Err(Error::field(path, format!("{} entries for {total} layers", list.len())));
    }
    let heads = list[..total]
        .iter()
        .enumerate()
        .map(|(index, block)| {
            let group = block.get("attention").and_then(|attention| attention.get("n_heads_in_group"));
            // A block without attention has no group; its kind says so.
            let Some(group) = group.filter(|group| !group.is_null()) else { return Ok(1) };
            let place = format!("{path}[{index}].attention.n_heads_in_group");
            match whole_number(&place, group)? {
                group if group > 0 && query.is_multiple_of(group) => Ok(query / group),
                group => Err(Error::field(place, format!("{query} query heads cannot be shared by {group}"))),
            }
        })
        .collect::<Result<_>>()?;
    Ok(Some((path, heads)))
}

fn entry((path, list): &(String, Vec<u64>), index: usize) -> Fact {
    Fact::new(list[index], Source::Field { path: format!("{path}[{index}]") })
}

/// `indexer_types`: `full` layers own index keys, `shared` ones use an earlier layer's.
fn indexer_owners(fields: &Fields<'_>, total: usize) -> Result<Option<Vec<bool>>> {
    let Some((path, list)) = fields.list("indexer_types")? else { return Ok(None) };
    if list.len() < total {
        return Err(Error::field(path, format!("{} entries for {total} layers", list.len())));
    }
    let owners = list[..total]
        .iter()
        .enumerate()
        .map(|(index, value)| match value.as_str() {
            Some("full") => Ok(true),
            Some("shared") => Ok(false),
            _ => Err(Error::field(
                format!("{path}[{index}]"),
                format!("{value} is neither \"full\" nor \"shared\""),
            )),
        })
        .collect::<Result<_>>()?;
    Ok(Some(owners))
}

pub(crate) fn product(factors: &[u64]) -> Result<u64> {
    factors
        .iter()
        .try_fold(1_u64, |total, factor| total.checked_mul(*factor))
        .ok_or_else(|| Error::overflow(format!("{factors:?} multiplied")))
}

pub(crate) fn sum(parts: &[u64]) -> Result<u64> {
    parts
        .iter()
        .try_fold(0_u64, |total, part| total.checked_add(*part))
        .ok_or_else(|| Error::overflow(format!("{parts:?} added")))
}
