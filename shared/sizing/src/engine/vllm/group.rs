//! Layers to groups: layers of one group share a block table, and all groups draw their blocks from one pool.
//!
//! Source: vLLM 0.33, `v1/core/kv_cache_planning.py`.

use super::layers::LayerSet;
use super::packed;
use super::rules::{PackedBlock, Rules, UnequalPages};
use super::spec::{Flight, Kind, Spec};
use crate::{Error, Result};

/// Layers that share a block table. Several sets where their pages lie side by side in one block.
#[derive(Clone, Debug)]
pub(super) struct Group {
    pub(super) sets: Vec<LayerSet>,
}

/// Layers of one kind that do not fill their groups.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct PaddedLayers {
    pub(super) padding: u64,
    pub(super) layers: u64,
}

/// How the layers of the whole model are grouped.
#[derive(Clone, Debug, Default)]
pub(super) struct Grouping {
    pub(super) groups: Vec<Group>,
    /// Kinds that are padded to whole groups.
    pub(super) padded: Vec<PaddedLayers>,
    /// How wide a block is, and how wide the fit check takes it to be.
    pub(super) block: PackedBlock,
    pub(super) block_in_check: PackedBlock,
}

/// What decides the grouping besides the layers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Policy {
    /// Whether windows keep only their tokens.
    pub(super) hybrid_manager: bool,
    /// Whether blocks are outermost in memory, so that pages of several sizes can lie side by side.
    pub(super) block_outermost: bool,
    pub(super) rules: Rules,
}

impl Group {
    /// Blocks that one request of `length` tokens holds.
    pub(super) fn blocks(&self, length: u64, flight: Flight) -> u64 {
        self.sets.iter().map(|set| set.spec.blocks(length, flight)).max().unwrap_or(0)
    }

    /// Bytes of one block in the layers that `on_rank` keeps.
    pub(super) fn width(&self, on_rank: impl Fn(usize) -> bool) -> Result<u64> {
        let mut total: u64 = 0;
        for set in &self.sets {
            let layers = set.layers.iter().filter(|layer| on_rank(**layer)).count() as u64;
            let bytes = set.spec.page()?.checked_mul(layers);
            total = bytes
                .and_then(|bytes| total.checked_add(bytes))
                .ok_or_else(|| Error::overflow("adding the pages of a group"))?;
        }
        Ok(total)
    }
}

/// Groups the layers of the whole model.
pub(super) fn group(sets: Vec<LayerSet>, policy: Policy) -> Result<Grouping> {
    let sets = if policy.hybrid_manager { sets } else { promote(sets)? };
    if sets.is_empty() {
        return Ok(Grouping::default());
    }
    if one_type(&sets) {
        return Ok(whole(sets));
    }
    if policy.block_outermost
        && let Some(grouping) = packed::group(&packed_sets(&sets, policy.rules)?)?
    {
        let Rules { packed_block: block, packed_block_in_check: block_in_check, .. } = policy.rules;
        return Ok(Grouping { block, block_in_check, ..grouping });
    }
    match equal_pages(sets.clone(), policy.rules.unequal_pages)? {
        Some(sets) => equal_groups(sets, policy.rules.close_groups),
        None if policy.rules.unequal_pages < UnequalPages::WholeWindows => Err(unequal(&sets)),
        None => full_fallback(sets),
    }
}

/// The layers with the pages that they have side by side in this version.
fn packed_sets(sets: &[LayerSet], rules: Rules) -> Result<Vec<LayerSet>> {
    match rules.packed_block {
        PackedBlock::Widest => Ok(sets.to_vec()),
        PackedBlock::EverySize | PackedBlock::MostOfEachSize => packed::padded_to_growing(sets.to_vec()),
    }
}

/// Whether all layers always need the same blocks.
fn one_type(sets: &[LayerSet]) -> bool {
    sets.iter().all(|set| sets[0].spec.same_type(&set.spec))
}

/// One group of everything: a block holds the pages of all layers, whatever their sizes.
fn whole(sets: Vec<LayerSet>) -> Grouping {
    Grouping { groups: vec![Group { sets }], ..Grouping::default() }
}

