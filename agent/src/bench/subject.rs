//! What is measured: one mixer of a model, from which shape, bytes and operations all follow. A new mixer is a compile
//! error here and in [`Form::of`].

use std::sync::Arc;

use kvscope_sizing::cost::StepCost;
use kvscope_sizing::{
    Architecture, Bytes, ComponentKind, CompressedAttention, Conv, Fact, Formats, Heads, IndexKeys, KvFormat,
    Latent, Mixer, Recurrence, Recurrent, Settings, StateComponent, StateFormat, Tokens,
};

use super::BenchError;
use super::form::Form;
use super::plan::{CaseSizing, Divided};
use super::shape::{
    BranchShape, CompressedShape, ConvShape, DsaShape, FormShape, GqaShape, IndexShape, IndexedShape,
    MlaShape, RecurrenceShape, RecurrentShape, RowsShape, StoreOwner, TokenRange,
};

/// The layers of one form of a model.
#[derive(Clone, Debug)]
pub struct Subject {
    /// Widths of one layer.
    pub shape: FormShape,
    /// Layers of the model that have them.
    pub layers: u64,
    /// Bytes and operations of one layer.
    pub sizing: Arc<dyn CaseSizing>,
}

/// One mixer under formats.
#[derive(Clone, Debug)]
struct MixerSizing {
    mixer: Mixer,
    formats: Formats,
    components: Vec<StateComponent>,
}

impl Subject {
    /// The first layers of `architecture` that have the form, their state in the formats of `settings`.
    ///
    /// K, V and latents are bf16 where `settings` do not say otherwise, whatever dtype the checkpoint has. Layers that
    /// use an earlier layer's cache are passed over.
    pub fn find(architecture: &Architecture, form: Form, settings: &Settings) -> Result<Self, BenchError> {
        let usual = settings.kv_dtype.unwrap_or(KvFormat::Bf16);
        let settings = Settings {
            k_dtype: settings.k_dtype.or(Some(usual)),
            v_dtype: settings.v_dtype.or(Some(usual)),
            ..settings.clone()
        };
        let formats = architecture.formats(&settings);
        let owners = architecture.classes().iter().filter(|class| class.borrows.is_none());
        let (mixer, layers) = owners
            .flat_map(|class| class.mixers.iter().map(|mixer| (mixer, class.layers.len() as u64)))
            .find(|(mixer, _)| Form::of(mixer) == Some(form))
            .ok_or_else(|| {
                BenchError::Form(format!("no layer has the form {}; choose another model", form.name()))
            })?;
        let sizing = MixerSizing::new(mixer.clone(), formats)?;
        Ok(Self { shape: sizing.shape()?, layers, sizing: Arc::new(sizing) })
    }
}

impl CaseSizing for MixerSizing {
    fn state_bytes(&self, layers: u64, context: Tokens, batch: u64) -> kvscope_sizing::Result<Bytes> {
        let one = self
            .components
            .iter()
            .try_fold(Bytes::ZERO, |sum, component| sum.plus(component.bytes(context)?))?;
        one.times(layers)?.times(batch)
    }

    fn borrowed_bytes(&self, layers: u64, context: Tokens, batch: u64) -> kvscope_sizing::Result<Bytes> {
        let Mixer::Compressed(attention) = &self.mixer else { return Ok(Bytes::ZERO) };
        let Some(store) = attention.borrowed_store(&self.formats)? else { return Ok(Bytes::ZERO) };
        store.bytes(context)?.times(layers)?.times(batch)
    }

    fn cost(&self, layers: u64, context: Tokens, batch: u64) -> kvscope_sizing::Result<StepCost> {
        self.mixer.step_cost(&self.formats, context)?.times(layers)?.times(batch)
    }

    fn divided(&self, by: u64) -> Option<Divided> {
        let (mixer, what) = divided(&self.mixer, by)?;
        let sizing = Self::new(mixer, self.formats.clone()).ok()?;
        Some(Divided { shape: sizing.shape().ok()?, sizing: Arc::new(sizing), what })
    }
}

impl MixerSizing {
    fn new(mixer: Mixer, formats: Formats) -> Result<Self, BenchError> {
        let components = mixer.components(&formats)?;
        Ok(Self { mixer, formats, components })
    }

