//! The replay with least recently used out first.

use super::lists::{Lists, NOWHERE};
use super::moments::{Moment, TierMoment, is_kept};
use super::places::Places;
use super::{Replay, StateSizes, found_tokens};
use crate::{Bytes, Error, Result};

/// What one tier saw.
#[derive(Clone, Debug, Default)]
pub(super) struct TierTail {
    pub(super) used: u64,
    pub(super) peak: u64,
    /// Bytes × seconds.
    pub(super) byte_seconds: f64,
    pub(super) hit_blocks: u64,
    pub(super) hit_checkpoints: u64,
    pub(super) evicted_blocks: u64,
    pub(super) evicted_checkpoints: u64,
    pub(super) received_bytes: u64,
}

/// What the replay counted.
#[derive(Clone, Debug, Default)]
pub(super) struct Tail {
    pub(super) asked_blocks: u64,
    /// Blocks from the first on that were there.
    pub(super) resident_blocks: u64,
    /// Of those, up to where a hit could end.
    pub(super) hit_blocks: u64,
    pub(super) input_tokens: u64,
    pub(super) hit_tokens: u64,
    pub(super) hit_requests: u64,
    /// Requests that had use for a checkpoint: at least one block was there.
    pub(super) asked_checkpoints: u64,
    /// Checkpoints found behind each block of a prompt, where they differ in size.
    pub(super) found_at: Vec<u64>,
    pub(super) tiers: Vec<TierTail>,
    pub(super) prefetched_bytes: u64,
    pub(super) used_prefetch_bytes: u64,
    /// Tokens found of each request.
    pub(super) found_tokens: Vec<u64>,
    /// What was found on the way.
    pub(super) moments: Vec<Moment>,
}

struct Store<'r> {
    sizes: &'r StateSizes,
    capacities: Vec<u64>,
    lists: Lists,
    /// Objects from this number on are checkpoints: that of a block is the block's number behind it.
    checkpoints: u32,
    places: Places,
    /// Objects that were brought ahead and not asked for since.
    ahead: Vec<bool>,
    tail: Tail,
}

pub(super) fn replay(replay: &Replay<'_>, sizes: &StateSizes) -> Result<Tail> {
    let trace = replay.trace;
    let numbers = trace.numbers();
    let objects = if sizes.needs_checkpoint() { u64::from(numbers) * 2 } else { u64::from(numbers) };
    if objects >= u64::from(u32::MAX) {
        return Err(Error::overflow("the number of different blocks"));
    }
    let objects = usize::try_from(objects).map_err(|_| Error::overflow("the number of different blocks"))?;
    let mut store = Store {
        sizes,
        capacities: replay
            .tiers
            .iter()
            .map(|tier| tier.capacity_bytes.map_or(u64::MAX, Bytes::get))
            .collect(),
        lists: Lists::new(objects, replay.tiers.len()),
        checkpoints: numbers,
        places: Places::new(sizes, numbers),
        ahead: vec![false; if replay.prefetch_blocks > 0 { objects } else { 0 }],
        tail: Tail {
            found_at: vec![0; sizes.by_place.len()],
            tiers: vec![TierTail::default(); replay.tiers.len()],
            ..Tail::default()
        },
    };
    store.tail.found_tokens.reserve_exact(trace.requests().len());
    let mut followers = Followers::new(if replay.prefetch_blocks > 0 { numbers } else { 0 });
    let mut clock = trace.requests().first().map_or(0.0, |request| request.arrival_seconds);
    for (place, request) in trace.requests().iter().enumerate() {
        let waited = request.arrival_seconds - clock;
        clock = request.arrival_seconds;
        for tier in &mut store.tail.tiers {
            tier.byte_seconds += tier.used as f64 * waited;
        }
        let blocks = trace.blocks(request);
        let hit = store.find(blocks);
        let found = found_tokens(request, hit, trace.block_tokens());
        store.tail.input_tokens += request.input_tokens;
        store.tail.hit_tokens += found;
        store.tail.found_tokens.push(found);
        store.keep(blocks, hit);
        if replay.prefetch_blocks > 0 {
            // Followers may go round in a circle; no walk has more blocks than there are.
            store.bring(&followers, blocks, hit, replay.prefetch_blocks.min(numbers.into()));
            followers.learn(blocks);
        }
        if is_kept(place + 1, trace.requests().len()) {
            store.tail.note(place + 1);
        }
    }
    Ok(store.tail)
}

impl Tail {
    /// Keeps what was found of so many requests.
    fn note(&mut self, requests: usize) {
        let of_tier = |tier: &TierTail| TierMoment {
            used_bytes: tier.used,
            evicted_blocks: tier.evicted_blocks,
            evicted_checkpoints: tier.evicted_checkpoints,
        };
        self.moments.push(Moment {
            requests: requests as u64,
            asked_blocks: self.asked_blocks,
            resident_blocks: self.resident_blocks,
            hit_blocks: self.hit_blocks,
            asked_checkpoints: self.asked_checkpoints,
            hit_requests: self.hit_requests,
            optimum_hit_blocks: None,
            tiers: self.tiers.iter().map(of_tier).collect(),
        });
    }
}