/// Without the hybrid manager, windows and chunks are kept like full attention.
fn promote(sets: Vec<LayerSet>) -> Result<Vec<LayerSet>> {
    let full_block = sets.iter().find(|set| set.spec.keeps_every_token()).map(|set| set.spec.block);
    let (false, Some(block)) = (one_type(&sets), full_block) else { return Ok(sets) };
    let promoted = merge_equal(sets.into_iter().map(|set| {
        let kind = match set.spec.kind {
            Kind::Window { .. } | Kind::Chunk { .. } => Kind::Full,
            Kind::LatentWindow { .. } => Kind::Latent,
            _ => return set,
        };
        LayerSet { spec: Spec { kind, block, ..set.spec }, layers: set.layers }
    }));
    if one_type(&promoted) {
        return Ok(promoted);
    }
    Err(Error::setting("hybrid_manager", "vLLM cannot lay out this mix of layers without it; leave it on"))
}

/// Makes all pages equal: a larger block where a page divides the largest, else padding. `None` where a page can have
/// neither in this version.
fn equal_pages(sets: Vec<LayerSet>, rule: UnequalPages) -> Result<Option<Vec<LayerSet>>> {
    let mut largest = 0;
    for set in &sets {
        largest = set.spec.page()?.max(largest);
    }
    let mut equal = Vec::with_capacity(sets.len());
    for set in sets {
        let page = set.spec.page()?;
        let padded = Spec { padded: Some(largest), ..set.spec.clone() };
        let is_latent = matches!(set.spec.kind, Kind::Latent | Kind::Index);
        let spec = if page == largest {
            set.spec
        } else if set.spec.is_state() && rule >= UnequalPages::PaddedStates {
            padded
        } else if rule == UnequalPages::Refused || set.spec.is_state() {
            return Ok(None);
        } else if page > 0 && largest.is_multiple_of(page) {
            let block = set.spec.block.checked_mul(largest / page);
            Spec { block: block.ok_or_else(|| Error::overflow("tokens of a block"))?, ..set.spec }
        } else if is_latent || rule < UnequalPages::PaddedHeads {
            return Ok(None);
        } else {
            padded
        };
        equal.push(LayerSet { spec, layers: set.layers });
    }
    Ok(Some(merge_equal(equal)))
}

/// A version that has no rule for pages of these sizes.
fn unequal(sets: &[LayerSet]) -> Error {
    let mut sizes: Vec<u64> = sets.iter().filter_map(|set| set.spec.page().ok()).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let sizes = sizes.into_iter().map(crate::group_digits).collect::<Vec<_>>().join(" and ");
    let what = format!(
        "this version of vLLM cannot make layers' pages of {sizes} B equal and refuses to start \
         (`unify_kv_cache_spec_page_size`); a later version pads them, or set hybrid_manager=false"
    );
    Error::setting("engine", what)
}

/// Keeps the windows beside latents whose pages cannot be made equal like full attention, as the engine then does.
fn full_fallback(sets: Vec<LayerSet>) -> Result<Grouping> {
    if sets.iter().any(|set| matches!(set.spec.kind, Kind::Window { .. })) {
        return Ok(whole(promote(sets)?));
    }
    let what = "the pages of these layers cannot be made equal, so vLLM refuses to start";
    Err(Error::setting("block_size", what))
}

/// Splits every kind into groups of equal size: as many layers as the rarest kind has, or as the most frequent one
/// where that is less than `close` (numerator, denominator) times as many.
fn equal_groups(sets: Vec<LayerSet>, close: (u64, u64)) -> Result<Grouping> {
    let counts = || sets.iter().map(|set| set.layers.len());
    let fewest = counts().min().unwrap_or(0);
    let most = counts().max().unwrap_or(0);
    let is_close = (most as u64).saturating_mul(close.1) < (fewest as u64).saturating_mul(close.0);
    let size = if is_close { most } else { fewest };
    if size == 0 {
        return Err(Error::overflow("a group without layers"));
    }
    let mut grouping = Grouping::default();
    for set in sets {
        let groups = set.layers.len().div_ceil(size);
        let missing = groups * size - set.layers.len();
        if missing > 0 {
            let layers = set.layers.len() as u64;
            grouping.padded.push(PaddedLayers { padding: missing as u64, layers });
        }
        grouping.groups.extend((0..groups).map(|first| {
            let layers = set.layers.iter().skip(first).step_by(groups).copied().collect();
            Group { sets: vec![LayerSet { spec: set.spec.clone(), layers }] }
        }));
    }
    Ok(grouping)
}

