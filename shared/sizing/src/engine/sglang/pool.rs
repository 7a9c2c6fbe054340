//! The pools of one rank.

use super::classes::{PoolKind, pool_kind};
use super::launch::Launch;
use super::serving::Asked;
use super::uniform::UniformPool;
use super::v4::V4Pool;
use super::windowed::WindowedPool;
use crate::architecture::Architecture;
use crate::engine::Quantity;
use crate::engine::shard::RankState;
use crate::settings::Settings;
use crate::units::truncated;
use crate::warning::Warning;
use crate::{Bytes, BytesPerToken, Error, Result};

/// The pools of one rank, by how their bytes are shared out.
#[derive(Clone, Debug)]
pub(super) enum Pool {
    /// Every layer holds every token.
    Uniform(UniformPool),
    /// Window layers have fewer tokens.
    Windowed(WindowedPool),
    /// DeepSeek-V4.
    V4(V4Pool),
}

/// Tokens of a rank's pools.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct PoolTokens {
    /// Tokens of the pool that requests are counted by.
    pub(super) full: u64,
    /// Tokens of the window pool, where there is one.
    pub(super) window: Option<u64>,
    /// Requests that have rings of compressor state, in a pool that gives each one.
    pub(super) rings: u64,
}

/// Bytes of the tensors of a rank's pools, padding pages included.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PoolParts {
    pub(super) kv: Bytes,
    pub(super) window: Bytes,
    pub(super) index: Bytes,
    pub(super) state: Bytes,
}

/// Behind an arithmetic whose sum may end within a byte.
pub(super) const ROUNDED_UP: &str = ", rounded up to a byte";

/// Which bytes of a pool are counted.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Counted {
    /// Those of the budget that it is sized from.
    Budget,
    /// Those of its tensors, which have a page of so many tokens more.
    Tensors { page: u64 },
}

impl Counted {
    /// Slots that are counted of a pool of `tokens`.
    pub(super) fn slots(self, tokens: u64) -> u64 {
        match self {
            Self::Budget => tokens,
            Self::Tensors { page } => tokens.saturating_add(page),
        }
    }
}

impl PoolTokens {
    /// One pool alone.
    pub(super) fn of_full(full: u64) -> Self {
        Self { full, window: None, rings: 0 }
    }
}

impl PoolParts {
    /// The part that `quantity` counts; all of them for every other quantity.
    pub(super) fn of(&self, quantity: Quantity) -> Result<Bytes> {
        match quantity {
            Quantity::KvBytes => Ok(self.kv),
            Quantity::WindowBytes => Ok(self.window),
            Quantity::IndexBytes => Ok(self.index),
            Quantity::StateBytes => Ok(self.state),
            Quantity::CrossBytes => Ok(Bytes::ZERO),
            _ => self.kv.plus(self.window)?.plus(self.index)?.plus(self.state),
        }
    }
}

impl Pool {
    pub(super) fn new(
        architecture: &Architecture,
        rank: &RankState,
        settings: &Settings,
        launch: &Launch,
    ) -> Result<Self> {
        Ok(match pool_kind(architecture) {
            PoolKind::Uniform => Self::Uniform(UniformPool::new(rank, settings)?),
            PoolKind::Windowed => Self::Windowed(WindowedPool::new(architecture, rank, settings, launch)?),
            PoolKind::V4 => Self::V4(V4Pool::new(rank, settings, launch)?),
        })
    }

    /// Bytes of all pools for one token of the full pool.
    pub(super) fn bytes_per_token(&self) -> Result<BytesPerToken> {
        match self {
            Self::Uniform(pool) => pool.bytes_per_token(),
            Self::Windowed(pool) => pool.bytes_per_token(),
            Self::V4(pool) => pool.bytes_per_token(),
        }
    }

    /// Tokens that fit a budget of bytes.
    pub(super) fn of_budget(&self, available: u64, launch: &Launch) -> Result<PoolTokens> {
        match self {
            Self::Uniform(pool) => pool.of_budget(available, launch),
            Self::Windowed(pool) => pool.of_budget(available, launch),
            Self::V4(pool) => pool.of_budget(available),
        }
    }