impl Store<'_> {
    /// How many blocks of a request can be taken over; counts what is found.
    fn find(&mut self, blocks: &[u32]) -> usize {
        let resident = if self.sizes.keeps_blocks() {
            blocks.iter().take_while(|block| self.lists.tier(**block) != NOWHERE).count()
        } else {
            blocks.len()
        };
        let mut hit = resident;
        if self.sizes.needs_checkpoint() {
            while hit > 0 && self.lists.tier(self.checkpoints + blocks[hit - 1]) == NOWHERE {
                hit -= 1;
            }
        }
        let tail = &mut self.tail;
        tail.asked_blocks += blocks.len() as u64;
        tail.resident_blocks += if self.sizes.keeps_blocks() { resident } else { hit } as u64;
        tail.hit_blocks += hit as u64;
        tail.hit_requests += u64::from(hit > 0);
        tail.asked_checkpoints += u64::from(resident > 0);
        for block in blocks[..hit].iter().filter(|_| self.sizes.keeps_blocks()) {
            tail.tiers[usize::from(self.lists.tier(*block))].hit_blocks += 1;
        }
        if hit > 0 && self.sizes.needs_checkpoint() {
            let tier = self.lists.tier(self.checkpoints + blocks[hit - 1]);
            tail.tiers[usize::from(tier)].hit_checkpoints += 1;
            let place = self.places.of(blocks[hit - 1]) as usize;
            if let Some(found) = tail.found_at.get_mut(place) {
                *found += 1;
            }
        }
        hit
    }

    /// Keeps all blocks of a request, its first one as the most recent, and a checkpoint where it ends. Room is made when all are
    /// there: what the request goes on from does not leave for what it adds.
    fn keep(&mut self, blocks: &[u32], hit: usize) {
        if self.sizes.needs_checkpoint() {
            for end in [hit, blocks.len()] {
                let Some(place) = end.checked_sub(1) else { continue };
                let object = self.checkpoints + blocks[place];
                if self.lists.tier(object) == NOWHERE {
                    self.places.make(blocks[place], place);
                }
                self.ask(object);
            }
        }
        let kept = if self.sizes.keeps_blocks() { blocks } else { &[] };
        for (place, block) in kept.iter().enumerate().rev() {
            if place < hit {
                self.ask(*block);
            } else {
                self.lift(*block);
            }
        }
        self.make_room();
    }

    /// Takes an object that a request asked for: what was fetched ahead has been of use.
    fn ask(&mut self, object: u32) {
        if let Some(ahead) = self.ahead.get_mut(object as usize)
            && std::mem::take(ahead)
        {
            self.tail.used_prefetch_bytes += self.bytes(object);
        }
        self.lift(object);
    }

    /// Makes an object the most recent of the first tier, which may then hold too much.
    fn lift(&mut self, object: u32) {
        let bytes = self.bytes(object);
        let tier = self.lists.tier(object);
        if tier != NOWHERE {
            self.lists.take(object);
            self.tail.tiers[usize::from(tier)].used -= bytes;
        }
        if tier != 0 {
            self.tail.tiers[0].received_bytes += bytes;
        }
        self.lists.put(object, 0);
        self.tail.tiers[0].used += bytes;
    }

    /// Moves the oldest objects on until every tier holds no more than it can.
    fn make_room(&mut self) {
        for tier in 0..self.capacities.len() {
            while self.tail.tiers[tier].used > self.capacities[tier] {
                let Some(oldest) = self.lists.oldest(tier_number(tier)) else { break };
                self.evict(oldest, tier);
            }
            let seen = &mut self.tail.tiers[tier];
            seen.peak = seen.peak.max(seen.used);
        }
    }

    fn evict(&mut self, object: u32, tier: usize) {
        let bytes = self.bytes(object);
        self.lists.take(object);
        let from = &mut self.tail.tiers[tier];
        from.used -= bytes;
        if object >= self.checkpoints {
            from.evicted_checkpoints += 1;
        } else {
            from.evicted_blocks += 1;
        }
        if tier == 0
            && let Some(ahead) = self.ahead.get_mut(object as usize)
        {
            *ahead = false;
        }
        if let Some(next) = self.tail.tiers.get_mut(tier + 1) {
            next.used += bytes;
            next.received_bytes += bytes;
            self.lists.put(object, tier_number(tier + 1));
        }
    }

    /// Brings what followed the last shared block to the first tier where it lies in another.
    fn bring(&mut self, followers: &Followers, blocks: &[u32], hit: usize, most: u64) {
        let Some(last) = hit.checked_sub(1).map(|last| blocks[last]) else { return };
        let mut block = last;
        for _ in 0..most {
            let Some(next) = followers.of(block) else { return };
            block = next;
            let tier = self.lists.tier(block);
            if tier == NOWHERE {
                return;
            }
            if tier > 0 {
                self.tail.prefetched_bytes += self.bytes(block);
                self.ahead[block as usize] = true;
                self.lift(block);
                self.make_room();
            }
        }
    }

    fn bytes(&self, object: u32) -> u64 {
        if object >= self.checkpoints {
            self.places.bytes(self.sizes, object - self.checkpoints)
        } else {
            self.sizes.block_bytes.get()
        }
    }
}

/// Which block came behind each block the last time.
struct Followers(Vec<u32>);

impl Followers {
    fn new(blocks: u32) -> Self {
        Self(vec![u32::MAX; blocks as usize])
    }

    fn of(&self, block: u32) -> Option<u32> {
        self.0.get(block as usize).copied().filter(|next| *next != u32::MAX)
    }

    fn learn(&mut self, blocks: &[u32]) {
        for pair in blocks.windows(2) {
            self.0[pair[0] as usize] = pair[1];
        }
    }
}

/// Tiers are at most eight.
fn tier_number(tier: usize) -> u8 {
    u8::try_from(tier).unwrap_or(NOWHERE)
}
