//! What the bytes of one entry, or one state, consist of.

use serde::Serialize;

use crate::config::{product, sum};
use crate::format::{IndexFormat, KvFormat, StateFormat};
use crate::growth::Growth;
use crate::mixer::{Heads, Latent, Mixer};
use crate::settings::Formats;
use crate::state::{ComponentKind, StateComponent};
use crate::{Bytes, Error, Result};

/// What one entry, or one state, of one layer consists of.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Payload {
    /// `entry` where there is one for every token or group, `state` where there is one for the request.
    pub unit: &'static str,
    /// Bytes of one.
    pub bytes: Bytes,
    /// Its parts, which add up to those bytes.
    pub parts: Vec<PayloadPart>,
}

/// One part of an entry or state.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PayloadPart {
    /// `k`, `v`, `latent`, `rope`, `key`, `scales`, `padding`, `state`, `inputs`, `rows`, …
    pub name: &'static str,
    /// How its values are stored.
    pub format: &'static str,
    /// Its values: numbers, or scales.
    pub values: u64,
    /// Its bytes, inline scales of block formats included.
    pub bytes: Bytes,
}

/// The payload of `component`, which `mixer` keeps under `formats`.
pub(super) fn payload(mixer: &Mixer, component: &StateComponent, formats: &Formats) -> Result<Payload> {
    let bytes = component.growth.entry();
    let parts = match component.kind {
        ComponentKind::Kv | ComponentKind::WindowKv | ComponentKind::ChunkKv | ComponentKind::CrossKv
            if mixer.heads().is_some() =>
        {
            let shape = mixer.heads().ok_or_else(|| unknown(component))?;
            pair(shape, component, formats)?
        }
        ComponentKind::Kv => match mixer {
            Mixer::Mla(latent) | Mixer::Dsa { latent, .. } => expanded(latent, formats)?,
            _ => return Err(unknown(component)),
        },
        ComponentKind::MlaLatent => match mixer {
            Mixer::Mla(latent) | Mixer::Dsa { latent, .. } => latent_parts(latent, component)?,
            _ => return Err(unknown(component)),
        },
        ComponentKind::CompressedKv | ComponentKind::WindowKv => match mixer {
            Mixer::Compressed(attention) => {
                record_parts(attention.width.get(), attention.rope.get(), component)?
            }
            _ => return Err(unknown(component)),
        },
        ComponentKind::IndexKey => index_parts(component)?,
        ComponentKind::CompressorState => vec![state_part("rows", component)?],
        ComponentKind::RecurrentState => vec![state_part("state", component)?],
        ComponentKind::ConvState => vec![state_part("inputs", component)?],
        ComponentKind::ChunkKv | ComponentKind::CrossKv => return Err(unknown(component)),
    };
    let unit = if matches!(component.growth, Growth::Constant { .. }) { "state" } else { "entry" };
    Ok(Payload { unit, bytes, parts })
}

/// K and V of all heads; for an encoder's output, of all its tokens.
fn pair(shape: &Heads, component: &StateComponent, formats: &Formats) -> Result<Vec<PayloadPart>> {
    let (k, v) = match formats.cross().filter(|_| component.kind == ComponentKind::CrossKv) {
        Some(cross) => (cross.format, cross.format),
        None => (formats.k().format, formats.v().format),
    };
    let heads = shape.kv_heads.get();
    let rows = [k.row(heads, shape.k_width.get())?, v.row(heads, shape.v_width.get())?];
    let entry = rows[0].plus(rows[1])?.get().max(1);
    let tokens =
        if component.kind == ComponentKind::CrossKv { component.growth.entry().get() / entry } else { 1 };
    let side = |name, format: KvFormat, width: u64, row: Bytes| -> Result<PayloadPart> {
        let values = product(&[heads, width, tokens])?;
        Ok(PayloadPart { name, format: format.name(), values, bytes: row.times(tokens)? })
    };
    Ok(vec![side("k", k, shape.k_width.get(), rows[0])?, side("v", v, shape.v_width.get(), rows[1])?])
}

/// K and V of every head in place of a latent.
fn expanded(latent: &Latent, formats: &Formats) -> Result<Vec<PayloadPart>> {
    let field = |fact: &Option<crate::Fact>| fact.as_ref().map_or(0, crate::Fact::get);
    let heads = field(&latent.query_heads);
    let (k, v) = (formats.k().format, formats.v().format);
    let part = |name, format: KvFormat, width: u64| -> Result<PayloadPart> {
        let bytes = format.row(heads, width)?;
        Ok(PayloadPart { name, format: format.name(), values: product(&[heads, width])?, bytes })
    };
    let k_width = sum(&[field(&latent.nope), latent.rope.get()])?;
    Ok(vec![part("k", k, k_width)?, part("v", v, field(&latent.v_width))?])
}