    /// Pools of a given number of tokens.
    pub(super) fn of_tokens(&self, tokens: u64, launch: &Launch) -> Result<PoolTokens> {
        match self {
            Self::Uniform(_) => Ok(PoolTokens::of_full(aligned(tokens, launch.page))),
            Self::Windowed(pool) => pool.of_tokens(tokens, launch),
            Self::V4(pool) => pool.of_tokens(tokens),
        }
    }

    /// What a launch prints of how it divides its memory, `budget` where pools are sized from one and no other rank has a say.
    pub(super) fn log_lines(
        &self,
        tokens: PoolTokens,
        settings: &Settings,
        budget: Option<u64>,
    ) -> Result<Vec<String>> {
        if let Self::V4(pool) = self {
            return pool.log_lines(tokens, settings, budget);
        }
        let line = |window| {
            let full = tokens.full;
            format!("Use sliding window memory pool. full_layer_tokens={full}, swa_layer_tokens={window}")
        };
        Ok(tokens.window.map(line).into_iter().collect())
    }

    /// The smallest pools that hold a batch.
    pub(super) fn serving(&self, asked: Asked) -> Result<PoolTokens> {
        match self {
            Self::Uniform(_) => Ok(PoolTokens::of_full(asked.all_slots()?)),
            Self::Windowed(pool) => pool.window_tokens().serving(asked),
            Self::V4(pool) => pool.serving(asked),
        }
    }

    /// Pools that hold a batch, with `full` tokens in the one that requests are counted by.
    pub(super) fn serving_beside(&self, asked: Asked, full: u64) -> Result<PoolTokens> {
        match self {
            Self::Uniform(_) => Ok(PoolTokens::of_full(full)),
            Self::Windowed(pool) => pool.window_tokens().serving_beside(asked, full),
            Self::V4(pool) => pool.serving_beside(asked, full),
        }
    }

    /// Whether any layer of the rank keeps tokens.
    pub(super) fn keeps_tokens(&self) -> bool {
        match self {
            Self::Uniform(pool) => pool.keeps_tokens(),
            Self::Windowed(_) | Self::V4(_) => true,
        }
    }

    /// Bytes of a budget from which pools of these tokens come: without the pages that pad tensors, which the engine
    /// allocates beyond its budget.
    pub(super) fn budget(&self, tokens: PoolTokens) -> Result<PoolParts> {
        match self {
            Self::Uniform(pool) => pool.budget(tokens),
            Self::Windowed(pool) => pool.budget(tokens),
            Self::V4(pool) => pool.budget(tokens),
        }
    }

    /// Of a token's bytes in caches, those of draft layers. DeepSeek-V4 charges its own as a share of every pool.
    fn of_drafts(&self) -> PoolParts {
        match self {
            Self::Uniform(pool) => pool.of_drafts(),
            Self::Windowed(pool) => pool.of_drafts(),
            Self::V4(_) => PoolParts::default(),
        }
    }

    /// The longest window of a pool of windows.
    fn longest_window(&self) -> u64 {
        match self {
            Self::Uniform(_) => 0,
            Self::Windowed(pool) => pool.window_tokens().longest,
            Self::V4(pool) => pool.window_tokens().longest,
        }
    }

    /// What draft layers hold of a request of `tokens` slots.
    pub(super) fn held_by_drafts(&self, quantity: Quantity, tokens: u64) -> Result<Bytes> {
        let cell = self.of_drafts();
        match quantity {
            Quantity::KvBytes => cell.kv.times(tokens),
            Quantity::IndexBytes => cell.index.times(tokens),
            Quantity::WindowBytes => cell.window.times(tokens.min(self.longest_window())),
            _ => Ok(Bytes::ZERO),
        }
    }

