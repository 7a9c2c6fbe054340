//! What decides the tokens of a window pool, whatever its layers keep.

use super::launch::{Launch, Overlap};
use super::pool::{PoolTokens, aligned, tokens_for_window, window_of_ratio};
use super::serving::Asked;
use crate::settings::Settings;
use crate::state::counted;
use crate::{Error, Result, group_digits};

/// Tokens between two evictions of a window (`SGLANG_SWA_EVICTION_INTERVAL`).
const EVICTION_INTERVAL: u64 = 128;

/// The window pool of one rank, in tokens.
#[derive(Clone, Copy, Debug)]
pub(super) struct WindowTokens {
    pub(super) size: WindowSize,
    /// The longest window of a layer.
    pub(super) longest: u64,
    pub(super) page: u64,
}

/// What decides how many tokens the pool has.
#[derive(Clone, Copy, Debug)]
pub(super) enum WindowSize {
    /// A part of the full pool's tokens.
    Ratio(f64),
    /// All layers have windows: the only pool, and no request may be longer than it (`hybrid_swa_token_capacity`,
    /// `get_worker_info`).
    Alone(LiveWindows),
    /// All layers of this pipeline rank have windows, and others keep every token: all ranks have as many tokens, and no ratio
    /// applies here (`_solve_pool_sizes`).
    AsFull,
    /// What the admitted requests can hold at worst.
    Cap(WindowCap),
}

/// Window slots that scheduling holds live at worst (`compute_swa_request_cap`).
#[derive(Clone, Copy, Debug)]
pub(super) struct LiveWindows {
    /// Of one request: the window, what waits for eviction, a page, and what a decode step allocates.
    request: u64,
    /// Of all of them: the prefill chunks in flight and a page.
    once: u64,
}

/// A pool for a number of requests.
#[derive(Clone, Copy, Debug)]
pub(super) struct WindowCap {
    live: LiveWindows,
    /// Slots for prefixes that each request keeps addressable.
    tails: u64,
    /// Requests of the launch.
    requests: u64,
    page: u64,
}

impl WindowTokens {
    /// Tokens of the window pool beside `full` tokens.
    ///
    /// # Errors
    ///
    /// A part of them that is too small for one request (`validate_swa_pool_size`).
    pub(super) fn beside(&self, full: u64) -> Result<u64> {
        let ratio = match self.size {
            WindowSize::Ratio(ratio) => ratio,
            WindowSize::Alone(_) | WindowSize::AsFull => return Ok(full),
            WindowSize::Cap(cap) => return cap.of_launch(),
        };
        let window = window_of_ratio(full, ratio, self.page);
        if window >= self.least() {
            return Ok(window);
        }
        let least = self.least();
        if full < least {
            let what = format!(
                "{full} tokens hold no request: the window pool beside them needs {least}, more than a window of {} and a \
                 page of {}",
                self.longest, self.page
            );
            return Err(Error::setting("pool_tokens", what));
        }
        let what = format!(
            "the window pool has {window} tokens, but one request needs more than its window of {} and a page of {}",
            self.longest, self.page
        );
        Err(Error::setting("swa_full_tokens_ratio", what))
    }

    /// The fewest tokens, in whole pages, with which a launch starts: more than a window and a page.
    fn least(&self) -> u64 {
        aligned(self.longest.saturating_add(2 * self.page), self.page)
    }

    /// The smallest pools that serve a batch: windows of all requests beside their tokens. Where requests cap the pool it
    /// is that of the launch, or of one that admits them all.
    pub(super) fn serving(&self, asked: Asked) -> Result<PoolTokens> {
        let all = asked.all_slots()?;
        let full = match self.size {
            WindowSize::Ratio(ratio) => {
                let windows = asked.window_slots(self.longest, self.page)?.max(self.least());
                tokens_for_window(windows, ratio, self.page)?.max(all)
            }
            WindowSize::Alone(live) => {
                // The last request to be admitted needs room for all its tokens beside what the others hold.
                let others = Asked {
                    slots: asked.slots.min(live.request),
                    requests: asked.requests.max(1) - 1,
                    ..asked
                };
                let last = Asked { requests: asked.requests.min(1), ..asked };
                let overflow = || Error::overflow("tokens of the window pool");
                others.all_slots()?.checked_add(last.all_slots()?).ok_or_else(overflow)?
            }
            WindowSize::AsFull | WindowSize::Cap(_) => all,
        };
        self.serving_beside(asked, full)
    }

