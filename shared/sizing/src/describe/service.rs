use serde::Serialize;

use super::Group;
use super::layout::Payload;
use super::lifecycle::{Needs, PrefixHit};
use crate::growth::Growth;
use crate::mixer::{Mixer, Recurrence};
use crate::plan::Label;
use crate::settings::Settings;
use crate::state::{ComponentKind, StateComponent};
use crate::{Bytes, Error, Result, Tokens};

/// Tokens of a block where nothing else asks for more.
const SMALLEST_BLOCK: u64 = 16;

/// What service can count on without knowing any hardware.
#[derive(Clone, Debug, Serialize)]
pub struct Service {
    /// The block that reuse, offload and transfer are counted in.
    pub block: Block,
    /// What a prefix hit of the whole model needs.
    pub reuse: Reuse,
    /// The same by component, in the order of `lifecycle`.
    pub components: Vec<ComponentService>,
    /// What a scheduler should use instead of the prompt's length, on hardware that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels: Option<Vec<Label>>,
}

/// A run of tokens that is cached, found and moved together.
#[derive(Clone, Debug, Serialize)]
pub struct Block {
    /// Its tokens.
    pub tokens: Tokens,
    /// Why so many.
    pub rule: String,
    /// Bytes of one block in every component that keeps every token.
    pub bytes: Bytes,
}

/// What a prefix hit of the whole model needs.
#[derive(Clone, Debug, Serialize)]
pub struct Reuse {
    /// A hit ends at a multiple of this many tokens. Null where it ends only where somebody saved a state.
    pub granularity_tokens: Option<Tokens>,
    /// Every rule that must hold at once.
    pub needs: Vec<Needs>,
}

/// Service data of one component.
#[derive(Clone, Debug, Serialize)]
pub struct ComponentService {
    /// Its index in `lifecycle`.
    pub component: usize,
    /// Bytes of one block in one layer; null for what has no entries.
    pub block_bytes_per_layer: Option<Bytes>,
    /// Bytes of one block over all its layers.
    pub block_bytes: Option<Bytes>,
    /// Bytes of one checkpoint over all its layers: a state, or a full window or chunk. Null for what keeps every token.
    pub checkpoint_bytes: Option<Bytes>,
    /// A hit of this component ends at a multiple of this many tokens. Null where it ends only where a state was saved.
    pub reuse_granularity_tokens: Option<Tokens>,
    /// What one layer's entry, or state, consists of.
    pub payload: Payload,
    /// Whether tensor-parallel ranks hold the same bytes.
    pub tensor_parallel: TensorParallel,
    /// What a decode worker must receive: `every_entry live_entries once`.
    pub transferred: &'static str,
    /// What a disk prefix store keeps: `every_entry live_entries_at_end checkpoint_at_end once nothing`.
    pub persisted: &'static str,
}

/// What tensor-parallel ranks hold of a component.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TensorParallel {
    /// The same bytes, or a share each.
    pub ranks_hold: RanksHold,
    /// What is divided; null where nothing is.
    pub divided_by: Option<&'static str>,
    /// How many there are: with more ranks, some hold the same. Null where nothing is divided, or where the config does
    /// not say.
    pub parts: Option<u64>,
}

/// Whether ranks hold the same bytes.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RanksHold {
    /// Each rank holds all of it.
    Same,
    /// Each rank holds its share.
    Shards,
}

impl TensorParallel {
    const SAME: Self = Self { ranks_hold: RanksHold::Same, divided_by: None, parts: None };

    fn shards(divided_by: &'static str, parts: Option<u64>) -> Self {
        if parts == Some(1) {
            return Self::SAME;
        }
        Self { ranks_hold: RanksHold::Shards, divided_by: Some(divided_by), parts }
    }

    /// Bytes that the fullest of so many ranks holds: all of them, or the parts that it gets; an equal share where nothing
    /// says how many parts there are.
    pub(crate) fn bytes_of_rank(&self, bytes: Bytes, ranks: u64) -> Result<Bytes> {
        let ranks = ranks.max(1);
        Ok(match (self.ranks_hold, self.parts) {
            (RanksHold::Same, _) => bytes,
            (RanksHold::Shards, Some(parts)) if parts > 0 => {
                Bytes::new(bytes.times(parts.div_ceil(ranks))?.get().div_ceil(parts))
            }
            (RanksHold::Shards, _) => Bytes::new(bytes.get().div_ceil(ranks)),
        })
    }
}

/// How engines divide a component over ranks: K/V by heads, states by heads or channels; a latent, the keys of an
/// indexer and compressed entries belong to all heads, so every rank has them whole.
pub(crate) fn ranks(mixer: &Mixer, component: &StateComponent) -> TensorParallel {
    match mixer {
        Mixer::IndexedFull(..) if component.kind == ComponentKind::IndexKey => TensorParallel::SAME,
        Mixer::Full(heads)
        | Mixer::IndexedFull(heads, _)
        | Mixer::Sliding { heads, .. }
        | Mixer::Chunked { heads, .. }
        | Mixer::Cross { heads, .. } => TensorParallel::shards("kv_heads", Some(heads.kv_heads.get())),
        Mixer::Mla(latent) | Mixer::Dsa { latent, .. } if component.kind == ComponentKind::Kv => {
            TensorParallel::shards("heads", latent.query_heads.as_ref().map(crate::Fact::get))
        }
        Mixer::Mla(_) | Mixer::Dsa { .. } | Mixer::Compressed(_) | Mixer::None => TensorParallel::SAME,
        Mixer::Recurrent(_) if component.kind == ComponentKind::ConvState => {
            TensorParallel::shards("channels", None)
        }
        Mixer::Recurrent(recurrent) => match &recurrent.recurrence {
            Recurrence::GatedDeltaNet { v_heads, .. } => {
                TensorParallel::shards("v_heads", Some(v_heads.get()))
            }
            Recurrence::Kda { heads, .. }
            | Recurrence::Mamba2 { heads, .. }
            | Recurrence::Lightning { heads, .. } => TensorParallel::shards("heads", Some(heads.get())),
            Recurrence::Mamba1 { d_inner, .. } => TensorParallel::shards("channels", Some(d_inner.get())),
            Recurrence::ShortConv => TensorParallel::shards("channels", None),
        },
    }
}

