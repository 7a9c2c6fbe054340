use std::fmt::Debug;
use std::sync::Arc;

use kvscope_sizing::StateFormat;

use super::case::RecurrentCase;
use super::conv::{Around, Convolution};
use super::element::Storage;
use super::form::Recurrence;
use super::layer::Layer;
use super::lightning::Lightning;
use super::mamba1::Mamba1;
use super::mamba2::Mamba2;
use super::state::Extent;
use super::{gdn, kda};
use crate::bench::BenchError;
use crate::bench::backend::{CaseOrder, Layout, PreparedCase};
use crate::bench::cpu::pool::Pool;
use crate::bench::cpu::simd::InstructionSet;
use crate::bench::shape::{RecurrenceShape, RecurrentShape};

/// A layer with a recurrent state, and the widest instruction set that divides its rows.
#[derive(Clone, Debug)]
pub(in crate::bench::cpu) struct RecurrentKernel {
    layer: Layer,
    set: InstructionSet,
}

impl RecurrentKernel {
    pub(in crate::bench::cpu) fn new(shape: &RecurrentShape) -> Result<Self, BenchError> {
        let layer = layer(shape)?;
        let set = layer.instruction_set(&InstructionSet::available())?;
        Ok(Self { layer, set })
    }
}

impl crate::bench::cpu::Kernel for RecurrentKernel {
    fn layout(&self, _context: u64, batch: u64) -> Result<Layout, BenchError> {
        let overflow = || kvscope_sizing::Error::overflow(format!("state of {batch} requests"));
        let layer_bytes = (self.layer.bytes() as u64).checked_mul(batch).ok_or_else(overflow)?;
        Ok(Layout {
            layer_bytes,
            padding_bytes: 0,
            padding_reason: "",
            launches: 1,
            instructions: self.set.name(),
        })
    }

    fn prepare(&self, order: &CaseOrder, pool: Arc<Pool>) -> Result<Box<dyn PreparedCase>, BenchError> {
        let [Some(layers), Some(requests)] = [order.layers, order.batch].map(count) else {
            let what = format!("{} layers of {} requests: both must be 1 or more", order.layers, order.batch);
            return Err(BenchError::Shape(what));
        };
        let extent = Extent { layers, requests };
        Ok(Box::new(RecurrentCase::new(self.layer.clone(), self.set, extent, order.seed, pool)?))
    }
}

fn layer(shape: &RecurrentShape) -> Result<Layer, BenchError> {
    let recurrence: Option<Arc<dyn Recurrence>> = match shape.recurrence {
        RecurrenceShape::GatedDeltaNet { k_heads, v_heads, k_dim, v_dim } => {
            let [k_heads, v_heads, k_dim, v_dim] = sizes(shape, [k_heads, v_heads, k_dim, v_dim])?;
            if !v_heads.is_multiple_of(k_heads) {
                let what = format!("{v_heads} value heads are no multiple of {k_heads} key heads");
                return Err(BenchError::Shape(what));
            }
            Some(Arc::new(gdn::layer(k_heads, v_heads, k_dim, v_dim)))
        }
        RecurrenceShape::Kda { heads, dim } => {
            let [heads, dim] = sizes(shape, [heads, dim])?;
            Some(Arc::new(kda::layer(heads, dim)))
        }
        RecurrenceShape::Mamba1 { d_inner, d_state } => {
            let [d_inner, d_state] = sizes(shape, [d_inner, d_state])?;
            Some(Arc::new(Mamba1 { d_inner, d_state }))
        }
        RecurrenceShape::Mamba2 { heads, head_dim, d_state, groups } => {
            let [heads, head_dim, d_state, groups] = sizes(shape, [heads, head_dim, d_state, groups])?;
            if !heads.is_multiple_of(groups) {
                return Err(BenchError::Shape(format!("{heads} heads are no multiple of {groups} groups")));
            }
            Some(Arc::new(Mamba2 { heads, head_dim, d_state, groups }))
        }
        RecurrenceShape::Lightning { heads, dim } => {
            let [heads, dim] = sizes(shape, [heads, dim])?;
            Some(Arc::new(Lightning { heads, dim }))
        }
        RecurrenceShape::ShortConv => None,
    };
    let convolution = match shape.conv {
        Some(conv) => {
            let [kernel, channels] = sizes(shape, [conv.kernel, conv.channels])?;
            let around = if recurrence.is_some() { Around::Silu } else { Around::Factors };
            Some((Convolution { kernel, channels, around }, storage(conv.format)?))
        }
        None => None,
    };
    let recurrence = match recurrence {
        Some(form) => Some((form, storage(shape.format)?)),
        None => None,
    };
    Ok(Layer { convolution, recurrence })
}

fn storage(format: StateFormat) -> Result<Storage, BenchError> {
    match format {
        StateFormat::F32 => Ok(Storage::F32),
        StateFormat::Bf16 => Ok(Storage::Bf16),
        StateFormat::F16 => {
            Err(BenchError::Shape("state in f16: f32 and bf16 are measured; use --state-dtype".to_owned()))
        }
    }
}

fn sizes<const N: usize>(shape: &dyn Debug, values: [u64; N]) -> Result<[usize; N], BenchError> {
    let mut sizes = [0; N];
    for (size, value) in sizes.iter_mut().zip(values) {
        *size = count(value).filter(|size| *size <= 1 << 20).ok_or_else(|| {
            BenchError::Shape(format!("{shape:?} has a count or width outside 1 to 1,048,576"))
        })?;
    }
    Ok(sizes)
}

fn count(value: u64) -> Option<usize> {
    usize::try_from(value).ok().filter(|count| *count > 0)
}
