//! Widths of weights: what parameters are counted by, and the state does not depend on.

use serde_json::Value;

use super::fields::{Fields, HIDDEN, whole_number};
use super::shapes::convolution_taps;
use crate::architecture::Architecture;
use crate::fact::{Fact, Source};
use crate::parameters::{AttentionShapes, Experts, Mlp, RecurrenceShapes, WeightShapes};
use crate::{Error, Result};

const EXPERTS: [&str; 4] = ["n_routed_experts", "num_experts", "num_local_experts", "moe_num_experts"];
const ACTIVE: [&str; 6] = [
    "num_experts_per_tok",
    "num_experts_per_token",
    "top_k_experts",
    "moe_topk",
    "experts_per_token",
    "moe_top_k",
];
const SHARED: [&str; 3] = ["n_shared_experts", "num_shared_experts", "num_shared_expert"];
const SHARED_WIDTHS: [&str; 4] = [
    "shared_expert_intermediate_size",
    "moe_shared_expert_intermediate_size",
    "share_expert_dim",
    "shared_intermediate_size",
];
const EXPERT_LATENTS: [&str; 2] = ["moe_latent_size", "routed_expert_hidden_size"];
const WIDTHS: [&str; 5] =
    ["intermediate_size_mlp", "intermediate_size", "ffn_dim", "n_inner", "ffn_hidden_size"];

/// Classes whose MLP has no gate. Source: their modelling code in transformers 5.24.
const WITHOUT_GATE: &[&str] = &[
    "bloom",
    "falcon",
    "gpt2",
    "gpt_bigcode",
    "gpt_neox",
    "mpt",
    "nemotron",
    "nemotron_h",
    "opt",
    "phi",
    "starcoder2",
    "whisper",
];

/// Classes that gate attention's output with as many values, where the config has no field for it.
const GATED_ATTENTION: &[&str] = &["qwen3_next", "qwen3_5_text", "qwen3_5_moe_text"];

/// Classes with one shared expert as wide as the others, where the config has no field for it.
const ONE_SHARED_EXPERT: &[&str] = &["llama4_text"];

/// Classes that tie the head to the table of token vectors where the config does not say.
const TIES: &[&str] = &[
    "cohere",
    "cohere2",
    "gemma",
    "gemma2",
    "gemma3",
    "gemma3_text",
    "gemma4_text",
    "gemma4_unified_text",
    "lfm2",
];

/// Reads the widths of a config whose layers `architecture` has.
pub(crate) fn read_weights(config: &Value, architecture: &Architecture) -> Result<WeightShapes> {
    let root = config
        .as_object()
        .ok_or_else(|| Error::syntax("a config is a JSON object, not another kind of value"))?;
    let fields = Fields::new(root)?;
    refuse_uncounted(&fields)?;
    let is = |classes: &[&str]| fields.model_type().is_some_and(|class| classes.contains(&class));
    let flag = |key: &str| Ok::<_, Error>(fields.flag(key)?.map(|(_, on)| on));
    let needed = "the count of parameters";
    let output = fields.count("o_lora_rank")?.zip(fields.count("o_groups")?);
    let gates = [flag("attn_output_gate")?, flag("mla_use_output_gate")?].into_iter().flatten().any(|on| on);
    let kda_gate = match fields.object("linear_attn_config")? {
        Some(linear) => linear.flag("use_full_rank_gate")?.is_some_and(|(_, on)| on),
        None => false,
    };
    Ok(WeightShapes {
        hidden: fields.require(&HIDDEN, needed)?,
        vocabulary: fields.require(&["vocab_size"], needed)?,
        ties_embeddings: flag("tie_word_embeddings")?.unwrap_or_else(|| is(TIES)),
        attention: AttentionShapes {
            query_rank: fields.count("q_lora_rank")?,
            output,
            gates_output: gates || (flag("attn_output_gate")?.is_none() && is(GATED_ATTENTION)),
            full_layers_share_k: flag("attention_k_eq_v")?.unwrap_or(false),
        },
        recurrence: RecurrenceShapes { step_rank: step_rank(&fields)?, gate_is_whole: kda_gate },
        streams: fields.count("hc_mult")?.filter(|streams| streams.get() > 1),
        mlps: mlps(&fields, architecture, if is(WITHOUT_GATE) { 2 } else { 3 })?,
    })
}

