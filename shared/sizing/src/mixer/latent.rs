use smol_str::format_smolstr;

use super::attention::{Heads, bytes_per_value, row_source};
use crate::derivation::{Derivation, Input};
use crate::fact::{Fact, Source};
use crate::format::IndexFormat;
use crate::growth::Growth;
use crate::settings::{Formats, MlaStorage};
use crate::state::{ComponentKind, Lifecycle, Reads, StateComponent};
use crate::{Result, Tokens};

/// The latent of multi-head latent attention (DeepSeek-V2, section 2.1): all heads share `rank` values and `rope` rotary
/// values a token. It is not divided by tensor parallelism.
#[derive(Clone, Debug, Hash, PartialEq)]
pub struct Latent {
    /// `kv_lora_rank`
    pub rank: Fact,
    /// `qk_rope_head_dim`; zero where the layer has no positions.
    pub rope: Fact,
    /// Query heads, where the config names them.
    pub query_heads: Option<Fact>,
    /// `qk_nope_head_dim`, needed for the expanded form.
    pub nope: Option<Fact>,
    /// `v_head_dim`, needed for the expanded form.
    pub v_width: Option<Fact>,
}

/// Keys of an indexer: one of `width` values for every token, or for every `pool` tokens.
#[derive(Clone, Debug, Hash, PartialEq)]
pub struct IndexKeys {
    /// Values of one key.
    pub width: Fact,
    /// Key heads; one in every published indexer.
    pub heads: Fact,
    /// Query heads that score each key, where the config names them; they change no bytes.
    pub query_heads: Option<Fact>,
    /// Tokens that share one key.
    pub pool: Fact,
    /// Which mixer's layout it has.
    pub layout: IndexLayout,
    /// Tokens or entries that a query reads.
    pub top_k: Option<Fact>,
}

/// The layout of index keys that its mixer brings where nothing is set.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum IndexLayout {
    /// DeepSeek-V3.2: FP8 with a 4-byte scale.
    Dsa,
    /// DeepSeek-V4: FP4 with a scale byte for every 32 values.
    Csa,
    /// Qwen's indexed attention: plain values in the model's dtype.
    Plain,
}

impl Latent {
    /// The latent of every token; `top_k` limits what a decode step reads.
    pub fn component(&self, formats: &Formats, top_k: Option<&Fact>) -> Result<StateComponent> {
        let reads = top_k.map_or(Reads::Everything, |limit| Reads::TopEntries(limit.get()));
        if formats.mla_storage() == MlaStorage::Expanded {
            return self.expanded(formats, reads, top_k);
        }
        let chosen = formats.latent();
        let entry = chosen.format.latent(self.rank.get(), self.rope.get())?;
        let mut inputs =
            vec![Input::of("kv_lora_rank", &self.rank), Input::of("qk_rope_head_dim", &self.rope)];
        let formula = if let Some(value_bytes) = bytes_per_value(chosen.format) {
            inputs.push(Input::new("value_bytes", value_bytes, chosen.source.clone()));
            "(kv_lora_rank + qk_rope_head_dim) × value_bytes"
        } else {
            let rule = format_smolstr!(
                "{} record of {} + {} values",
                chosen.format,
                self.rank.get(),
                self.rope.get()
            );
            inputs.push(Input::new("record_bytes", entry.get(), Source::Layout { rule }));
            "record_bytes"
        };
        inputs.extend(top_k.map(|limit| Input::of("top_k", limit)));
        Ok(StateComponent {
            kind: ComponentKind::MlaLatent,
            growth: Growth::Linear { entry },
            lifecycle: Lifecycle::Token,
            format: chosen.format.name(),
            reads,
            derivation: Derivation::new(formula, inputs, entry),
        })
    }

    /// The heads that it stands for; `None` where the config lacks their number or a width.
    pub(crate) fn heads(&self) -> Option<Heads> {
        let (heads, nope, v_width) = (self.query_heads.clone()?, self.nope.as_ref()?, self.v_width.clone()?);
        let k_width = Fact::derived(
            nope.get().saturating_add(self.rope.get()),
            format_smolstr!("{} + {}", nope.source(), self.rope.source()),
        );
        Some(Heads { query_heads: Some(heads.clone()), kv_heads: heads, k_width, v_width })
    }

