//! DeepSeek-V4's and V4.1's pools: compressed entries for every token, a window pool, and compressor state
//! (`DSV4PoolConfigurator`, `mem_cache/deepseek_v4_memory_pool.py`).

mod log;
mod worked;

use super::launch::Launch;
use super::pool::{PoolParts, PoolTokens, aligned, decimal, part_of, rounded_up};
use super::requests;
use super::serving::Asked;
use super::v4_layout::{PageLayout, index_format, is_low};
use super::window_size::{LiveWindows, WindowCap, WindowSize, WindowTokens};
use crate::engine::shard::RankState;
use crate::format::IndexFormat;
use crate::mixer::{CompressedAttention, Compression, Generation, Mixer};
use crate::settings::Settings;
use crate::units::truncated;
use crate::{Bytes, BytesPerToken, Error, Result};

/// Tokens of a group whose compressor keeps overlapping halves, with an indexer.
const SPARSE_RATIO: u64 = 4;
/// Tokens of a group that is read in full.
const DENSE_RATIO: u64 = 128;
/// Tokens of a pair, whose first half waits in a ring of its own.
const PAIR_RATIO: u64 = 2;
/// Ratios whose compressors have a ring for every request slot.
const RING_RATIOS: [u64; 2] = [DENSE_RATIO, PAIR_RATIO];
/// Slots of a page of V4.1's index keys: for the sparse kernel of compute capability 10, for every other
/// (`dsv41_index_page_size`).
const LOW_INDEX_PAGES: [u64; 2] = [128, 64];
/// Window tokens over full tokens where neither a ratio nor a number of requests is set.
const DEFAULT_RATIO: f64 = 0.1;
/// The default of other models, which a launch file may state without meaning it.
const STATED_DEFAULT: f64 = 0.8;
/// Cached prefixes whose window stays addressable, for each admitted request.
const PREFIX_TAILS: u64 = 4;

/// What one rank's pools cost. Fractions of a byte for each token are kept as bytes of a whole page.
#[derive(Clone, Debug)]
pub(super) struct V4Pool {
    page: u64,
    low_index_page: u64,
    streams: Vec<Stream>,
    layers: u64,
    /// Bytes of a page of window records of one layer.
    window_page: Bytes,
    generation: Generation,
    width: u64,
    index_width: u64,
    drafts: u64,
    /// Requests that the launch admits.
    requests: u64,
    tokens: WindowTokens,
}

/// Layers that own entries of one compression ratio.
#[derive(Clone, Debug)]
struct Stream {
    ratio: u64,
    layers: u64,
    /// Bytes of one page of entries of one layer.
    page: Bytes,
    keys: Option<Keys>,
}

/// Bytes of an index key.
#[derive(Clone, Copy, Debug)]
struct Keys {
    /// As the budget counts it: V4's in the FP8 layout, even where FP4 keys are kept.
    budgeted: Bytes,
    kept: Bytes,
}

impl V4Pool {
    pub(super) fn new(rank: &RankState, settings: &Settings, launch: &Launch) -> Result<Self> {
        if !launch.page.is_multiple_of(DENSE_RATIO) {
            let what =
                format!("{} is no multiple of {DENSE_RATIO}, which compressed pools need", launch.page);
            return Err(Error::setting("block_size", what));
        }
        let mut pool = Self {
            page: launch.page,
            low_index_page: if launch.is_sm100 { LOW_INDEX_PAGES[0] } else { LOW_INDEX_PAGES[1] },
            streams: Vec::new(),
            layers: 0,
            window_page: Bytes::ZERO,
            generation: Generation::V4,
            width: 0,
            index_width: 0,
            drafts: settings.draft_tokens(),
            requests: requests::asked(launch).unwrap_or(1),
            tokens: WindowTokens { size: WindowSize::Ratio(DEFAULT_RATIO), longest: 0, page: launch.page },
        };
        for class in rank.classes() {
            for mixer in &class.mixers {
                if let Mixer::Compressed(attention) = mixer {
                    pool.add(attention, class.layers, settings, launch)?;
                }
            }
        }
        pool.tokens.size = pool.window_size(settings, launch)?;
        Ok(pool)
    }

