//! Whether the fields that speak of layer kinds agree with the one that was taken.

use super::{Kinds, LayerKind, READERS, by_rule, kind_of_name, last_name};
use crate::config::fields::{Fields, of_mamba};
use crate::fact::Fact;
use crate::{Error, Result};

/// Fields by which kinds go by a layer's index. A default of a class in their place says nothing against a list.
const RULES: [&str; 14] = [
    "attn_layer_indices",
    "attn_layer_period",
    "cross_attention_layers",
    "full_attention_interval",
    "full_attn_idxs",
    "global_attn_every_n_layers",
    "hybrid_layer_ids",
    "layer_group_size",
    "local_layer_ids",
    "max_window_layers",
    "no_rope_layer_interval",
    "no_rope_layers",
    "sliding_window_layers",
    "sliding_window_pattern",
];

/// What the `mamba_ssm` package writes leaves the shape of its blocks to defaults of code.
pub(super) fn refuse_package_config(fields: &Fields<'_>) -> Result<()> {
    if !fields.has("ssm_cfg") {
        return Ok(());
    }
    let what =
        "blocks of the mamba_ssm package, whose shape its code defines; give the config of the -hf version";
    Err(Error::field(fields.path_of("ssm_cfg"), what))
}

/// Compares a list of kinds with whatever else the config says of them.
pub(super) fn compare(fields: &Fields<'_>, kinds: &Kinds, count: Option<&Fact>) {
    let (mut others, rule) = other_readings(fields, kinds, count);
    others.extend(rule.filter(|rule| RULES.contains(&last_name(&rule.field))));
    for other in others {
        if fields.find(last_name(&other.field)).is_none() {
            continue;
        }
        let pairs = kinds.layers.iter().zip(&other.layers);
        if let Some(index) = pairs.into_iter().position(|(own, other)| differ(*own, *other)) {
            fields.doubt(
                &kinds.field,
                format!("layer {index} is of another kind by {}; this list is taken", other.field),
            );
        }
    }
    if !kinds.layers.iter().any(|kind| matches!(kind, LayerKind::Mamba | LayerKind::Parallel)) {
        // The shape of blocks that no layer has.
        of_mamba().for_each(|name| {
            fields.find(name);
        });
    }
}

/// What the other lists of the config say of the kinds, and by which rule they would go without a list. Nothing of it
/// counts as read.
fn other_readings(fields: &Fields<'_>, kinds: &Kinds, count: Option<&Fact>) -> (Vec<Kinds>, Option<Kinds>) {
    fields.without_reading(|| {
        let mut unused = Vec::new();
        let lists = READERS.iter().filter_map(|reader| reader(fields, count, &mut unused).ok().flatten());
        let lists = lists.filter(|other| other.field != kinds.field).collect();
        (lists, by_rule(fields, kinds.layers.len(), &mut unused).ok())
    })
}

/// Fields of layers that keep more than K and V: which layers those are, a list of windows does not say.
const BESIDE_WINDOWS: [&str; 4] = ["decoder_layers", "mamba_d_ssm", "mamba_d_state", "ssm_state_size"];

/// A list of windows decides alone, so whatever else layers keep would be lost where the config speaks of it.
pub(super) fn refuse_more_than_windows(
    fields: &Fields<'_>,
    kinds: &Kinds,
    count: Option<&Fact>,
) -> Result<()> {
    let lost = |field: String| {
        Err(Error::field(
            &field,
            format!(
                "layers keep more than K and V by this field, and {} says of each layer its window alone; \
                 which layers those are cannot be told",
                kinds.field
            ),
        ))
    };
    if let Some(name) = BESIDE_WINDOWS.into_iter().find(|name| fields.has(name)) {
        return lost(fields.path_of(name));
    }
    let (lists, rule) = other_readings(fields, kinds, count);
    let other = lists.into_iter().chain(rule).find(|other| other.layers.iter().any(|kind| keeps_more(*kind)));
    match other.filter(|other| fields.has(last_name(&other.field))) {
        Some(other) => lost(other.field),
        None => Ok(()),
    }
}

fn keeps_more(kind: LayerKind) -> bool {
    use LayerKind::{Cross, Lightning, Linear, Mamba, Parallel, SelfAndCross, ShortConv, SlidingAndCross};
    matches!(kind, Cross | Lightning | Linear | Mamba | Parallel | SelfAndCross | ShortConv | SlidingAndCross)
}

