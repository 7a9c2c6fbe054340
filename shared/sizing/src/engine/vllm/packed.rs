//! Groups of pages of several sizes that lie side by side in one block (DeepSeek-V4's layout).
//!
//! Source: vLLM 0.33, `v1/core/kv_cache_planning.py`; the older block width from a user's log of 0.22.

use std::collections::BTreeMap;

use super::group::{Group, Grouping};
use super::layers::LayerSet;
use super::rules::Rules;
use super::spec::{Kind, Spec};
use crate::{Error, Result};

/// Layers that may share a group, by the size of their pages.
#[derive(Debug)]
struct Bucket {
    sets: Vec<LayerSet>,
    /// Layers of each page size.
    pages: BTreeMap<u64, usize>,
}

/// Groups the layers, or `None` where all pages are equal and nothing needs packing.
pub(super) fn group(sets: &[LayerSet], rules: Rules) -> Result<Option<Grouping>> {
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
    if !rules.widest_packed_block
        && let Some(repeats) = repeats
    {
        grouping.block_bytes = Some(room_for_every_page(&buckets, repeats)?);
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

/// The older width: one page of every size of the growing caches, for every repeat.
fn room_for_every_page(buckets: &[Bucket], repeats: usize) -> Result<u64> {
    let growing = buckets.iter().filter(|bucket| bucket.sets[0].spec.keeps_every_token());
    let pages = growing.flat_map(|bucket| bucket.pages.keys()).copied().fold(0, u64::saturating_add);
    pages.checked_mul(repeats as u64).ok_or_else(|| Error::overflow("the width of a packed block"))
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
