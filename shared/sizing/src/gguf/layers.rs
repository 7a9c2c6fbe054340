//! Which kind each layer is, by keys first and by the class's rules where no key says it.

use super::class_rules::{self, FullLayer, WindowRule};
use super::keys::{Keys, PerLayer};
use super::shapes::Shapes;
use crate::architecture::{LayerDraft, Loops};
use crate::config::without_index_owner;
use crate::fact::{Fact, Source};
use crate::mixer::Mixer;
use crate::warning::Warning;
use crate::{Error, Result};

/// As for a config: no published model has a tenth of it.
const MOST_LAYERS: u64 = 10_000;

/// How far a layer's attention sees.
#[derive(Clone, Debug)]
pub(super) enum Reach {
    Full,
    Window(Fact),
    Chunk(Fact),
}

/// Reads every layer that belongs to the model itself.
pub(super) fn read_layers(keys: &Keys<'_>, warnings: &mut Vec<Warning>) -> Result<Vec<LayerDraft>> {
    let (all, own) = layer_counts(keys, warnings)?;
    if class_rules::keeps_nothing(keys.architecture()) {
        warnings.push(Warning::new(
            "general.architecture",
            format!(
                "{}: a class that sees the whole text in every pass and keeps nothing between passes, so no layer has a \
                 cache",
                keys.architecture()
            ),
        ));
        return Ok((0..own).map(|_| LayerDraft { mixers: [].into(), borrows: None }).collect());
    }
    if keys.flag("attention.causal")? == Some(false) {
        warnings.push(Warning::new(
            keys.name("attention.causal"),
            "false: an encoder keeps nothing between tokens, so no layer has a cache",
        ));
        return Ok((0..own).map(|_| LayerDraft { mixers: [].into(), borrows: None }).collect());
    }
    refuse_unmodelled(keys)?;
    let shapes = Shapes::new(keys, all, own, warnings)?;
    let recurrent = recurrent_layers(keys, all, own, shapes.kv_heads())?;
    let reaches = reaches(keys, all, own, warnings)?;
    let parallel = class_rules::is_parallel(keys.architecture());
    let borrowed = borrowed_layers(keys, all, own)?;
    let mut drafts = Vec::with_capacity(own);
    for (index, reach) in reaches.iter().enumerate() {
        let mut mixers = Vec::new();
        if parallel || !recurrent[index] {
            mixers.extend(shapes.attention(index, reach)?);
        }
        if parallel || recurrent[index] {
            mixers.push(Mixer::Recurrent(shapes.recurrent(index)?));
        }
        mixers.extend(shapes.ngram_convolution(index)?.map(Mixer::Recurrent));
        drafts.push(LayerDraft { mixers: mixers.into(), borrows: borrowed[index].clone() });
    }
    if let Some(index) = without_index_owner(&drafts) {
        let place = format!("{}[{index}]", keys.name("attention.indexer.types"));
        return Err(Error::field(place, "shares index keys, and no earlier layer owns any"));
    }
    for (index, draft) in drafts.iter().enumerate().filter(|(_, draft)| draft.borrows.is_some()) {
        let is_same = |owner: &&LayerDraft| owner.borrows.is_none() && same_reach(owner, draft);
        if !drafts[..index].iter().any(|owner| is_same(&owner)) {
            return Err(Error::field(
                keys.name("attention.shared_kv_layers"),
                format!("layer {index} shares the cache of a kind that no earlier layer owns"),
            ));
        }
    }
    Ok(drafts)
}

/// Layers that run several times, each pass with cells of its own (llama.cpp pull request 25994, `n_layer_all`).
pub(super) fn repeat(
    keys: &Keys<'_>,
    drafts: &mut Vec<LayerDraft>,
    warnings: &mut Vec<Warning>,
) -> Result<Option<Loops>> {
    let Some(passes) = keys.count("num_loops")?.filter(|passes| passes.get() > 1) else { return Ok(None) };
    let own_layers = drafts.len();
    if passes.get().saturating_mul(own_layers as u64) > MOST_LAYERS {
        let what =
            format!("{} passes of {own_layers} layers are more than {MOST_LAYERS} layers", passes.get());
        return Err(Error::field(passes.source().to_string(), what));
    }
    let loops = Loops { passes, range: 0..own_layers, own_layers };
    loops.repeat(drafts, Clone::clone);
    warnings
        .push(Warning::new(loops.passes.source().to_string(), loops.words("each has a cache of its own")));
    Ok(Some(loops))
}

