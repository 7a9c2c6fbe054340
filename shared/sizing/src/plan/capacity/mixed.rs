//! How many requests of a mix of lengths are held at once.

use serde::Serialize;

use super::super::mix::Mix;
use super::{Asking, FrontierPoint};
use crate::engine::Bound;
use crate::{Bytes, Result, Tokens};

/// Requests of a mix of lengths.
#[derive(Clone, Debug, Serialize)]
pub struct MixCapacity {
    /// The lengths, in words.
    pub lengths: String,
    /// Their mean.
    pub mean_tokens: f64,
    /// Mean bytes of a request on one GPU.
    pub mean_bytes_per_gpu: f64,
    /// Requests at once on average, on all GPUs; null where a request holds nothing.
    pub requests: Option<u64>,
    /// Requests if all had the longest length.
    pub requests_at_longest: Option<u64>,
}

impl Asking<'_> {
    /// Requests of a group of ranks take shares of its memory that add up to 1: a request's bytes of the memory, and more where the engine holds
    /// fewer requests of that length than the memory has room for, as where it divides the memory between pools. No more run
    /// than it admits.
    pub(super) fn mix(&self, mix: &Mix, frontier: &[FrontierPoint]) -> Result<MixCapacity> {
        let lengths: Vec<Tokens> = mix.lengths().collect();
        let once = lengths.first().map_or(Ok(Bytes::ZERO), |n| Ok(self.taken(*n)?.once))?;
        let bytes = self.beside(&lengths, once)?;
        let count = lengths.len() as f64;
        let of_all = |of: &dyn Fn(usize) -> f64| (0..lengths.len()).map(of).sum::<f64>() / count;
        let mean_bytes = of_all(&|index| bytes[index].get() as f64);
        let memory = self.memory.map_or(0, Bytes::get).saturating_sub(once.get()) as f64;
        let most = self.most_requests(&lengths)?;
        let fewer = self.fewer(frontier, most, once)?;
        let mean_taken = of_all(&|index| bytes[index].get() as f64 * times_fewer(&fewer, lengths[index]));
        let by_memory = (mean_taken > 0.0).then(|| (memory / mean_taken).floor());
        let by_memory = by_memory.map(crate::cost::whole).transpose()?;
        let of_one = match (by_memory, most) {
            (Some(fitting), Some(most)) => Some(fitting.min(most)),
            (None, _) => None,
            (fitting, None) => fitting,
        };
        Ok(MixCapacity {
            lengths: mix.words().to_owned(),
            mean_tokens: mix.mean(),
            mean_bytes_per_gpu: mean_bytes / self.spread.parts(),
            requests: of_one.map(|requests| self.on_all(requests.saturating_mul(self.groups))).transpose()?,
            requests_at_longest: self.requests(mix.longest())?,
        })
    }

    /// Bytes of one request of each length, beside what stands once.
    fn beside(&self, lengths: &[Tokens], once: Bytes) -> Result<Vec<Bytes>> {
        let each = self.each(lengths)?.into_iter();
        Ok(each.map(|bytes| Bytes::new(bytes.get().saturating_sub(once.get()))).collect())
    }

    /// Requests that a group admits at most in this memory, where that and not the memory bounds the shortest.
    fn most_requests(&self, lengths: &[Tokens]) -> Result<Option<u64>> {
        let Some((memory, shortest)) = self.memory.zip(lengths.iter().min()) else { return Ok(None) };
        let room = self.room(memory);
        let Some(most) = room.largest_batch(*shortest)? else { return Ok(None) };
        Ok((room.bound(*shortest, most)? == Bound::AdmittedRequests).then_some(most / self.groups))
    }

    /// At lengths of the frontier, how many times fewer requests the engine holds than the memory has bytes for. Those that as many
    /// requests as are admitted have are no measure of that.
    fn fewer(
        &self,
        frontier: &[FrontierPoint],
        most: Option<u64>,
        once: Bytes,
    ) -> Result<Vec<(Tokens, f64)>> {
        let Some(memory) = self.memory.and_then(|memory| memory.get().checked_sub(once.get())) else {
            return Ok(Vec::new());
        };
        let lengths: Vec<Tokens> = frontier.iter().map(|point| point.context).collect();
        let bytes = self.beside(&lengths, once)?;
        let points = frontier.iter().zip(bytes).filter_map(|(point, bytes)| {
            let held = point.requests? / self.replicas / self.groups;
            if held == 0 || most.is_some_and(|most| held >= most) {
                return None;
            }
            let fitting = memory.checked_div(bytes.get())?;
            // What a pool has once may take the place of one request.
            let is_full = held.saturating_add(1) >= fitting;
            Some((point.context, if is_full { 1.0 } else { fitting as f64 / held as f64 }))
        });
        Ok(points.collect())
    }
}

/// Between two lengths on the line between them, beyond the last and before the first as there.
fn times_fewer(points: &[(Tokens, f64)], n: Tokens) -> f64 {
    let behind = points.partition_point(|(at, _)| *at < n);
    match (behind.checked_sub(1).and_then(|before| points.get(before)), points.get(behind)) {
        (Some((low, at_low)), Some((high, at_high))) => {
            let along = (n.get() - low.get()) as f64 / (high.get() - low.get()) as f64;
            at_low + (at_high - at_low) * along
        }
        (Some((_, only)), None) | (None, Some((_, only))) => *only,
        (None, None) => 1.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_between_two_are_on_the_line_between_them() {
        let points = [(Tokens::new(1000), 1.0), (Tokens::new(3000), 2.0)];
        for (n, times) in [(1, 1.0), (1000, 1.0), (1500, 1.25), (3000, 2.0), (9000, 2.0)] {
            let found = times_fewer(&points, Tokens::new(n));
            assert!((found - times).abs() < 1e-12, "{n}: {found}");
        }
        assert!((times_fewer(&[], Tokens::new(7)) - 1.0).abs() < f64::EPSILON);
    }
}
