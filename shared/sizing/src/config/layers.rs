//! From layer kinds to layers with shapes: per-layer lists, layers that borrow a cache, several blocks in a layer.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::fields::{Fields, LAYERS};
use super::kinds::{LayerKind, read_kinds};
use super::shapes::{Shapes, owner_place};
use super::sources::{check_sources, without_index_owner};
use crate::architecture::LayerDraft;
use crate::fact::{Fact, Source};
use crate::mixer::{Mixer, Recurrence};
use crate::warning::Warning;
use crate::{Error, Result};

/// No published model has a tenth of it; a count beyond it is a mistake, not a model.
pub(super) const MOST_LAYERS: u64 = 10_000;

/// Every layer, and the fields that say of them.
pub(super) struct Read {
    /// What says what each is.
    pub(super) layers_field: String,
    /// What counts them.
    pub(super) count_field: String,
    pub(super) drafts: Vec<LayerDraft>,
}

/// Reads every layer.
pub(super) fn read_layers(fields: &Fields<'_>, warnings: &mut Vec<Warning>) -> Result<Read> {
    let blocks = attention_blocks(fields)?;
    // Where there is an encoder too, `num_hidden_layers` counts its layers (Whisper), and so does `num_layers` (T5).
    let count = match &blocks {
        Some(blocks) => Some(blocks.layers.clone()),
        None => fields.count_any(&LAYERS)?,
    };
    if let Some(count) = &count
        && let Source::Default { rule, .. } = count.source()
    {
        warnings.push(Warning::new(fields.place_of(count), format!("absent; {rule} is taken")));
    }
    if let Some(count) = count.as_ref().filter(|count| count.get() > MOST_LAYERS) {
        return Err(Error::field(
            fields.place_of(count),
            format!("{} layers is more than the {MOST_LAYERS} that are accepted", count.get()),
        ));
    }
    let kinds = read_kinds(fields, count.as_ref(), warnings)?;
    if kinds.layers.is_empty() {
        return Err(Error::field(kinds.field, "the model has no layers"));
    }
    let borrowed = borrowed_layers(fields, &kinds.layers)?;
    check_sources(fields, &kinds.layers)?;
    let shapes = Shapes::new(fields, kinds.layers.len())?;
    let in_layer = blocks.as_ref().map_or(1, |blocks| blocks.in_layer);
    let mut seen: HashMap<Alike, Arc<[Mixer]>> = HashMap::new();
    let mut drafts = Vec::with_capacity(kinds.layers.len());
    for (index, kind) in kinds.layers.iter().enumerate() {
        let mixers = match seen.entry((*kind, shapes.variant(index))) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                let block = shapes.mixers(*kind, index, warnings)?;
                new.insert((0..in_layer).flat_map(|_| block.iter().cloned()).collect())
            }
        };
        drafts.push(LayerDraft { mixers: Arc::clone(mixers), borrows: borrowed[index].clone() });
    }
    if let Some(index) = without_index_owner(&drafts) {
        let place = owner_place(fields, index);
        return Err(Error::field(place, "\"shared\", and no earlier layer owns index keys"));
    }
    let mut told = HashSet::new();
    warnings.retain(|warning| told.insert(warning.clone()));
    let count_field = count.as_ref().map_or_else(|| kinds.field.clone(), |count| fields.place_of(count));
    Ok(Read { layers_field: kinds.field, count_field, drafts })
}

/// What layers have in common where their mixers are the same: the kind, and their entries of per-layer lists.
type Alike = (LayerKind, [Option<u64>; 5]);

/// Layers with several attention blocks each.
struct Blocks {
    layers: Fact,
    in_layer: u64,
}

/// Names of an encoder's layers beside its decoder's (`ProphetNet`, Moonshine).
const ENCODER_LAYERS: [&str; 3] = ["encoder_layers", "num_encoder_layers", "encoder_num_hidden_layers"];