fn same_reach(a: &LayerDraft, b: &LayerDraft) -> bool {
    a.mixers.len() == b.mixers.len()
        && a.mixers
            .iter()
            .zip(&*b.mixers)
            .all(|(a, b)| std::mem::discriminant(a) == std::mem::discriminant(b))
}

/// All layers of the file, and those without the draft layers behind them.
fn layer_counts(keys: &Keys<'_>, warnings: &mut Vec<Warning>) -> Result<(usize, usize)> {
    let all = keys.require("block_count", "every figure")?;
    if all.get() > MOST_LAYERS {
        return Err(Error::field(
            all.source().to_string(),
            format!("{} layers is more than the {MOST_LAYERS} that are accepted", all.get()),
        ));
    }
    let drafts = keys.number("nextn_predict_layers")?.map_or(0, |fact| fact.get());
    if drafts >= all.get() {
        return Err(Error::field(
            keys.name("nextn_predict_layers"),
            format!("{drafts} draft layers of {} leave none for the model", all.get()),
        ));
    }
    if drafts > 0 {
        warnings.push(Warning::new(
            keys.name("nextn_predict_layers"),
            format!("the last {drafts} of {} blocks are draft layers and left out", all.get()),
        ));
    }
    let counted = |layers: u64| usize::try_from(layers).expect("layer counts are limited");
    Ok((counted(all.get()), counted(all.get() - drafts)))
}

fn refuse_unmodelled(keys: &Keys<'_>) -> Result<()> {
    for (key, what) in [
        ("wkv.head_size", "the state of an RWKV model"),
        ("attention.relative_buckets_count", "an encoder-decoder model of the T5 kind"),
        ("attention.kv_lora_rank_swa", "a sliding window over latents"),
    ] {
        if keys.number(key)?.is_some_and(|fact| fact.get() > 0) {
            return Err(Error::field(
                keys.name(key),
                format!("{what} is not modelled, and it is not sized as something else"),
            ));
        }
    }
    Ok(())
}

/// Which layers have a recurrence in place of attention.
fn recurrent_layers(
    keys: &Keys<'_>,
    all: usize,
    own: usize,
    kv_heads: Option<&PerLayer>,
) -> Result<Vec<bool>> {
    let class = keys.architecture();
    let stateful = ["ssm.conv_kernel", "ssm.state_size", "kda.head_dim", "shortconv.l_cache"]
        .iter()
        .any(|key| keys.has(key));
    if let Some(listed) = keys.per_layer("attention.recurrent_layers", all)? {
        return Ok((0..own).map(|index| listed.at(index).get() != 0).collect());
    }
    if stateful && class_rules::is_recurrent(class) {
        return Ok(vec![true; own]);
    }
    let interval = match keys.number("full_attention_interval")? {
        Some(fact) => Some(fact.get()),
        None => class_rules::full_attention_interval(class),
    };
    if interval == Some(0) {
        let what = "0; every so many layers have attention, so give at least 1 or leave the key out";
        return Err(Error::field(keys.name("full_attention_interval"), what));
    }
    if let Some(interval) = interval {
        let is_full = |index: usize| (index as u64 + 1).is_multiple_of(interval);
        if let Some(heads) = kv_heads
            && let Some(index) = (0..own).find(|index| is_full(*index) && heads.at(*index).get() == 0)
        {
            let what = format!("0, but layer {index} has attention, by an interval of {interval}");
            return Err(Error::field(heads.at(index).source().to_string(), what));
        }
        return Ok((0..own).map(|index| !is_full(index)).collect());
    }
    if !stateful || class_rules::is_parallel(class) {
        return Ok(vec![false; own]);
    }
    let Some(heads) = kv_heads else { return Ok(vec![true; own]) };
    let mlp =
        if class_rules::mlp_layers_count(class) { keys.per_layer("feed_forward_length", all)? } else { None };
    Ok((0..own)
        .map(|index| {
            heads.at(index).get() == 0 && mlp.as_ref().is_none_or(|width| width.at(index).get() == 0)
        })
        .collect())
}

