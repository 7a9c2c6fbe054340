//! A pool for window layers beside the one for full layers (`HybridSWAPoolConfigurator`).

use super::classes;
use super::launch::Launch;
use super::pool::{Counted, PoolParts, PoolTokens, ROUNDED_UP, aligned, decimal, floor_divided, part_of};
use super::requests;
use super::window_size::{LiveWindows, WindowCap, WindowSize, WindowTokens};
use crate::architecture::Architecture;
use crate::engine::Quantity;
use crate::engine::shard::{RankState, quantity_of};
use crate::growth::Growth;
use crate::mixer::Mixer;
use crate::settings::Settings;
use crate::units::truncated;
use crate::{Bytes, BytesPerToken, Error, Result, group_digits};

/// Bytes of one token in each pool, and how many tokens the window pool has.
#[derive(Clone, Debug)]
pub(super) struct WindowedPool {
    full: Bytes,
    index: Bytes,
    window: Bytes,
    tokens: WindowTokens,
    /// Of them, the bytes of draft layers.
    drafts: PoolParts,
}

impl WindowedPool {
    pub(super) fn new(
        architecture: &Architecture,
        rank: &RankState,
        settings: &Settings,
        launch: &Launch,
    ) -> Result<Self> {
        let (mut full, mut index, mut window) = (Bytes::ZERO, Bytes::ZERO, Bytes::ZERO);
        let mut longest = 0;
        let (mut full_layer, mut window_layer) = (None, None);
        for class in rank.classes() {
            for component in &class.components {
                let entry = component.growth.entry();
                let bytes = entry.times(class.layers)?;
                match quantity_of(component.kind) {
                    Quantity::WindowBytes => {
                        window = window.plus(bytes)?;
                        window_layer = Some(entry);
                        longest = longest.max(window_of(component.growth));
                    }
                    Quantity::KvBytes => {
                        full = full.plus(bytes)?;
                        full_layer = Some(entry);
                    }
                    Quantity::IndexBytes => index = index.plus(bytes)?,
                    _ => {}
                }
            }
        }
        let count = settings.draft_layers.unwrap_or(0);
        let mut drafts = PoolParts::default();
        match (full_layer, window_layer) {
            (_, Some(layer)) if classes::drafts_with_windows(architecture) => {
                drafts.window = layer.times(count)?;
            }
            (Some(layer), _) => drafts.kv = layer.times(count)?,
            // The engine charges a layer of its full heads, which such a class has none of.
            (None, Some(layer)) => drafts.window = layer.times(count)?,
            (None, None) => {}
        }
        full = full.plus(drafts.kv)?;
        window = window.plus(drafts.window)?;
        let live = LiveWindows::new(settings, launch, longest)?;
        let other_ranks_keep = keeps_every_token(architecture);
        let size = match (full_layer, request_cap(settings, launch, live)) {
            (None, _) if other_ranks_keep => WindowSize::AsFull,
            (None, _) => WindowSize::Alone(live),
            (Some(_), Some(cap)) => WindowSize::Cap(cap),
            (Some(_), None) => WindowSize::Ratio(
                settings
                    .swa_full_tokens_ratio
                    .map_or_else(|| classes::default_ratio(architecture), crate::PoolRatio::get),
            ),
        };
        let tokens = WindowTokens { size, longest, page: launch.page };
        Ok(Self { full, index, window, tokens, drafts })
    }

    /// Bytes of one token in the draft layers.
    pub(super) fn of_drafts(&self) -> PoolParts {
        self.drafts
    }

    /// What decides the tokens of the window pool.
    pub(super) fn window_tokens(&self) -> &WindowTokens {
        &self.tokens
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
        match self.tokens.size {
            WindowSize::Ratio(ratio) => {
                let (numerator, denominator) = decimal(ratio)?;
                full.plus(BytesPerToken::new(self.window.times(numerator)?, denominator)?)
            }
            WindowSize::Alone(_) | WindowSize::AsFull => BytesPerToken::new(self.window, 1),
            WindowSize::Cap(_) => Ok(full),
        }
    }

