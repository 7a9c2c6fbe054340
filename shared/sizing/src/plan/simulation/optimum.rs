//! The replay by Belady's rule: what is asked for again last, or never, goes first.
//!
//! It knows the future and holds everything in one place as large as all tiers. For objects of one size no policy finds more
//! (Belady 1966). Blocks and checkpoints differ in size, so for models with both it is a strong comparison and no bound.

use std::collections::BinaryHeap;

use super::moments::is_kept;
use super::places::Places;
use super::{Replay, StateSizes, found_tokens};
use crate::Bytes;

/// Never asked for again.
const NEVER: u32 = u32::MAX;

/// What the replay counted.
#[derive(Clone, Debug, Default)]
pub(super) struct Best {
    pub(super) resident_blocks: u64,
    pub(super) hit_blocks: u64,
    pub(super) hit_tokens: u64,
    pub(super) hit_requests: u64,
    /// Blocks taken over at each moment that is kept.
    pub(super) moments: Vec<u64>,
}

struct Store {
    /// Objects from this number on are checkpoints.
    checkpoints: u32,
    places: Places,
    capacity: u64,
    used: u64,
    /// Objects that are kept.
    count: usize,
    kept: Vec<bool>,
    /// The request that asks for each kept object next.
    next: Vec<u32>,
    /// Next request and object of everything that was kept; what is out of date is passed over.
    farthest: BinaryHeap<u64>,
}

pub(super) fn replay(replay: &Replay<'_>, sizes: &StateSizes) -> Best {
    let trace = replay.trace;
    let numbers = trace.numbers();
    let objects = (numbers as usize).saturating_mul(if sizes.needs_checkpoint() { 2 } else { 1 });
    let capacity = replay
        .tiers
        .iter()
        .map(|tier| tier.capacity_bytes.map_or(u64::MAX, Bytes::get))
        .fold(0, u64::saturating_add);
    let mut store = Store {
        checkpoints: numbers,
        places: Places::new(sizes, numbers),
        capacity,
        used: 0,
        count: 0,
        kept: vec![false; objects],
        next: vec![NEVER; objects],
        farthest: BinaryHeap::new(),
    };
    let mut best = Best::default();
    let next_uses = NextUses::of(replay, sizes);
    for (place, request) in trace.requests().iter().enumerate() {
        let blocks = trace.blocks(request);
        let (of_blocks, of_checkpoints) = next_uses.from(request.first_block());
        let resident = if sizes.keeps_blocks() {
            blocks.iter().take_while(|block| store.kept[**block as usize]).count()
        } else {
            blocks.len()
        };
        let mut hit = resident;
        if sizes.needs_checkpoint() {
            while hit > 0 && !store.kept[(numbers + blocks[hit - 1]) as usize] {
                hit -= 1;
            }
        }
        best.resident_blocks += if sizes.keeps_blocks() { resident } else { hit } as u64;
        best.hit_blocks += hit as u64;
        best.hit_requests += u64::from(hit > 0);
        best.hit_tokens += found_tokens(request, hit, trace.block_tokens());
        if sizes.keeps_blocks() {
            for (block, next) in blocks.iter().zip(of_blocks) {
                store.keep(*block, *next, sizes.block_bytes.get());
            }
        }
        if sizes.needs_checkpoint() {
            for end in [hit, blocks.len()] {
                let Some(place) = end.checked_sub(1) else { continue };
                let object = numbers + blocks[place];
                if !store.kept[object as usize] {
                    store.places.make(blocks[place], place);
                }
                store.keep(object, of_checkpoints[place], store.bytes(sizes, object));
            }
        }
        store.make_room(sizes);
        if is_kept(place + 1, trace.requests().len()) {
            best.moments.push(best.hit_blocks);
        }
    }
    best
}

/// What asks for each block of each request next, in the order of all blocks.
struct NextUses {
    /// The next request that has the block.
    blocks: Vec<u32>,
    /// The next request whose last block that an earlier one ended with is this: it goes on from the checkpoint there and from no
    /// other. Empty where there are none.
    checkpoints: Vec<u32>,
}