/// The block: the setting, else the smallest that holds whole groups of every compressed stream.
pub(super) fn block(groups: &[Group], settings: &Settings) -> Result<Block> {
    let mut grouped = 1;
    for group in groups {
        if let Growth::Compressed { ratio, .. } = group.component.growth {
            grouped = common_multiple(grouped, ratio.get())?;
        }
    }
    let (tokens, rule) = match settings.block_size {
        Some(size) if size % grouped != 0 => {
            return Err(Error::setting(
                "block_size",
                format!("{size} tokens cut a compression group; give a multiple of {grouped}"),
            ));
        }
        Some(size) => (size, format!("block_size = {size}")),
        None if grouped > SMALLEST_BLOCK => {
            (grouped, format!("the least common multiple of the compression ratios is {grouped}"))
        }
        None => (
            common_multiple(SMALLEST_BLOCK, grouped)?,
            format!("{SMALLEST_BLOCK} tokens where nothing asks for more"),
        ),
    };
    let mut bytes = Bytes::ZERO;
    for group in groups {
        if let Some(one) = block_bytes(&group.component, tokens)?
            && group.component.growth.saturates_at().is_none()
        {
            bytes = bytes.plus(one.times(group.layers.len() as u64)?)?;
        }
    }
    Ok(Block { tokens: Tokens::new(tokens), rule, bytes })
}

pub(super) fn service(groups: &[Group], block: Block, settings: &Settings) -> Result<Service> {
    let mut components = Vec::with_capacity(groups.len());
    let mut needs: Vec<Needs> = Vec::new();
    let mut granularity = Some(block.tokens);
    for (index, group) in groups.iter().enumerate() {
        let hit = PrefixHit::of(group);
        let own = match hit.needs {
            Needs::ExactCheckpoint => settings.checkpoint_interval.map(Tokens::new),
            _ => Some(block.tokens),
        };
        granularity = match (granularity, own) {
            (Some(a), Some(b)) => Some(Tokens::new(common_multiple(a.get(), b.get())?)),
            _ => None,
        };
        if hit.needs != Needs::Nothing && !needs.contains(&hit.needs) {
            needs.push(hit.needs);
        }
        components.push(component_service(index, group, &block, own)?);
    }
    let reuse = Reuse { granularity_tokens: granularity, needs };
    Ok(Service { block, reuse, components, labels: None })
}

fn component_service(
    index: usize,
    group: &Group,
    block: &Block,
    reuse_granularity_tokens: Option<Tokens>,
) -> Result<ComponentService> {
    let kept = &group.component;
    let layers = group.layers.len() as u64;
    let one = block_bytes(kept, block.tokens.get())?;
    let (transferred, persisted) = moves(kept.kind);
    let checkpoint = match (kept.growth.saturates_at(), persisted) {
        (None, _) | (_, "nothing") => None,
        (Some(_), _) => Some(kept.growth.fixed(None)?.times(layers)?),
    };
    Ok(ComponentService {
        component: index,
        block_bytes_per_layer: one,
        block_bytes: one.map(|bytes| bytes.times(layers)).transpose()?,
        checkpoint_bytes: checkpoint,
        reuse_granularity_tokens: match PrefixHit::of(group).needs {
            Needs::Nothing | Needs::SameEncoderOutput => None,
            _ => reuse_granularity_tokens,
        },
        payload: group.payload.clone(),
        tensor_parallel: group.ranks.clone(),
        transferred,
        persisted,
    })
}

/// What [`StateComponent::transfer_bytes`] and [`StateComponent::persisted_bytes`] count, in words.
fn moves(kind: ComponentKind) -> (&'static str, &'static str) {
    match kind {
        ComponentKind::Kv
        | ComponentKind::MlaLatent
        | ComponentKind::IndexKey
        | ComponentKind::CompressedKv => ("every_entry", "every_entry"),
        ComponentKind::WindowKv | ComponentKind::ChunkKv => ("live_entries", "live_entries_at_end"),
        ComponentKind::RecurrentState | ComponentKind::ConvState => ("once", "checkpoint_at_end"),
        ComponentKind::CompressorState => ("once", "nothing"),
        ComponentKind::CrossKv => ("once", "once"),
    }
}

/// Bytes of `tokens` tokens in one layer, a window's cap left out.
fn block_bytes(component: &StateComponent, tokens: u64) -> Result<Option<Bytes>> {
    let entries = match component.growth {
        Growth::Constant { .. } => return Ok(None),
        Growth::Compressed { ratio, .. } => tokens / ratio.get().max(1),
        _ => tokens,
    };
    component.growth.entry().times(entries).map(Some)
}

fn common_multiple(a: u64, b: u64) -> Result<u64> {
    let (mut x, mut y) = (a, b);
    while y != 0 {
        (x, y) = (y, x % y);
    }
    (a / x.max(1)).checked_mul(b).ok_or_else(|| Error::overflow("a block of whole compression groups"))
}