fn latent_parts(latent: &Latent, component: &StateComponent) -> Result<Vec<PayloadPart>> {
    let (rank, rope) = (latent.rank.get(), latent.rope.get());
    let format: KvFormat = component.format.parse()?;
    let parts = if format == KvFormat::Fp8DsMla {
        let scales = rank.div_ceil(128);
        vec![
            part("latent", "fp8", rank, rank),
            part("scales", "f32", scales, product(&[scales, 4])?),
            part("rope", "bf16", rope, product(&[rope, 2])?),
        ]
    } else {
        split(["latent", "rope"], [rank, rope], format)?
    };
    Ok(parts.into_iter().filter(|part| part.values > 0).collect())
}

/// A compressed or window entry, which is both K and V.
fn record_parts(width: u64, rope: u64, component: &StateComponent) -> Result<Vec<PayloadPart>> {
    let format: KvFormat = component.format.parse()?;
    let plain = width.saturating_sub(rope);
    if format != KvFormat::Fp8DsMla {
        return split(["values", "rope"], [plain, rope], format);
    }
    let scales = plain.div_ceil(64);
    let rope_bytes = product(&[rope, 2])?;
    let padding = component.growth.entry().get().saturating_sub(sum(&[plain, rope_bytes, scales])?);
    let parts = [
        part("values", "fp8", plain, plain),
        part("rope", "bf16", rope, rope_bytes),
        part("scales", "ue8m0", scales, scales),
        part("padding", "none", 0, padding),
    ];
    Ok(parts.into_iter().filter(|part| part.bytes > Bytes::ZERO).collect())
}

/// Two parts where the format stores each value alone; one where blocks may cross from the first into the second.
fn split(names: [&'static str; 2], values: [u64; 2], format: KvFormat) -> Result<Vec<PayloadPart>> {
    let all = sum(&values)?;
    if format.row(1, 1).is_err() || matches!(format, KvFormat::Int4PerTokenHead) {
        return Ok(vec![PayloadPart {
            name: "values",
            format: format.name(),
            values: all,
            bytes: format.row(1, all)?,
        }]);
    }
    let mut parts = Vec::with_capacity(3);
    for (name, count) in names.into_iter().zip(values) {
        let scale = format.row(1, 0)?;
        let bytes = format.row(1, count)?.get() - scale.get();
        parts.push(part(name, format.name(), count, bytes));
    }
    let scale = format.row(1, 0)?.get();
    if scale > 0 {
        parts.push(part("scales", "f32", 1, scale));
    }
    Ok(parts)
}

/// One key and its scales.
fn index_parts(component: &StateComponent) -> Result<Vec<PayloadPart>> {
    let format: IndexFormat = component.format.parse()?;
    let width = component.derivation.inputs.iter().find(|input| input.symbol == "index_width");
    let width = width.ok_or_else(|| unknown(component))?.value;
    let keys = component.growth.entry().get() / format.key(width)?.get().max(1);
    let values = product(&[width, keys])?;
    let parts = match format {
        IndexFormat::Fp8 => {
            let scales = product(&[width.div_ceil(128), keys])?;
            vec![part("key", "fp8", values, values), part("scales", "f32", scales, product(&[scales, 4])?)]
        }
        IndexFormat::Fp4 => {
            let scales = product(&[width.div_ceil(32), keys])?;
            let packed = product(&[width.div_ceil(2), keys])?;
            vec![part("key", "fp4", values, packed), part("scales", "ue8m0", scales, scales)]
        }
        IndexFormat::Bf16 => vec![part("key", "bf16", values, product(&[values, 2])?)],
    };
    Ok(parts)
}

fn state_part(name: &'static str, component: &StateComponent) -> Result<PayloadPart> {
    let format: StateFormat = component.format.parse()?;
    let bytes = component.growth.entry();
    Ok(PayloadPart { name, format: format.name(), values: bytes.get() / format.bytes_per_value(), bytes })
}

fn part(name: &'static str, format: &'static str, values: u64, bytes: u64) -> PayloadPart {
    PayloadPart { name, format, values, bytes: Bytes::new(bytes) }
}

fn unknown(component: &StateComponent) -> Error {
    Error::field(component.kind.name(), "no payload layout is known for it in this mixer")
}
