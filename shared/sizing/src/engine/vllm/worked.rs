//! How the blocks that a batch reserves come about, in words.

use super::VllmPlan;
use super::checkpoint::Checkpoint;
use super::layers::LayerSet;
use super::packed::Room;
use super::parts::kind_of;
use super::spec::{BlocksWorked, Bound, Kind};
use crate::engine::share::times_requests;
use crate::engine::{Quantity, needed};
use crate::state::counted;
use crate::{Result, group_digits};

/// Pages of one size that a part is made of.
struct Pages {
    layers: u64,
    blocks: u64,
    page: u64,
    worked: Option<BlocksWorked>,
}

impl VllmPlan<'_> {
    /// `52 layers × 1,089 blocks × 131,072 B × 2 requests; 1,089 = ⌈(1,023 + 2 × 8,192) / 16⌉ + 1, …`: layers, blocks and
    /// pages of windows, chunks, states and cross-attention. `None` for parts that keep every token.
    pub(super) fn block_arithmetic(&self, quantity: Quantity) -> Result<Option<String>> {
        match quantity {
            Quantity::KvBytes | Quantity::IndexBytes => Ok(None),
            _ => self.page_terms(quantity),
        }
    }

    /// The same of any part.
    pub(super) fn page_terms(&self, quantity: Quantity) -> Result<Option<String>> {
        let (pages, state) = self.pages_of(quantity)?;
        if pages.is_empty() {
            return Ok(None);
        }
        let requests = times_requests(self.batch);
        let terms: Vec<String> = pages.iter().map(|pages| format!("{}{requests}", pages.product())).collect();
        let mut words = terms.join(" + ");
        for pages in &pages {
            if let Some(worked) = &pages.worked {
                words = format!("{words}; {} = {}", group_digits(pages.blocks), worked.sum);
            }
        }
        if pages.iter().any(|pages| pages.follows(Bound::Flight)) {
            words = format!("{words}; {}", self.flight_words(quantity)?);
        }
        if pages.iter().any(|pages| pages.follows(Bound::Encoder)) {
            let batch = self.batch_words(self.flight.batch_tokens);
            words = format!("{words}; an encoder's output has room for a batch of {batch}");
        }
        if let Some(set) = state {
            let layers = pages.iter().map(|pages| pages.layers).sum();
            words = format!("{words}; {}", self.state_words(set, layers)?);
        }
        Ok(Some(words))
    }

    /// The pages of a part, equal ones together, and a set of states that is in it.
    fn pages_of(&self, quantity: Quantity) -> Result<(Vec<Pages>, Option<&LayerSet>)> {
        let length = self.context.ok_or_else(|| needed("context"))?.get();
        let mut pages: Vec<Pages> = Vec::new();
        let mut state = None;
        for group in &self.grouping.groups {
            let blocks = group.blocks(length, self.flight);
            for set in group.sets.iter().filter(|set| kind_of(set.spec.kind) == quantity) {
                let (layers, page) = (self.ranks.layers_on_shown(&set.layers), set.spec.page()?);
                if layers == 0 || blocks == 0 {
                    continue;
                }
                if set.spec.is_state() {
                    state.get_or_insert(set);
                }
                let own = set.spec.blocks(length, self.flight) == blocks;
                let known = pages.iter_mut().find(|known| (known.blocks, known.page) == (blocks, page));
                if let Some(known) = known {
                    known.layers += layers;
                    continue;
                }
                let worked = set.spec.blocks_worked(length, self.flight).filter(|_| own);
                pages.push(Pages { layers, blocks, page, worked });
            }
        }
        Ok((pages, state))
    }

    /// Which batches are in flight. Where windows have said it, compressors do not say it again.
    fn flight_words(&self, quantity: Quantity) -> Result<String> {
        if quantity == Quantity::StateBytes {
            let (windows, _) = self.pages_of(Quantity::WindowBytes)?;
            if windows.iter().any(|pages| pages.follows(Bound::Flight)) {
                return Ok("the same batches in flight as of the windows".to_owned());
            }
        }
        let batch = self.flight.tokens / self.flight.batches.max(1);
        let batches = counted(self.flight.batches, "batch", "batches");
        let why = match (self.settings.pp(), self.flight.batches) {
            (1, 2) => ", one that runs and one that async scheduling prepares",
            (1, _) => "",
            _ => ", for pipeline ranks and async scheduling",
        };
        Ok(format!("in flight {batches} of {}{why}", self.batch_words(batch)))
    }

    /// `8,192 tokens (max_num_batched_tokens, the default on this GPU)`
    fn batch_words(&self, tokens: u64) -> String {
        let default =
            if self.settings.max_num_batched_tokens.is_some() { "" } else { ", the default on this GPU" };
        format!("{} tokens (max_num_batched_tokens{default})", group_digits(tokens))
    }

    /// What a request's state blocks are, and why the page is as large as it is. `layers` layers have them.
    fn state_words(&self, set: &LayerSet, layers: u64) -> Result<String> {
        let Kind::State { pages } = set.spec.kind else {
            return Ok(format!("a state for every {} tokens", group_digits(set.spec.block)));
        };
        let drafts = if self.rules.drafts_of_states { self.settings.draft_tokens() } else { 0 };
        let checkpoints = self.checkpoint.as_ref().map_or(0, Checkpoint::pages);
        let spare = pages.saturating_sub(1 + drafts + checkpoints);
        let mut kept = vec!["its own".to_owned()];
        kept.extend((drafts > 0).then(|| format!("{drafts} for drafts")));
        kept.extend((spare > 0).then(|| format!("{spare} for prefixes (mode align)")));
        kept.extend(self.checkpoint.as_ref().map(Checkpoint::words));
        let content = set.spec.content()?;
        let mut words = format!(
            "each layer's request has {}: {}; a state has {} B",
            counted(pages, "page", "pages"),
            kept.join(", "),
            group_digits(content)
        );
        if self.blocks.state_page.is_some() {
            let page = group_digits(set.spec.page()?);
            words = format!(
                "{words}, and its page the {page} B of an attention block of {} tokens, the least that holds it",
                group_digits(self.blocks.attention)
            );
        }
        let of_request = (pages, set.spec.page()?, content);
        if let Some(other) = self.checkpoint.as_ref().and_then(|own| own.otherwise(layers, of_request)) {
            words = format!("{words}; {other}");
        }
        Ok(words)
    }

    /// What a block is as wide as: `the widest group's pages: 21 layers × 37,440 B + 21 layers × 8,640 B`.
    pub(super) fn block_words(&self) -> Result<Option<String>> {
        if let Some(rooms) = self.ranks.room_on_shown(&self.grouping)? {
            return Ok(Some(room_words(&rooms)));
        }
        let (mut widest, mut of_widest) = (0, None);
        for group in &self.grouping.groups {
            let width = self.ranks.width_on_shown(group)?;
            if width > widest {
                (widest, of_widest) = (width, Some(group));
            }
        }
        let Some(group) = of_widest else { return Ok(None) };
        let mut pages: Vec<(u64, u64)> = Vec::new();
        for set in &group.sets {
            let (layers, page) = (self.ranks.layers_on_shown(&set.layers), set.spec.page()?);
            match pages.iter_mut().find(|(_, known)| *known == page) {
                Some((known, _)) => *known += layers,
                None => pages.push((layers, page)),
            }
        }
        let term = |(layers, page): &(u64, u64)| {
            format!("{} × {} B", counted(*layers, "layer", "layers"), group_digits(*page))
        };
        let sum = pages.iter().filter(|(layers, _)| *layers > 0).map(term).collect::<Vec<_>>().join(" + ");
        let of = if self.grouping.groups.len() > 1 { "the pages of the widest group: " } else { "" };
        let rounded =
            if self.widest_block() > widest { ", rounded up to whole pages of its kernels" } else { "" };
        Ok(Some(format!("{of}{sum}{rounded}")))
    }

    /// Blocks and bytes that narrower groups leave unused: `4 groups × 1,089 blocks × 131,072 B`.
    pub(super) fn unused_width_words(&self) -> Result<Option<String>> {
        let length = self.context.ok_or_else(|| needed("context"))?.get();
        let mut narrow: Vec<(u64, u64, u64)> = Vec::new();
        for group in &self.grouping.groups {
            let unused = self.widest_block().saturating_sub(self.ranks.width_on_shown(group)?);
            let blocks = group.blocks(length, self.flight);
            if unused == 0 || blocks == 0 {
                continue;
            }
            match narrow.iter_mut().find(|(_, known, bytes)| (*known, *bytes) == (blocks, unused)) {
                Some((groups, ..)) => *groups += 1,
                None => narrow.push((1, blocks, unused)),
            }
        }
        if narrow.is_empty() {
            return Ok(None);
        }
        let requests = times_requests(self.batch);
        let term = |(groups, blocks, unused): (u64, u64, u64)| {
            let groups = counted(groups, "group", "groups");
            let blocks = counted(blocks, "block", "blocks");
            format!("{groups} × {blocks} × {} B{requests}", group_digits(unused))
        };
        let sum = narrow.into_iter().map(term).collect::<Vec<_>>().join(" + ");
        Ok(Some(format!("{sum}; each is a block's width without the pages of the group")))
    }

    /// Bytes of the batch while it decodes: a token and its drafts of each batch in flight, where blocks of windows are held
    /// for more.
    pub(super) fn decoding(&self, length: u64) -> Result<crate::Bytes> {
        let step = 1 + self.settings.draft_tokens();
        let flight = super::spec::Flight { tokens: self.flight.batches.saturating_mul(step), ..self.flight };
        let blocks = self.grouping.groups.iter().map(|group| group.blocks(length, flight)).sum();
        crate::Bytes::new(self.widest_block()).times(blocks)?.times(self.batch)
    }
}

/// `room for pages of every size, which all groups share: 22 × 37,440 B + 21 × 8,640 B + 20 × 1,728 B`
fn room_words(rooms: &[Room]) -> String {
    let each = rooms.iter().map(|room| format!("{} × {} B", room.pages, group_digits(room.page)));
    format!("room for pages of every size, which all groups share: {}", each.collect::<Vec<_>>().join(" + "))
}

impl Pages {
    fn follows(&self, bound: Bound) -> bool {
        self.worked.as_ref().is_some_and(|worked| worked.bound == bound)
    }

    fn product(&self) -> String {
        let layers = counted(self.layers, "layer", "layers");
        let blocks = counted(self.blocks, "block", "blocks");
        format!("{layers} × {blocks} × {} B", group_digits(self.page))
    }
}
