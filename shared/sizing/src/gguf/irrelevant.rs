//! Keys that do not change the state, each with its reason.

/// Names behind the architecture's prefix.
const EXACT: &[&str] = &[
    // The query's or the output's side of attention.
    "attention.decay_lora_rank",
    "attention.gate_lora_rank",
    "attention.iclr_lora_rank",
    "attention.indexer.kpool_select_tail",
    "attention.indexer.local_blocks",
    "attention.indexer.block_size",
    "attention.output_group_count",
    "attention.output_lora_rank",
    "attention.q_lora_rank",
    // Arithmetic inside attention.
    "attention.clamp_kqv",
    "attention.compress_rope_freq_base",
    "attention.max_alibi_bias",
    "attention.output_scale",
    "attention.rope_pattern",
    "attention.scale",
    "attention.temperature_length",
    "attention.temperature_scale",
    "attention.value_scale",
    "attn_logit_softcapping",
    "skip_loop_final_norm",
    // Read by a rule where no other key says it.
    "attention.key_length",
    "attention.key_length_swa",
    "attention.value_length",
    "attention.value_length_mla",
    "attention.value_length_swa",
    "attention.indexer.top_k",
    "feed_forward_length",
    "full_attention_interval",
    "ssm.conv_kernel",
    "ssm.group_count",
    "ssm.inner_size",
    "ssm.time_step_rank",
    // The inside of a recurrent block beyond its state's shape.
    "kda.gate_lower_bound",
    "kda.safe_gate",
    "ssm.dt_b_c_rms",
    // MLPs and experts.
    "hash_layer_count",
    "interleave_moe_layer_step",
    "leading_dense_block_count",
    "moe_every_n_layers",
    "moe_latent_size",
    "use_parallel_residual",
    // Vocabulary and library.
    "logit_scale",
    "pooling_type",
    "rescale_every_n_layers",
    "tensor_data_layout",
    "vocab_size",
    // Vision features that enter the first layers.
    "deepstack_mapping",
    "n_deepstack_layers",
];

/// Beginnings of names behind the architecture's prefix.
const STARTS: &[&str] = &[
    "activation.",
    "altup.",
    "attention.group_norm",
    "attention.layer_norm",
    "attn_res.",
    "classifier.",
    "dense_",
    "embedding_",
    "expert_",
    "experts_",
    "hyper_connection.",
    "ple.",
    "rope.",
    "swiglu_clamp",
];

/// Whether a key is known to leave the state alone.
pub(super) fn is_known(name: &str) -> bool {
    EXACT.contains(&name) || STARTS.iter().any(|start| name.starts_with(start))
}
