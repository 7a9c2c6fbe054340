//! Groups of pages of several sizes that lie side by side in one block (DeepSeek-V4's layout).
//!
//! Source: vLLM 0.33, `v1/core/kv_cache_planning.py`; older block widths from `v1/core/kv_cache_utils.py` of 0.20 to 0.28.

use std::collections::BTreeMap;

use super::group::{Group, Grouping};
use super::layers::LayerSet;
use super::rules::PackedBlock;
use super::spec::{Kind, Spec};
use crate::{Error, Result};

/// Pages of one size that a block has room for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Room {
    pub(super) pages: u64,
    pub(super) page: u64,
}

/// Layers that may share a group, by the size of their pages.
#[derive(Debug)]
struct Bucket {
    sets: Vec<LayerSet>,
    /// Layers of each page size.
    pages: BTreeMap<u64, usize>,
}

/// Before 0.27 pages of windows and compressors are padded to the next size of the growing caches' pages
/// (`_get_kv_cache_groups_uniform_groups`).
pub(super) fn padded_to_growing(mut sets: Vec<LayerSet>) -> Result<Vec<LayerSet>> {
    let growing = sets.iter().filter(|set| set.spec.keeps_every_token());
    let sizes = growing.map(|set| set.spec.page()).collect::<Result<Vec<_>>>()?;
    for set in sets.iter_mut().filter(|set| !set.spec.keeps_every_token()) {
        let page = set.spec.page()?;
        set.spec.padded = sizes.iter().copied().filter(|size| *size >= page).min().or(set.spec.padded);
    }
    Ok(sets)
}

/// Groups the layers, or `None` where all pages are equal and nothing needs packing.
pub(super) fn group(sets: &[LayerSet]) -> Result<Option<Grouping>> {
    let mut buckets: Vec<Bucket> = Vec::new();
    let mut sizes = std::collections::BTreeSet::new();
    for set in sets {
        let page = set.spec.page()?;
        sizes.insert(page);
        let known = buckets.iter().position(|bucket| bucket.sets[0].spec.same_type(&set.spec));
        let index = known.unwrap_or(buckets.len());
        if known.is_none() {
            buckets.push(Bucket { sets: Vec::new(), pages: BTreeMap::new() });
        }
        let bucket = &mut buckets[index];
        bucket.sets.push(set.clone());
        *bucket.pages.entry(page).or_default() += set.layers.len();
    }
    if sizes.len() <= 1 {
        return Ok(None);
    }
    let repeats = repeats_per_group(&buckets);
    let anchor = anchor_bytes(&buckets, repeats);
    let mut grouping = Grouping::default();
    for bucket in &buckets {
        let mut count = bucket.groups(repeats);
        if anchor > 0 && bucket.is_state(repeats) {
            let fitting = (anchor / bucket.sets[0].spec.page()?.max(1)).max(1);
            count = count.max(bucket.layers().div_ceil(usize::try_from(fitting).unwrap_or(usize::MAX)));
        }
        grouping.groups.extend((0..count).map(|first| bucket.part(first, count)));
    }
    Ok(Some(grouping))
}

/// How many repeats of the layer pattern one group covers: no fewer than the largest bucket that mixes page sizes has,
/// and so that the least is lost to padding.
fn repeats_per_group(buckets: &[Bucket]) -> Option<usize> {
    let balanced = || buckets.iter().filter(|bucket| bucket.balanced());
    let fewest = balanced().filter(|bucket| bucket.pages.len() > 1).map(Bucket::repeats).max()?;
    let counts: Vec<usize> = balanced().map(Bucket::repeats).collect();
    let most = counts.iter().copied().max().unwrap_or(fewest);
    let loss = |size: usize| counts.iter().map(|count| count.next_multiple_of(size) - count).sum::<usize>();
    // Of equal losses the larger size wins.
    (fewest..=most).rev().min_by_key(|size| loss(*size))
}