    /// The engine divides in floating point where a ratio is part of the cell.
    pub(super) fn of_budget(&self, available: u64, launch: &Launch) -> Result<PoolTokens> {
        let full_cell = self.full_cell()?.get();
        match self.tokens.size {
            WindowSize::Ratio(ratio) => {
                let cell = full_cell as f64 + ratio * self.window.get() as f64;
                let tokens = truncated(floor_divided(available as f64, cell));
                self.of_tokens(tokens, launch).map_err(|error| of_memory(&error, available))
            }
            WindowSize::Alone(_) | WindowSize::AsFull => {
                self.of_tokens(available / self.window.get().max(1), launch)
            }
            WindowSize::Cap(cap) => {
                let window = cap.of_launch()?;
                let fixed = self.window.times(window)?.get();
                let tokens = available.saturating_sub(fixed) / full_cell.max(1);
                if tokens < launch.page {
                    let what = format!(
                        "{available} B leave nothing for full layers beside {fixed} B for windows; fewer requests \
                         need fewer"
                    );
                    return Err(Error::setting("max_running_requests", what));
                }
                Ok(PoolTokens { full: aligned(tokens, launch.page), window: Some(window), rings: 0 })
            }
        }
    }

    /// The pools of a stated number of tokens.
    pub(super) fn of_tokens(&self, tokens: u64, launch: &Launch) -> Result<PoolTokens> {
        let full = aligned(tokens, launch.page);
        let window = match self.tokens.size {
            WindowSize::Cap(cap) => cap.of_launch()?.min(tokens),
            WindowSize::Ratio(_) | WindowSize::Alone(_) | WindowSize::AsFull => self.tokens.beside(full)?,
        };
        Ok(PoolTokens { full, window: Some(window), rings: 0 })
    }

    /// The budget counts the ratio itself, not the whole pages of its tokens.
    pub(super) fn budget(&self, tokens: PoolTokens) -> Result<PoolParts> {
        let window = match self.tokens.size {
            WindowSize::Ratio(ratio) => part_of(BytesPerToken::new(self.window, 1)?, tokens.full, ratio)?,
            WindowSize::Alone(_) | WindowSize::AsFull | WindowSize::Cap(_) => {
                self.window.times(tokens.window.unwrap_or(0))?
            }
        };
        let (kv, index) = (self.full.times(tokens.full)?, self.index.times(tokens.full)?);
        Ok(PoolParts { kv, index, window, state: Bytes::ZERO })
    }

    /// How the parts of [`Self::budget`] and [`Self::parts`] come about.
    pub(super) fn worked(
        &self,
        quantity: Quantity,
        tokens: PoolTokens,
        counted: Counted,
    ) -> Result<Option<String>> {
        let product = |slots: u64, bytes: Bytes| {
            format!("{} tokens × {} B", group_digits(counted.slots(slots)), group_digits(bytes.get()))
        };
        Ok(match (quantity, self.tokens.ratio(), counted) {
            (Quantity::KvBytes, ..) if self.full > Bytes::ZERO => Some(product(tokens.full, self.full)),
            (Quantity::IndexBytes, ..) if self.index > Bytes::ZERO => Some(product(tokens.full, self.index)),
            (Quantity::WindowBytes, Some(ratio), Counted::Budget) => {
                let (part, of) = decimal(ratio)?;
                let (slots, bytes) = (group_digits(tokens.full), group_digits(self.window.get()));
                let words = self.tokens.words();
                Some(format!("{slots} tokens × {part}/{of} × {bytes} B{ROUNDED_UP}; {words}"))
            }
            (Quantity::WindowBytes, ..) => {
                let words = self.tokens.words();
                Some(format!("{}; {words}", product(tokens.window.unwrap_or(0), self.window)))
            }
            _ => None,
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

/// Without a radix cache an explicit number of requests bounds the pool (`SWARequestCapPoolConfigurator`).
fn request_cap(settings: &Settings, launch: &Launch, live: LiveWindows) -> Option<WindowCap> {
    let requests = requests::asked(launch).filter(|_| settings.radix_cache == Some(false))?;
    Some(WindowCap::new(live, 0, requests, launch.page))
}

/// Whether the model has a layer that keeps every token, be it on another rank.
fn keeps_every_token(architecture: &Architecture) -> bool {
    let mut mixers = architecture.mixers();
    mixers.any(|mixer| {
        matches!(mixer, Mixer::Full(_) | Mixer::IndexedFull(..) | Mixer::Mla(_) | Mixer::Dsa { .. })
    })
}

fn window_of(growth: Growth) -> u64 {
    growth.saturates_at().map_or(0, crate::Tokens::get)
}

/// What is wrong with tokens that the memory was divided into is wrong with the memory.
fn of_memory(error: &Error, available: u64) -> Error {
    if error.place() != Some("pool_tokens") {
        return error.clone();
    }
    Error::setting("available_kv_bytes", format!("of {available} B, {}", error.what()))
}