    /// State of one request beside what follows its tokens, where windows follow them too; `None` where they do not, or
    /// have no pool.
    pub(super) fn state_of_request(&self) -> Option<Result<Bytes>> {
        match self {
            Self::Uniform(_) => None,
            Self::Windowed(pool) => pool.window_tokens().follows_tokens().then_some(Ok(Bytes::ZERO)),
            Self::V4(pool) => pool.window_tokens().follows_tokens().then(|| pool.ring_of_request()),
        }
    }

    /// Bytes of the tensors for these tokens.
    pub(super) fn parts(&self, tokens: PoolTokens, launch: &Launch) -> Result<PoolParts> {
        match self {
            Self::Uniform(pool) => pool.parts(tokens, launch),
            Self::Windowed(pool) => pool.parts(tokens, launch),
            Self::V4(pool) => pool.parts(tokens),
        }
    }

    /// Whether window layers keep their window only.
    pub(super) fn has_window_pool(&self) -> bool {
        !matches!(self, Self::Uniform(_))
    }

    /// How a part comes about that does not follow the tokens of the batch.
    pub(super) fn worked(&self, quantity: Quantity, tokens: PoolTokens) -> Result<Option<String>> {
        match self {
            Self::Windowed(_) if quantity != Quantity::WindowBytes => Ok(None),
            Self::Uniform(_) => Ok(None),
            Self::Windowed(_) | Self::V4(_) => self.slots_worked(quantity, tokens, Counted::Budget),
        }
    }

    /// How any part comes about: slots × bytes, or pages of every kind. `None` for parts that the pools do not have.
    pub(super) fn slots_worked(
        &self,
        quantity: Quantity,
        tokens: PoolTokens,
        counted: Counted,
    ) -> Result<Option<String>> {
        match self {
            Self::Uniform(pool) => Ok(pool.worked(quantity, tokens, counted)),
            Self::Windowed(pool) => pool.worked(quantity, tokens, counted),
            Self::V4(pool) => pool.worked(quantity, tokens, counted),
        }
    }

    /// What decides the tokens of the window pool, in words; empty where there is none.
    pub(super) fn window_words(&self) -> String {
        let tokens = match self {
            Self::Uniform(_) => return String::new(),
            Self::Windowed(pool) => pool.window_tokens(),
            Self::V4(pool) => pool.window_tokens(),
        };
        format!("whatever requests hold, the window pool has {}", tokens.words())
    }

    /// What the pool costs more than the model needs.
    pub(super) fn warnings(&self, architecture: &Architecture) -> Vec<Warning> {
        let has_windows = architecture
            .mixers()
            .any(|mixer| matches!(mixer, crate::Mixer::Sliding { .. } | crate::Mixer::Chunked { .. }));
        let mut warnings = Vec::new();
        if let Self::V4(pool) = self
            && pool.is_capped_against_launch()
        {
            let message = "caps the window pool as the pool configurator does; a launch of 0.5.21 to 0.5.23 sets a ratio \
                           of 0.1 for this class first, which is not capped (set swa_full_tokens_ratio=0.1 for it)";
            warnings.push(Warning::new("max_running_requests", message));
        }
        if has_windows && !self.has_window_pool() {
            let message =
                "SGLang has no pool for the windows of this class; its window layers cost full length";
            warnings.push(Warning::new("architectures", message));
        }
        if architecture.classes().iter().any(|class| class.borrows.is_some()) {
            let message = "SGLang's pools have room for the layers that use another layer's cache too";
            warnings.push(Warning::new("num_kv_shared_layers", message));
        }
        warnings
    }
}

/// The fewest tokens, in whole pages, of which the part `ratio` is at least `window` tokens in whole pages.
pub(super) fn tokens_for_window(window: u64, ratio: f64, page: u64) -> Result<u64> {
    let (numerator, denominator) = decimal(ratio)?;
    let overflow = || Error::overflow(format!("{window} window tokens / {ratio}"));
    let least = window.checked_mul(denominator).ok_or_else(overflow)?.div_ceil(numerator.max(1));
    let mut full = least.checked_next_multiple_of(page).ok_or_else(overflow)?;
    // The engine truncates a floating point product, which may be one page short.
    while window_of_ratio(full, ratio, page) < window {
        full = full.checked_add(page).ok_or_else(overflow)?;
    }
    Ok(full)
}

