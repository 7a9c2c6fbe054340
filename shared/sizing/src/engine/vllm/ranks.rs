//! Which pipeline rank holds which layers, and how wide a block is there.

use super::group::{Group, Grouping};
use super::packed::{Room, room, room_bytes};
use super::rules::PackedBlock;
use crate::architecture::Loops;
use crate::engine::pipeline::{LayerRange, Surplus, fullest, pipeline_ranges};
use crate::{Architecture, Error, Result};

/// The pipeline ranks of a launch.
#[derive(Clone, Debug)]
pub(super) struct Ranks {
    layers: Vec<LayerRange>,
    /// Layers of the model, later passes of a loop included; drafts count on from them.
    count: usize,
    loops: Option<Loops>,
    /// Bytes of one block on each, and what the fit check takes them to be.
    block_bytes: Vec<u64>,
    bytes_in_check: Vec<u64>,
    /// The one with the widest block, which figures are of: all ranks have as many blocks.
    shown: usize,
}

impl Ranks {
    /// `ranks` ranks of a model, whose blocks are rounded up to `alignment`.
    ///
    /// # Errors
    ///
    /// A block whose bytes overflow.
    pub(super) fn new(
        architecture: &Architecture,
        ranks: u64,
        grouping: &Grouping,
        alignment: u64,
    ) -> Result<Self> {
        let mut own = Self {
            layers: pipeline_ranges(architecture.own_layers(), ranks, Surplus::BeforeLast),
            count: architecture.layer_count(),
            loops: architecture.loops().cloned(),
            block_bytes: Vec::new(),
            bytes_in_check: Vec::new(),
            shown: 0,
        };
        for rank in 0..own.layers.len() {
            let block = own.block_on(rank, grouping, grouping.block)?;
            let in_check = own.block_on(rank, grouping, grouping.block_in_check)?;
            let rounded = |bytes: u64| {
                let up = bytes.checked_next_multiple_of(alignment.max(1));
                up.ok_or_else(|| Error::overflow("rounding a block up"))
            };
            own.block_bytes.push(rounded(block)?);
            own.bytes_in_check.push(rounded(in_check)?);
        }
        own.shown = fullest(&own.block_bytes);
        Ok(own)
    }

    /// The layers of each rank.
    pub(super) fn layers(&self) -> &[LayerRange] {
        &self.layers
    }

    /// Bytes of one block on each rank.
    pub(super) fn block_bytes(&self) -> &[u64] {
        &self.block_bytes
    }

    /// Bytes of one block on each rank as the fit check takes them.
    pub(super) fn bytes_in_check(&self) -> &[u64] {
        &self.bytes_in_check
    }

    /// The layers of the rank that figures are of, where there are several.
    pub(super) fn shown(&self) -> Option<LayerRange> {
        self.layers.get(self.shown).filter(|_| self.layers.len() > 1).cloned()
    }

    /// Whether the rank that figures are of has the draft layers: they follow the last layer.
    pub(super) fn shown_has_drafts(&self) -> bool {
        self.shown + 1 == self.layers.len()
    }

    /// How many of these layers the rank has that figures are of.
    pub(super) fn layers_on_shown(&self, layers: &[usize]) -> u64 {
        self.layers_on(self.shown, layers)
    }

    /// How many of these layers a rank has.
    pub(super) fn layers_on(&self, rank: usize, layers: &[usize]) -> u64 {
        layers.iter().filter(|layer| self.has(rank, **layer)).count() as u64
    }

    /// Bytes of a group's pages on that rank.
    ///
    /// # Errors
    ///
    /// An overflow.
    pub(super) fn width_on_shown(&self, group: &Group) -> Result<u64> {
        self.width_on(self.shown, group)
    }

    /// Pages that a block of that rank has room for; `None` where it is as wide as its widest group.
    ///
    /// # Errors
    ///
    /// An overflow.
    pub(super) fn room_on_shown(&self, grouping: &Grouping) -> Result<Option<Vec<Room>>> {
        room(&grouping.groups, grouping.block, |layer| self.has(self.shown, layer))
    }

    fn block_on(&self, rank: usize, grouping: &Grouping, packing: PackedBlock) -> Result<u64> {
        if let Some(rooms) = room(&grouping.groups, packing, |layer| self.has(rank, layer))? {
            return room_bytes(&rooms);
        }
        let mut widest = 0;
        for group in &grouping.groups {
            widest = self.width_on(rank, group)?.max(widest);
        }
        Ok(widest)
    }

    fn width_on(&self, rank: usize, group: &Group) -> Result<u64> {
        group.width(|layer| self.has(rank, layer))
    }

    fn has(&self, rank: usize, layer: usize) -> bool {
        if layer >= self.count {
            return rank + 1 == self.layers.len();
        }
        // A rank runs all passes of the layers whose weights it has.
        let own = self.loops.as_ref().map_or(layer, |loops| loops.weights_of(layer));
        self.layers[rank].contains(&own)
    }
}

#[cfg(test)]
mod tests {
    use super::super::layers::LayerSet;
    use super::super::spec::{Kind, Spec};
    use super::*;

    fn group(layers: &[usize], entry_bytes: u64) -> Group {
        let spec = Spec {
            kind: Kind::Full,
            block: 1,
            tokens_per_entry: 1,
            entry_bytes,
            alignment: 1,
            padded: None,
            shape: [1; 3],
        };
        Group { sets: vec![LayerSet { spec, layers: layers.to_vec() }] }
    }

    /// 5 layers over 2 ranks are 3 and 2 (`get_pp_indices`); a draft is layer 5, on the last rank.
    #[test]
    fn drafts_follow_the_last_layer() {
        let grouping =
            Grouping { groups: vec![group(&[0, 3, 4, 5], 10), group(&[1, 2], 20)], ..Grouping::default() };
        let five = crate::read_config(
            r#"{"num_hidden_layers": 5, "num_attention_heads": 4, "num_key_value_heads": 1, "head_dim": 64}"#,
        )
        .unwrap();
        let ranks = Ranks::new(&five, 2, &grouping, 16).unwrap();
        assert_eq!((ranks.layers(), ranks.block_bytes()), (&[0..3, 3..5][..], &[48, 32][..]));
        assert_eq!((ranks.shown(), ranks.shown_has_drafts()), (Some(0..3), false));
        assert_eq!((ranks.layers_on_shown(&[0, 3, 4, 5]), ranks.layers_on_shown(&[1, 2])), (1, 2));
        let alone = Ranks::new(&five, 1, &grouping, 1).unwrap();
        assert_eq!((alone.shown(), alone.block_bytes()), (None, &[40][..]));
        assert_eq!(alone.layers_on_shown(&[0, 3, 4, 5]), 4);
    }
}
