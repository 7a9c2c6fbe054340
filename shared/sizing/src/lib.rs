//! How the inference state of a language model grows: config → architecture → state → bytes.
//!
//! This crate runs in the browser and natively. It does no I/O, reads no clock and starts no thread; it knows
//! nothing of HTTP, pixels or GPUs. Every byte figure is an exact integer, checked for overflow.
//!
//! ```
//! use kvscope_sizing::{Settings, StateModel, Tokens, read_config};
//!
//! let config = r#"{"model_type": "minimax_m2", "num_hidden_layers": 62, "num_attention_heads": 48,
//!                  "num_key_value_heads": 8, "head_dim": 128}"#;
//! let architecture = read_config(config)?;
//! let state = StateModel::new(&architecture, &Settings::default())?;
//! // 62 layers × 8 heads × (128 + 128) values × 2 bytes × 100,000 tokens
//! assert_eq!(state.resident(Tokens::new(100_000), 1)?.get(), 25_395_200_000);
//! # Ok::<(), kvscope_sizing::Error>(())
//! ```

pub mod cases;
pub mod claims;
pub mod cost;
pub mod describe;
pub mod engine;
pub mod hardware;
pub mod log;
pub mod parameters;
pub mod plan;
pub mod prediction;
pub mod record;

mod architecture;
mod capacity;
mod catalogue;
mod compare;
mod config;
mod derivation;
mod distinct;
mod error;
mod fact;
mod format;
mod gguf;
mod growth;
mod mixer;
mod model_files;
mod service;
mod settings;
mod short_list;
mod size;
mod sorted_lines;
mod state;
mod units;
mod warning;

pub use architecture::{Architecture, LayerClass, Loops, PlainHeads};
pub use capacity::LargestContext;
pub use catalogue::{CatalogueEntry, PublishedFigure, catalogue, find_entry, lineage};
pub use compare::{
    Cause, Comparison, ComponentChange, FactChange, FactValue, Stated, Step, Version, compare,
};
pub use config::{
    Unknown, read_config, read_config_and_value, read_config_object, read_config_text, read_config_value,
};
pub use derivation::{Derivation, Input};
pub use error::{Error, ErrorKind, Result, cut_words};
pub use fact::{Fact, Source};
pub use format::{IndexFormat, KvFormat, StateFormat};
pub use gguf::{GgufRead, is_gguf, read_gguf};
pub use growth::Growth;
pub use mixer::{
    CompressedAttention, Compression, CompressorRows, Conv, Generation, Heads, IndexKeys, IndexLayout,
    Latent, Mixer, Recurrence, Recurrent, Reindex,
};
pub use model_files::{first_part, is_gguf_name, model_file};
pub use service::{ByteKind, WindowPolicy};
pub use settings::{
    Chosen, Formats, GdnPrefillBackend, MambaCacheMode, MambaRadixStrategy, MlaStorage, NaiveFormula,
    PoolRatio, Settings,
};
pub use short_list::sort_short;
pub use size::{BytesByKind, ComponentSize, Part, Size, StateModel};
pub use state::{ComponentKind, Lifecycle, Reads, StateComponent, counted};
pub use units::{Bytes, BytesPerToken, Ratio, Tokens, UnitSystem, group_digits, layer_ranges, parse_count};
pub use warning::Warning;
