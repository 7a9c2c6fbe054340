//! State of the requests that are being served.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use serde::Serialize;

use super::Replay;
use crate::{Bytes, Error, Result, Tokens};

/// How fast requests are served, each as if it were alone.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Rates {
    /// Tokens of a prompt a second.
    pub prefill_tokens_per_second: f64,
    /// Tokens of an answer a second.
    pub decode_tokens_per_second: f64,
}

/// State of the requests that are being served.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Running {
    /// The rates that it is counted with.
    pub rates: Rates,
    /// The most requests at one time.
    pub peak_requests: u64,
    /// The most bytes at one time: each request's state at its full length.
    pub peak_bytes: Bytes,
    /// The mean over the time from the first arrival to the last end; null where that is no time.
    pub mean_bytes: Option<f64>,
}

/// Longer than any request: thirty years.
const LONGEST_SECONDS: f64 = 1e9;

impl Rates {
    pub(super) fn check(&self) -> Result<()> {
        let rates = [
            ("prefill_rate", self.prefill_tokens_per_second),
            ("decode_rate", self.decode_tokens_per_second),
        ];
        for (name, rate) in rates {
            if !(rate.is_finite() && rate > 0.0) {
                return Err(Error::setting(name, format!("a rate of {rate} serves nothing; give more")));
            }
        }
        Ok(())
    }
}

pub(super) fn replay(replay: &Replay<'_>, rates: &Rates, found_tokens: &[u64]) -> Result<Running> {
    let requests = replay.trace.requests();
    // Times are positive, so their bits have their order.
    let mut ends: BinaryHeap<Reverse<(u64, u64)>> = BinaryHeap::new();
    let (mut used, mut byte_seconds, mut last_end) = (0_u64, 0.0, 0.0_f64);
    let mut running = Running { rates: *rates, peak_requests: 0, peak_bytes: Bytes::ZERO, mean_bytes: None };
    for (request, found) in requests.iter().zip(found_tokens) {
        while let Some(Reverse((end, bytes))) = ends.peek().copied() {
            if f64::from_bits(end) > request.arrival_seconds {
                break;
            }
            ends.pop();
            used -= bytes;
        }
        let tokens = Tokens::new(request.input_tokens.saturating_add(request.output_tokens));
        let bytes = replay.state.resident(tokens, 1)?;
        let computed = request.input_tokens.saturating_sub(*found) as f64;
        let seconds = computed / rates.prefill_tokens_per_second
            + request.output_tokens as f64 / rates.decode_tokens_per_second;
        if seconds > LONGEST_SECONDS {
            let what = format!(
                "a request of {} takes longer than anybody waits; give faster rates",
                tokens.counted()
            );
            return Err(Error::setting("prefill_rate", what));
        }
        let end = request.arrival_seconds + seconds;
        last_end = last_end.max(end);
        byte_seconds += bytes.get() as f64 * seconds;
        ends.push(Reverse((end.to_bits(), bytes.get())));
        used = Bytes::new(used).plus(bytes)?.get();
        running.peak_bytes = running.peak_bytes.max(Bytes::new(used));
        running.peak_requests = running.peak_requests.max(ends.len() as u64);
    }
    let span = last_end - requests.first().map_or(0.0, |request| request.arrival_seconds);
    running.mean_bytes = (span > 0.0).then(|| byte_seconds / span);
    Ok(running)
}