impl NextUses {
    /// Of blocks and of checkpoints, from one place on.
    fn from(&self, first: usize) -> (&[u32], &[u32]) {
        (&self.blocks[first..], self.checkpoints.get(first..).unwrap_or_default())
    }

    fn of(replay: &Replay<'_>, sizes: &StateSizes) -> Self {
        let trace = replay.trace;
        let numbers = trace.numbers() as usize;
        let needs = sizes.needs_checkpoint();
        let of_checkpoints = |length: usize| vec![NEVER; if needs { length } else { 0 }];
        let deepest = if needs { deepest_ends(replay) } else { Vec::new() };
        let (mut blocks, mut checkpoints) =
            (vec![NEVER; trace.asked_blocks()], of_checkpoints(trace.asked_blocks()));
        let (mut block_seen, mut checkpoint_seen) = (vec![NEVER; numbers], of_checkpoints(numbers));
        for (index, request) in trace.requests().iter().enumerate().rev() {
            let now = u32::try_from(index).unwrap_or(NEVER);
            let own = trace.blocks(request);
            for (at, block) in (request.first_block()..).zip(own) {
                blocks[at] = std::mem::replace(&mut block_seen[*block as usize], now);
                if needs {
                    checkpoints[at] = checkpoint_seen[*block as usize];
                }
            }
            if let Some(end) = deepest.get(index).and_then(|place| own.get(place.checked_sub(1)?)) {
                checkpoint_seen[*end as usize] = now;
            }
        }
        Self { blocks, checkpoints }
    }
}

/// For each request how many of its blocks lead up to the last that an earlier request ended with.
fn deepest_ends(replay: &Replay<'_>) -> Vec<usize> {
    let trace = replay.trace;
    let mut is_end = vec![false; trace.numbers() as usize];
    let of = |request| {
        let own = trace.blocks(request);
        let place = own.iter().rposition(|block| is_end[*block as usize]).map_or(0, |place| place + 1);
        if let Some(last) = own.last() {
            is_end[*last as usize] = true;
        }
        place
    };
    trace.requests().iter().map(of).collect()
}

impl Store {
    fn keep(&mut self, object: u32, next: u32, bytes: u64) {
        if !std::mem::replace(&mut self.kept[object as usize], true) {
            self.used = self.used.saturating_add(bytes);
            self.count += 1;
        }
        self.next[object as usize] = next;
        if self.capacity < u64::MAX {
            self.farthest.push(u64::from(next) << 32 | u64::from(object));
        }
    }

    fn bytes(&self, sizes: &StateSizes, object: u32) -> u64 {
        match object.checked_sub(self.checkpoints) {
            Some(block) => self.places.bytes(sizes, block),
            None => sizes.block_bytes.get(),
        }
    }

    fn make_room(&mut self, sizes: &StateSizes) {
        while self.used > self.capacity {
            let Some(farthest) = self.farthest.pop() else { return };
            let (object, next) = halves(farthest);
            if !self.is_current(object, next) {
                continue;
            }
            self.kept[object as usize] = false;
            self.count -= 1;
            self.used -= self.bytes(sizes, object);
        }
        if self.farthest.len() > 4 * self.count + 4096 {
            let mut farthest = std::mem::take(&mut self.farthest);
            farthest.retain(|one| {
                let (object, next) = halves(*one);
                self.is_current(object, next)
            });
            self.farthest = farthest;
        }
    }

    fn is_current(&self, object: u32, next: u32) -> bool {
        self.kept[object as usize] && self.next[object as usize] == next
    }
}

/// The object and its next request.
fn halves(entry: u64) -> (u32, u32) {
    let half = |bits: u64| u32::try_from(bits & u64::from(u32::MAX)).unwrap_or(NEVER);
    (half(entry), half(entry >> 32))
}
