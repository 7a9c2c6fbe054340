//! A pool for window layers beside the one for full layers (`HybridSWAPoolConfigurator`).

use super::classes;
use super::launch::{Launch, Overlap};
use super::pool::{
    PoolParts, PoolTokens, aligned, decimal, floor_divided, part_of, tokens_for_window, truncated,
    window_of_ratio,
};
use super::serving::Asked;
use crate::architecture::Architecture;
use crate::engine::Quantity;
use crate::engine::shard::{RankState, quantity_of};
use crate::growth::Growth;
use crate::settings::Settings;
use crate::{Bytes, BytesPerToken, Error, Result, group_digits};

/// Tokens between two evictions of a window (`SGLANG_SWA_EVICTION_INTERVAL`).
const EVICTION_INTERVAL: u64 = 128;

/// Bytes of one token in each pool, and how many tokens the window pool has.
#[derive(Clone, Debug)]
pub(super) struct WindowedPool {
    full: Bytes,
    index: Bytes,
    window: Bytes,
    size: WindowSize,
    longest: u64,
}

/// What decides the tokens of the window pool.
#[derive(Clone, Copy, Debug)]
enum WindowSize {
    /// A part of the full pool's tokens.
    Ratio(f64),
    /// All layers have windows: the only pool.
    Alone,
    /// What the admitted requests can hold at worst.
    Cap(u64),
}

impl WindowedPool {
    pub(super) fn new(
        architecture: &Architecture,
        rank: &RankState,
        settings: &Settings,
        launch: &Launch,
    ) -> Result<Self> {
        let mut pool = Self {
            full: Bytes::ZERO,
            index: Bytes::ZERO,
            window: Bytes::ZERO,
            size: WindowSize::Alone,
            longest: 0,
        };
        let (mut full_layer, mut window_layer) = (None, None);
        for class in rank.classes() {
            for component in &class.components {
                let entry = component.growth.entry();
                let bytes = entry.times(class.layers)?;
                match quantity_of(component.kind) {
                    Quantity::WindowBytes => {
                        pool.window = pool.window.plus(bytes)?;
                        window_layer = Some(entry);
                        pool.longest = pool.longest.max(window_of(component.growth));
                    }
                    Quantity::KvBytes => {
                        pool.full = pool.full.plus(bytes)?;
                        full_layer = Some(entry);
                    }
                    Quantity::IndexBytes => pool.index = pool.index.plus(bytes)?,
                    _ => {}
                }
            }
        }
        if full_layer.is_some() {
            pool.size = match request_cap(settings, launch, pool.longest) {
                Some(cap) => WindowSize::Cap(cap),
                None => WindowSize::Ratio(
                    settings
                        .swa_full_tokens_ratio
                        .map_or_else(|| classes::default_ratio(architecture), crate::PoolRatio::get),
                ),
            };
        }
        let drafts = settings.draft_layers.unwrap_or(0);
        match (full_layer, window_layer) {
            (_, Some(layer)) if classes::drafts_with_windows(architecture) => {
                pool.window = pool.window.plus(layer.times(drafts)?)?;
            }
            (Some(layer), _) => pool.full = pool.full.plus(layer.times(drafts)?)?,
            _ => {}
        }
        Ok(pool)
    }

    /// Bytes of one token of the full pool alone.
    fn full_cell(&self) -> Result<Bytes> {
        self.full.plus(self.index)
    }

    fn growth_per_token(&self) -> Result<BytesPerToken> {
        BytesPerToken::new(self.full_cell()?, 1)
    }

    pub(super) fn bytes_per_token(&self) -> Result<BytesPerToken> {
        let full = self.growth_per_token()?;
        match self.size {
            WindowSize::Ratio(ratio) => {
                let (numerator, denominator) = decimal(ratio)?;
                full.plus(BytesPerToken::new(self.window.times(numerator)?, denominator)?)
            }
            WindowSize::Alone => BytesPerToken::new(self.window, 1),
            WindowSize::Cap(_) => Ok(full),
        }
    }

    /// The engine divides in floating point where a ratio is part of the cell.
    pub(super) fn of_budget(&self, available: u64, launch: &Launch) -> Result<PoolTokens> {
        let full_cell = self.full_cell()?.get();
        match self.size {
            WindowSize::Ratio(ratio) => {
                let cell = full_cell as f64 + ratio * self.window.get() as f64;
                self.of_tokens(truncated(floor_divided(available as f64, cell)), launch)
            }
            WindowSize::Alone => self.of_tokens(available / self.window.get().max(1), launch),
            WindowSize::Cap(tokens) => {
                let fixed = self.window.times(tokens)?.get();
                let left = available.checked_sub(fixed).filter(|left| *left >= full_cell).ok_or_else(|| {
                    let what = format!(
                        "{available} B leave nothing for full layers beside {fixed} B for windows; fewer requests \
                         need fewer"
                    );
                    Error::setting("max_running_requests", what)
                })?;
                self.of_tokens(left / full_cell.max(1), launch)
            }
        }
    }