/// Weights that no rule here counts, whether the config asks for them or its class does. A count without them would be too
/// low.
fn refuse_uncounted(fields: &Fields<'_>) -> Result<()> {
    let uncounted = [
        (fields.count("cca_time0")?, "convolutions over queries and keys"),
        (fields.count("H_cycles")?, "two stacks of layers"),
        (fields.count("conv_window")?, "convolutions over K and V"),
        (convolution_taps(fields)?, "short convolutions beside attention"),
    ];
    for (found, what) in uncounted {
        if let Some(found) = found {
            let what = format!("{what}, which parameters are not counted by");
            return Err(Error::field(fields.place_of(&found), what));
        }
    }
    Ok(())
}

fn step_rank(fields: &Fields<'_>) -> Result<Option<Fact>> {
    match fields.find("mamba_dt_rank") {
        Some((_, value)) if value.is_u64() => fields.count("mamba_dt_rank"),
        // "auto" is the hidden size over 16.
        _ => Ok(None),
    }
}

fn mlps(fields: &Fields<'_>, architecture: &Architecture, matrices: u64) -> Result<Vec<Option<Mlp>>> {
    let total = architecture.layer_count();
    if fields.has("block_configs") {
        let what = "widths differ block by block in a way that parameters are not counted by";
        return Err(Error::field(fields.path_of("block_configs"), what));
    }
    let experts = experts(fields)?;
    let dense = dense_width(fields)?;
    let is_beside = fields.flag("enable_moe_block")?.is_some_and(|(_, on)| on);
    let missing = || {
        let what = "missing, and the count of parameters needs it; no default is defined";
        Error::field(fields.path_of("intermediate_size"), what)
    };
    let mlp = |is_sparse: bool| -> Result<Mlp> {
        let experts = experts.clone().filter(|_| is_sparse);
        let dense = match (&experts, is_beside) {
            (Some(_), false) => None,
            _ => Some(dense.clone().ok_or_else(missing)?),
        };
        Ok(Mlp { dense, experts, matrices })
    };
    if let Some(kinds) = blocks(fields)? {
        let of = |kind: &Block| match kind {
            Block::Mixer => Ok(None),
            Block::Dense => mlp(false).map(Some),
            Block::Experts => mlp(true).map(Some),
        };
        return kinds.iter().take(total).map(of).collect();
    }
    let sparse = match &experts {
        Some(_) => sparse_layers(fields, total)?,
        None => vec![false; total],
    };
    sparse.into_iter().map(|is_sparse| mlp(is_sparse).map(Some)).collect()
}

/// How many experts the config counts. What else it says of them is read where weights are counted.
pub(super) fn expert_count(fields: &Fields<'_>) -> Result<Option<Fact>> {
    fields.without_reading(|| fields.count_any(&EXPERTS))
}

fn experts(fields: &Fields<'_>) -> Result<Option<Experts>> {
    let is_on = fields.flag("enable_moe_block")?.is_none_or(|(_, on)| on);
    let Some(count) = fields.count_any(&EXPERTS)?.filter(|count| is_on && count.get() > 1) else {
        return Ok(None);
    };
    let width = match first_of(fields, "moe_intermediate_size")? {
        Some(width) => width,
        None => fields.require(&["intermediate_size"], "the count of parameters")?,
    };
    let shared_width = shared_width(fields, &width)?;
    Ok(Some(Experts {
        active: match first_active(fields)? {
            Some(active) => active,
            None => fields.require(&ACTIVE, "the count of parameters")?,
        },
        latent: fields.count_any(&EXPERT_LATENTS)?,
        count,
        width,
        shared_width,
    }))
}

/// Width of the experts that every token passes, together.
fn shared_width(fields: &Fields<'_>, width: &Fact) -> Result<Option<Fact>> {
    if let Some(stated) = fields.count_any(&SHARED_WIDTHS)? {
        return Ok(Some(stated));
    }
    let class_has_one = fields.model_type().is_some_and(|class| ONE_SHARED_EXPERT.contains(&class));
    let mut count = class_has_one.then_some(1);
    for key in SHARED {
        count = first_of(fields, key)?.map(|fact| fact.get()).or(count);
    }
    Ok(count.map(|count| Fact::derived(count.saturating_mul(width.get()), "shared experts × their width")))
}

fn first_active(fields: &Fields<'_>) -> Result<Option<Fact>> {
    for key in ACTIVE {
        if let Some(active) = first_of(fields, key)? {
            return Ok(Some(active));
        }
    }
    Ok(None)
}

