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
        StateFormat::F16 => Err(BenchError::Shape(
            "state in f16: only f32 and bf16 are measured; name the form as gdn@bf16".to_owned(),
        )),
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

#[cfg(test)]
mod tests {
    use kvscope_protocol::run::Cache;
    use kvscope_sizing::{Settings, Tokens, catalogue, read_config};

    use super::*;
    use crate::bench::cpu::Kernel;
    use crate::bench::form::Form;
    use crate::bench::shape::{ConvShape, FormShape};
    use crate::bench::subject::Subject;

    fn shape_of(subject: &Subject) -> RecurrentShape {
        let FormShape::Recurrent(shape) = subject.shape else { panic!("{:?}", subject.shape) };
        shape
    }

    #[test]
    fn every_recurrent_layer_of_the_catalogue_has_a_kernel_that_asks_for_sizing_s_bytes() {
        let (context, batch) = (Tokens::new(1000), 3);
        let mut found = 0;
        for entry in catalogue() {
            let architecture = entry.architecture().unwrap();
            for form in Form::all().filter(|form| form.is_recurrent()) {
                let Ok(subject) = Subject::find(&architecture, form, &Settings::default()) else { continue };
                let kernel = RecurrentKernel::new(&shape_of(&subject)).unwrap();
                let layout = kernel.layout(context.get(), batch).unwrap();
                let right = subject.sizing.state_bytes(1, context, batch).unwrap();
                assert_eq!(
                    (layout.layer_bytes, layout.padding_bytes),
                    (right.get(), 0),
                    "{} {form:?}",
                    entry.id
                );
                found += 1;
            }
        }
        assert!(found >= 30, "{found} versions");
    }

    #[test]
    fn cases_ask_for_what_the_layout_says() {
        // LFM2-1.2B (its config.json): 2 kept inputs of 2,048 channels in bf16 are 8,192 bytes a layer.
        let text = r#"{"model_type": "lfm2", "dtype": "bfloat16", "hidden_size": 2048, "num_hidden_layers": 2,
            "num_attention_heads": 32, "num_key_value_heads": 8, "conv_L_cache": 3, "conv_dim": 2048,
            "layer_types": ["conv", "full_attention"]}"#;
        let subject =
            Subject::find(&read_config(text).unwrap(), Form::ShortConv, &Settings::default()).unwrap();
        let kernel = RecurrentKernel::new(&shape_of(&subject)).unwrap();
        assert_eq!(kernel.layout(5, 1).unwrap().layer_bytes, 8192);
        let order =
            CaseOrder { shape: subject.shape, layers: 3, context: 5, batch: 2, seed: 1, cache: Cache::Cold };
        let mut case = kernel.prepare(&order, Arc::new(Pool::with_workers(2).unwrap())).unwrap();
        assert_eq!(case.asked_bytes().get(), 3 * 2 * 8192);
        assert!(case.check().unwrap().is_correct());
        assert_eq!(case.check().unwrap().part.as_deref(), Some("the first of 2 requests, in the last layer"));
    }

    #[test]
    fn shapes_without_a_kernel_say_why() {
        let shape = |recurrence, channels, format| RecurrentShape {
            recurrence,
            format,
            conv: Some(ConvShape { kernel: 4, channels, format: StateFormat::Bf16 }),
        };
        let gdn =
            |k_heads, v_heads| RecurrenceShape::GatedDeltaNet { k_heads, v_heads, k_dim: 32, v_dim: 32 };
        let mamba2 = RecurrenceShape::Mamba2 { heads: 3, head_dim: 32, d_state: 32, groups: 2 };
        for (shape, what) in [
            (shape(gdn(2, 5), 288, StateFormat::F32), "5 value heads are no multiple of 2 key heads"),
            (shape(gdn(0, 5), 288, StateFormat::F32), "outside 1 to 1,048,576"),
            (shape(gdn(1, 1), 96, StateFormat::F16), "only f32 and bf16"),
            (shape(gdn(1, 1), 128, StateFormat::F32), "128 channels and the recurrence takes 96"),
            (shape(gdn(1, 1), 97, StateFormat::F32), "a multiple of 32 channels"),
            (shape(mamba2, 224, StateFormat::F32), "3 heads are no multiple of 2 groups"),
            (shape(RecurrenceShape::Kda { heads: 8, dim: 20 }, 480, StateFormat::F32), "no whole vectors"),
        ] {
            let error = RecurrentKernel::new(&shape).unwrap_err().to_string();
            assert!(error.contains(what), "{error}");
        }
    }
}