/// Tokens of the window pool beside `full` tokens: whole pages of their part.
pub(super) fn window_of_ratio(full: u64, ratio: f64, page: u64) -> u64 {
    aligned(truncated(full as f64 * ratio), page)
}

/// `cost × tokens × ratio`, rounded up to a byte.
pub(super) fn part_of(cost: BytesPerToken, tokens: u64, ratio: f64) -> Result<Bytes> {
    let (numerator, denominator) = decimal(ratio)?;
    rounded_up(cost.times(numerator)?.divided_by(denominator)?, tokens)
}

/// `cost × tokens`, rounded up to a byte.
pub(super) fn rounded_up(cost: BytesPerToken, tokens: u64) -> Result<Bytes> {
    let bytes = u128::from(cost.numerator()) * u128::from(tokens);
    let whole = u64::try_from(bytes.div_ceil(u128::from(cost.denominator())));
    whole.map(Bytes::new).map_err(|_| Error::overflow(format!("{tokens} tokens of a pool")))
}

/// `tokens` rounded down to whole pages.
pub(super) fn aligned(tokens: u64, page: u64) -> u64 {
    tokens - tokens % page
}

/// A ratio such as 0.8 as the decimal number that it was written as, so that 18 × 2048 + 0.8 × 18 × 2048 is exact.
#[allow(clippy::float_cmp, reason = "equal bits are what is asked for")]
pub(super) fn decimal(ratio: f64) -> Result<(u64, u64)> {
    // Up to 15 digits a quotient of whole numbers rounds as the text does; reading the text takes ten times as long.
    for digits in 0..=15 {
        let denominator = 10_u64.pow(digits);
        let numerator = (ratio * denominator as f64).round();
        if numerator > 1e15 {
            break;
        }
        if numerator / denominator as f64 == ratio {
            return Ok((truncated(numerator), denominator));
        }
    }
    let text = format!("{ratio}");
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    let digits = u32::try_from(fraction.len()).unwrap_or(u32::MAX);
    let numerator = format!("{whole}{fraction}").parse::<u64>().ok();
    numerator.zip(10_u64.checked_pow(digits)).ok_or_else(|| {
        Error::setting(
            "swa_full_tokens_ratio",
            format!("{ratio:?} has too many digits to be computed exactly"),
        )
    })
}

/// Python's `a // b` of floating point numbers, both positive.
pub(super) fn floor_divided(a: f64, b: f64) -> f64 {
    let quotient = (a - a % b) / b;
    let floor = quotient.floor();
    if quotient - floor > 0.5 { floor + 1.0 } else { floor }
}

#[cfg(test)]
#[allow(clippy::float_cmp, reason = "a floor is a whole number")]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_read_as_they_were_written() {
        assert_eq!(decimal(0.8).unwrap(), (8, 10));
        assert_eq!(decimal(1.0).unwrap(), (1, 1));
        assert_eq!(decimal(0.125).unwrap(), (125, 1000));
        assert_eq!(decimal(2.05).unwrap(), (205, 100));
        assert_eq!(decimal(1.0 / 3.0).unwrap(), (3_333_333_333_333_333, 10_000_000_000_000_000));
        assert_eq!(decimal(0.1 + 0.2).unwrap(), (30_000_000_000_000_004, 100_000_000_000_000_000));
        assert!(decimal(1.0e-30).is_err());
    }

    /// Values of Python 3: `9.0 // 0.1`, `1e10 // 66355.2`, `10.0 // 2.5`.
    #[test]
    fn floor_division_is_pythons() {
        assert_eq!(floor_divided(9.0, 0.1), 89.0);
        assert_eq!(floor_divided(1e10, 66_355.2), 150_704.0);
        assert_eq!(floor_divided(10.0, 2.5), 4.0);
    }
}
