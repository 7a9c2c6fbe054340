//! The shape of each kind of layer: heads, widths, windows, states.

mod beside;
mod compressed;
mod cross;
mod latent;
mod owners;
mod recurrent;
mod shared;

use serde_json::Value;

use super::class_defaults;
use super::fields::{
    Fields, HEAD_WIDTHS, HIDDEN, KV_HEADS, LATENT_VALUES, QUERY_HEADS, SLIDING_KV_HEADS, SLIDING_QUERY_HEADS,
    listed, whole_number,
};
use super::kinds::{LayerKind, window};
use crate::architecture::PlainHeads;
use crate::fact::{Fact, Source};
use crate::mixer::{Heads, Mixer};
use crate::warning::Warning;
use crate::{Error, Result};

pub(super) use beside::{convolution_taps, has_convolutions};
pub(crate) use compressed::{csa, hca};
pub(super) use owners::owner_place;
pub(crate) use recurrent::kda_mixer;
pub(crate) use shared::uneven;

/// The plain head fields. A list of head counts is no plain field, so what cannot be read is left out here.
pub(super) fn plain_heads(fields: &Fields<'_>) -> PlainHeads {
    let count = |keys: &[&str]| fields.count_any(keys).ok().flatten();
    PlainHeads { hidden: count(&HIDDEN), query_heads: count(&QUERY_HEADS), kv_heads: count(&KV_HEADS) }
}

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
    index_sources: Option<(String, Vec<u64>)>,
}

impl<'f, 'a> Shapes<'f, 'a> {
    pub(super) fn new(fields: &'f Fields<'a>, total: usize) -> Result<Self> {
        Ok(Self {
            fields,
            kv_heads: match per_layer(fields, &LISTED_KV_HEADS, total)? {
                Some(list) => Some(list),
                None => block_config_heads(fields, total)?,
            },
            query_heads: per_layer(fields, &QUERY_HEADS, total)?,
            indexers: owners::of_index_keys(fields, total)?,
            stores: fields.numbers("kv_source_layer_ids")?,
            index_sources: fields.numbers("index_source_layer_ids")?,
        })
    }

    /// What a layer has of its own in the lists of one value a layer. Layers of one kind that agree in it have one shape.
    pub(super) fn variant(&self, index: usize) -> [Option<u64>; 5] {
        let listed = |list: &Option<(String, Vec<u64>)>| list.as_ref().map(|(_, values)| values[index]);
        let is_listed = |(_, owners): &(String, Vec<u64>)| u64::from(owners.contains(&(index as u64)));
        [
            listed(&self.kv_heads),
            listed(&self.query_heads),
            self.indexers.as_ref().map(|owners| u64::from(owners[index])),
            self.stores.as_ref().map(is_listed),
            self.index_sources.as_ref().map(is_listed),
        ]
    }

    pub(super) fn mixers(
        &self,
        kind: LayerKind,
        index: usize,
        warnings: &mut Vec<Warning>,
    ) -> Result<Vec<Mixer>> {
        let one = match kind {
            LayerKind::Full => return self.with_convolutions(self.full(index, warnings)?, warnings),
            LayerKind::Sliding => return self.with_convolutions(self.sliding(index, warnings)?, warnings),
            LayerKind::Chunked => {
                let chunk = self.fields.require(&["attention_chunk_size"], "a chunked layer")?;
                Mixer::Chunked { heads: self.heads(HeadSet::Full, index, warnings)?, chunk }
            }
            LayerKind::Linear => Mixer::Recurrent(self.linear(warnings)?),
            LayerKind::Lightning => Mixer::Recurrent(self.lightning(warnings)?),
            LayerKind::Mamba => Mixer::Recurrent(self.mamba(warnings)?),
            LayerKind::ShortConv => Mixer::Recurrent(self.short_conv()?),
            LayerKind::Compressed(ratio) => {
                if ratio > 0 && self.fields.has("index_head_dim") {
                    self.top_k("index_topk", "compressed entry", warnings)?;
                }
                Mixer::Compressed(self.compressed(ratio, index)?)
            }
            LayerKind::Cross => self.cross(index, warnings)?,
            LayerKind::SelfAndCross => {
                let own = Mixer::Full(self.heads(HeadSet::Full, index, warnings)?);
                return Ok(vec![own, self.cross(index, warnings)?]);
            }
            LayerKind::SlidingAndCross => {
                return Ok(vec![self.sliding(index, warnings)?, self.cross(index, warnings)?]);
            }
            LayerKind::Parallel => {
                let attention = Mixer::Full(self.heads(HeadSet::Full, index, warnings)?);
                return Ok(vec![attention, Mixer::Recurrent(self.mamba(warnings)?)]);
            }
            LayerKind::None => return Ok(Vec::new()),
        };
        Ok(vec![one])
    }

