//! llama.cpp: caches of cells, padded and allocated in full at start-up.
//!
//! Source: llama.cpp of October 2026, `llama-context.cpp` (context split), `llama-kv-cache*.cpp`,
//! `llama-memory-recurrent.cpp`, `llama-hparams.cpp`, `llama-model.cpp` (`create_memory`).

mod cells;
mod classes;
mod layers;
mod log;

use super::logical::{checkpoint_bytes, stored_states};
use super::naive::Naive;
use super::shard::{RankState, Split, quantity_of};
use super::share::Share;
use super::{Figure, Padding, PaddingOf, Profile, Quantity, Query};
use crate::architecture::Architecture;
use crate::format::{KvFormat, StateFormat};
use crate::mixer::Mixer;
use crate::settings::{MlaStorage, Settings};
use crate::warning::Warning;
use crate::{Bytes, BytesPerToken, Error, Result, Tokens, group_digits};
use cells::Cells;
use layers::Cache;

/// Values of one quantised block.
const GGML_BLOCK: u64 = 32;

/// What llama.cpp allocates for one context.
pub(super) struct LlamaPlan<'q> {
    query: &'q Query<'q>,
    settings: Settings,
    rank: RankState,
    cells: Cells,
    caches: Vec<Cache>,
    warnings: Vec<Warning>,
}

/// Which part of the memory a cache is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Role {
    /// A cell for every token.
    Full,
    /// Cells for the last tokens.
    Window,
    /// A cell for every group of tokens.
    Compressed,
    /// Keys of an indexer.
    Index,
    /// K and V of an encoder's output.
    Cross,
    /// Recurrent, convolution and compressor state.
    State,
}

impl Role {
    fn quantity(self) -> Quantity {
        match self {
            Self::Full | Self::Compressed => Quantity::KvBytes,
            Self::Window => Quantity::WindowBytes,
            Self::Index => Quantity::IndexBytes,
            Self::Cross => Quantity::CrossBytes,
            Self::State => Quantity::StateBytes,
        }
    }
}

impl<'q> LlamaPlan<'q> {
    pub(super) fn new(query: &'q Query<'q>) -> Result<Self> {
        let mut warnings = classes::warnings(query.architecture, query.settings);
        let settings = with_defaults(query.architecture, query.settings);
        let formats = query.architecture.formats(&settings);
        let range = 0..query.architecture.layer_count();
        let adjust = classes::as_kept(query.architecture);
        let mut rank = RankState::adjusted(query.architecture, &formats, Split::even(1), &range, adjust)?;
        if let Some(drafts) = settings.draft_layers {
            rank.add_drafts(drafts);
        }
        if let Some(layers) = classes::layers_of_caches(query.architecture) {
            rank.add_drafts(layers.saturating_sub(query.architecture.layer_count() as u64));
        }
        let cells = Cells::new(query)?;
        if cells.dropped_snapshots > 0 && has_state(&rank) {
            let name = if settings.n_rs_seq.is_some() { "n_rs_seq" } else { "num_speculative_tokens" };
            let message =
                "llama.cpp keeps no snapshots of this class's state to roll back to; none are counted";
            warnings.push(Warning::new(name, message));
        }
        warnings.extend(cells.too_few(query));
        formats_are_accepted(query, &settings, &rank)?;
        let caches = layers::caches(&rank, &formats, &cells)?;
        Ok(Self { query, settings, rank, cells, caches, warnings })
    }

    /// Bytes of all caches that `quantity` counts, over all streams.
    fn bytes(&self, quantity: Quantity) -> Result<Bytes> {
        let counted =
            |cache: &&Cache| quantity == Quantity::ResidentBytes || cache.role.quantity() == quantity;
        self.caches.iter().filter(counted).try_fold(Bytes::ZERO, |total, cache| total.plus(cache.bytes()?))
    }

    /// `40 layers × 1,536 cells × 8,192 B; …`: caches of windows and states, whose cells do not follow the tokens, and of
    /// entries for several tokens.
    fn cell_arithmetic(&self, quantity: Quantity) -> Option<String> {
        let caches = || self.caches.iter().filter(|cache| cache.role.quantity() == quantity);
        let ratios: Vec<u64> = caches().map(|cache| cache.ratio).collect();
        let why = match quantity {
            Quantity::WindowBytes => self.cells.window_words(),
            Quantity::KvBytes | Quantity::IndexBytes if ratios.iter().any(|ratio| *ratio > 1) => {
                format!("a cell for every {} tokens, in multiples of 256", several(ratios))
            }
            Quantity::StateBytes => {
                let [format, _] = caches().next()?.formats;
                format!("a sequence's convolution and recurrent or compressor state ({format})")
            }
            _ => return None,
        };
        let terms: Vec<String> = caches().map(Cache::worked).collect();
        (!terms.is_empty()).then(|| format!("{}; {why}", terms.join(" + ")))
    }

