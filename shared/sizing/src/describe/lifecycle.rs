use serde::Serialize;

use super::Group;
use crate::growth::Growth;
use crate::mixer::Mixer;
use crate::size::StateModel;
use crate::state::{ComponentKind, Lifecycle, Reads, StateComponent};
use crate::{Bytes, Tokens};

/// How one component of the state lives.
#[derive(Clone, Debug, Serialize)]
pub struct Lifetime {
    /// Its index in this list.
    pub component: usize,
    /// What is kept.
    pub kind: ComponentKind,
    /// Layers that keep it, by index from 0.
    pub layers: Vec<usize>,
    /// The format's name.
    pub format: &'static str,
    /// `linear window chunk compressed constant`
    pub growth: &'static str,
    /// `token window request transient`
    pub lifecycle: Lifecycle,
    /// The same as a function of the tokens.
    #[serde(skip)]
    pub(crate) law: Growth,
    /// Bytes of one entry of one layer; of all of it where it is constant.
    pub entry_bytes: Bytes,
    /// Tokens that become one entry; null where there are no entries.
    pub tokens_per_entry: Option<u64>,
    /// Tokens from which it no longer grows: 0 where it never grows, null where it grows without end.
    pub saturates_at: Option<Tokens>,
    /// What one decode step reads of it in each of its layers.
    pub decode_reads: DecodeReads,
    /// Layers that read it and keep nothing of the kind.
    pub other_readers: Vec<OtherReaders>,
    /// What a request with the same prefix needs of it.
    pub prefix_hit: PrefixHit,
}

/// Layers that use what an earlier layer keeps.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OtherReaders {
    /// How many.
    pub layers: u64,
    /// What one decode step reads in each, of entries as they are kept here.
    pub decode_reads: DecodeReads,
}

/// What one decode step reads of a component: its entries, or `at_most` of them where there are more, each with
/// `entry_bytes` in each of its layers. All of it where there are no entries.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct DecodeReads {
    /// The rule.
    pub entries: ReadRule,
    /// How many entries an indexer chooses for a query; null where all are read.
    pub at_most: Option<u64>,
}

/// Which entries a decode step reads.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ReadRule {
    /// Every entry that is kept.
    Every,
    /// Those of the chunk that the step's token is in, up to itself; `prefix_hit.tokens` is the chunk.
    CurrentChunk,
    /// Those that an indexer chooses, whose keys are a component of their own and all read.
    Chosen,
}

/// What must be there of a component for a prefix hit that ends at some token.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct PrefixHit {
    /// The rule.
    pub needs: Needs,
    /// Tokens that the rule speaks of: the window, the chunk, the group.
    pub tokens: Option<Tokens>,
}

/// The rules of prefix hits.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Needs {
    /// Any run of whole blocks from the first token on is of use.
    AnyBlock,
    /// Only whole compression groups are of use: the hit ends where one does.
    CompleteGroup,
    /// Every entry of the window before the end of the hit; older ones are of no use.
    WholeWindow,
    /// Every entry of the chunk in which the hit ends, from the chunk's first token on.
    CurrentChunk,
    /// A state saved exactly where the hit ends: a state of a longer prefix cannot be cut.
    ExactCheckpoint,
    /// The same encoder output.
    SameEncoderOutput,
    /// The compressor's rows of the last group before the end of the hit, of which the next entry is made too: kept beside
    /// the window (vLLM registers them as one, `SlidingWindowMLASpec`), or computed again from that group's tokens.
    PreviousGroup,
    /// Nothing: at the end of a complete group it is empty.
    Nothing,
}

impl Lifetime {
    pub(super) fn of(index: usize, group: &Group) -> Self {
        let kept = &group.component;
        Self {
            component: index,
            kind: kept.kind,
            layers: group.layers.clone(),
            format: kept.format,
            growth: kept.growth.name(),
            law: kept.growth,
            lifecycle: kept.lifecycle,
            entry_bytes: kept.growth.entry(),
            tokens_per_entry: tokens_per_entry(kept.growth),
            saturates_at: kept.growth.saturates_at(),
            decode_reads: DecodeReads::of(kept),
            other_readers: Vec::new(),
            prefix_hit: PrefixHit::of(group),
        }
    }
}

/// The rows with what layers read of them that keep nothing of the kind: each at the first row of the component.
pub(super) fn with_other_readers(mut rows: Vec<Lifetime>, state: &StateModel) -> Vec<Lifetime> {
    for part in state.parts() {
        let kept = &part.component;
        let is_of = |row: &&mut Lifetime| {
            let is_as_wide = row.format == kept.format && row.entry_bytes == kept.growth.entry();
            row.kind == kept.kind && is_as_wide && row.tokens_per_entry == tokens_per_entry(kept.growth)
        };
        let Some(row) = rows.iter_mut().find(is_of) else { continue };
        let others = part.other_readers().iter();
        row.other_readers.extend(
            others
                .map(|(read, layers)| OtherReaders { layers: *layers, decode_reads: DecodeReads::of(read) }),
        );
    }
    rows
}

fn tokens_per_entry(growth: Growth) -> Option<u64> {
    match growth {
        Growth::Compressed { ratio, .. } => Some(ratio.get()),
        Growth::Constant { .. } => None,
        _ => Some(1),
    }
}

impl DecodeReads {
    fn of(kept: &StateComponent) -> Self {
        match (kept.reads, kept.growth) {
            (Reads::TopEntries(limit), _) => Self { entries: ReadRule::Chosen, at_most: Some(limit) },
            (Reads::Everything, Growth::Chunk { .. }) => {
                Self { entries: ReadRule::CurrentChunk, at_most: None }
            }
            (Reads::Everything, _) => Self { entries: ReadRule::Every, at_most: None },
        }
    }
}

impl PrefixHit {
    pub(super) fn of(group: &Group) -> Self {
        match (group.component.kind, group.component.growth) {
            (ComponentKind::CompressorState, _) => match group.overlap {
                Some(ratio) => Self { needs: Needs::PreviousGroup, tokens: Some(ratio) },
                None => Self { needs: Needs::Nothing, tokens: None },
            },
            (ComponentKind::CrossKv, _) => Self { needs: Needs::SameEncoderOutput, tokens: None },
            (_, Growth::Constant { .. }) => Self { needs: Needs::ExactCheckpoint, tokens: None },
            (_, Growth::Window { window, .. }) => Self { needs: Needs::WholeWindow, tokens: Some(window) },
            (_, Growth::Chunk { chunk, .. }) => Self { needs: Needs::CurrentChunk, tokens: Some(chunk) },
            (_, Growth::Compressed { ratio, .. }) => {
                Self { needs: Needs::CompleteGroup, tokens: Some(ratio) }
            }
            (_, Growth::Linear { .. }) => Self { needs: Needs::AnyBlock, tokens: None },
        }
    }
}

/// Tokens of a group, where a compressor's groups overlap by one: each entry is made of its own group and the one before
/// (DeepSeek-V4's CSA; HCA's groups stand alone).
pub(super) fn overlap(mixer: &Mixer, kind: ComponentKind) -> Option<Tokens> {
    let Mixer::Compressed(attention) = mixer else { return None };
    let branch = attention.compression.as_ref().filter(|_| kind == ComponentKind::CompressorState)?;
    let ratio = branch.ratio.get();
    branch.rows.as_ref().filter(|rows| rows.rows.get() > ratio).map(|_| Tokens::new(ratio))
}