    fn add(
        &mut self,
        attention: &CompressedAttention,
        layers: u64,
        settings: &Settings,
        launch: &Launch,
    ) -> Result<()> {
        let layout = PageLayout::of_windows(attention.generation, launch);
        self.layers += layers;
        self.width = attention.width.get();
        self.tokens.longest = self.tokens.longest.max(attention.window.get());
        self.window_page = layout.page(attention, self.page)?;
        self.generation = attention.generation;
        let Some(Compression { ratio, own_store: true, index, .. }) = &attention.compression else {
            return Ok(());
        };
        let ratio = ratio.get();
        if !is_low(ratio) && ![SPARSE_RATIO, DENSE_RATIO].contains(&ratio) {
            let what = format!("SGLang has no pool for a compression ratio of {ratio}");
            return Err(Error::field("compress_ratios", what));
        }
        if let Some(known) = self.streams.iter_mut().find(|stream| stream.ratio == ratio) {
            known.layers += layers;
            return Ok(());
        }
        let keys = index
            .as_ref()
            .map(|index| {
                self.index_width = index.width.get();
                let kept = index_format(ratio, settings);
                if kept == IndexFormat::Bf16 {
                    let what = "bf16 keys have no pool in SGLang; DeepSeek-V4's are fp8 or fp4";
                    return Err(Error::setting("index_dtype", what));
                }
                let budgeted = if is_low(ratio) { kept } else { IndexFormat::Fp8 };
                Ok::<_, Error>(Keys {
                    budgeted: budgeted.key(self.index_width)?,
                    kept: kept.key(self.index_width)?,
                })
            })
            .transpose()?;
        let page = layout.of_entries(ratio).page(attention, self.page / ratio)?;
        self.streams.push(Stream { ratio, layers, page, keys });
        Ok(())
    }

    /// A ratio that is set goes first. Else an explicit number of requests caps the pool, radix cache or not; V4.1's
    /// default number does so too, while V4's launch sets a ratio (`model_overrides/deepseek_v4.py`).
    fn window_size(&self, settings: &Settings, launch: &Launch) -> Result<WindowSize> {
        let stated = settings.swa_full_tokens_ratio.map(crate::PoolRatio::get);
        let capped =
            launch.caps_v4 && (settings.max_running_requests.is_some() || self.generation == Generation::V41);
        let meant = |ratio: &f64| !capped || (ratio - STATED_DEFAULT).abs() > f64::EPSILON;
        if let Some(ratio) = stated.filter(meant) {
            return Ok(WindowSize::Ratio(ratio));
        }
        if !capped {
            return Ok(WindowSize::Ratio(DEFAULT_RATIO));
        }
        let tails = if settings.radix_cache == Some(false) { 0 } else { PREFIX_TAILS };
        let tails = tails.saturating_mul(self.tokens.longest.saturating_add(self.page));
        let live = LiveWindows::new(settings, launch, self.tokens.longest)?;
        Ok(WindowSize::Cap(WindowCap::new(live, tails, self.requests, self.page)))
    }

    /// What decides the tokens of the window pool.
    pub(super) fn window_tokens(&self) -> &WindowTokens {
        &self.tokens
    }

    /// Whether requests cap the pool although a launch sets a ratio for this generation.
    pub(super) fn is_capped_against_launch(&self) -> bool {
        self.generation == Generation::V4 && matches!(self.tokens.size, WindowSize::Cap(_))
    }

    fn layers_of(&self, ratio: u64) -> u64 {
        self.streams.iter().filter(|stream| stream.ratio == ratio).map(|stream| stream.layers).sum()
    }

    /// Bytes of compressed entries for one page of tokens, and of its index keys as they are budgeted.
    fn full_page(&self) -> Result<[Bytes; 2]> {
        self.streams.iter().try_fold([Bytes::ZERO; 2], |[entries, keys], stream| {
            let key = stream.keys.map_or(Bytes::ZERO, |keys| keys.budgeted);
            Ok([
                entries.plus(stream.page.times(stream.layers)?)?,
                keys.plus(key.times(self.page / stream.ratio)?.times(stream.layers)?)?,
            ])
        })
    }

    /// Rows of the ring that a compressor keeps, deeper where drafts may be taken back
    /// (`get_compress_state_ring_size`).
    fn ring(&self, ratio: u64) -> u64 {
        match (ratio, self.drafts) {
            (PAIR_RATIO, drafts) => (drafts + 2).next_power_of_two(),
            (SPARSE_RATIO, 0) => 8,
            (SPARSE_RATIO, _) => 16,
            (_, 0) => 128,
            _ => 256,
        }
    }