/// Bytes that a block must have however states are split.
fn anchor_bytes(buckets: &[Bucket], repeats: Option<usize>) -> u64 {
    let widest = |bucket: &Bucket| {
        let count = if bucket.is_state(repeats) { bucket.layers() } else { bucket.groups(repeats) };
        let bytes =
            |(page, layers): (&u64, &usize)| page.saturating_mul(layers.div_ceil(count.max(1)) as u64);
        bucket.pages.iter().map(bytes).fold(0, u64::saturating_add)
    };
    buckets.iter().map(widest).max().unwrap_or(0)
}

/// Pages that a block of an older version has room for, in the layers that `on_rank` keeps, the largest first; `None` where a
/// block is as wide as its widest group.
pub(super) fn room(
    groups: &[Group],
    packing: PackedBlock,
    on_rank: impl Fn(usize) -> bool,
) -> Result<Option<Vec<Room>>> {
    if packing == PackedBlock::Widest {
        return Ok(None);
    }
    // Most layers that a group has of each size, and whether a growing cache has pages of it.
    let mut sizes: BTreeMap<u64, (u64, bool)> = BTreeMap::new();
    for group in groups {
        let mut own: BTreeMap<u64, u64> = BTreeMap::new();
        for set in &group.sets {
            let layers = set.layers.iter().filter(|layer| on_rank(**layer)).count() as u64;
            let page = set.spec.page()?;
            *own.entry(page).or_default() += layers;
            sizes.entry(page).or_default().1 |= layers > 0 && set.spec.keeps_every_token();
        }
        for (page, layers) in own {
            let most = &mut sizes.entry(page).or_default().0;
            *most = layers.max(*most);
        }
    }
    let most = sizes.values().map(|(layers, _)| *layers).max().unwrap_or(0);
    let rooms = sizes.into_iter().rev().filter_map(|(page, (layers, grows))| match packing {
        PackedBlock::EverySize => grows.then_some(Room { pages: most, page }),
        PackedBlock::MostOfEachSize | PackedBlock::Widest => {
            (layers > 0).then_some(Room { pages: layers, page })
        }
    });
    Ok(Some(rooms.collect()))
}

/// Bytes of that room.
///
/// # Errors
///
/// An overflow.
pub(super) fn room_bytes(rooms: &[Room]) -> Result<u64> {
    let mut bytes = rooms.iter().map(|room| room.pages.checked_mul(room.page));
    let total = bytes.try_fold(0_u64, |total, bytes| total.checked_add(bytes?));
    total.ok_or_else(|| Error::overflow("the width of a packed block"))
}

impl Bucket {
    /// Whether it has as many layers of each page size.
    fn balanced(&self) -> bool {
        let mut counts = self.pages.values();
        let first = counts.next();
        counts.all(|count| Some(count) == first)
    }

    /// Most layers of one page size.
    fn repeats(&self) -> usize {
        self.pages.values().copied().max().unwrap_or(0)
    }

    fn layers(&self) -> usize {
        self.pages.values().sum()
    }

    fn groups(&self, repeats: Option<usize>) -> usize {
        match repeats {
            Some(repeats) if self.balanced() => self.repeats().div_ceil(repeats.max(1)),
            _ => 1,
        }
    }

    /// States and rings may be split down to one a group; windows too where nothing repeats.
    fn is_state(&self, repeats: Option<usize>) -> bool {
        let spec: &Spec = &self.sets[0].spec;
        let window = matches!(spec.kind, Kind::Window { .. } | Kind::LatentWindow { .. });
        spec.is_state() || spec.kind == Kind::Ring || (window && repeats.is_none())
    }

    /// Every `count`-th layer from `first` on.
    fn part(&self, first: usize, count: usize) -> Group {
        let sets = self.sets.iter().map(|set| LayerSet {
            spec: set.spec.clone(),
            layers: set.layers.iter().skip(first).step_by(count).copied().collect(),
        });
        Group { sets: sets.filter(|set| !set.layers.is_empty()).collect() }
    }
}