/// A number, or the first of a list with one a layer (Hunyuan).
fn first_of(fields: &Fields<'_>, key: &str) -> Result<Option<Fact>> {
    match fields.find(key) {
        Some((path, Value::Array(list))) => {
            let Some(first) = list.first() else { return Ok(None) };
            if list.iter().any(|value| value != first) {
                return Err(Error::field(
                    path,
                    "layers differ in it, and parameters are not counted by a list",
                ));
            }
            let value = whole_number(&path, first)?;
            Ok(Some(Fact::new(value, Source::field(format!("{path}[0]")))))
        }
        _ => fields.count(key),
    }
}

/// The width of an MLP that every token passes.
fn dense_width(fields: &Fields<'_>) -> Result<Option<Fact>> {
    let Some(width) = fields.count("block_ff_dim")? else {
        for key in WIDTHS {
            if let Some(width) = first_of(fields, key)? {
                return Ok(Some(width));
            }
        }
        return Ok(None);
    };
    // LFM2: two thirds of it, brought up to a multiple (transformers, `models/lfm2`).
    if !fields.flag("block_auto_adjust_ff_dim")?.is_some_and(|(_, on)| on) {
        return Ok(Some(width));
    }
    let step = fields.count("block_multiple_of")?.map_or(256, |fact| fact.get());
    let adjusted = (2 * width.get() / 3).div_ceil(step).saturating_mul(step);
    Ok(Some(Fact::derived(adjusted, format!("2/3 of {}, up to a multiple of {step}", width.source()))))
}

/// What a layer is where a mixer and an MLP are layers of their own (Nemotron-H).
enum Block {
    Mixer,
    Dense,
    Experts,
}

fn blocks(fields: &Fields<'_>) -> Result<Option<Vec<Block>>> {
    if let Some((_, pattern)) = fields.text("hybrid_override_pattern")? {
        let kind = |letter| match letter {
            '-' => Block::Dense,
            'E' => Block::Experts,
            _ => Block::Mixer,
        };
        return Ok(Some(pattern.chars().map(kind).collect()));
    }
    let Some((_, list)) = fields.list("layers_block_type")? else { return Ok(None) };
    let kind = |value: &Value| match value.as_str() {
        Some("mlp") => Block::Dense,
        Some("moe") => Block::Experts,
        _ => Block::Mixer,
    };
    let kinds: Vec<Block> = list.iter().map(kind).collect();
    // Elsewhere this list names mixers alone, and every layer has an MLP.
    Ok(Some(kinds).filter(|kinds| kinds.iter().any(|kind| !matches!(kind, Block::Mixer))))
}

/// Which layers have experts, from whichever field says so.
fn sparse_layers(fields: &Fields<'_>, total: usize) -> Result<Vec<bool>> {
    let by = |rule: &dyn Fn(u64) -> bool| (0..total as u64).map(rule).collect::<Vec<bool>>();
    if let Some((_, list)) = fields.list("mlp_layer_types").ok().flatten() {
        return Ok(list.iter().take(total).map(|value| value.as_str() == Some("sparse")).collect());
    }
    if let Some((_, Value::Array(list))) = fields.find("moe_layer_freq") {
        return Ok(list.iter().take(total).map(|value| value.as_u64() == Some(1)).collect());
    }
    if let Some((_, text)) = fields.text("moe_layers_enum").ok().flatten() {
        let layers: Vec<u64> = text.split(',').filter_map(|one| one.trim().parse().ok()).collect();
        return Ok(by(&|index| layers.contains(&index)));
    }
    if let Some((_, layers)) = fields.numbers("moe_layers").ok().flatten() {
        return Ok(by(&|index| layers.contains(&index)));
    }
    if let Some(step) = fields.count("interleave_moe_layer_step")? {
        return Ok(by(&|index| (index + 1).is_multiple_of(step.get())));
    }
    if fields.model_type() == Some("jamba") {
        let period = fields.count("expert_layer_period")?.map_or(2, |fact| fact.get());
        let offset = fields.number("expert_layer_offset")?.map_or(1, |fact| fact.get());
        return Ok(by(&|index| index % period == offset));
    }
    let first = fields.number("first_k_dense_replace")?.map_or(0, |fact| fact.get());
    let step =
        fields.count("decoder_sparse_step")?.or(fields.count("moe_layer_freq")?).map_or(1, |fact| fact.get());
    let dense: Vec<u64> = fields.numbers("mlp_only_layers")?.map_or_else(Vec::new, |(_, layers)| layers);
    let starts_late = fields.has("decoder_sparse_step");
    Ok(by(&|index| {
        let counted = if starts_late { index + 1 } else { index };
        index >= first && counted.is_multiple_of(step) && !dense.contains(&index)
    }))
}