    pub(super) fn of_tokens(&self, tokens: u64, launch: &Launch) -> Result<PoolTokens> {
        let full = aligned(tokens, launch.page);
        let window = match self.size {
            WindowSize::Ratio(ratio) => window_of_ratio(full, ratio, launch.page),
            WindowSize::Alone => full,
            WindowSize::Cap(cap) => cap.min(tokens),
        };
        let ratio_sized = matches!(self.size, WindowSize::Ratio(_));
        if ratio_sized && self.longest.saturating_add(launch.page) >= window {
            let what = format!(
                "the window pool has {window} tokens, but one request needs more than its window of {} and a page of {}",
                self.longest, launch.page
            );
            return Err(Error::setting("swa_full_tokens_ratio", what));
        }
        Ok(PoolTokens { full, window: Some(window) })
    }

    /// The part of the full pool's tokens that the window pool has, where it follows them.
    pub(super) fn ratio(&self) -> Option<f64> {
        match self.size {
            WindowSize::Ratio(ratio) => Some(ratio),
            _ => None,
        }
    }

    /// Whether the window pool is a part of the full one.
    pub(super) fn follows_tokens(&self) -> bool {
        self.ratio().is_some()
    }

    /// Windows of all requests, and no less than a launch accepts: more than one window and a page.
    pub(super) fn serving(&self, asked: Asked, launch: &Launch) -> Result<PoolTokens> {
        let windows = asked.window_slots(self.longest, launch.page)?;
        Ok(match self.size {
            WindowSize::Ratio(ratio) => {
                let least = self.longest.saturating_add(launch.page).saturating_add(1);
                let least = aligned(least.saturating_add(launch.page - 1), launch.page);
                let full = tokens_for_window(windows.max(least), ratio, launch.page)?.max(asked.all_slots()?);
                PoolTokens { full, window: Some(window_of_ratio(full, ratio, launch.page)) }
            }
            WindowSize::Alone => PoolTokens { full: windows, window: Some(windows) },
            WindowSize::Cap(cap) => PoolTokens { full: asked.all_slots()?, window: Some(cap) },
        })
    }

    /// The budget counts the ratio itself, not the whole pages of its tokens.
    pub(super) fn budget(&self, tokens: PoolTokens) -> Result<PoolParts> {
        let window = match self.size {
            WindowSize::Ratio(ratio) => part_of(BytesPerToken::new(self.window, 1)?, tokens.full, ratio)?,
            WindowSize::Alone | WindowSize::Cap(_) => self.window.times(tokens.window.unwrap_or(0))?,
        };
        let (kv, index) = (self.full.times(tokens.full)?, self.index.times(tokens.full)?);
        Ok(PoolParts { kv, index, window, state: Bytes::ZERO })
    }

    /// How the windows of [`Self::budget`] come about.
    pub(super) fn worked(&self, tokens: PoolTokens) -> Result<Option<String>> {
        let bytes = group_digits(self.window.get());
        Ok(match self.size {
            WindowSize::Ratio(ratio) => {
                let (part, of) = decimal(ratio)?;
                let full = group_digits(tokens.full);
                Some(format!(
                    "{full} tokens × {part}/{of} × {bytes} B; {ratio} window tokens for each of the full pool"
                ))
            }
            WindowSize::Alone => None,
            WindowSize::Cap(cap) => Some(format!(
                "{} tokens × {bytes} B; as many as the requests of the launch hold at worst",
                group_digits(cap)
            )),
        })
    }

    pub(super) fn parts(&self, tokens: PoolTokens, launch: &Launch) -> Result<PoolParts> {
        let full = tokens.full.saturating_add(launch.page);
        let window = tokens.window.unwrap_or(0).saturating_add(launch.page);
        Ok(PoolParts {
            kv: self.full.times(full)?,
            index: self.index.times(full)?,
            window: self.window.times(window)?,
            state: Bytes::ZERO,
        })
    }
}

/// Window tokens at worst, whole pages: without a radix cache an explicit number of requests bounds the pool
/// (`SWARequestCapPoolConfigurator`).
fn request_cap(settings: &Settings, launch: &Launch, window: u64) -> Option<u64> {
    if settings.radix_cache != Some(false) {
        return None;
    }
    let cap = worst_case_tokens(settings, launch, window)?;
    Some(cap.next_multiple_of(launch.page))
}

/// Window slots that the scheduler can hold live: per request the window, what waits for eviction, a page, and what a
/// decode step allocates; then the prefill chunks in flight and a page (`compute_swa_request_cap`).
pub(super) fn worst_case_tokens(settings: &Settings, launch: &Launch, window: u64) -> Option<u64> {
    let requests = super::requests::asked(launch)?;
    let drafts = settings.draft_tokens();
    let decode = match (drafts, launch.overlap) {
        (0, _) => launch.page,
        (_, Overlap::On) => 2 * drafts,
        (_, Overlap::Off) => drafts.next_multiple_of(launch.page),
    };
    let chunks = if launch.overlap == Overlap::On { 2 } else { 1 };
    let trailing = window.checked_add(EVICTION_INTERVAL * drafts.max(1))?.checked_add(launch.page)?;
    trailing
        .checked_add(decode)?
        .checked_mul(requests)?
        .checked_add(chunks * launch.chunked_prefill)?
        .checked_add(launch.page)
}

fn window_of(growth: Growth) -> u64 {
    growth.saturates_at().map_or(0, crate::Tokens::get)
}