    /// The same with `full` tokens in the pool that requests are counted by.
    pub(super) fn serving_beside(&self, asked: Asked, full: u64) -> Result<PoolTokens> {
        let window = match self.size {
            WindowSize::Ratio(ratio) => window_of_ratio(full, ratio, self.page),
            WindowSize::Alone(_) | WindowSize::AsFull => full,
            WindowSize::Cap(cap) => cap.tokens(asked.requests.max(cap.requests))?,
        };
        Ok(PoolTokens { full, window: Some(window), rings: 0 })
    }

    /// The part of the full pool's tokens that the window pool has, where it follows them.
    pub(super) fn ratio(&self) -> Option<f64> {
        match self.size {
            WindowSize::Ratio(ratio) => Some(ratio),
            WindowSize::Alone(_) | WindowSize::AsFull | WindowSize::Cap(_) => None,
        }
    }

    /// Whether the pool grows with the tokens of requests.
    pub(super) fn follows_tokens(&self) -> bool {
        !matches!(self.size, WindowSize::Cap(_))
    }

    /// What decides its tokens, in words.
    pub(super) fn words(&self) -> String {
        match self.size {
            WindowSize::Ratio(ratio) => format!("{ratio} window tokens for each of the full pool"),
            WindowSize::Alone(live) => format!(
                "room for one whole request, which may be no longer than the pool, and for {} tokens of each further one",
                group_digits(live.request)
            ),
            WindowSize::AsFull => {
                "a token for each of the pipeline ranks that keep every token, as all ranks have as many"
                    .to_owned()
            }
            WindowSize::Cap(cap) => cap.words(),
        }
    }
}

impl LiveWindows {
    pub(super) fn new(settings: &Settings, launch: &Launch, window: u64) -> Result<Self> {
        let drafts = settings.draft_tokens();
        let decode = match (drafts, launch.overlap) {
            (0, _) => Some(launch.page),
            (_, Overlap::On) => drafts.checked_mul(2),
            (_, Overlap::Off) => drafts.checked_next_multiple_of(launch.page),
        };
        let chunks = if launch.overlap == Overlap::On { 2 } else { 1 };
        let waiting = EVICTION_INTERVAL.checked_mul(drafts.max(1));
        let request = decode.zip(waiting).and_then(|(decode, waiting)| {
            decode.checked_add(waiting)?.checked_add(window)?.checked_add(launch.page)
        });
        let once = launch.chunked_prefill.checked_mul(chunks).and_then(|all| all.checked_add(launch.page));
        let overflow = || Error::overflow("window tokens of a request");
        Ok(Self { request: request.ok_or_else(overflow)?, once: once.ok_or_else(overflow)? })
    }
}

impl WindowCap {
    pub(super) fn new(live: LiveWindows, tails: u64, requests: u64, page: u64) -> Self {
        Self { live, tails, requests, page }
    }

    /// Tokens for the requests of the launch.
    pub(super) fn of_launch(&self) -> Result<u64> {
        self.tokens(self.requests)
    }

    /// How its tokens come about.
    fn words(&self) -> String {
        format!(
            "{} tokens at worst for each of {} (or of the batch, where it has more), and {} for prefill chunks in flight and a page",
            group_digits(self.live.request.saturating_add(self.tails)),
            counted(self.requests, "request of the launch", "requests of the launch"),
            group_digits(self.live.once)
        )
    }

    /// Tokens of the prefixes that the requests of the launch keep addressable.
    pub(super) fn kept_tokens(&self) -> u64 {
        self.tails.saturating_mul(self.requests)
    }

    /// Tokens for `requests`, in whole pages.
    fn tokens(&self, requests: u64) -> Result<u64> {
        let each = self.live.request.checked_add(self.tails);
        let all = each.and_then(|each| each.checked_mul(requests)?.checked_add(self.live.once));
        let pages = all.and_then(|all| all.checked_next_multiple_of(self.page));
        pages.ok_or_else(|| Error::overflow(format!("window tokens of {requests} requests")))
    }
}