    fn shape(&self) -> Result<FormShape, BenchError> {
        let formats = &self.formats;
        Ok(match &self.mixer {
            Mixer::Full(heads) => FormShape::Gqa(attention(heads, formats, TokenRange::All)?),
            Mixer::IndexedFull(heads, index) => FormShape::Indexed(IndexedShape {
                attention: attention(heads, formats, TokenRange::All)?,
                index: indexer(index, formats)?,
                top_k: index.budget(),
            }),
            Mixer::Sliding { heads, window } => {
                FormShape::Gqa(attention(heads, formats, TokenRange::Window(window.get()))?)
            }
            Mixer::Chunked { heads, chunk } => {
                FormShape::Gqa(attention(heads, formats, TokenRange::Chunk(chunk.get()))?)
            }
            Mixer::Cross { heads, encoder_tokens } => {
                let set = formats.settings().encoder_tokens;
                // `components` has refused a config without a length.
                let tokens = set.or(encoder_tokens.as_ref().map(Fact::get)).unwrap_or_default();
                let mut shape = attention(heads, formats, TokenRange::Encoder(tokens))?;
                if let Some(format) = formats.cross() {
                    (shape.k_format, shape.v_format) = (format.format, format.format);
                }
                FormShape::Gqa(shape)
            }
            Mixer::Mla(latent) => FormShape::Mla(mla(latent, formats)?),
            Mixer::Dsa { latent, index, top_k } => FormShape::Dsa(DsaShape {
                attention: mla(latent, formats)?,
                index: index.as_ref().map(|index| indexer(index, formats)).transpose()?,
                top_k: top_k.as_ref().map(Fact::get),
            }),
            Mixer::Compressed(attention) => FormShape::Compressed(self.compressed(attention)?),
            Mixer::Recurrent(mixer) => FormShape::Recurrent(recurrent(mixer, formats)),
            Mixer::None => return Err(BenchError::Form("a layer without a mixer keeps nothing".to_owned())),
        })
    }

    fn compressed(&self, attention: &CompressedAttention) -> Result<CompressedShape, BenchError> {
        let format = |kind: ComponentKind| -> Result<KvFormat, BenchError> {
            let component = self.components.iter().find(|component| component.kind == kind);
            let name = component.map_or("", |component| component.format);
            name.parse().map_err(BenchError::Sizing)
        };
        let branch = match &attention.compression {
            None => None,
            Some(branch) => Some(BranchShape {
                ratio: branch.ratio.get(),
                store: if branch.own_store { StoreOwner::Own } else { StoreOwner::Earlier },
                format: attention.store_format(&self.formats),
                top_k: branch.top_k.as_ref().map(Fact::get),
                index: branch.index.as_ref().map(|index| indexer(index, &self.formats)).transpose()?,
                rows: branch
                    .rows
                    .as_ref()
                    .map(|rows| RowsShape { rows: rows.rows.get(), values: rows.values.get() }),
            }),
        };
        Ok(CompressedShape {
            query_heads: needed(attention.query_heads.as_ref(), "num_attention_heads")?,
            width: attention.width.get(),
            rope: attention.rope.get(),
            window: attention.window.get(),
            window_format: format(ComponentKind::WindowKv)?,
            branch,
        })
    }
}

fn attention(heads: &Heads, formats: &Formats, range: TokenRange) -> Result<GqaShape, BenchError> {
    Ok(GqaShape {
        query_heads: needed(heads.query_heads.as_ref(), "num_attention_heads")?,
        kv_heads: heads.kv_heads.get(),
        k_width: heads.k_width.get(),
        v_width: heads.v_width.get(),
        range,
        k_format: formats.k().format,
        v_format: formats.v().format,
    })
}

fn mla(latent: &Latent, formats: &Formats) -> Result<MlaShape, BenchError> {
    Ok(MlaShape {
        query_heads: needed(latent.query_heads.as_ref(), "num_attention_heads")?,
        latent: latent.rank.get(),
        rope: latent.rope.get(),
        format: formats.latent().format,
    })
}

fn indexer(index: &IndexKeys, formats: &Formats) -> Result<IndexShape, BenchError> {
    Ok(IndexShape {
        query_heads: needed(index.query_heads.as_ref(), "index_n_heads")?,
        key_heads: index.heads.get(),
        width: index.width.get(),
        pool: index.pool.get(),
        format: index.component(formats)?.format.parse()?,
    })
}

fn recurrent(mixer: &Recurrent, formats: &Formats) -> RecurrentShape {
    let conv = mixer.conv.as_ref();
    let recurrence = match &mixer.recurrence {
        Recurrence::GatedDeltaNet { v_heads, v_dim, k_dim } => {
            let (v_heads, v_dim, k_dim) = (v_heads.get(), v_dim.get(), k_dim.get());
            RecurrenceShape::GatedDeltaNet {
                k_heads: key_heads(conv, v_heads, v_dim, k_dim),
                v_heads,
                k_dim,
                v_dim,
            }
        }
        Recurrence::Kda { heads, dim } => RecurrenceShape::Kda { heads: heads.get(), dim: dim.get() },
        Recurrence::Mamba1 { d_inner, d_state } => {
            RecurrenceShape::Mamba1 { d_inner: d_inner.get(), d_state: d_state.get() }
        }
        Recurrence::Mamba2 { heads, head_dim, d_state, groups } => RecurrenceShape::Mamba2 {
            heads: heads.get(),
            head_dim: head_dim.get(),
            d_state: d_state.get(),
            groups: groups.get(),
        },
        Recurrence::Lightning { heads, dim } => {
            RecurrenceShape::Lightning { heads: heads.get(), dim: dim.get() }
        }
        Recurrence::ShortConv => RecurrenceShape::ShortConv,
    };
    let format: StateFormat = formats.recurrent().format;
    let conv = conv.map(|conv| ConvShape {
        kernel: conv.kernel.get(),
        channels: conv.channels.get(),
        format: formats.conv().format,
    });
    RecurrentShape { recurrence, format, conv }
}

