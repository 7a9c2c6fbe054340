//! What kind each layer is, from whichever of a dozen fields the config uses to say so.

mod checks;
mod compressed;
mod encoders;
mod windows;

use serde_json::Value;

use super::class_defaults;
use super::fields::{Fields, wrong_type};
use super::shapes::{has_convolutions, must_fit};
use super::strict;
use crate::fact::Fact;
use crate::state::counted;
use crate::warning::Warning;
use crate::{Error, Result};
pub(super) use encoders::keeps_nothing;
use windows::{chunked, sliding};
pub(super) use windows::{first_with_window, window};

/// What a layer is, before its shape is known.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) enum LayerKind {
    /// Attention to every token: heads, MLA or DSA by the config's other fields.
    Full,
    Sliding,
    Chunked,
    /// Linear attention: gated DeltaNet, KDA or lightning by the config's other fields.
    Linear,
    Lightning,
    Mamba,
    ShortConv,
    /// Attention and Mamba side by side.
    Parallel,
    /// DeepSeek-V4's attention with this compression ratio; 0 is the window alone.
    Compressed(u64),
    Cross,
    /// Attention to the text and to an encoder's output, one after the other.
    SelfAndCross,
    /// The same with a window over the text.
    SlidingAndCross,
    /// An MLP or `MoE` block that counts as a layer.
    None,
}

/// The kinds of all layers, and the field that said so.
#[derive(Debug)]
pub(super) struct Kinds {
    pub(super) field: String,
    pub(super) layers: Vec<LayerKind>,
}

/// Reads the kind of each layer. `count` is the layer count that the config states, if it does.
pub(super) fn read_kinds(
    fields: &Fields<'_>,
    count: Option<&Fact>,
    warnings: &mut Vec<Warning>,
) -> Result<Kinds> {
    let classes = [fields.model_type(), fields.outer_model_type()];
    if let Some(what) = classes.into_iter().find_map(class_defaults::is_unmodelled) {
        return Err(Error::field(
            fields.path_of("model_type"),
            format!("{what} is not modelled, and it is not sized as something else"),
        ));
    }
    checks::refuse_package_config(fields)?;
    let keeps_nothing = keeps_nothing(fields)?;
    if let Some(both_ways) = encoders::sees_both_ways(fields)? {
        let what = "every token sees those behind it too, so the model runs as an encoder and keeps nothing";
        warnings.push(Warning::new(both_ways, what));
    }
    let readers: &[Reader] = if keeps_nothing { &[] } else { &READERS };
    for reader in readers {
        if let Some(kinds) = reader(fields, count, warnings)? {
            if OF_WINDOWS.contains(&last_name(&kinds.field)) {
                checks::refuse_more_than_windows(fields, &kinds, count)?;
            }
            checks::compare(fields, &kinds, count);
            let kinds = checks::last_of_class(fields, checks::switch_windows_off(fields, kinds)?);
            return checks::beside_encoder(fields, kinds);
        }
    }
    let total = count.ok_or_else(|| {
        Error::field(fields.path_of("num_hidden_layers"), "missing, and no list of layers is there to count")
    })?;
    let total = usize::try_from(total.get()).expect("layer counts are limited");
    if keeps_nothing {
        return Ok(Kinds { field: fields.path_of("model_type"), layers: vec![LayerKind::None; total] });
    }
    checks::refuse_unread_kinds(fields)?;
    let kinds = by_rule(fields, total, warnings)?;
    checks::unused_chunks(fields, &kinds);
    checks::beside_encoder(fields, kinds)
}