/// Layers of the encoder beside a decoder with cross-attention: `num_layers` of T5's classes, else one of [`ENCODER_LAYERS`],
/// else what a config of its own says.
pub(super) fn encoder_layers(fields: &Fields<'_>, drafts: &[LayerDraft]) -> Result<Option<Fact>> {
    let is_cross = |mixer: &Mixer| matches!(mixer, Mixer::Cross { .. });
    if !drafts.iter().any(|draft| draft.mixers.iter().any(is_cross)) {
        return Ok(None);
    }
    if super::class_defaults::is_t5(fields.model_type()) {
        return fields.count("num_layers");
    }
    if let Some(stated) = fields.count_any(&ENCODER_LAYERS)? {
        return Ok(Some(stated));
    }
    for name in ["encoder_config", "encoder"] {
        // A tower with layers of its own: the rest of it says nothing of what the decoder keeps.
        if !fields.peek(name).is_some_and(|(_, value)| value.is_object()) {
            continue;
        }
        let own = fields.without_reading(|| match fields.object(name)? {
            Some(encoder) => encoder.count_any(&LAYERS),
            None => Ok(None),
        })?;
        if own.is_some() {
            return Ok(own);
        }
    }
    Ok(None)
}

/// Tokens of a chunk of Mamba-2, by either of its names (vLLM's `ModelConfig.get_mamba_chunk_size`).
pub(super) fn mamba_chunk(fields: &Fields<'_>, drafts: &[LayerDraft]) -> Result<Option<Fact>> {
    let is_mamba = |mixer: &Mixer| matches!(mixer, Mixer::Recurrent(recurrent) if matches!(recurrent.recurrence, Recurrence::Mamba2 { .. }));
    if !drafts.iter().any(|draft| draft.mixers.iter().any(is_mamba)) {
        return Ok(None);
    }
    fields.count_any(&["mamba_chunk_size", "chunk_size"])
}

/// LongCat-Flash's layers, which `num_layers` counts, have two attention blocks each; its `num_hidden_layers` counts the
/// blocks (28 and 56 in transformers' `LongcatFlashConfig`). Alone it is taken as that count.
fn attention_blocks(fields: &Fields<'_>) -> Result<Option<Blocks>> {
    let Some(in_layer) = fields.count("attention_blocks_per_layer")? else { return Ok(None) };
    let Some(layers) = fields.count("num_layers")? else {
        let what = format!(
            "absent; num_hidden_layers is taken to count attention blocks, {} a layer",
            in_layer.get()
        );
        fields.doubt(fields.path_of("num_layers"), what);
        return Ok(None);
    };
    if let Some(all) = fields.count("num_hidden_layers")?
        && all.get() != layers.get().saturating_mul(in_layer.get())
    {
        let what = format!(
            "{} layers of {} attention blocks, but {} says {}; the first is taken",
            layers.get(),
            in_layer.get(),
            all.source(),
            all.get()
        );
        fields.doubt(fields.place_of(&layers), what);
    }
    Ok(Some(Blocks { layers, in_layer: in_layer.get() }))
}

/// Which layers use an earlier layer's cache, with the reason.
fn borrowed_layers(fields: &Fields<'_>, kinds: &[LayerKind]) -> Result<Vec<Option<String>>> {
    let total = kinds.len();
    let mut borrowed = vec![None; total];
    if let Some(shared) = fields.count("num_kv_shared_layers")? {
        let shared_layers = usize::try_from(shared.get()).unwrap_or(usize::MAX);
        if shared_layers >= total {
            return Err(Error::field(
                fields.place_of(&shared),
                format!("{shared_layers} of {total} layers share a cache; none is left to own one"),
            ));
        }
        let first = total - shared_layers;
        for (index, slot) in borrowed.iter_mut().enumerate().skip(first) {
            if !kinds[..first].contains(&kinds[index]) {
                return Err(Error::field(
                    fields.place_of(&shared),
                    format!("layer {index} shares the cache of a kind that no earlier layer owns"),
                ));
            }
            *slot = Some(format!("{} = {}", shared.source(), shared.get()));
        }
    }
    // `_get_cla_factor` of vLLM and SGLang: `use_cla` switches it off whatever the factor is.
    let shares = fields.flag("use_cla")?.is_none_or(|(_, shares)| shares);
    if let Some(factor) = fields.count("cla_share_factor")?.filter(|fact| shares && fact.get() > 1) {
        for (index, slot) in borrowed.iter_mut().enumerate() {
            let beyond_owner = index as u64 % factor.get();
            if beyond_owner > 0 {
                let owner = index - usize::try_from(beyond_owner).expect("at most the index");
                if kinds[owner] != kinds[index] {
                    return Err(Error::field(
                        fields.place_of(&factor),
                        format!(
                            "layer {index} would share the cache of layer {owner}, which is of another kind"
                        ),
                    ));
                }
                *slot = Some(format!("{} = {}", factor.source(), factor.get()));
            }
        }
    }
    Ok(borrowed)
}