    fn sliding(&self, index: usize, warnings: &mut Vec<Warning>) -> Result<Mixer> {
        let window = window(self.fields)?;
        self.warn_of_class(&window, warnings);
        Ok(Mixer::Sliding { heads: self.heads(HeadSet::Sliding, index, warnings)?, window })
    }

    fn heads(&self, set: HeadSet, index: usize, warnings: &mut Vec<Warning>) -> Result<Heads> {
        let query_heads = match &self.query_heads {
            Some(list) => Some(entry(list, index)),
            None => match self.special(set, &[], &SLIDING_QUERY_HEADS)? {
                Some(own) => Some(own),
                None => self.fields.count_any(&QUERY_HEADS)?,
            },
        };
        let kv_heads = self.kv_heads_of(set, index, query_heads.as_ref(), warnings)?;
        if let Some(query) = query_heads.as_ref().filter(|query| kv_heads.get() > query.get()) {
            return Err(Error::field(
                self.fields.place_of(&kv_heads),
                format!(
                    "{} K/V heads, but only {} query heads ({})",
                    kv_heads.get(),
                    query.get(),
                    query.source()
                ),
            ));
        }
        if let Some(query) = &query_heads {
            warnings.extend(uneven((&kv_heads, "K/V heads"), (query, "query heads")));
        }
        let k_width = self.k_width(set, query_heads.as_ref(), warnings)?;
        let v_width = match self.special(set, &[], &["swa_v_head_dim"])? {
            Some(width) => width,
            None => self.fields.count_any(&LATENT_VALUES)?.unwrap_or_else(|| self.as_wide_as(&k_width)),
        };
        Ok(Heads { query_heads, kv_heads, k_width, v_width })
    }

    /// V's width where no field gives one. A field that says 0 is told apart from one that is not there.
    fn as_wide_as(&self, k_width: &Fact) -> Fact {
        match self.fields.zero(&["v_head_dim"]) {
            Some(path) => {
                Fact::derived(k_width.get(), format!("{path} is 0: as wide as K ({})", k_width.source()))
            }
            None => k_width.clone(),
        }
    }

    fn kv_heads_of(
        &self,
        set: HeadSet,
        index: usize,
        query_heads: Option<&Fact>,
        warnings: &mut Vec<Warning>,
    ) -> Result<Fact> {
        if let Some(fact) = self.special(set, &["num_global_key_value_heads"], &SLIDING_KV_HEADS)?
            && (set == HeadSet::Sliding || self.has_global_heads(&fact, warnings)?)
        {
            return Ok(fact);
        }
        if set == HeadSet::Sliding
            && let Some(heads) = self.window_heads_of_class(warnings)?
        {
            return Ok(heads);
        }
        if let Some(one) = shared::one_head(self.fields)? {
            return Ok(one);
        }
        if let Some(heads) = shared::by_head_type(self.fields, query_heads)? {
            return Ok(heads);
        }
        if let Some(list) = &self.kv_heads {
            return Ok(entry(list, index));
        }
        if let Some(fact) = self.fields.count_any(&KV_HEADS)? {
            self.warn_of_class(&fact, warnings);
            return Ok(fact);
        }
        if let Some(nested) = self.fields.object("attn_config")?
            && let Some(fact) = shared::heads_of_mpt(&nested)?
        {
            return Ok(fact);
        }
        if let Some(groups) = shared::groups(self.fields)? {
            return Ok(groups);
        }
        let query = query_heads.ok_or_else(|| {
            Error::field(
                self.fields.path_of("num_attention_heads"),
                "missing, and so is num_key_value_heads; attention needs them, and no default is defined",
            )
        })?;
        let path = self.fields.path_of("num_key_value_heads");
        let state = if self.fields.is_null("num_key_value_heads") { "null" } else { "absent" };
        warnings.push(Warning::new(
            &path,
            format!("{state}; every one of {} query heads keeps K and V (MHA)", query.get()),
        ));
        Ok(Fact::default(query.get(), path, format!("as many as query heads ({})", query.source())))
    }