/// Key heads of a gated DeltaNet: its convolution has `2 × k_heads × k_dim + v_heads × v_dim` channels.
fn key_heads(conv: Option<&Conv>, v_heads: u64, v_dim: u64, k_dim: u64) -> u64 {
    let keys = conv.and_then(|conv| conv.channels.get().checked_sub(v_heads * v_dim));
    keys.map(|channels| channels / (2 * k_dim)).filter(|heads| *heads > 0).unwrap_or(v_heads)
}

fn needed(fact: Option<&Fact>, field: &str) -> Result<u64, BenchError> {
    fact.map(Fact::get).ok_or_else(|| {
        BenchError::Form(format!("{field}: the config does not say it, and a measurement needs it"))
    })
}

/// The mixer with its heads, and with them its state, divided by `by`, and what is left in words; none where the state has
/// no heads or `by` does not divide them.
fn divided(mixer: &Mixer, by: u64) -> Option<(Mixer, String)> {
    let part = |fact: &Fact| {
        let value = fact.get();
        (value.is_multiple_of(by) && value >= by)
            .then(|| Fact::derived(value / by, format!("{} / {by}, to fit memory", fact.source())))
    };
    let words = |fact: &Fact, what: &str| format!("{} of {} {what}", fact.get() / by, fact.get());
    let heads_divided = |heads: &Heads| {
        Some(Heads {
            query_heads: Some(part(heads.query_heads.as_ref()?)?),
            kv_heads: part(&heads.kv_heads)?,
            ..heads.clone()
        })
    };
    let kv = "key-value heads";
    match mixer {
        Mixer::Full(heads) => Some((Mixer::Full(heads_divided(heads)?), words(&heads.kv_heads, kv))),
        Mixer::Sliding { heads, window } => {
            let divided = Mixer::Sliding { heads: heads_divided(heads)?, window: window.clone() };
            Some((divided, words(&heads.kv_heads, kv)))
        }
        Mixer::Chunked { heads, chunk } => {
            let divided = Mixer::Chunked { heads: heads_divided(heads)?, chunk: chunk.clone() };
            Some((divided, words(&heads.kv_heads, kv)))
        }
        Mixer::Cross { heads, encoder_tokens } => {
            let divided =
                Mixer::Cross { heads: heads_divided(heads)?, encoder_tokens: encoder_tokens.clone() };
            Some((divided, words(&heads.kv_heads, kv)))
        }
        Mixer::Recurrent(recurrent) => {
            let (recurrence, what) = match &recurrent.recurrence {
                Recurrence::GatedDeltaNet { v_heads, v_dim, k_dim } => {
                    let k_heads = key_heads(recurrent.conv.as_ref(), v_heads.get(), v_dim.get(), k_dim.get());
                    if !k_heads.is_multiple_of(by) {
                        return None;
                    }
                    let divided = Recurrence::GatedDeltaNet {
                        v_heads: part(v_heads)?,
                        v_dim: v_dim.clone(),
                        k_dim: k_dim.clone(),
                    };
                    (divided, words(v_heads, "value heads"))
                }
                Recurrence::Kda { heads, dim } => {
                    (Recurrence::Kda { heads: part(heads)?, dim: dim.clone() }, words(heads, "heads"))
                }
                Recurrence::Lightning { heads, dim } => {
                    (Recurrence::Lightning { heads: part(heads)?, dim: dim.clone() }, words(heads, "heads"))
                }
                Recurrence::Mamba1 { d_inner, d_state } => {
                    let divided = Recurrence::Mamba1 { d_inner: part(d_inner)?, d_state: d_state.clone() };
                    (divided, words(d_inner, "channels"))
                }
                Recurrence::Mamba2 { heads, head_dim, d_state, groups } => {
                    let divided = Recurrence::Mamba2 {
                        heads: part(heads)?,
                        head_dim: head_dim.clone(),
                        d_state: d_state.clone(),
                        groups: part(groups)?,
                    };
                    (divided, words(heads, "heads"))
                }
                Recurrence::ShortConv => {
                    let channels = &recurrent.conv.as_ref()?.channels;
                    (Recurrence::ShortConv, words(channels, "channels"))
                }
            };
            let conv = match &recurrent.conv {
                Some(conv) => Some(Conv { kernel: conv.kernel.clone(), channels: part(&conv.channels)? }),
                None => None,
            };
            Some((Mixer::Recurrent(Recurrent { recurrence, conv }), what))
        }
        // Latents, indexed and compressed entries are shared by all heads; fewer heads keep no fewer bytes.
        Mixer::IndexedFull(..) | Mixer::Mla(_) | Mixer::Dsa { .. } | Mixer::Compressed(_) | Mixer::None => {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use kvscope_sizing::find_entry;

    use super::*;

    fn subject(id: &str, form: Form) -> Subject {
        Subject::find(&find_entry(id).unwrap().architecture().unwrap(), form, &Settings::default()).unwrap()
    }

    /// A third of the state, and the same work for each byte.
    #[test]
    fn fewer_heads_keep_a_share_of_the_state_and_of_the_work() {
        let context = Tokens::new(1000);
        for (id, form, by) in [
            ("minimax-m2.7", Form::Gqa, 8),
            ("gpt-oss-120b", Form::Swa, 4),
            ("qwen3.5-397b-a17b", Form::Gdn, 2),
            ("kimi-linear-48b-a3b", Form::Kda, 4),
            ("jamba-1.5-large", Form::Mamba1, 2),
            ("nemotron-3-nano-30b-a3b", Form::Mamba2, 8),
            ("minimax-text-01", Form::Lightning, 2),
        ] {
            let whole = subject(id, form).sizing;
            let part = whole.divided(by).unwrap().sizing;
            assert_eq!(
                part.state_bytes(by, context, 1).unwrap(),
                whole.state_bytes(1, context, 1).unwrap(),
                "{id}"
            );
            let costs = (part.cost(by, context, 1).unwrap(), whole.cost(1, context, 1).unwrap());
            assert_eq!(costs.0, costs.1, "{id}");
        }
        assert!(subject("kimi-k2.6", Form::Mla).sizing.divided(2).is_none());
        assert!(subject("minimax-m2.7", Form::Gqa).sizing.divided(3).is_none());
        let half = subject("minimax-m2.7", Form::Gqa).sizing.divided(2).unwrap();
        assert_eq!(half.what, "4 of 8 key-value heads");
    }

    #[test]
    fn shapes_of_the_catalogue() {
        // Qwen3.5: 16 key heads, 64 value heads of 128; the convolution has 2 × 16 × 128 + 64 × 128 channels.
        let FormShape::Recurrent(gdn) = subject("qwen3.5-397b-a17b", Form::Gdn).shape else { panic!() };
        let right = RecurrenceShape::GatedDeltaNet { k_heads: 16, v_heads: 64, k_dim: 128, v_dim: 128 };
        assert_eq!(gdn.recurrence, right);
        assert_eq!(gdn.conv.unwrap().channels, 12_288);

        // DeepSeek-V4-Pro: 128 heads on 584-byte entries of 512 values, 64 index heads on 68-byte keys, top 1024.
        let FormShape::Compressed(csa) = subject("deepseek-v4-pro", Form::Csa).shape else { panic!() };
        assert_eq!((csa.query_heads, csa.width, csa.rope, csa.window), (128, 512, 64, 128));
        assert_eq!(csa.window_format, KvFormat::Fp8DsMla);
        let branch = csa.branch.unwrap();
        assert_eq!((branch.ratio, branch.top_k, branch.store), (4, Some(1024), StoreOwner::Own));
        let index = branch.index.unwrap();
        assert_eq!((index.query_heads, index.width, index.pool), (64, 128, 4));

        let FormShape::Compressed(csa2) = subject("deepseek-v4.1-flash", Form::Csa2Borrowed).shape else {
            panic!()
        };
        assert_eq!(csa2.branch.unwrap().store, StoreOwner::Earlier);
        assert_eq!(csa2.branch.unwrap().format, KvFormat::Nvfp4);
    }

    #[test]
    fn what_the_config_does_not_say_is_named() {
        let architecture = kvscope_sizing::read_config(
            r#"{"model_type": "x", "num_hidden_layers": 2, "kv_lora_rank": 512, "qk_rope_head_dim": 64}"#,
        )
        .unwrap();
        let error = Subject::find(&architecture, Form::Mla, &Settings::default()).unwrap_err().to_string();
        assert!(error.starts_with("num_attention_heads: "), "{error}");
        let error = Subject::find(&architecture, Form::Kda, &Settings::default()).unwrap_err().to_string();
        assert_eq!(error, "no layer has the form kda; choose another model");
    }
}
