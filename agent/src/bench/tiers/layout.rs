//! A request's state as blocks: how many of which size.

use kvscope_protocol::run::StatePart;
use kvscope_sizing::describe::describe;
use kvscope_sizing::engine::{Engine, EngineKind, Figure, Quantity, Query, report, reservation};
use kvscope_sizing::{Architecture, Bytes, Error, Result, Settings, StateModel, Tokens, Warning};

use super::PAGE;

/// The state of one request in the blocks that its engine keeps, finds and moves as a whole.
#[derive(Clone, Debug)]
pub struct StateLayout {
    pub(crate) model: String,
    pub(crate) engine: String,
    pub(crate) context: Tokens,
    pub(crate) block_tokens: Tokens,
    pub(crate) logical_bytes: Bytes,
    /// Blocks by size; those that go by tokens last.
    pub(crate) parts: Vec<StatePart>,
    /// What was assumed.
    pub warnings: Vec<Warning>,
}

impl StateLayout {
    /// The blocks of one request of `context` tokens: vLLM's by its profile, and for `logical` those of the service layer
    /// of `kvscope describe`. `model` is a label.
    ///
    /// # Errors
    ///
    /// Another engine, whose pools are not divided into such blocks; settings that do not fit the model; an overflow.
    pub fn of(
        model: &str,
        architecture: &Architecture,
        engine: &Engine,
        context: Tokens,
        settings: &Settings,
    ) -> Result<Self> {
        let mut layout = match engine.kind() {
            EngineKind::Vllm => in_vllm(architecture, engine, context, settings)?,
            EngineKind::Logical => by_service(model, architecture, context, settings)?,
            _ => return Err(no_blocks(engine)),
        };
        model.clone_into(&mut layout.model);
        layout.logical_bytes = StateModel::new(architecture, settings)?.resident(context, 1)?;
        Ok(layout)
    }

    /// Blocks of the whole request.
    pub(crate) fn blocks(&self) -> u64 {
        self.parts.iter().map(|part| part.blocks).sum()
    }

    /// The parts that lie within `bytes` bytes, fewer blocks of tokens first; none where not one block does.
    pub(crate) fn within(&self, bytes: u64) -> Option<Vec<StatePart>> {
        let mut left = bytes;
        let mut parts = Vec::new();
        for part in &self.parts {
            let stride = stride(part);
            let blocks = part.blocks.min(left / stride.max(1));
            left -= blocks * stride;
            if blocks > 0 {
                parts.push(StatePart { blocks, ..part.clone() });
            }
        }
        (!parts.is_empty()).then_some(parts)
    }

    /// Bytes of the smallest block on whole pages.
    pub(crate) fn smallest(&self) -> u64 {
        self.parts.iter().map(stride).min().unwrap_or(0)
    }
}

/// Bytes from one block to the next: whole pages, as direct I/O asks.
pub(crate) fn stride(part: &StatePart) -> u64 {
    part.block_bytes.get().next_multiple_of(PAGE as u64)
}

fn no_blocks(engine: &Engine) -> Error {
    Error::setting(
        "engine",
        format!(
            "{engine} has no blocks of one size to lay a state out in; use vllm, or logical for the blocks of `kvscope describe`"
        ),
    )
}

/// All blocks of a vLLM pool are as wide as the one that is never handed out.
fn in_vllm(
    architecture: &Architecture,
    engine: &Engine,
    context: Tokens,
    settings: &Settings,
) -> Result<StateLayout> {
    let mut query = Query::new(architecture, engine.clone(), settings)?;
    (query.context, query.batch) = (Some(context), 1);
    let held = reservation(&query)?;
    let report = report(&query)?;
    let (block, Some(Figure::Tokens(tokens))) = (held.once, report.figure(Quantity::AttentionBlockSize))
    else {
        return Err(no_blocks(engine));
    };
    if block == Bytes::ZERO || held.reserved == Bytes::ZERO {
        return Err(no_blocks(engine));
    }
    let blocks = held.reserved.get() / block.get();
    let what = match held.ranks {
        1 => "pages of all layers".to_owned(),
        ranks => format!("pages of all layers of one rank of {ranks}"),
    };
    Ok(StateLayout {
        model: String::new(),
        engine: report.rules().unwrap_or_else(|| engine.to_string()),
        context,
        block_tokens: tokens,
        logical_bytes: held.logical,
        parts: vec![StatePart { what, blocks, block_bytes: block }],
        warnings: report.warnings,
    })
}