    /// Bytes of one row of a sparse layer's compressor and its indexer's: two overlapping halves of value and weight.
    fn sparse_row(&self) -> u64 {
        4 * 4 * (self.width + self.index_width)
    }

    /// Bytes of one page of the window pool: records of every layer, and the rows of sparse compressors, which are
    /// addressed by window page. `[records, rows]`
    fn window_page(&self) -> Result<[Bytes; 2]> {
        let records = self.window_page.times(self.layers)?;
        let rows = Bytes::new(self.sparse_row())
            .times(self.ring(SPARSE_RATIO))?
            .times(self.layers_of(SPARSE_RATIO))?;
        Ok([records, rows])
    }

    /// A draft layer is charged as one more layer like the average.
    fn with_drafts(&self, cost: BytesPerToken) -> Result<BytesPerToken> {
        if self.drafts == 0 || self.layers == 0 {
            return Ok(cost);
        }
        let scaled = cost.times(self.layers + 1)?;
        scaled.divided_by(self.layers)
    }

    fn growth_per_token(&self) -> Result<BytesPerToken> {
        let [entries, keys] = self.full_page()?;
        self.with_drafts(BytesPerToken::new(entries.plus(keys)?, self.page)?)
    }

    fn per_window_token(&self) -> Result<BytesPerToken> {
        let [records, rows] = self.window_page()?;
        self.with_drafts(BytesPerToken::new(records.plus(rows)?, self.page)?)
    }

    pub(super) fn bytes_per_token(&self) -> Result<BytesPerToken> {
        let full = self.growth_per_token()?;
        let Some(ratio) = self.tokens.ratio() else { return Ok(full) };
        let (numerator, denominator) = decimal(ratio)?;
        full.plus(self.per_window_token()?.times(numerator)?.divided_by(denominator)?)
    }

    /// Rows of compressors that each of `requests` has a ring of, one ring more and one row, in whole groups.
    fn slot_state(&self, requests: u64) -> Result<Bytes> {
        self.ring_state(|ratio| self.slot_rows(ratio, requests))
    }

    /// Rows of the rings that one request slot has.
    pub(super) fn ring_of_request(&self) -> Result<Bytes> {
        self.ring_state(|ratio| self.ring(ratio))
    }

    /// Rows of the compressors whose rings belong to request slots: of dense layers, and of those that make pairs.
    fn ring_state(&self, rows: impl Fn(u64) -> u64) -> Result<Bytes> {
        RING_RATIOS.into_iter().try_fold(Bytes::ZERO, |total, ratio| {
            total.plus(self.ring_row().times(rows(ratio))?.times(self.layers_of(ratio))?)
        })
    }

    /// Bytes of one row of such a compressor: value and weight in f32.
    fn ring_row(&self) -> Bytes {
        Bytes::new(2 * self.width * 4)
    }

    fn slot_rows(&self, ratio: u64, requests: u64) -> u64 {
        let ring = self.ring(ratio);
        let rows = requests.saturating_add(1).saturating_mul(ring).saturating_add(ring + 1);
        rows.next_multiple_of(ratio)
    }

    /// Rows of sparse compressors in the tensors for so many window pages: one row more, in whole groups.
    fn sparse_rows(&self, window_pages: u64) -> u64 {
        window_pages.saturating_mul(self.ring(SPARSE_RATIO)).saturating_add(1).next_multiple_of(SPARSE_RATIO)
    }

    /// Slots of V4.1's index pools: a page of tokens more, and a page of its own.
    fn low_index_slots(&self, full: u64, ratio: u64) -> u64 {
        ((full + self.page) / ratio + self.low_index_page).next_multiple_of(self.low_index_page)
    }

    /// Bytes of V4.1's pools beyond those that follow the tokens (`_get_low_ratio_kv_padding_bytes`).
    fn low_padding(&self, full: u64) -> Result<Bytes> {
        let low = self.streams.iter().filter(|stream| is_low(stream.ratio));
        low.into_iter().try_fold(Bytes::ZERO, |total, stream| {
            let slots = self.low_index_slots(full, stream.ratio) - full / stream.ratio;
            let keys = stream.keys.map_or(Bytes::ZERO, |keys| keys.budgeted).times(slots)?;
            total.plus(stream.page.times(stream.ratio)?.plus(keys)?.times(stream.layers)?)
        })
    }

