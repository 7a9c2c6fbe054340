//! From an architecture to the caches of its layers, drafts included.

use super::Setup;
use super::group::Policy;
use super::spec::{Kind, Spec};
use super::storage::{EntryOf, LatentReader};
use crate::architecture::LayerClass;
use crate::engine::Quantity;
use crate::engine::shard::shard_count;
use crate::fact::Fact;
use crate::mixer::{CompressedAttention, Heads, IndexKeys, Latent, Mixer, Recurrent};
use crate::settings::MambaCacheMode;
use crate::{Error, Result};

/// Equal layers: their cache and which layers they are. Draft layers count on from the last.
#[derive(Clone, Debug)]
pub(super) struct LayerSet {
    pub(super) spec: Spec,
    pub(super) layers: Vec<usize>,
}

/// Block sizes that alignment settled before any cache is laid out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Blocks {
    /// Tokens of an attention block.
    pub(super) attention: u64,
    /// Bytes that a state's page is padded to.
    pub(super) state_page: Option<u64>,
    /// Whether attention blocks were raised for a state, which is printed.
    pub(super) raised: bool,
}

impl Setup<'_> {
    /// The caches of all layers, equal ones together.
    pub(super) fn layer_sets(&self, blocks: Blocks) -> Result<Vec<LayerSet>> {
        let mut sets: Vec<LayerSet> = Vec::new();
        for class in self.architecture.classes() {
            if !self.keeps_cache(class) {
                continue;
            }
            for mixer in &class.mixers {
                let window = self.window_of_convolution(class, mixer)?;
                let specs = window.map_or_else(|| self.specs(mixer, blocks), |spec| Ok(vec![spec]))?;
                for spec in specs {
                    add(&mut sets, spec, &class.layers);
                }
            }
        }
        let drafts = usize::try_from(self.settings.draft_layers.unwrap_or(0)).unwrap_or(usize::MAX);
        let first = self.architecture.layer_count();
        let of_drafts = self.for_drafts();
        for index in 0..drafts {
            for spec in of_drafts.specs(&self.draft_mixer(index)?, blocks)? {
                add(&mut sets, spec, &[first + index]);
            }
        }
        for set in &mut sets {
            // Classes of layers interleave; groups take every n-th layer of the model.
            set.layers.sort_unstable();
        }
        Ok(sets)
    }

    fn specs(&self, mixer: &Mixer, blocks: Blocks) -> Result<Vec<Spec>> {
        let block = blocks.attention;
        Ok(match mixer {
            Mixer::Full(heads) => {
                let kind = self.window_of_full_layers().map_or(Kind::Full, |window| self.window_kind(window));
                vec![self.heads_spec(kind, heads, block)?]
            }
            Mixer::IndexedFull(heads, keys) => {
                // Raw keys of an open group wait in a ring of whole groups (vLLM 0.33, `models/qwen4_exp`).
                let group = keys.pool.get().max(1);
                let capacity = (group + self.settings.draft_tokens()).next_multiple_of(group);
                vec![
                    self.heads_spec(Kind::Full, heads, block)?,
                    self.index_spec(keys, block)?,
                    plain(Kind::Ring, capacity, 2 * keys.width.get()),
                ]
            }
            Mixer::Sliding { heads, .. } if self.leaves_windows_unused() => {
                vec![self.heads_spec(Kind::Full, heads, block)?]
            }
            Mixer::Sliding { heads, window } => {
                let window = self.window_of_full_layers().unwrap_or(window.get());
                vec![self.heads_spec(self.window_kind(window), heads, block)?]
            }
            Mixer::Chunked { heads, chunk } => {
                vec![self.heads_spec(Kind::Chunk { chunk: chunk.get() }, heads, block)?]
            }
            Mixer::Mla(latent) => match self.expanded(latent)? {
                Some(heads) => vec![self.heads_spec(Kind::Full, &heads, block)?],
                None => vec![self.latent_spec(latent, block, LatentReader::Dense)?],
            },
            Mixer::Dsa { latent, index, .. } => {
                let mut specs = vec![self.latent_spec(latent, block, LatentReader::Sparse)?];
                if let Some(keys) = index {
                    specs.push(self.index_spec(keys, block)?);
                    specs.extend(self.pool_ring(keys));
                }
                specs
            }
            Mixer::Compressed(attention) => self.compressed_specs(attention, block)?,
            Mixer::Recurrent(recurrent) => vec![self.state_spec(recurrent, blocks)?],
            Mixer::Cross { heads, encoder_tokens } => {
                let limit = encoder_tokens.as_ref().map(Fact::get);
                let kind = Kind::Cross { output: self.settings.encoder_tokens.or(limit) };
                vec![self.heads_spec(kind, heads, block)?]
            }
            Mixer::None => Vec::new(),
        })
    }

    /// Inkling keeps the inputs of its convolutions as a window of `kernel` tokens in blocks of as many, of the rank's K/V
    /// heads: K and V of each, and its share of the two residual streams, in a width that is a power of two (vLLM 0.26 and later,
    /// `models/inkling/nvidia/sconv_swa_attn.py`).
    fn window_of_convolution(&self, class: &LayerClass, mixer: &Mixer) -> Result<Option<Spec>> {
        let Mixer::Recurrent(Recurrent { conv: Some(conv), .. }) = mixer else { return Ok(None) };
        let heads = class.mixers.iter().find_map(Mixer::heads).filter(|_| self.convolutions_are_windows());
        let Some(heads) = heads else { return Ok(None) };
        let (all, kernel) = (heads.kv_heads.get().max(1), conv.kernel.get());
        let own = shard_count(&heads.kv_heads, self.settings.tp())?.get();
        let width = self.settings.conv_dtype.unwrap_or(self.model_dtype).bytes_per_value();
        // `1 << (raw_head_size - 1).bit_length()`
        let head = (conv.channels.get() / all).checked_next_power_of_two();
        let head = head.ok_or_else(|| Error::overflow("the width of a head's convolutions"))?;
        let bytes = head.checked_mul(own).and_then(|values| values.checked_mul(width));
        let bytes = bytes.ok_or_else(|| Error::overflow("a token of a convolution"))?;
        let kind = Kind::LatentWindow { window: kernel, state: true };
        Ok(Some(Spec { shape: [own, head, 0], ..plain(kind, kernel.max(1), bytes) }))
    }

    /// Whether convolutions beside attention are kept as windows of tokens.
    pub(super) fn convolutions_are_windows(&self) -> bool {
        self.architecture.model_type().is_some_and(|class| class.starts_with("inkling"))
    }

    /// Whether its layers have a cache of their own here: Hunyuan's layers that share one in the config do not share it in
    /// vLLM 0.33.
    pub(super) fn keeps_cache(&self, class: &LayerClass) -> bool {
        class.borrows.is_none()
            || self.architecture.model_type().is_some_and(|class| class.starts_with("hunyuan"))
    }

    /// K and V of every head, where vLLM does not run the class as MLA (0.33, `transformers_utils/model_arch_config_convertor.py`).
    /// V is padded to K's width.
    ///
    /// # Errors
    ///
    /// Such a class without a number of heads or the width of their K, or an overflow.
    pub(super) fn expanded(&self, latent: &Latent) -> Result<Option<Heads>> {
        if !self.keeps_heads_of_latents() {
            return Ok(None);
        }
        let absent = |field: &str| {
            Error::field(field, "absent, and vLLM keeps K and V of every head of this class, not the latent")
        };
        let heads = latent.query_heads.clone().ok_or_else(|| absent("num_attention_heads"))?;
        let nope = latent.nope.as_ref().ok_or_else(|| absent("qk_nope_head_dim"))?;
        let sum = nope.get().checked_add(latent.rope.get());
        let width = Fact::derived(
            sum.ok_or_else(|| Error::overflow("adding qk_nope_head_dim and qk_rope_head_dim"))?,
            format!("{} + {}", nope.source(), latent.rope.source()),
        );
        Ok(Some(Heads {
            query_heads: Some(heads.clone()),
            kv_heads: heads,
            k_width: width.clone(),
            v_width: width,
        }))
    }

    /// Whether vLLM runs the class without MLA.
    pub(super) fn keeps_heads_of_latents(&self) -> bool {
        self.architecture.model_type() == Some("minicpm3")
    }

    fn heads_spec(&self, kind: Kind, heads: &Heads, block: u64) -> Result<Spec> {
        let shape = [heads.kv_heads.get(), heads.k_width.get(), heads.v_width.get()];
        Ok(Spec { shape, ..plain(kind, block, self.heads_row(heads)?) })
    }

    fn latent_spec(&self, latent: &Latent, block: u64, reader: LatentReader) -> Result<Spec> {
        Ok(plain(Kind::Latent, block, self.latent_row(latent, reader)?))
    }

    fn index_spec(&self, keys: &IndexKeys, block: u64) -> Result<Spec> {
        let tokens_per_entry = keys.pool.get().max(1);
        Ok(Spec { tokens_per_entry, ..plain(Kind::Index, block, self.index_row(keys)?) })
    }

    /// Keys that share an entry wait in a ring until their pool is whole: raw bf16 key and gate of each token, for whole
    /// pools that also cover the drafts (vLLM 0.33, `models/glm5next`).
    fn pool_ring(&self, keys: &IndexKeys) -> Option<Spec> {
        let pool = keys.pool.get();
        if pool <= 1 {
            return None;
        }
        let pools = (pool + self.settings.draft_tokens()).div_ceil(pool).next_power_of_two();
        Some(plain(Kind::Ring, pool * pools, 2 * keys.width.get() * 2))
    }

    /// DeepSeek-V4: a compressed stream with its indexer, compressors as small windows of f32 rows, and the window.
    fn compressed_specs(&self, attention: &CompressedAttention, block: u64) -> Result<Vec<Spec>> {
        let mut specs = Vec::with_capacity(5);
        if let Some(branch) = &attention.compression {
            let ratio = branch.ratio.get();
            let (record, alignment) = self.record(attention, EntryOf::Stream)?;
            let entry = |kind, entry_bytes| Spec {
                tokens_per_entry: ratio,
                alignment,
                ..plain(kind, block, entry_bytes)
            };
            if branch.own_store {
                specs.push(entry(Kind::Latent, record));
            }
            if let Some(keys) = &branch.index {
                specs.push(entry(Kind::Index, self.index_row(keys)?));
            }
            if let Some(rows) = &branch.rows {
                // Two overlapping groups of `ratio` rows, or one; value and weight of every width, in f32.
                let overlapping = rows.rows.get() > ratio;
                let halves = 1 + u64::from(overlapping);
                let compressor_block = if overlapping { 4 } else { 8 };
                let kind = Kind::LatentWindow { window: halves * ratio, state: true };
                let row = |width: u64| {
                    let bytes = 4 * 2 * halves * width;
                    Spec { alignment, shape: [1, width, 0], ..plain(kind, compressor_block, bytes) }
                };
                specs.push(row(attention.width.get()));
                if let Some(keys) = &branch.index {
                    specs.push(row(keys.width.get()));
                }
            }
        }
        let (record, alignment) = self.record(attention, EntryOf::Window)?;
        let kind = Kind::LatentWindow { window: attention.window.get(), state: false };
        let window_block = match attention.generation {
            crate::mixer::Generation::V4 => 64,
            crate::mixer::Generation::V41 => 32,
        };
        specs.push(Spec { alignment, ..plain(kind, window_block, record) });
        Ok(specs)
    }

    fn state_spec(&self, recurrent: &Recurrent, blocks: Blocks) -> Result<Spec> {
        let drafts = self.settings.draft_tokens();
        let of_states = if self.rules.drafts_of_states { drafts } else { 0 };
        let of_all = if self.rules.drafts_of_all_states { drafts } else { 0 };
        let kind = match self.cache_mode {
            MambaCacheMode::None => Kind::State { pages: 1 + of_states },
            MambaCacheMode::Align => {
                Kind::State { pages: 2 + drafts + self.prefill_checkpoints(&recurrent.recurrence) }
            }
            MambaCacheMode::All => Kind::StatePerBlock { more: of_all },
        };
        let bytes = self.state_bytes(recurrent)?;
        Ok(Spec { padded: blocks.state_page, ..plain(kind, blocks.attention, bytes) })
    }

    /// Why parts are kept otherwise than a mixer says, formats apart.
    pub(super) fn kept_otherwise(&self, policy: Policy) -> Vec<(Quantity, String)> {
        let mut found: Vec<(Quantity, String)> = Vec::new();
        let mut add = |quantity, why: &str| {
            if !found.iter().any(|(known, other)| *known == quantity && other == why) {
                found.push((quantity, why.to_owned()));
            }
        };
        let borrowing = self.architecture.classes().iter().find(|class| class.borrows.is_some());
        if borrowing.is_some_and(|class| self.keeps_cache(class)) {
            add(Quantity::KvBytes, "layers that use another layer's cache have one of their own");
        }
        let narrow_values = |heads: &Heads| heads.v_width.get() < heads.k_width.get();
        if self.pads_values() && self.mixers().filter_map(Mixer::heads).any(narrow_values) {
            for quantity in [Quantity::KvBytes, Quantity::WindowBytes] {
                add(quantity, "V takes as many values as K");
            }
        }
        for mixer in self.mixers() {
            let ring = "keys wait in a ring until their group is whole";
            match mixer {
                Mixer::Sliding { .. } if self.leaves_windows_unused() => {
                    for quantity in [Quantity::KvBytes, Quantity::WindowBytes] {
                        add(quantity, "this class has no window where some layers have none");
                    }
                }
                Mixer::Sliding { .. } | Mixer::Chunked { .. } if !policy.hybrid_manager => {
                    for quantity in [Quantity::KvBytes, Quantity::WindowBytes] {
                        add(quantity, "without the hybrid manager window layers keep every token");
                    }
                }
                Mixer::Sliding { .. } if self.window_margin() > 0 => {
                    add(
                        Quantity::WindowBytes,
                        "this class's window counts the tokens before the newest, so it keeps one more",
                    );
                }
                Mixer::Full(_) if self.window_of_full_layers().is_some() => {
                    for quantity in [Quantity::KvBytes, Quantity::WindowBytes] {
                        add(quantity, "every layer has the window");
                    }
                }
                Mixer::Mla(_) if self.keeps_heads_of_latents() => {
                    add(Quantity::KvBytes, "K and V of every head of this class are cached, not the latent");
                }
                Mixer::Recurrent(_) if self.convolutions_are_windows() => {
                    add(
                        Quantity::StateBytes,
                        "convolutions keep their inputs as a window, the newest token's among them",
                    );
                }
                Mixer::Recurrent(_) if self.replicates() => {
                    add(Quantity::StateBytes, "every rank has the whole convolution");
                }
                Mixer::Full(_) | Mixer::Sliding { .. } if self.replicates() => {
                    for quantity in [Quantity::KvBytes, Quantity::WindowBytes] {
                        add(quantity, "every rank has all heads");
                    }
                }
                Mixer::IndexedFull(..) => add(Quantity::StateBytes, ring),
                Mixer::Dsa { index: Some(keys), .. } if keys.pool.get() > 1 => {
                    add(Quantity::StateBytes, ring);
                }
                _ => {}
            }
        }
        found
    }
}

fn plain(kind: Kind, block: u64, entry_bytes: u64) -> Spec {
    Spec { kind, block, tokens_per_entry: 1, entry_bytes, alignment: 1, padded: None, shape: [1, 1, 1] }
}

fn add(sets: &mut Vec<LayerSet>, spec: Spec, layers: &[usize]) {
    match sets.iter_mut().find(|set| set.spec == spec) {
        Some(set) => set.layers.extend_from_slice(layers),
        None => sets.push(LayerSet { spec, layers: layers.to_vec() }),
    }
}
