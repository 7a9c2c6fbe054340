use smol_str::{SmolStr, ToSmolStr, format_smolstr};

use crate::derivation::{Derivation, Input};
use crate::fact::{Fact, Source};
use crate::format::KvFormat;
use crate::growth::Growth;
use crate::settings::{Chosen, Formats};
use crate::state::{ComponentKind, Lifecycle, Reads, StateComponent};
use crate::{Bytes, Error, Result, Tokens};

/// The shape of K and V of one attention layer, in heads and values.
#[derive(Clone, Debug, Hash, PartialEq)]
pub struct Heads {
    /// Query heads, where the config names them.
    pub query_heads: Option<Fact>,
    /// Heads that have K and V of their own.
    pub kv_heads: Fact,
    /// Values of one key.
    pub k_width: Fact,
    /// Values of one value vector.
    pub v_width: Fact,
}

impl Heads {
    /// MHA, GQA or MQA.
    pub fn form(&self) -> &'static str {
        match &self.query_heads {
            Some(query) if query.get() == self.kv_heads.get() => "MHA",
            Some(_) if self.kv_heads.get() == 1 => "MQA",
            _ => "GQA",
        }
    }

    /// K and V of every token.
    pub fn full(&self, formats: &Formats) -> Result<StateComponent> {
        let (entry, derivation, format) = self.entry(&formats.k(), &formats.v())?;
        Ok(component(ComponentKind::Kv, Growth::Linear { entry }, Lifecycle::Token, format, derivation))
    }

    /// K and V of the last `window` tokens.
    pub fn window(&self, formats: &Formats, window: &Fact) -> Result<StateComponent> {
        let (entry, mut derivation, format) = self.entry(&formats.k(), &formats.v())?;
        derivation.inputs.push(Input::of("window", window));
        let growth = Growth::Window { entry, window: Tokens::new(window.get()) };
        Ok(component(ComponentKind::WindowKv, growth, Lifecycle::Window, format, derivation))
    }

    /// K and V of the current chunk, at its fullest.
    pub fn chunk(&self, formats: &Formats, chunk: &Fact) -> Result<StateComponent> {
        let (entry, mut derivation, format) = self.entry(&formats.k(), &formats.v())?;
        derivation.inputs.push(Input::of("chunk", chunk));
        let growth = Growth::Chunk { entry, chunk: Tokens::new(chunk.get()) };
        Ok(component(ComponentKind::ChunkKv, growth, Lifecycle::Window, format, derivation))
    }

    /// K and V of an encoder's output, fixed for the request. `limit` is the config's, used where no length is set.
    ///
    /// # Errors
    ///
    /// No length in config or settings; a format that does not fit the shape.
    pub fn cross(&self, formats: &Formats, limit: Option<&Fact>) -> Result<StateComponent> {
        let set = formats.settings().encoder_tokens.map(|tokens| {
            let source =
                Source::Setting { name: SmolStr::new_static("encoder_tokens"), value: tokens.to_smolstr() };
            Fact::new(tokens, source)
        });
        let encoder_tokens = set.as_ref().or(limit).ok_or_else(|| {
            Error::setting(
                "encoder_tokens",
                "not given, and the config has no max_source_positions; cross-attention needs one (add --set encoder_tokens=…)",
            )
        })?;
        let (k, v) = match formats.cross() {
            Some(format) => (format.clone(), format),
            None => (formats.k(), formats.v()),
        };
        let (entry, mut derivation, format) = self.entry(&k, &v)?;
        let bytes = entry.times(encoder_tokens.get())?;
        derivation.formula = format_smolstr!("encoder_tokens × ({})", derivation.formula);
        derivation.inputs.push(Input::of("encoder_tokens", encoder_tokens));
        derivation.result = bytes;
        Ok(component(
            ComponentKind::CrossKv,
            Growth::Constant { bytes },
            Lifecycle::Request,
            format,
            derivation,
        ))
    }

    /// Bytes of one token's K and V.
    fn entry(&self, k: &Chosen<KvFormat>, v: &Chosen<KvFormat>) -> Result<(Bytes, Derivation, &'static str)> {
        let k_row = k.format.row(self.kv_heads.get(), self.k_width.get())?;
        let v_row = v.format.row(self.kv_heads.get(), self.v_width.get())?;
        let entry = k_row.plus(v_row)?;
        let shape = [
            Input::of("kv_heads", &self.kv_heads),
            Input::of("k_width", &self.k_width),
            Input::of("v_width", &self.v_width),
        ];
        let name = if k.format == v.format { k.format.name() } else { StateComponent::MIXED };
        let Some(value_bytes) = bytes_per_value(k.format).filter(|_| k.format == v.format) else {
            let mut inputs = vec![
                Input::new("k_row", k_row.get(), row_source(k)),
                Input::new("v_row", v_row.get(), row_source(v)),
            ];
            inputs.extend(shape);
            return Ok((entry, Derivation::new("k_row + v_row", inputs, entry), name));
        };
        let mut inputs = shape.to_vec();
        inputs.push(Input::new("value_bytes", value_bytes, k.source.clone()));
        Ok((entry, Derivation::new("kv_heads × (k_width + v_width) × value_bytes", inputs, entry), name))
    }
}

fn component(
    kind: ComponentKind,
    growth: Growth,
    lifecycle: Lifecycle,
    format: &'static str,
    derivation: Derivation,
) -> StateComponent {
    StateComponent { kind, growth, lifecycle, format, reads: Reads::Everything, derivation }
}

pub(super) fn row_source(chosen: &Chosen<KvFormat>) -> Source {
    Source::Layout { rule: format_smolstr!("one row of all heads in {} ({})", chosen.format, chosen.source) }
}

/// Bytes of one value, for formats without inline scales.
pub(super) fn bytes_per_value(format: KvFormat) -> Option<u64> {
    match format {
        KvFormat::F32 => Some(4),
        KvFormat::Bf16 | KvFormat::F16 => Some(2),
        KvFormat::Fp8 => Some(1),
        _ => None,
    }
}
