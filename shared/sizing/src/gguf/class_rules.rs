//! What a file leaves to its class: window periods, recurrent layers, shared caches.
//!
//! `general.architecture` is a field like any other; it chooses these rules only for keys that are absent. Source of each
//! row: what llama.cpp of October 2026 sets before it reads the file's keys for that class.

/// Which layers have a window where no pattern is in the file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum WindowRule {
    /// No rule: llama.cpp does not use a window that stands in such a file.
    Unused,
    /// Every `period`-th layer is full.
    Period { period: u64, full: FullLayer, default_window: Option<u64> },
    /// As `Period`, with chunks of this many tokens in place of a window.
    Chunked { chunk: u64, period: u64 },
    /// Every layer that has attention.
    Every,
}

/// Which layer of a period is the full one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum FullLayer {
    First,
    Last,
}

pub(super) fn window(class: &str) -> WindowRule {
    let last = |period| WindowRule::Period { period, full: FullLayer::Last, default_window: None };
    let first = |period| WindowRule::Period { period, full: FullLayer::First, default_window: None };
    match class {
        "gemma2" => WindowRule::Period { period: 2, full: FullLayer::Last, default_window: Some(4096) },
        "gpt-oss" => last(2),
        "gemma3" => last(6),
        "gemma3n" => last(5),
        "plamo3" => last(8),
        "afmoe" | "cohere2" | "exaone4" | "exaone-moe" | "mellum" | "muse-glimmer" | "olmo2" => last(4),
        "cohere2moe" | "laguna" | "smallthinker" => first(4),
        "llama4" => WindowRule::Chunked { chunk: 8192, period: 4 },
        "lfm2" | "lfm2moe" | "deepseek4" => WindowRule::Every,
        _ => WindowRule::Unused,
    }
}

/// Classes that have no cache whether or not the file has `attention.causal`: encoders, and diffusion models, which compute
/// every position again in each step. Source: `create_memory` in llama.cpp's `src/llama-model.cpp`, which makes them no
/// memory; the graphs of `eurobert` and of T5's encoder attend without a cache (`build_attn_inp_no_cache` in `src/models`).
const KEEP_NOTHING: &[&str] = &[
    "bert",
    "dream",
    "eurobert",
    "gemma-embedding",
    "jina-bert-v2",
    "jina-bert-v3",
    "llada",
    "llada-moe",
    "modern-bert",
    "neo-bert",
    "nomic-bert",
    "nomic-bert-moe",
    "rnd1",
    "t5encoder",
];

pub(super) fn keeps_nothing(class: &str) -> bool {
    KEEP_NOTHING.contains(&class)
}

/// Interval of full attention among linear layers.
pub(super) fn full_attention_interval(class: &str) -> Option<u64> {
    match class {
        "qwen3next" | "qwen35" | "qwen35moe" | "qwen4exp" => Some(4),
        "minimax-01" => Some(8),
        _ => None,
    }
}

/// Whether every layer has attention and a recurrence side by side.
pub(super) fn is_parallel(class: &str) -> bool {
    class == "falcon-h1"
}

/// Whether every layer is recurrent.
pub(super) fn is_recurrent(class: &str) -> bool {
    matches!(class, "mamba" | "mamba2")
}

/// Whether a layer without K/V heads is recurrent only where it has no MLP either.
pub(super) fn mlp_layers_count(class: &str) -> bool {
    matches!(class, "nemotron_h" | "nemotron_h_moe")
}

/// Layers from the first that own a cache; the others use an earlier one.
pub(super) fn own_caches(class: &str) -> Option<u64> {
    (class == "gemma3n").then_some(20)
}

/// The context from which a file of this class without indexer types shares indexers between layers.
pub(super) fn shares_indexers_from(class: &str) -> Option<u64> {
    (class == "glm-dsa").then_some(1 << 20)
}