/// `use_sliding_window: false` takes the window from listed layers too: transformers' Qwen configurations set
/// `sliding_window` to none then, and engines read the window from there.
pub(super) fn switch_windows_off(fields: &Fields<'_>, mut kinds: Kinds) -> Result<Kinds> {
    let Some((path, false)) = fields.flag("use_sliding_window")? else { return Ok(kinds) };
    if !kinds.layers.contains(&LayerKind::Sliding) {
        return Ok(kinds);
    }
    let state = if fields.has("use_sliding_window") { "false" } else { "absent, and false in this class" };
    fields.doubt(
        &kinds.field,
        format!("lists sliding layers, but {path} is {state}; they are sized as full attention"),
    );
    for kind in kinds.layers.iter_mut().filter(|kind| **kind == LayerKind::Sliding) {
        *kind = LayerKind::Full;
    }
    Ok(kinds)
}

/// Pairs whose decoder reads the encoder's output as a prefix of its own text (transformers 5.19, `MusicgenMelodyDecoderLayer`).
const WITHOUT_CROSS: [&str; 1] = ["musicgen_melody"];

/// Every layer of a decoder beside an encoder reads that encoder's output too (transformers, `is_encoder_decoder`, and
/// `add_cross_attention` of a decoder that any encoder may stand beside).
pub(super) fn beside_encoder(fields: &Fields<'_>, mut kinds: Kinds) -> Result<Kinds> {
    if fields.outer_model_type().is_some_and(|class| WITHOUT_CROSS.contains(&class)) {
        return Ok(kinds);
    }
    if !fields.is_on_at_any_level("is_encoder_decoder")?
        && !fields.is_on_at_any_level("add_cross_attention")?
    {
        return Ok(kinds);
    }
    for kind in &mut kinds.layers {
        *kind = match *kind {
            LayerKind::Full => LayerKind::SelfAndCross,
            LayerKind::Sliding => LayerKind::SlidingAndCross,
            other => other,
        };
    }
    Ok(kinds)
}

/// Classes whose last layer has full attention whatever the list says (transformers 5.19, `__post_init__` of their configs: "Last
/// layer must use `full_attention`").
const LAST_IS_FULL: [&str; 3] = ["gemma4", "diffusion_gemma", "embedding_gemma2"];

/// Makes the last layer what its class makes of it.
pub(super) fn last_of_class(fields: &Fields<'_>, mut kinds: Kinds) -> Kinds {
    let of_class = |class: &str| LAST_IS_FULL.iter().any(|start| class.starts_with(start));
    let Some(last) = kinds.layers.last_mut().filter(|kind| **kind == LayerKind::Sliding) else {
        return kinds;
    };
    if fields.model_type().is_some_and(of_class) {
        *last = LayerKind::Full;
        fields.doubt(
            &kinds.field,
            "the last layer is listed as sliding, and its class makes it full attention",
        );
    }
    kinds
}

/// A chunk size in a config that says nothing of chunked layers.
pub(super) fn unused_chunks(fields: &Fields<'_>, kinds: &Kinds) {
    let Some((path, value)) = fields.find("attention_chunk_size") else { return };
    if value.as_u64().is_some_and(|chunk| chunk > 0) && !kinds.layers.contains(&LayerKind::Chunked) {
        fields
            .doubt(path, format!("{value}, and no field says which layers are chunked; none is taken to be"));
    }
}

/// A list that seems to say what the layers are, under a name that no rule reads, must not be passed over: its layers
/// would be sized as something else.
pub(super) fn refuse_unread_kinds(fields: &Fields<'_>) -> Result<()> {
    for (path, words) in fields.lists_of_words() {
        let name = path.rsplit('.').next().unwrap_or(&path);
        let speaks_of_layers =
            ["layer", "block", "attention", "attn", "mixer"].iter().any(|word| name.contains(word));
        let of_drafts_or_weights =
            ["mtp", "nextn", "indexer", "module", "mlp", "quant"].iter().any(|word| name.contains(word));
        if !speaks_of_layers || of_drafts_or_weights {
            continue;
        }
        let other =
            words.iter().position(|word| word.as_str().and_then(kind_of_name) != Some(LayerKind::Full));
        if let Some(index) = other {
            let word = words[index].as_str().unwrap_or_default();
            return Err(Error::field(
                format!("{path}[{index}]"),
                format!(
                    "{word:?} in a list of layer kinds that no rule reads; it is not sized as full attention"
                ),
            ));
        }
    }
    Ok(())
}

/// A period tells attention from a recurrence, not one recurrence from another; compressed attention has windows inside.
fn differ(own: LayerKind, other: LayerKind) -> bool {
    let is_recurrent = |kind| {
        matches!(kind, LayerKind::Linear | LayerKind::Lightning | LayerKind::Mamba | LayerKind::ShortConv)
    };
    let is_compressed = |kind| matches!(kind, LayerKind::Compressed(_));
    let both_recurrent = is_recurrent(own) && is_recurrent(other);
    own != other && !both_recurrent && !is_compressed(own) && !is_compressed(other)
}
