//! DeepSeek-V4's pools: compressed entries for every token, a window pool, and compressor state
//! (`DSV4PoolConfigurator`, `mem_cache/deepseek_v4_memory_pool.py`).

use super::launch::Launch;
use super::pool::{PoolParts, PoolTokens, aligned, decimal, truncated};
use super::requests;
use super::windowed::worst_case_tokens;
use crate::architecture::Architecture;
use crate::engine::shard::RankState;
use crate::format::KvFormat;
use crate::mixer::{CompressedAttention, Compression, Generation, Mixer};
use crate::settings::Settings;
use crate::{Bytes, BytesPerToken, Error, Result};

/// A page of records is padded to a multiple of this.
const PAGE_PADDING: u64 = 576;
/// Ratios of the two compressed streams.
const SPARSE_RATIO: u64 = 4;
const DENSE_RATIO: u64 = 128;
/// Bytes of an index key in the budget: the FP8 layout, even where FP4 keys are kept.
const INDEX_KEY_SCALE_GROUP: u64 = 128;
/// Window tokens over full tokens where neither a ratio nor a number of requests is set.
const DEFAULT_RATIO: f64 = 0.1;
/// Defaults of the server, which a launch file may state without meaning them.
const STATED_DEFAULTS: [f64; 2] = [0.1, 0.8];
/// Cached prefixes whose window stays addressable, for each admitted request.
const PREFIX_TAILS: u64 = 4;

/// What one rank's pools cost. Fractions of a byte for each token are kept as bytes of a whole page.
#[derive(Clone, Debug)]
pub(super) struct V4Pool {
    page: u64,
    sparse_layers: u64,
    dense_layers: u64,
    layers: u64,
    record: u64,
    width: u64,
    index_width: u64,
    window: u64,
    drafting: Drafting,
    context: Option<u64>,
    asked_requests: Option<u64>,
    size: WindowSize,
}

/// Whether a draft model shares the pools.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Drafting {
    Off,
    On,
}

/// What decides the tokens of the window pool.
#[derive(Clone, Copy, Debug)]
enum WindowSize {
    Ratio(f64),
    Cap(u64),
}

impl V4Pool {
    pub(super) fn new(
        architecture: &Architecture,
        rank: &RankState,
        settings: &Settings,
        launch: &Launch,
    ) -> Result<Self> {
        if !launch.page.is_multiple_of(DENSE_RATIO) {
            let what =
                format!("{} is no multiple of {DENSE_RATIO}, which compressed pools need", launch.page);
            return Err(Error::setting("block_size", what));
        }
        let mut pool = Self {
            page: launch.page,
            sparse_layers: 0,
            dense_layers: 0,
            layers: 0,
            record: 0,
            width: 0,
            index_width: 0,
            window: 0,
            drafting: if settings.draft_tokens() > 0 { Drafting::On } else { Drafting::Off },
            context: settings.max_model_len.or_else(|| architecture.max_context().map(crate::Fact::get)),
            asked_requests: requests::asked(settings, launch),
            size: WindowSize::Ratio(DEFAULT_RATIO),
        };
        for class in rank.classes() {
            for mixer in &class.mixers {
                if let Mixer::Compressed(attention) = mixer {
                    pool.add(attention, class.layers)?;
                }
            }
        }
        pool.size = pool.window_size(settings, launch);
        Ok(pool)
    }

    fn add(&mut self, attention: &CompressedAttention, layers: u64) -> Result<()> {
        if attention.generation == Generation::V41 {
            let what = "SGLang's pools for DeepSeek-V4.1 are not known; ask engine logical";
            return Err(Error::field("compress_ratios", what));
        }
        self.layers += layers;
        self.width = attention.width.get();
        self.record = KvFormat::Fp8DsMla.entry(self.width, attention.rope.get())?.get();
        self.window = self.window.max(attention.window.get());
        let Some(Compression { ratio, index, .. }) = &attention.compression else { return Ok(()) };
        match ratio.get() {
            SPARSE_RATIO => self.sparse_layers += layers,
            DENSE_RATIO => self.dense_layers += layers,
            other => {
                let what = format!("SGLang has no pool for a compression ratio of {other}");
                return Err(Error::field("compress_ratios", what));
            }
        }
        if let Some(index) = index {
            self.index_width = index.width.get();
        }
        Ok(())
    }