    /// K/V heads of layers with a window as a class derives them from the plain count.
    fn window_heads_of_class(&self, warnings: &mut Vec<Warning>) -> Result<Option<Fact>> {
        let Some(factor) = class_defaults::window_heads_factor(self.fields.model_type()) else {
            return Ok(None);
        };
        if self.kv_heads.is_some() {
            return Ok(None);
        }
        let Some(own) = self.fields.count_any(&KV_HEADS)? else { return Ok(None) };
        let rule = format!("{factor} × {}", own.source());
        let heads = product(&[factor, own.get()])?;
        let what = format!("absent; {heads} is taken, {rule}, as its class has it in layers with a window");
        warnings.push(Warning::new(self.fields.path_of(SLIDING_KV_HEADS[0]), what));
        Ok(Some(Fact::derived(heads, rule)))
    }

    fn k_width(&self, set: HeadSet, query_heads: Option<&Fact>, warnings: &mut Vec<Warning>) -> Result<Fact> {
        if let Some(width) = self.special(set, &["global_head_dim"], &["swa_head_dim"])? {
            return Ok(width);
        }
        if let Some(width) = self.fields.count_any(&HEAD_WIDTHS)? {
            return Ok(width);
        }
        // openPangu-Pro's keys (vLLM 0.33, `models/openpangu.py`): a part with positions behind one without.
        if let (Some(nope), Some(rope)) =
            (self.fields.count("qk_nope_dim")?, self.fields.count("qk_rope_dim")?)
        {
            let rule = format!("{} + {}", nope.source(), rope.source());
            return Ok(Fact::derived(sum(&[nope.get(), rope.get()])?, rule));
        }
        let needed = "the width of a head";
        let (field, state) = match self.fields.zero(&HEAD_WIDTHS) {
            Some(path) => (path, "is 0"),
            None => (self.fields.path_of("head_dim"), "absent"),
        };
        let hidden = self.attention_width()?.ok_or_else(|| {
            let own = if state == "absent" { "missing" } else { state };
            Error::field(
                &field,
                format!("{own}, and hidden_size to derive it from is missing; no default is defined"),
            )
        })?;
        let heads = match query_heads {
            Some(heads) => heads.clone(),
            None => self.fields.require(&QUERY_HEADS, needed)?,
        };
        let rule = format!("{field} {state}: {} / {}", hidden.source(), heads.source());
        if !hidden.get().is_multiple_of(heads.get()) {
            warnings.push(Warning::new(
                &field,
                format!(
                    "{state}, and {} is no multiple of {} heads; {} is taken",
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

    /// The width that query heads share where no field says a head's own.
    fn attention_width(&self) -> Result<Option<Fact>> {
        let hidden = self.fields.count_any(&HIDDEN)?;
        if !class_defaults::attends_to_two(self.fields.model_type()) {
            return Ok(hidden);
        }
        if let Some(stated) = self.fields.count("attention_hidden_size")? {
            return Ok(Some(stated));
        }
        let doubled = |hidden: Fact| Fact::derived(hidden.get() * 2, format!("2 × {}", hidden.source()));
        Ok(hidden.map(doubled))
    }

    /// The field that one set of layers has for itself.
    fn special(&self, set: HeadSet, of_full: &[&str], of_sliding: &[&str]) -> Result<Option<Fact>> {
        let keys = match set {
            HeadSet::Full => of_full,
            HeadSet::Sliding => of_sliding,
        };
        self.fields.count_any(keys)
    }

    /// Whether layers of full attention have heads of their own: Gemma 4's class reads their count only beside `attention_k_eq_v`,
    /// which is off where it is absent (transformers 5.19, `Gemma4TextConfig.__post_init__`). The published checkpoints state it, so
    /// a config that leaves it out is taken to be an excerpt of one.
    fn has_global_heads(&self, heads: &Fact, warnings: &mut Vec<Warning>) -> Result<bool> {
        if let Some((_, is_on)) = self.fields.flag("attention_k_eq_v")? {
            return Ok(is_on);
        }
        let own = self.fields.count_any(&KV_HEADS)?.filter(|own| own.get() != heads.get());
        if let Some(own) =
            own.filter(|_| self.fields.model_type().is_some_and(|class| class.starts_with("gemma4")))
        {
            let what = format!(
                "absent, and taken as true, since {} is stated; transformers takes false, and then layers of full attention \
                 have {} K/V heads too",
                heads.source(),
                own.get()
            );
            warnings.push(Warning::new(self.fields.path_of("attention_k_eq_v"), what));
        }
        Ok(true)
    }

    /// A count that only the class knows, as with the head width: the figure hangs on `model_type`.
    fn warn_of_class(&self, count: &Fact, warnings: &mut Vec<Warning>) {
        if let Source::Default { field, .. } = count.source() {
            let what = format!("absent; {} is taken, the default of its class", count.get());
            warnings.push(Warning::new(self.fields.path_of(field), what));
        }
    }
}

/// The name under which `DeciLM` lists its counts, which is never one count for all layers.
const EACH_LAYERS_KV_HEADS: &str = "num_key_value_heads_per_layer";

/// Names under which K/V heads may be listed.
const LISTED_KV_HEADS: [&str; 1 + KV_HEADS.len()] = {
    let mut names = [EACH_LAYERS_KV_HEADS; 1 + KV_HEADS.len()];
    let mut index = 0;
    while index < KV_HEADS.len() {
        names[index + 1] = KV_HEADS[index];
        index += 1;
    }
    names
};

/// A field that gives one value a layer.
fn per_layer(fields: &Fields<'_>, keys: &[&str], total: usize) -> Result<Option<(String, Vec<u64>)>> {
    for key in keys {
        let is_one_count = |value: &Value| !value.is_array() && *key != EACH_LAYERS_KV_HEADS;
        if fields.find(key).is_some_and(|(_, value)| is_one_count(value)) {
            continue;
        }
        let Some((path, list)) = fields.numbers(key)? else { continue };
        must_fit(fields, &path, list.len(), total)?;
        if let Some(zero) = list.iter().position(|heads| *heads == 0) {
            return Err(Error::field(
                format!("{path}[{zero}]"),
                "no heads; a layer without attention needs a layer kind",
            ));
        }
        if *key == EACH_LAYERS_KV_HEADS {
            doubt_other_count(fields, &path, &list)?;
        }
        return Ok(Some((path, list)));
    }
    Ok(None)
}

/// A count for all layers beside a list with one for each, which no layer has.
fn doubt_other_count(fields: &Fields<'_>, path: &str, list: &[u64]) -> Result<()> {
    let plain =
        KV_HEADS.into_iter().filter(|key| !fields.find(key).is_some_and(|(_, value)| value.is_array()));
    for key in plain {
        if let Some(other) = fields.number(key)?.filter(|other| !list.contains(&other.get())) {
            let what =
                format!("no layer has {}, which {} says; the list is taken", other.get(), other.source());
            fields.doubt(path, what);
        }
    }
    Ok(())
}

/// One entry a layer, and perhaps one for each draft layer behind them: a list of any other length is of other layers.
pub(super) fn must_fit(fields: &Fields<'_>, path: &str, entries: usize, total: usize) -> Result<()> {
    let drafts = fields.number("num_nextn_predict_layers")?.map_or(0, |fact| fact.get());
    match entries.checked_sub(total) {
        Some(0) => Ok(()),
        Some(surplus) if surplus as u64 == drafts => Ok(()),
        Some(_) => Err(Error::field(path, format!("{}, and {drafts} draft layers", listed(entries, total)))),
        None => Err(Error::field(path, listed(entries, total))),
    }
}

/// `block_configs[].attention.n_heads_in_group`: query heads that share one K/V head, layer by layer (Nemotron-NAS).
fn block_config_heads(fields: &Fields<'_>, total: usize) -> Result<Option<(String, Vec<u64>)>> {
    let Some((path, list)) = fields.list("block_configs")? else { return Ok(None) };
    let query = fields.require(&QUERY_HEADS, "block_configs")?.get();
    must_fit(fields, &path, list.len(), total)?;
    let heads = list[..total]
        .iter()
        .enumerate()
        .map(|(index, block)| {
            let attention = block.get("attention");
            let group = attention.and_then(|attention| attention.get("n_heads_in_group"));
            let place = format!("{path}[{index}].attention.n_heads_in_group");
            let Some(group) = group.filter(|group| !group.is_null()) else {
                let is_on = |key| attention.and_then(|attention| attention.get(key)).and_then(Value::as_bool);
                // A block without attention has no group.
                if ["no_op", "replace_with_linear"].into_iter().any(|key| is_on(key) == Some(true)) {
                    return Ok(1);
                }
                return Err(Error::field(place, "missing, and the block has attention"));
            };
            match whole_number(&place, group)? {
                group if group > 0 && query.is_multiple_of(group) => Ok(query / group),
                group => Err(Error::field(place, format!("{query} query heads cannot be shared by {group}"))),
            }
        })
        .collect::<Result<_>>()?;
    Ok(Some((path, heads)))
}

fn entry((path, list): &(String, Vec<u64>), index: usize) -> Fact {
    Fact::new(list[index], Source::field(format!("{path}[{index}]")))
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