    /// Why the classes of a model keep a part otherwise.
    fn kept_by_class(&self, quantity: Quantity) -> Option<&'static str> {
        let mixers = || self.query.architecture.mixers();
        Some(match quantity {
            Quantity::KvBytes
                if classes::layers_of_caches(self.query.architecture)
                    .is_some_and(|layers| layers > self.query.architecture.layer_count() as u64) =>
            {
                "caches are made for as many layers as the encoder has"
            }
            Quantity::KvBytes | Quantity::WindowBytes
                if classes::leaves_windows_unused(self.query.architecture) =>
            {
                "the window of this class is not used, so its layers keep every token"
            }
            Quantity::KvBytes
                if self.settings.mla_storage == Some(MlaStorage::Expanded)
                    && self.query.settings.mla_storage.is_none() =>
            {
                "K and V of every head are cached, not the latent"
            }
            Quantity::StateBytes if mixers().any(|mixer| matches!(mixer, Mixer::Recurrent(_))) => {
                "the values of a convolution are f32, as all state is"
            }
            Quantity::IndexBytes
                if self.caches.iter().any(|cache| cache.role == Role::Index && cache.ratio == 1)
                    && mixers().filter_map(Mixer::index_keys).any(|keys| keys.pool.get() > 1) =>
            {
                "every token has cells of its own, where several share a key in the model"
            }
            Quantity::IndexBytes => "keys have the type of the K cache, without scales",
            Quantity::CrossBytes
                if classes::encoder_output(self.query.architecture)
                    == Some(classes::EncoderOutput::Recomputed) =>
            {
                "each step computes K and V of the encoder's output again"
            }
            _ => return None,
        })
    }

    /// Bytes of one more token of one request: caches with a free cell for it, padding averaged out.
    fn slope(&self) -> Result<BytesPerToken> {
        self.caches.iter().try_fold(BytesPerToken::ZERO, |total, cache| total.plus(cache.slope(&self.cells)?))
    }

    /// Bytes of one request that do not grow: its window cells, its state with snapshots, its encoder's output.
    fn fixed(&self) -> Result<Bytes> {
        self.caches.iter().try_fold(Bytes::ZERO, |total, cache| total.plus(cache.fixed(&self.cells)?))
    }
}

/// The defaults of the command-line tools: f16 caches, and f32 state, which no option changes
/// (`llama_model::create_memory`). Latents are kept as the class has them where nothing is set.
fn with_defaults(architecture: &Architecture, asked: &Settings) -> Settings {
    let mut settings = asked.clone();
    let plain = asked.kv_dtype.unwrap_or(KvFormat::F16);
    // K-only caches have no V type to differ from.
    settings.kv_dtype = Some(asked.k_dtype.unwrap_or(plain));
    settings.v_dtype = Some(asked.v_dtype.unwrap_or(plain));
    settings.state_dtype = Some(StateFormat::F32);
    settings.conv_dtype = Some(StateFormat::F32);
    if asked.mla_storage.is_none() && classes::keeps_heads_of_latents(architecture) {
        settings.mla_storage = Some(MlaStorage::Expanded);
    }
    settings
}

/// `4 and 128`
fn several(mut numbers: Vec<u64>) -> String {
    numbers.sort_unstable();
    numbers.dedup();
    numbers.iter().map(u64::to_string).collect::<Vec<_>>().join(" and ")
}

/// Whether sequences have recurrent or compressor state, which snapshots are of.
fn has_state(rank: &RankState) -> bool {
    let states = |component: &crate::StateComponent| quantity_of(component.kind) == Quantity::StateBytes;
    rank.classes().iter().flat_map(|class| &class.components).any(states)
}

/// What `llama_init_from_model` refuses of types: K and V of two for latents, which have no V of their own; quantised V without
/// flash attention, where it is stored transposed; and heads with it that quantised blocks do not divide.
fn formats_are_accepted(query: &Query<'_>, settings: &Settings, rank: &RankState) -> Result<()> {
    let mixers = || rank.classes().iter().flat_map(|class| &class.mixers);
    let [k, v] = [settings.kv_dtype, settings.v_dtype];
    let is_latent = |mixer: &Mixer| match mixer {
        Mixer::Mla(_) | Mixer::Dsa { .. } => settings.mla_storage != Some(MlaStorage::Expanded),
        Mixer::Compressed(_) => true,
        _ => false,
    };
    let one_type = mixers().any(is_latent);
    if one_type && k != v {
        let name = if query.settings.k_dtype.is_some() { "k_dtype" } else { "v_dtype" };
        let what = "llama.cpp refuses K and V of different types for latents; set kv_dtype alone";
        return Err(Error::setting(name, what));
    }
    let quantised = |format: Option<KvFormat>| format.filter(super::formats::GgmlBlocks::is_ggml_block);
    if settings.flash_attn == Some(false) {
        let Some(format) = quantised(v) else { return Ok(()) };
        let what = format!("{} V needs flash attention, which flash_attn=false turns off", format.name());
        return Err(Error::setting("v_dtype", what));
    }
    for heads in mixers().filter_map(|mixer| layers::heads_of(mixer, settings)) {
        for (name, format, width) in [("k_dtype", k, &heads.k_width), ("v_dtype", v, &heads.v_width)] {
            let Some(format) = quantised(format).filter(|_| width.get() % GGML_BLOCK != 0) else { continue };
            let what = format!(
                "{} has blocks of {GGML_BLOCK} values, which do not divide a head of {} ({}); llama.cpp refuses this; set f16",
                format.name(),
                width.get(),
                width.source()
            );
            return Err(Error::setting(name, what));
        }
    }
    Ok(())
}