    pub(super) fn of_budget(&self, available: u64) -> Result<PoolTokens> {
        let cell = self.bytes_per_token()?.as_f64();
        let mut fixed = self.slot_state(self.requests)?.get() as f64;
        if let WindowSize::Cap(cap) = self.tokens.size {
            fixed += cap.of_launch()? as f64 * self.per_window_token()?.as_f64();
        }
        let left = (available as f64 - fixed).max(0.0);
        let mut tokens = aligned(truncated(left / cell), self.page);
        while tokens > 0 && tokens as f64 * cell + self.low_padding(tokens)?.get() as f64 > left {
            tokens -= self.page;
        }
        if tokens == 0 {
            let what =
                format!("{available} B leave no room for a page beside {fixed} B of windows and state");
            return Err(Error::setting("available_kv_bytes", what));
        }
        self.of_tokens(tokens)
    }

    pub(super) fn of_tokens(&self, tokens: u64) -> Result<PoolTokens> {
        let full = aligned(tokens, self.page);
        Ok(PoolTokens { full, window: Some(self.tokens.beside(full)?), rings: self.requests })
    }

    /// The smallest pools that serve a batch, with rings for the requests of the launch, or of one that admits them all.
    pub(super) fn serving(&self, asked: Asked) -> Result<PoolTokens> {
        let full = self.tokens.serving(asked)?.full.max(self.page);
        self.serving_beside(asked, full)
    }

    /// The same with `full` tokens.
    pub(super) fn serving_beside(&self, asked: Asked, full: u64) -> Result<PoolTokens> {
        let pools = self.tokens.serving_beside(asked, full)?;
        Ok(PoolTokens { rings: asked.requests.max(self.requests), ..pools })
    }

    /// What a budget counts for these tokens, and state of every request slot.
    pub(super) fn budget(&self, tokens: PoolTokens) -> Result<PoolParts> {
        let [entries, keys] = self.full_page()?;
        let [records, rows] = self.window_page()?;
        let each = |bytes: Bytes| self.with_drafts(BytesPerToken::new(bytes, self.page)?);
        let of_windows = |bytes: Bytes| match self.tokens.ratio() {
            Some(ratio) => part_of(each(bytes)?, tokens.full, ratio),
            None => rounded_up(each(bytes)?, tokens.window.unwrap_or(0)),
        };
        Ok(PoolParts {
            kv: rounded_up(each(entries)?, tokens.full)?.plus(self.low_padding(tokens.full)?)?,
            index: rounded_up(each(keys)?, tokens.full)?,
            window: of_windows(records)?,
            state: of_windows(rows)?.plus(self.slot_state(tokens.rings)?)?,
        })
    }

    /// Pages of entries in the tensors of one layer.
    fn stream_pages(&self, stream: &Stream, tokens: PoolTokens) -> u64 {
        tokens.full / self.page + stream.ratio
    }

    /// Index keys in the tensors of one layer.
    fn key_slots(&self, stream: &Stream, tokens: PoolTokens) -> u64 {
        if is_low(stream.ratio) {
            return self.low_index_slots(tokens.full, stream.ratio);
        }
        self.stream_pages(stream, tokens).saturating_mul(self.page / stream.ratio)
    }

    /// Allocators keep a whole page of tokens free, which is `ratio` pages of entries (`_num_dsv4_physical_kv_pages`).
    pub(super) fn parts(&self, tokens: PoolTokens) -> Result<PoolParts> {
        let (mut kv, mut index) = (Bytes::ZERO, Bytes::ZERO);
        for stream in &self.streams {
            kv = kv.plus(stream.page.times(self.stream_pages(stream, tokens))?.times(stream.layers)?)?;
            let key = stream.keys.map_or(Bytes::ZERO, |keys| keys.kept);
            index = index.plus(key.times(self.key_slots(stream, tokens))?.times(stream.layers)?)?;
        }
        let window_pages = tokens.window.unwrap_or(0) / self.page + 1;
        let [records, _] = self.window_page()?;
        let sparse = Bytes::new(self.sparse_row())
            .times(self.sparse_rows(window_pages))?
            .times(self.layers_of(SPARSE_RATIO))?;
        Ok(PoolParts {
            kv,
            index,
            window: records.times(window_pages)?,
            state: sparse.plus(self.slot_state(tokens.rings)?)?,
        })
    }
}