    /// K and V of every head, as engines without latent caching keep them.
    fn expanded(&self, formats: &Formats, reads: Reads, top_k: Option<&Fact>) -> Result<StateComponent> {
        let missing = |field: &str| {
            crate::Error::field(field, "absent, but K and V of every head need it (mla_storage = expanded)")
        };
        let heads = self.query_heads.as_ref().ok_or_else(|| missing("num_attention_heads"))?;
        let nope = self.nope.as_ref().ok_or_else(|| missing("qk_nope_head_dim"))?;
        let v_width = self.v_width.as_ref().ok_or_else(|| missing("v_head_dim"))?;
        let (k, v) = (formats.k(), formats.v());
        let k_row = k.format.row(heads.get(), nope.get().saturating_add(self.rope.get()))?;
        let v_row = v.format.row(heads.get(), v_width.get())?;
        let entry = k_row.plus(v_row)?;
        let shape = [
            Input::of("heads", heads),
            Input::of("qk_nope_head_dim", nope),
            Input::of("qk_rope_head_dim", &self.rope),
            Input::of("v_head_dim", v_width),
        ];
        let format = if k.format == v.format { k.format.name() } else { StateComponent::MIXED };
        let plain = bytes_per_value(k.format).filter(|_| k.format == v.format);
        let (formula, mut inputs) = if let Some(value_bytes) = plain {
            let mut inputs = shape.to_vec();
            inputs.push(Input::new("value_bytes", value_bytes, k.source));
            ("heads × (qk_nope_head_dim + qk_rope_head_dim + v_head_dim) × value_bytes", inputs)
        } else {
            let mut inputs = vec![
                Input::new("k_row", k_row.get(), row_source(&k)),
                Input::new("v_row", v_row.get(), row_source(&v)),
            ];
            inputs.extend(shape);
            ("k_row + v_row", inputs)
        };
        inputs.extend(top_k.map(|limit| Input::of("top_k", limit)));
        Ok(StateComponent {
            kind: ComponentKind::Kv,
            growth: Growth::Linear { entry },
            lifecycle: Lifecycle::Token,
            format,
            reads,
            derivation: Derivation::new(formula, inputs, entry),
        })
    }
}

impl IndexKeys {
    /// Entries that a query reads, where the config says so.
    pub fn budget(&self) -> Option<u64> {
        self.top_k.as_ref().map(Fact::get)
    }

    /// The keys, all of which a decode step reads.
    pub fn component(&self, formats: &Formats) -> Result<StateComponent> {
        let chosen = match self.layout {
            IndexLayout::Dsa => {
                formats.index(IndexFormat::Fp8, "fp8 index keys with a 4-byte scale (DeepSeek-V3.2)")
            }
            IndexLayout::Csa => {
                formats.index(IndexFormat::Fp4, "fp4 index keys, a scale byte for 32 values (DeepSeek-V4)")
            }
            IndexLayout::Plain => formats.index(IndexFormat::Bf16, "plain index keys in the model's dtype"),
        };
        let entry = chosen.format.key(self.width.get())?.times(self.heads.get())?;
        let mut inputs = vec![Input::of("index_width", &self.width)];
        let rule =
            format_smolstr!("one {} key of {} values ({})", chosen.format, self.width.get(), chosen.source);
        inputs.push(Input::new("key_bytes", entry.get(), Source::Layout { rule }));
        let growth = match self.pool.get() {
            0 | 1 => Growth::Linear { entry },
            pool => {
                inputs.push(Input::of("pool", &self.pool));
                Growth::Compressed { entry, ratio: Tokens::new(pool) }
            }
        };
        Ok(StateComponent {
            kind: ComponentKind::IndexKey,
            growth,
            lifecycle: Lifecycle::Token,
            format: chosen.format.name(),
            reads: Reads::Everything,
            derivation: Derivation::new("key_bytes", inputs, entry),
        })
    }
}