/// Blocks of what keeps every token, and one checkpoint of each component that does not.
fn by_service(
    model: &str,
    architecture: &Architecture,
    context: Tokens,
    settings: &Settings,
) -> Result<StateLayout> {
    let described = describe(model, architecture, settings)?;
    let service = &described.service;
    let mut parts: Vec<StatePart> = service
        .components
        .iter()
        .filter_map(|one| {
            let block_bytes = one.checkpoint_bytes.filter(|bytes| *bytes > Bytes::ZERO)?;
            let kind = described.lifecycle[one.component].kind.name();
            Some(StatePart { what: format!("a checkpoint of {kind}"), blocks: 1, block_bytes })
        })
        .collect();
    if service.block.bytes > Bytes::ZERO {
        parts.push(StatePart {
            what: "components that keep every token".to_owned(),
            blocks: context.get().div_ceil(service.block.tokens.get().max(1)),
            block_bytes: service.block.bytes,
        });
    }
    Ok(StateLayout {
        model: String::new(),
        engine: "logical".to_owned(),
        context,
        block_tokens: service.block.tokens,
        logical_bytes: Bytes::ZERO,
        parts,
        warnings: described.warnings.clone(),
    })
}

#[cfg(test)]
mod tests {
    use kvscope_sizing::find_entry;

    use super::*;

    fn layout(model: &str, engine: &str, context: u64) -> Result<StateLayout> {
        let architecture = find_entry(model)?.architecture()?;
        StateLayout::of(model, &architecture, &engine.parse()?, Tokens::new(context), &Settings::default())
    }

    /// MiniMax-M2.7: 62 layers × 2 × 8 heads × 128 × 2 B are 253,952 B a token, 4,063,232 B a block of 16 tokens.
    #[test]
    fn gqa_lies_in_blocks_of_all_layers() {
        let layout = layout("minimax-m2.7", "vllm", 4097).unwrap();
        assert_eq!((layout.block_tokens.get(), layout.parts.len()), (16, 1));
        assert_eq!((layout.parts[0].blocks, layout.parts[0].block_bytes.get()), (257, 4_063_232));
        assert_eq!(layout.logical_bytes.get(), 4097 * 253_952);
        assert_eq!(layout.blocks(), 257);
        assert!(layout.engine.starts_with("vllm@"), "{}", layout.engine);
        // 4,063,232 = 992 pages. Room for three and a half.
        assert_eq!(layout.smallest(), 992 * 4096);
        assert_eq!(layout.within(3 * 4_063_232 + 2_000_000).unwrap()[0].blocks, 3);
        assert!(layout.within(4_063_231).is_none());
    }

    /// Kimi-Linear-like hybrids and states by `describe`: Qwen3.5-397B has 45 layers of a 64-head 128 × 128 f32 state
    /// (188,743,680 B), of conv state (3,317,760 B), and 15 layers × 2 × 2 heads × 256 × 2 B = 30,720 B a token.
    #[test]
    fn states_are_checkpoints_beside_blocks_of_tokens() {
        let layout = layout("qwen3.5-397b-a17b", "logical", 100).unwrap();
        let parts: Vec<(&str, u64, u64)> =
            layout.parts.iter().map(|p| (p.what.as_str(), p.blocks, p.block_bytes.get())).collect();
        assert!(parts.contains(&("a checkpoint of recurrent_state", 1, 188_743_680)), "{parts:?}");
        assert!(parts.contains(&("a checkpoint of conv_state", 1, 3_317_760)), "{parts:?}");
        assert_eq!(parts.last(), Some(&("components that keep every token", 7, 16 * 30_720)));
        // Where little fits, what does not grow goes first.
        let within = layout.within(200_000_000).unwrap();
        assert_eq!(within.iter().map(|part| part.blocks).collect::<Vec<_>>(), [1, 1, 7]);
    }

    /// DeepSeek-V3.2's block is no whole number of pages; what they add is counted.
    #[test]
    fn blocks_lie_on_whole_pages() {
        let layout = layout("deepseek-v3.2", "vllm", 1000).unwrap();
        let part = &layout.parts[0];
        assert!(stride(part).is_multiple_of(4096) && stride(part) - part.block_bytes.get() < 4096);
    }

    #[test]
    fn an_engine_without_such_blocks_is_refused_in_words() {
        let error = layout("minimax-m2.7", "llama.cpp", 4096).unwrap_err().to_string();
        assert!(error.contains("use vllm, or logical"), "{error}");
    }
}