type Reader = fn(&Fields<'_>, Option<&Fact>, &mut Vec<Warning>) -> Result<Option<Kinds>>;

/// The readers of lists; the first that finds its field decides.
const READERS: [Reader; 11] = [
    compressed::ratios,
    compressed::named,
    hybrid_layer_pattern,
    window_layout,
    windows::listed_windows,
    windows::of_gpt_neo,
    named_layers,
    block_configs,
    override_pattern,
    attention_types,
    linear_lists,
];

/// Lists that say which layers keep a window, and nothing of what else a layer may keep.
const OF_WINDOWS: [&str; 4] =
    ["hybrid_layer_pattern", "sliding_window", "sliding_window_layout", "sliding_windows"];

fn last_name(path: &str) -> &str {
    path.rsplit('.').next().unwrap_or(path)
}

/// `layer_types` or `layers_block_type`: one name a layer.
fn named_layers(
    fields: &Fields<'_>,
    count: Option<&Fact>,
    warnings: &mut Vec<Warning>,
) -> Result<Option<Kinds>> {
    for key in ["layer_types", "layers_block_type"] {
        let Some((path, list)) = fields.list(key)? else { continue };
        let length = listed_length(fields, &path, list.len(), count, warnings)?;
        let layers = list[..length]
            .iter()
            .enumerate()
            .map(|(index, value)| {
                let path = format!("{path}[{index}]");
                let name = value.as_str().ok_or_else(|| wrong_type(&path, "a layer kind", value))?;
                // `HYV4Config` takes two more words for layers with an indexer.
                let is_sparse =
                    matches!(name, "sparse_attention" | "sparse") && fields.model_type() == Some("hy_v4");
                let name = if is_sparse { INDEXED[0] } else { name };
                let kind = kind_of_name(name).ok_or_else(|| unknown_kind(&path, name))?;
                if INDEXED.contains(&name)
                    && !INDEX_WIDTHS.iter().any(|key| fields.count(key).is_ok_and(|width| width.is_some()))
                {
                    let what =
                        format!("layers of {name}, and no width of index keys is stated; none are counted");
                    fields.doubt(fields.path_of(key), what);
                }
                // ZAYA's and Inkling's hybrid layers are attention with short convolutions, which their shape adds.
                let beside = kind == LayerKind::Parallel && has_convolutions(fields);
                Ok(match kind {
                    _ if beside => LayerKind::Full,
                    LayerKind::Linear => linear_of_class(fields.model_type()),
                    other => other,
                })
            })
            .collect::<Result<_>>()?;
        return Ok(Some(Kinds { field: path, layers }));
    }
    Ok(None)
}

/// What a class calls linear attention.
fn linear_of_class(model_type: Option<&str>) -> LayerKind {
    if class_defaults::linear_is_lightning(model_type) {
        return LayerKind::Lightning;
    }
    if class_defaults::linear_is_mamba(model_type) {
        return LayerKind::Mamba;
    }
    LayerKind::Linear
}

/// Attention with an indexer, by its name and those that it had in transformers 5.12 to 5.17
/// (`_LEGACY_LAYER_TYPE_REMAP` of `configuration_utils.py`).
const INDEXED: [&str; 3] = ["indexed_attention", "deepseek_sparse_attention", "qwen_sparse_attention"];

/// Index fields, one of which a layer with an indexer needs.
const INDEX_WIDTHS: [&str; 2] = ["index_head_dim", "indexer_head_dim"];

fn kind_of_name(name: &str) -> Option<LayerKind> {
    Some(match name {
        "full_attention" | "attention" | "global_attention" | "global" => LayerKind::Full,
        _ if INDEXED.contains(&name) => LayerKind::Full,
        "sliding_attention" | "sliding_window_attention" | "local_attention" | "local" | "hybrid_sliding" => {
            LayerKind::Sliding
        }
        "chunked_attention" => LayerKind::Chunked,
        "linear_attention" => LayerKind::Linear,
        "mamba" | "mamba2" => LayerKind::Mamba,
        "conv" => LayerKind::ShortConv,
        "hybrid" => LayerKind::Parallel,
        "moe" | "mlp" => LayerKind::None,
        _ => return None,
    })
}

fn unknown_kind(path: &str, name: &str) -> Error {
    Error::field(path, format!("unknown layer kind {name:?}; it is not sized as something else"))
}

/// What is read of a block's attention.
const OF_BLOCKS: [&str; 3] = ["no_op", "replace_with_linear", "n_heads_in_group"];

/// `block_configs`: a block's attention may be left out or replaced by a plain matrix (Nemotron-NAS).
fn block_configs(
    fields: &Fields<'_>,
    count: Option<&Fact>,
    warnings: &mut Vec<Warning>,
) -> Result<Option<Kinds>> {
    let Some((path, list)) = fields.list("block_configs")? else { return Ok(None) };
    let length = listed_length(fields, &path, list.len(), count, warnings)?;
    let layers = list[..length]
        .iter()
        .enumerate()
        .map(|(index, block)| {
            let place = format!("{path}[{index}].attention");
            let attention = block
                .get("attention")
                .and_then(Value::as_object)
                .ok_or_else(|| Error::field(&place, "missing; it says whether the block has attention"))?;
            let left_out = |key: &str| attention.get(key).and_then(Value::as_bool).unwrap_or(false);
            if left_out("no_op") || left_out("replace_with_linear") {
                return Ok(LayerKind::None);
            }
            for (key, value) in attention {
                if !OF_BLOCKS.contains(&key.as_str()) && !strict::is_known(key, value) {
                    fields.doubt(format!("{place}.{key}"), "no rule reads this of a block's attention");
                }
            }
            Ok(LayerKind::Full)
        })
        .collect::<Result<_>>()?;
    Ok(Some(Kinds { field: path, layers }))
}

/// `hybrid_override_pattern`: one letter a layer (Nemotron-H).
fn override_pattern(
    fields: &Fields<'_>,
    count: Option<&Fact>,
    warnings: &mut Vec<Warning>,
) -> Result<Option<Kinds>> {
    let Some((path, pattern)) = fields.text("hybrid_override_pattern")? else { return Ok(None) };
    let letters: Vec<char> = pattern.chars().collect();
    let length = listed_length(fields, &path, letters.len(), count, warnings)?;
    let layers = letters[..length]
        .iter()
        .enumerate()
        .map(|(index, letter)| match letter {
            'M' => Ok(LayerKind::Mamba),
            '*' => Ok(LayerKind::Full),
            'E' | '-' => Ok(LayerKind::None),
            other => Err(unknown_kind(&format!("{path}[{index}]"), &other.to_string())),
        })
        .collect::<Result<_>>()?;
    Ok(Some(Kinds { field: path, layers }))
}

/// `attn_type_list`: 1 softmax attention, 0 lightning (MiniMax-Text-01).
fn attention_types(
    fields: &Fields<'_>,
    count: Option<&Fact>,
    warnings: &mut Vec<Warning>,
) -> Result<Option<Kinds>> {
    two_kinds(fields, "attn_type_list", [LayerKind::Lightning, LayerKind::Full], count, warnings)
}

/// `hybrid_layer_pattern`: 1 sliding, 0 full (MiMo-V2).
fn hybrid_layer_pattern(
    fields: &Fields<'_>,
    count: Option<&Fact>,
    warnings: &mut Vec<Warning>,
) -> Result<Option<Kinds>> {
    two_kinds(fields, "hybrid_layer_pattern", [LayerKind::Full, LayerKind::Sliding], count, warnings)
}

/// `sliding_window_layout`: 1 sliding, 0 full (`SmallThinker`).
fn window_layout(
    fields: &Fields<'_>,
    count: Option<&Fact>,
    warnings: &mut Vec<Warning>,
) -> Result<Option<Kinds>> {
    two_kinds(fields, "sliding_window_layout", [LayerKind::Full, LayerKind::Sliding], count, warnings)
}

fn two_kinds(
    fields: &Fields<'_>,
    key: &str,
    kinds: [LayerKind; 2],
    count: Option<&Fact>,
    warnings: &mut Vec<Warning>,
) -> Result<Option<Kinds>> {
    let Some((path, list)) = fields.numbers(key)? else { return Ok(None) };
    let length = listed_length(fields, &path, list.len(), count, warnings)?;
    let layers = list[..length]
        .iter()
        .enumerate()
        .map(|(index, number)| match number {
            0 => Ok(kinds[0]),
            1 => Ok(kinds[1]),
            other => Err(unknown_kind(&format!("{path}[{index}]"), &other.to_string())),
        })
        .collect::<Result<_>>()?;
    Ok(Some(Kinds { field: path, layers }))
}

/// `linear_attn_config`: layer numbers from 1 (Kimi-Linear).
fn linear_lists(fields: &Fields<'_>, count: Option<&Fact>, _: &mut Vec<Warning>) -> Result<Option<Kinds>> {
    let Some(linear) = fields.object("linear_attn_config")? else { return Ok(None) };
    let Some(count) = count else { return Ok(None) };
    let total = usize::try_from(count.get()).expect("layer counts are limited");
    let mut layers: Vec<Option<LayerKind>> = vec![None; total];
    let mut field = fields.path_of("linear_attn_config");
    for (key, kind) in [("full_attn_layers", LayerKind::Full), ("kda_layers", LayerKind::Linear)] {
        let Some((path, numbers)) = linear.numbers(key)? else { continue };
        for (index, number) in numbers.iter().enumerate() {
            let place = || format!("{path}[{index}]");
            let slot =
                usize::try_from(*number).ok().and_then(|n| n.checked_sub(1)).and_then(|n| layers.get_mut(n));
            let slot = slot.ok_or_else(|| {
                Error::field(place(), format!("layer {number} is outside 1 to {total} ({})", count.source()))
            })?;
            if slot.replace(kind).is_some_and(|before| before != kind) {
                return Err(Error::field(place(), format!("layer {number} is listed as two kinds")));
            }
        }
        field = path;
    }
    let layers = layers
        .into_iter()
        .enumerate()
        .map(|(index, kind)| {
            kind.ok_or_else(|| Error::field(&field, format!("layer {} of {total} is in no list", index + 1)))
        })
        .collect::<Result<_>>()?;
    Ok(Some(Kinds { field, layers }))
}

/// Fields of KDA beside a group size. The class `bailing_hybrid` names two architectures: lightning attention (Ling 2.5) and,
/// with these fields, KDA (Ling 3.0; transformers 5.24, `models/bailing_hybrid`).
const OF_GROUPED_KDA: [&str; 5] =
    ["short_conv_kernel_size", "kda_safe_gate", "kda_lower_bound", "no_kda_lora", "use_kda_lora"];

/// Kinds that a period, an interval or a window gives to layers by their index.
fn by_rule(fields: &Fields<'_>, total: usize, warnings: &mut Vec<Warning>) -> Result<Kinds> {
    let every = |period: u64, index: usize| (index as u64 + 1).is_multiple_of(period);
    let make = |field: &str, kind: &dyn Fn(usize) -> LayerKind| {
        Ok(Kinds { field: fields.path_of(field), layers: (0..total).map(kind).collect() })
    };
    let either = |is_first: bool, first: LayerKind, other: LayerKind| if is_first { first } else { other };

    let decodes_alone = matches!(fields.find("is_encoder_decoder"), Some((_, Value::Bool(false))));
    if fields.has("decoder_layers") {
        return make("decoder_layers", &|_| either(decodes_alone, LayerKind::Full, LayerKind::SelfAndCross));
    }
    if class_defaults::is_t5(fields.model_type()) {
        let field = if fields.has("num_decoder_layers") { "num_decoder_layers" } else { "num_layers" };
        return make(field, &|_| either(decodes_alone, LayerKind::None, LayerKind::SelfAndCross));
    }
    if let Some(indices) = checked_indices(fields, "full_attn_idxs", total)? {
        return make("full_attn_idxs", &|i| {
            either(indices.contains(&(i as u64)), LayerKind::Full, LayerKind::ShortConv)
        });
    }
    if let Some(indices) = checked_indices(fields, "attn_layer_indices", total)? {
        return make("attn_layer_indices", &|i| {
            either(indices.contains(&(i as u64)), LayerKind::Full, LayerKind::Mamba)
        });
    }
    if let Some(field) = class_defaults::mamba_unless_listed(fields.model_type()) {
        let state = if fields.is_null(field) { "null" } else { "absent" };
        let what = format!("{state}; its class then has no attention, and every layer is Mamba");
        warnings.push(Warning::new(fields.path_of(field), what));
        return make(field, &|_| LayerKind::Mamba);
    }
    if let Some(period) = fields.count("attn_layer_period")? {
        let offset = fields.number("attn_layer_offset")?.map_or(period.get() / 2, |fact| fact.get());
        if offset >= period.get() {
            return Err(Error::field(
                fields.path_of("attn_layer_offset"),
                format!("{offset} is not below attn_layer_period {}", period.get()),
            ));
        }
        let beside = class_defaults::attends_beside_mamba(fields.model_type());
        let attending = either(beside, LayerKind::Parallel, LayerKind::Full);
        // Zamba's first three layers stand before its periods, the third with attention.
        let before = if beside { 3 } else { 0 };
        return make("attn_layer_period", &|i| {
            let attends = match i.checked_sub(before) {
                Some(behind) => behind as u64 % period.get() == offset,
                None => i + 1 == before,
            };
            either(attends, attending, LayerKind::Mamba)
        });
    }
    let is_of_ling = fields.model_type().is_none_or(|class| class.starts_with("bailing"));
    if is_of_ling && let Some(group) = fields.count("layer_group_size")? {
        // Every field counts as read, so all are looked at.
        let of_kda = OF_GROUPED_KDA.iter().filter(|key| fields.has(key)).count();
        let tail = total as u64 / group.get() * group.get();
        return make("layer_group_size", &|i| {
            if of_kda == 0 {
                return either(every(group.get(), i), LayerKind::Full, LayerKind::Lightning);
            }
            // Layers behind the last whole group keep a latent (vLLM 0.33, `models/bailing_moe_v3`).
            either(every(group.get(), i) || i as u64 >= tail, LayerKind::Full, LayerKind::Linear)
        });
    }
    if let Some(interval) = fields.count("full_attention_interval")? {
        return make("full_attention_interval", &|i| {
            either(every(interval.get(), i), LayerKind::Full, LayerKind::Linear)
        });
    }
    if fields.flag("parallel_attention_and_mamba")?.is_some_and(|(_, on)| on) {
        return make("model_type", &|_| LayerKind::Parallel);
    }
    if let Some(hybrid) = checked_indices(fields, "hybrid_layer_ids", total)?.filter(|ids| !ids.is_empty()) {
        return make("hybrid_layer_ids", &|i| {
            either(hybrid.contains(&(i as u64)), LayerKind::Parallel, LayerKind::Mamba)
        });
    }
    if let Some(cross) = checked_indices(fields, "cross_attention_layers", total)? {
        return make("cross_attention_layers", &|i| {
            either(cross.contains(&(i as u64)), LayerKind::Cross, LayerKind::Full)
        });
    }
    if fields.has("mamba_d_state") || fields.has("ssm_state_size") {
        return Err(Error::field(
            fields.path_of("layer_types"),
            "missing, and the config has Mamba fields; which layers are Mamba cannot be told",
        ));
    }
    if fields.count_any(&["state_size"])?.is_some() && !fields.has("num_attention_heads") {
        return make("state_size", &|_| LayerKind::Mamba);
    }
    if class_defaults::linear_is_lightning(fields.model_type()) {
        return make("layer_types", &|i| either(i.is_multiple_of(2), LayerKind::Full, LayerKind::Lightning));
    }
    if let Some(kinds) = chunked(fields, total)? {
        return Ok(kinds);
    }
    sliding(fields, total, warnings)
}

/// A list of layer indices from 0, each below `total`.
fn checked_indices(fields: &Fields<'_>, key: &str, total: usize) -> Result<Option<Vec<u64>>> {
    let Some((path, indices)) = fields.numbers(key)? else { return Ok(None) };
    if let Some(place) = indices.iter().position(|index| *index >= total as u64) {
        let what = format!("layer {} is not below the {total} layers, counted from 0", indices[place]);
        return Err(Error::field(format!("{path}[{place}]"), what));
    }
    Ok(Some(indices))
}

/// How many entries of a list are layers: all, or those before the draft layers.
fn listed_length(
    fields: &Fields<'_>,
    path: &str,
    length: usize,
    count: Option<&Fact>,
    warnings: &mut Vec<Warning>,
) -> Result<usize> {
    let Some(count) = count else { return Ok(length) };
    let total = usize::try_from(count.get()).expect("layer counts are limited");
    if length < total {
        return Err(too_short(path, length, count));
    }
    if length == total {
        return Ok(total);
    }
    must_fit(fields, path, length, total)?;
    let drafts = length - total;
    warnings.push(Warning::new(path, format!("draft layers at the end ({drafts}) are left out")));
    Ok(total)
}

/// Of a list of layer kinds, from `first` on, which have a window; none where there is no such list.
pub(super) fn draft_windows(fields: &Fields<'_>, key: &str, first: usize) -> Result<Vec<bool>> {
    let Some((_, list)) = fields.list(key)? else { return Ok(Vec::new()) };
    let is_window = |name: &Value| {
        name.as_str().and_then(kind_of_name).is_some_and(|kind| matches!(kind, LayerKind::Sliding))
    };
    Ok(list.iter().skip(first).map(is_window).collect())
}

fn too_short(path: &str, length: usize, count: &Fact) -> Error {
    Error::field(
        path,
        format!(
            "{}, but {} says {}",
            counted(length as u64, "entry", "entries"),
            count.source(),
            counted(count.get(), "layer", "layers")
        ),
    )
}