    /// An explicit number of requests caps the window pool, radix cache or not; a ratio that is not a default goes
    /// before it.
    fn window_size(&self, settings: &Settings, launch: &Launch) -> WindowSize {
        let ratio = settings.swa_full_tokens_ratio.map(crate::PoolRatio::get);
        let stated = ratio.filter(|ratio| !STATED_DEFAULTS.contains(ratio));
        let cap = worst_case_tokens(settings, launch, self.window).map(|cap| {
            let requests = self.asked_requests.unwrap_or(0);
            let tails = if settings.radix_cache == Some(false) { 0 } else { PREFIX_TAILS * requests };
            let headroom = tails.saturating_mul(self.window.saturating_add(self.page));
            cap.saturating_add(headroom).next_multiple_of(self.page)
        });
        match (stated, cap) {
            (Some(ratio), _) => WindowSize::Ratio(ratio),
            (None, Some(cap)) => WindowSize::Cap(cap),
            (None, None) => WindowSize::Ratio(ratio.unwrap_or(DEFAULT_RATIO)),
        }
    }

    /// Bytes of a page that holds `slots` records.
    fn page_bytes(&self, slots: u64) -> Result<Bytes> {
        Bytes::new(self.record).times(slots)?.round_up_to(PAGE_PADDING)
    }

    fn index_key(&self) -> u64 {
        self.index_width + self.index_width / INDEX_KEY_SCALE_GROUP * 4
    }

    /// Bytes of compressed entries for one page of tokens, and of its index keys.
    fn full_page(&self) -> Result<[Bytes; 2]> {
        let sparse = self.page_bytes(self.page / SPARSE_RATIO)?.times(self.sparse_layers)?;
        let dense = self.page_bytes(self.page / DENSE_RATIO)?.times(self.dense_layers)?;
        let keys = Bytes::new(self.index_key()).times(self.page / SPARSE_RATIO)?.times(self.sparse_layers)?;
        Ok([sparse.plus(dense)?, keys])
    }

    /// Rows of the ring that a compressor keeps, deeper where drafts may be taken back.
    fn ring(&self, ratio: u64) -> u64 {
        match self.drafting {
            Drafting::Off if ratio == SPARSE_RATIO => 8,
            Drafting::Off => 128,
            Drafting::On if ratio == SPARSE_RATIO => 16,
            Drafting::On => 256,
        }
    }

    /// Bytes of one row of a sparse layer's compressor and its indexer's: two overlapping halves of value and weight.
    fn sparse_row(&self) -> u64 {
        4 * 4 * (self.width + self.index_width)
    }

    /// Bytes of one page of the window pool: records of every layer, and the rows of sparse compressors, which are
    /// addressed by window page. `[records, rows]`
    fn window_page(&self) -> Result<[Bytes; 2]> {
        let records = self.page_bytes(self.page)?.times(self.layers)?;
        let rows = Bytes::new(self.sparse_row()).times(self.ring(SPARSE_RATIO))?.times(self.sparse_layers)?;
        Ok([records, rows])
    }

    /// A draft layer is charged as one more layer like the average.
    fn with_drafts(&self, cost: BytesPerToken) -> Result<BytesPerToken> {
        if self.drafting == Drafting::Off || self.layers == 0 {
            return Ok(cost);
        }
        let scaled = cost.times(self.layers + 1)?;
        divided(scaled, self.layers)
    }

    pub(super) fn growth_per_token(&self) -> Result<BytesPerToken> {
        let [entries, keys] = self.full_page()?;
        self.with_drafts(BytesPerToken::new(entries.plus(keys)?, self.page)?)
    }

    fn per_window_token(&self) -> Result<BytesPerToken> {
        let [records, rows] = self.window_page()?;
        self.with_drafts(BytesPerToken::new(records.plus(rows)?, self.page)?)
    }