/// How far the attention of each layer sees.
fn reaches(keys: &Keys<'_>, all: usize, own: usize, warnings: &mut Vec<Warning>) -> Result<Vec<Reach>> {
    const PATTERN: &str = "attention.sliding_window_pattern";
    let rule = class_rules::window(keys.architecture());
    let stated = keys.number("attention.sliding_window")?;
    let switched_off = stated.as_ref().is_some_and(|fact| fact.get() == 0);
    let pattern = keys.per_layer(PATTERN, all)?;
    let limit = match (stated.filter(|fact| fact.get() > 0), rule) {
        _ if switched_off => None,
        (_, WindowRule::Chunked { chunk, .. }) => Some(class_default(keys, chunk, warnings)),
        (Some(window), _) => Some(window),
        (None, WindowRule::Period { default_window: Some(window), .. }) => {
            Some(class_default(keys, window, warnings))
        }
        (None, _) => None,
    };
    let listed = pattern.as_ref().filter(|pattern| pattern.is_list());
    let Some(limit) = limit else {
        if let Some(index) = listed.and_then(|list| (0..own).find(|index| list.at(*index).get() != 0)) {
            return Err(Error::field(
                keys.name("attention.sliding_window"),
                format!("missing, and {PATTERN}[{index}] says that layer {index} has a window"),
            ));
        }
        return Ok(vec![Reach::Full; own]);
    };
    let near =
        if matches!(rule, WindowRule::Chunked { .. }) { Reach::Chunk(limit) } else { Reach::Window(limit) };
    let by = |is_near: &dyn Fn(usize) -> bool| {
        Ok((0..own).map(|index| if is_near(index) { near.clone() } else { Reach::Full }).collect())
    };
    if let Some(list) = listed {
        return by(&|index| list.at(index).get() != 0);
    }
    let (default_period, full) = match rule {
        WindowRule::Every => return by(&|_| true),
        WindowRule::Period { period, full, .. } => (Some(period), full),
        WindowRule::Chunked { period, .. } => (Some(period), FullLayer::Last),
        WindowRule::Unused => (None, FullLayer::Last),
    };
    let stated = pattern.map(|pattern| pattern.at(0).get());
    if let (None, Some(period)) = (stated, default_period) {
        let which = if full == FullLayer::First { "first" } else { "last" };
        let what = format!(
            "absent; the {which} of every {period} layers has no window, as llama.cpp sets it for the class {}",
            keys.architecture()
        );
        warnings.push(Warning::new(keys.name(PATTERN), what));
    }
    let Some(period) = stated.or(default_period) else {
        warnings.push(Warning::new(
            keys.name("attention.sliding_window"),
            "no key says which layers have the window, and llama.cpp keeps every token for this class; so does this \
             figure, which errs high for an engine that has the window",
        ));
        return Ok(vec![Reach::Full; own]);
    };
    by(&|index| match (period, full) {
        (0, _) => true,
        (period, FullLayer::Last) => !(index as u64 + 1).is_multiple_of(period),
        (period, FullLayer::First) => !(index as u64).is_multiple_of(period),
    })
}

fn class_default(keys: &Keys<'_>, value: u64, warnings: &mut Vec<Warning>) -> Fact {
    let rule = format!("{value}, as llama.cpp sets it for the class {}", keys.architecture());
    let name = keys.name("attention.sliding_window");
    warnings.push(Warning::new(name.clone(), format!("absent; {rule}, is taken")));
    let source = Source::default(name, rule);
    Fact::new(value, source)
}

/// Which layers use an earlier layer's cache, with the reason.
fn borrowed_layers(keys: &Keys<'_>, all: usize, own: usize) -> Result<Vec<Option<String>>> {
    let shared = keys.number("attention.shared_kv_layers")?.filter(|fact| fact.get() > 0);
    let (first, reason) = match (&shared, class_rules::own_caches(keys.architecture())) {
        (Some(shared), _) => {
            let count = usize::try_from(shared.get()).unwrap_or(usize::MAX);
            if count >= own {
                return Err(Error::field(
                    shared.source().to_string(),
                    format!("{count} of {own} layers share a cache; none is left to own one"),
                ));
            }
            (all.min(own) - count, format!("{} = {count}", shared.source()))
        }
        (None, Some(owners)) => (
            usize::try_from(owners).unwrap_or(usize::MAX),
            format!("the first {owners} layers of the class {} own caches", keys.architecture()),
        ),
        (None, None) => return Ok(vec![None; own]),
    };
    Ok((0..own).map(|index| (index >= first).then(|| reason.clone())).collect())
}
