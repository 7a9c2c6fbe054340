//! What a printed figure is about: its name and its meaning in words.

use super::printed::Unit;

macro_rules! topics {
    ($($variant:ident = $name:literal, $means:literal;)*) => {
        /// What a figure of a log is about.
        #[derive(Clone, Copy, Debug, Eq, PartialEq)]
        pub(super) enum Topic {
            $($variant,)*
        }

        impl Topic {
            /// The name in JSON: that of a quantity of the engine profiles where there is one.
            pub(super) fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }

            /// What the line says, in words.
            pub(super) fn means(self) -> &'static str {
                match self {
                    $(Self::$variant => $means,)*
                }
            }
        }
    };
}

topics! {
    // vLLM.
    Weights = "weights_bytes", "weights on this rank";
    Graphs = "cuda_graph_bytes", "CUDA graphs of this rank; no cache";
    Available = "available_kv_bytes", "memory left for the cache, after weights, activations and graphs";
    Tokens = "logged_kv_tokens", "the pool in tokens: concurrency times the longest request, so it changes with that length";
    OldTokens = "logged_kv_tokens", "the blocks of the pool over the groups of layers, in tokens; with one group the capacity, with several not the capacity";
    Concurrency = "max_concurrency", "how many requests of the longest length fit: the capacity";
    Blocks = "num_blocks", "blocks of the pool, one of which is never handed out";
    Override = "num_gpu_blocks_override", "blocks that the launch sets in place of those that the memory holds: the capacity";
    Needed = "needed_bytes_one_request", "what one request of the longest length needs, padding and batches in flight included";
    LongestLength = "estimated_max_model_len", "the longest request that would fit the memory there is";
    StorableTokens = "logged_kv_tokens", "tokens that the pool can store: blocks times their size";
    AttentionBlock = "attention_block_size", "tokens of a block, raised until a page of attention holds the largest other page, such as a recurrent state";
    SchedulerBlock = "scheduler_block_size", "tokens after which blocks of all groups of layers end together";
    StatePadding = "state_page_padding", "unused share that is added to each recurrent state to fill a page";
    PaddingLayers = "padding_layers", "layers without content that fill the last group";
    PaddingFraction = "padding_fraction", "at most this share of the pool holds nothing, through padding layers";
    HostBytes = "host_bytes", "room for blocks outside the GPU, in host memory or on disk; no part of the GPU's pool";
    // SGLang.
    PoolTokens = "pool_tokens", "token slots of the pool, shared by all requests: the capacity";
    FullTokens = "full_pool_tokens", "token slots of the layers that keep every token: the capacity";
    TokenBytes = "pool_bytes_per_token", "bytes of all pools for a token of the layers that keep every token";
    WindowTokens = "window_pool_tokens", "token slots of the window layers; a request needs its window and a page, not its length";
    PoolBudget = "available_kv_bytes", "memory that the pools are sized from; GB is printed, GiB is meant";
    WindowBudget = "window_budget_bytes", "what of it windows take beside every token, whatever the tokens; GB is printed, GiB is meant";
    RingBytes = "compressor_ring_bytes", "what of it waits in compressors of 128 tokens, for each request; GB is printed, GiB is meant";
    SparseEntries = "sparse_entries", "entries of 4 tokens each, which an indexer chooses from, in each layer that has them";
    DenseEntries = "dense_entries", "entries of 128 tokens each, in each layer that has them";
    CompressorRows = "compressor_rows", "rows that wait in the compressors of 4 tokens; they follow the window pool";
    PoolBound = "kv_pool_bound_bytes", "address space for the pool, which is sized once graphs are captured; no capacity; GB is printed, GiB is meant";
    PoolBytes = "kv_pool_bytes", "caches that keep every token, all layers of this rank; GB is printed, GiB is meant";
    WindowBytes = "window_pool_bytes", "caches of the window layers of this rank; GB is printed, GiB is meant";
    OtherPool = "other_pool_bytes", "a further pool, such as a draft model's; GB is printed, GiB is meant";
    StateSlots = "state_slots", "slots for recurrent states; a running request takes several where prefixes are kept";
    StateBytes = "state_bytes", "recurrent and convolution state of all slots and one spare; GB is printed, GiB is meant";
    DraftState = "draft_state_bytes", "states between the tokens of a draft, kept until it is verified; GB is printed, GiB is meant";
    MaxRunning = "max_running_requests", "requests that run at once at most";
    Free = "free_bytes", "memory left after the pools, for activations and graphs; GB is printed, GiB is meant";
    // llama.cpp.
    Cells = "cache_cells", "cells of a cache";
    Cache = "cache_bytes", "a cache of cells, allocated in full at start";
    CacheK = "cache_k_bytes", "its K part";
    CacheV = "cache_v_bytes", "its V part";
    State = "state_bytes", "recurrent memory of all sequences; does not grow with the context";
    StateR = "state_conv_bytes", "its convolution part";
    StateS = "state_recurrent_bytes", "its recurrent part";
    StateP = "state_further_bytes", "its third part, which newer builds have";
    Compressor = "compressor_state_bytes", "what waits in the compressors of DeepSeek-V4 for a whole group, for all streams; does not grow with the context";
    CacheBuffer = "cache_buffer_bytes", "the share of the cache on one device";
    StateBuffer = "state_buffer_bytes", "the share of the recurrent memory on one device";
    ComputeBuffer = "compute_buffer_bytes", "scratch space of one device; no cache, but it grows with context and batch";
    OutputBuffer = "output_buffer_bytes", "room for logits; no cache";
    ModelBuffer = "weights_bytes", "weights on one device";
}

/// A figure that stands between two fixed texts.
pub(super) struct Pattern {
    pub(super) topic: Topic,
    /// What must stand in the line as well.
    pub(super) within: &'static str,
    /// What stands in front of the figure.
    pub(super) before: &'static str,
    pub(super) unit: Unit,
    /// What follows it.
    pub(super) after: &'static str,
}

impl Pattern {
    pub(super) const fn new(topic: Topic, before: &'static str, unit: Unit, after: &'static str) -> Self {
        Self::within("", topic, before, unit, after)
    }

    /// A figure of a line in which the text `within` must stand as well.
    pub(super) const fn within(
        within: &'static str,
        topic: Topic,
        before: &'static str,
        unit: Unit,
        after: &'static str,
    ) -> Self {
        Self { topic, within, before, unit, after }
    }
}