    pub(super) fn bytes_per_token(&self) -> Result<BytesPerToken> {
        let full = self.growth_per_token()?;
        let WindowSize::Ratio(ratio) = self.size else { return Ok(full) };
        let (numerator, denominator) = decimal(ratio)?;
        full.plus(divided(self.per_window_token()?.times(numerator)?, denominator)?)
    }

    /// Rows of dense compressors for every request slot, a ring more and one, whole groups.
    fn dense_state(&self, requests: u64) -> Result<Bytes> {
        if self.dense_layers == 0 {
            return Ok(Bytes::ZERO);
        }
        let ring = self.ring(DENSE_RATIO);
        let slots = requests.saturating_add(1);
        let rows = slots.saturating_mul(ring).saturating_add(ring + 1).next_multiple_of(DENSE_RATIO);
        Bytes::new(2 * self.width * 4).times(rows)?.times(self.dense_layers)
    }

    pub(super) fn of_budget(&self, available: u64) -> Result<PoolTokens> {
        let cell = self.bytes_per_token()?.as_f64();
        let requests = match (self.asked_requests, self.context) {
            (Some(asked), _) => asked,
            (None, Some(context)) => {
                let tokens = truncated(available as f64 / cell);
                requests::estimated(tokens, context).min(tokens / 2)
            }
            (None, None) => return Err(crate::engine::needed("max_model_len")),
        };
        let mut fixed = self.dense_state(requests)?.get() as f64;
        if let WindowSize::Cap(tokens) = self.size {
            fixed += tokens as f64 * self.per_window_token()?.as_f64();
        }
        let left = (available as f64 - fixed).max(0.0);
        let tokens = aligned(truncated(left / cell), self.page);
        if tokens == 0 {
            let what =
                format!("{available} B leave no room for a page beside {fixed} B of windows and state");
            return Err(Error::setting("available_kv_bytes", what));
        }
        self.of_tokens(tokens)
    }

    pub(super) fn of_tokens(&self, tokens: u64) -> Result<PoolTokens> {
        let full = aligned(tokens, self.page);
        let window = match self.size {
            WindowSize::Cap(cap) => cap,
            WindowSize::Ratio(ratio) => aligned(truncated(full as f64 * ratio), self.page),
        };
        if matches!(self.size, WindowSize::Ratio(_)) && self.window.saturating_add(self.page) >= window {
            let what = format!(
                "the window pool has {window} tokens, but one request needs more than its window of {} and a page of {}",
                self.window, self.page
            );
            return Err(Error::setting("swa_full_tokens_ratio", what));
        }
        Ok(PoolTokens { full, window: Some(window) })
    }

    /// Tensors have one page more than their tokens. Compressor state of dense layers is by request.
    pub(super) fn parts(&self, tokens: PoolTokens) -> Result<PoolParts> {
        let pages = tokens.full / self.page + 1;
        let window_pages = tokens.window.unwrap_or(0) / self.page + 1;
        let [entries, keys] = self.full_page()?;
        let [records, _] = self.window_page()?;
        let ring = self.ring(SPARSE_RATIO);
        let rows = (window_pages - 1).saturating_mul(ring).saturating_add(ring + 1);
        let sparse = Bytes::new(self.sparse_row())
            .times(rows.next_multiple_of(SPARSE_RATIO))?
            .times(self.sparse_layers)?;
        let dense = match self.asked_requests {
            Some(requests) => self.dense_state(requests)?,
            None => Bytes::ZERO,
        };
        Ok(PoolParts {
            kv: entries.times(pages)?,
            index: keys.times(pages)?,
            window: records.times(window_pages)?,
            state: sparse.plus(dense)?,
        })
    }
}

fn divided(cost: BytesPerToken, by: u64) -> Result<BytesPerToken> {
    let denominator = cost
        .denominator()
        .checked_mul(by)
        .ok_or_else(|| Error::overflow(format!("a slope divided by {by}")))?;
    BytesPerToken::new(Bytes::new(cost.numerator()), denominator)
}