fn merge_equal(sets: impl IntoIterator<Item = LayerSet>) -> Vec<LayerSet> {
    let mut merged: Vec<LayerSet> = Vec::new();
    for set in sets {
        match merged.iter_mut().find(|known| known.spec == set.spec) {
            Some(known) => known.layers.extend(set.layers),
            None => merged.push(set),
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(kind: Kind, entry_bytes: u64, layers: std::ops::Range<usize>) -> LayerSet {
        let spec = Spec {
            kind,
            block: 16,
            tokens_per_entry: 1,
            entry_bytes,
            alignment: 1,
            padded: None,
            shape: [1; 3],
        };
        LayerSet { spec, layers: layers.collect() }
    }

    fn sizes(sets: Vec<LayerSet>) -> (Vec<usize>, Vec<PaddedLayers>) {
        let grouping = equal_groups(sets, (3, 2)).unwrap();
        let sizes = grouping.groups.iter().map(|group| group.sets[0].layers.len()).collect();
        (sizes, grouping.padded)
    }

    /// vLLM's warnings in user reports: 1 of 29 layers (Gemma 3 4B), 3 of 48 (Qwen3.6 with a draft layer).
    #[test]
    fn groups_have_the_rarest_kinds_size_unless_the_others_are_close() {
        let window = Kind::Window { window: 1024, extra: 0 };
        let (groups, padded) = sizes(vec![set(window, 8, 0..29), set(Kind::Full, 8, 29..34)]);
        assert_eq!(groups, [5, 5, 5, 5, 5, 4, 5]);
        assert_eq!(padded, [PaddedLayers { padding: 1, layers: 29 }]);

        let state = Kind::State { pages: 1 };
        let (groups, padded) = sizes(vec![set(state, 8, 0..48), set(Kind::Full, 8, 48..65)]);
        assert_eq!(groups, [16, 16, 16, 17]);
        assert_eq!(padded, [PaddedLayers { padding: 3, layers: 48 }]);

        // 12 and 13 layers: one group of 13 each, not three of 12.
        let (groups, _) = sizes(vec![set(window, 8, 0..12), set(Kind::Full, 8, 12..25)]);
        assert_eq!(groups, [12, 13]);
    }

    #[test]
    fn a_smaller_page_gets_more_tokens_or_padding() {
        let (window, newest) = (Kind::Window { window: 1024, extra: 0 }, UnequalPages::WholeWindows);
        let equal = equal_pages(vec![set(window, 16_384, 0..5), set(Kind::Full, 8192, 5..6)], newest)
            .unwrap()
            .unwrap();
        assert_eq!(equal[1].spec.block, 32);
        let equal =
            equal_pages(vec![set(window, 520, 0..5), set(Kind::Full, 300, 5..6)], newest).unwrap().unwrap();
        assert_eq!(equal[1].spec.page().unwrap(), 520 * 16);
        assert!(
            equal_pages(vec![set(window, 520, 0..5), set(Kind::Latent, 300, 5..6)], newest)
                .unwrap()
                .is_none()
        );
    }

    /// `unify_kv_cache_spec_page_size` of 0.23.0 raises where a page does not divide the largest, of 0.24.0 pads it, and 0.11 has none;
    /// `MambaSpec` is padded from 0.26.0 on.
    #[test]
    fn older_versions_refuse_pages_that_newer_ones_make_equal() {
        let window = Kind::Window { window: 1024, extra: 0 };
        let taken = |full, rule| {
            equal_pages(vec![set(window, 512, 0..5), set(Kind::Full, full, 5..6)], rule).unwrap().is_some()
        };
        assert!(taken(512, UnequalPages::Refused) && !taken(256, UnequalPages::Refused));
        assert!(taken(256, UnequalPages::LargerBlocks) && !taken(300, UnequalPages::LargerBlocks));
        assert!(taken(300, UnequalPages::PaddedHeads));
        let state = |rule| {
            let sets = vec![set(window, 512, 0..5), set(Kind::State { pages: 1 }, 8, 5..6)];
            equal_pages(sets, rule).unwrap().is_some()
        };
        assert!(state(UnequalPages::PaddedStates) && !state(UnequalPages::PaddedHeads));
    }
}