impl Profile for LlamaPlan<'_> {
    fn most_requests(&self) -> Option<u64> {
        Some(cells::MOST_SEQUENCES)
    }

    fn figure(&self, quantity: Quantity) -> Result<Option<Figure>> {
        Ok(Some(match quantity {
            Quantity::SlopeBytesPerToken => Figure::Slope(self.slope()?),
            Quantity::FixedBytesPerRequest => Figure::Bytes(self.fixed()?),
            part if part.is_of_resident() => Figure::Bytes(self.bytes(part)?),
            Quantity::CheckpointBytes => {
                let state = checkpoint_bytes(&self.rank)?;
                Figure::Bytes(stored_states(self.query, state, self.query.batch)?)
            }
            Quantity::OverestimateFactor => {
                let naive = Naive {
                    architecture: self.query.architecture,
                    engine: self.query.engine.kind(),
                    rank: &self.rank,
                    settings: &self.settings,
                    context: Tokens::new(self.cells.per_stream),
                    batch: self.cells.streams,
                };
                naive.factor(self.bytes(Quantity::ResidentBytes)?)?
            }
            _ => return Ok(None),
        }))
    }

    /// Without ranks: what of a model lies on which device changes no sum.
    fn share(&self) -> Share {
        Share { tp: 1, pp: 1, layers_on_rank: None, ..Share::of_ranks(self.query) }
    }

    fn room_for(&self) -> u64 {
        self.cells.sequences
    }

    fn layers_holding(&self, quantity: Quantity) -> Option<u64> {
        let mut own = self.caches.iter().filter(|cache| cache.role.quantity() == quantity);
        let first = own.next()?;
        own.try_fold(first.layers, |sum, cache| {
            ((cache.cell, cache.cells) == (first.cell, first.cells)).then_some(sum + cache.layers)
        })
    }

    fn arithmetic(&self, quantity: Quantity) -> Result<Option<String>> {
        Ok(self.cell_arithmetic(quantity))
    }

    fn terms(&self, quantity: Quantity) -> Result<Option<String>> {
        let own = self.caches.iter().filter(|cache| cache.role.quantity() == quantity);
        let terms: Vec<String> = own.map(Cache::worked).collect();
        Ok((!terms.is_empty()).then(|| terms.join(" + ")))
    }

    /// Of states and index keys alone: f16 caches are as wide as bf16 ones.
    fn format_of(&self, quantity: Quantity) -> Option<&'static str> {
        match quantity {
            Quantity::StateBytes => self.rank.format_of(quantity),
            Quantity::IndexBytes => {
                let index = self.caches.iter().find(|cache| cache.role == Role::Index)?;
                index.formats.first().copied()
            }
            _ => None,
        }
    }

    fn kept_otherwise(&self, quantity: Quantity) -> Vec<String> {
        let of_tokens = [Quantity::KvBytes, Quantity::IndexBytes, Quantity::WindowBytes];
        let missed = self.cells.missed(self.query).filter(|_| of_tokens.contains(&quantity));
        let too_few = missed.map(|needed| {
            let own = group_digits(self.cells.per_stream);
            format!("n_ctx gives a stream {own} cells, where {} are asked for", group_digits(needed))
        });
        too_few.into_iter().chain(self.kept_by_class(quantity).map(str::to_owned)).collect()
    }

    fn content(&self, quantity: Quantity) -> Result<Bytes> {
        let counted = self.caches.iter().filter(|cache| cache.role.quantity() == quantity);
        let mut total = Bytes::ZERO;
        for cache in counted {
            total = total.plus(cache.content(&self.cells)?)?;
        }
        Ok(total)
    }

    fn padding_of(&self) -> Option<PaddingOf> {
        Some(PaddingOf { context: self.query.context?, batch: self.query.batch })
    }

    fn padding(&self) -> Result<Vec<Padding>> {
        let mut found = Vec::new();
        for cache in &self.caches {
            found.extend(cache.padding(&self.cells)?);
        }
        Ok(found)
    }

    fn log_lines(&self) -> Result<Vec<String>> {
        log::lines(&self.caches, &self.cells, self.query.architecture)
    }

    fn warnings(&self) -> Vec<Warning> {
        self.warnings.clone()
    }
}
