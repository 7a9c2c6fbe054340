//! State of a fixed size: a convolution, a recurrence, or the first feeding the second.

use std::rc::Rc;

use kvscope_reference::recurrence::{convolution, silu};
use kvscope_reference::widen;
use kvscope_sizing::StateFormat;

use super::numbers::{Random, bytes_of, first_of, floats_of, halves_of, part};
use super::pages::filled;
use super::plan::{Extent, Held, Plan, sizes, times};
use super::recurrence::{Before, Recurrence};
use crate::bench::BenchError;
use crate::bench::backend::{Check, Layout};
use crate::bench::cpu::{Kind, Run};
use crate::bench::shape::RecurrentShape;
use crate::gpu::{Arguments, Gpu, GpuError, Kernel, Memory};

/// How state is stored.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Storage {
    F32,
    /// Rounded to the nearest after every step.
    Bf16,
}

/// What one layer keeps and does.
#[derive(Clone, Copy, Debug)]
pub(super) struct Recurrent {
    recurrence: Option<(Recurrence, Storage)>,
    conv: Option<(Conv, Storage)>,
    target: &'static str,
}

/// A convolution over the last inputs; what stands around it depends on whether a recurrence follows.
#[derive(Clone, Copy, Debug)]
struct Conv {
    taps: usize,
    channels: usize,
    around: Around,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Around {
    /// The sum goes through x·σ(x).
    Silu,
    /// The input is multiplied before, the sum after.
    Factors,
}

struct HeldRecurrent {
    gpu: Rc<Gpu>,
    plan: Recurrent,
    requests: usize,
    state: Option<Stored>,
    conv: Option<Stored>,
    inputs: Vec<f32>,
    gates: Vec<f32>,
    weights: Vec<Vec<f32>>,
    taps: Vec<u8>,
    to_inputs: Memory,
    to_gates: Memory,
    to_weights: Vec<Memory>,
    to_taps: Memory,
    /// What the convolution gives the recurrence.
    activations: Memory,
    output: Memory,
    kernels: [Option<Kernel>; 2],
}

/// State of all layers and requests.
struct Stored {
    memory: Memory,
    storage: Storage,
    /// Values of a request.
    values: usize,
    layer_bytes: u64,
}

impl Storage {
    fn of(format: StateFormat) -> Result<Self, BenchError> {
        match format {
            StateFormat::F32 => Ok(Self::F32),
            StateFormat::Bf16 => Ok(Self::Bf16),
            StateFormat::F16 => Err(BenchError::Shape(
                "state in f16: only f32 and bf16 are measured; name the form as gdn@bf16".to_owned(),
            )),
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::Bf16 => "bf16",
        }
    }

    fn bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::Bf16 => 2,
        }
    }

    fn kind(self) -> Kind {
        match self {
            Self::F32 => Kind::F32,
            Self::Bf16 => Kind::Bf16,
        }
    }

    fn numbers(self, bytes: &[u8]) -> Vec<f64> {
        match self {
            Self::F32 => widen(&floats_of(bytes)),
            Self::Bf16 => halves_of(bytes),
        }
    }

    /// The largest difference over the largest right value, less what rounding to the storage takes.
    fn error(self, right: &[f64], got: &[f64]) -> f64 {
        if right.len() != got.len() {
            return f64::INFINITY;
        }
        let half_unit = |value: f64| match self {
            Self::F32 => 0.0,
            Self::Bf16 if value == 0.0 => 0.0,
            Self::Bf16 => 2_f64.powf(value.abs().log2().floor() - 8.0),
        };
        let largest = right.iter().fold(f64::MIN_POSITIVE, |largest, value| largest.max(value.abs()));
        right.iter().zip(got).fold(0.0, |worst: f64, (right, got)| {
            let off = (right - got).abs();
            if off.is_nan() { f64::INFINITY } else { worst.max((off - half_unit(*right)) / largest) }
        })
    }
}

impl Recurrent {
    pub(super) fn new(shape: &RecurrentShape, target: &'static str) -> Result<Self, BenchError> {
        let recurrence = match Recurrence::new(shape)? {
            Some(recurrence) => Some((recurrence, Storage::of(shape.format)?)),
            None => None,
        };
        let around = if recurrence.is_some() { Around::Silu } else { Around::Factors };
        let conv = match shape.conv {
            Some(conv) => {
                let [taps, channels] = sizes(shape, [conv.kernel, conv.channels])?;
                if !(3..=4).contains(&taps) || !channels.is_multiple_of(8) {
                    return Err(BenchError::Shape(format!(
                        "a convolution of {taps} taps over {channels} channels: GPU kernels are for 3 or 4 taps and a multiple of 8 channels"
                    )));
                }
                Some((Conv { taps, channels, around }, Storage::of(conv.format)?))
            }
            None => None,
        };
        if let (Some((recurrence, _)), Some((conv, _))) = (&recurrence, &conv)
            && recurrence.activations() != conv.channels
        {
            return Err(BenchError::Shape(format!(
                "the convolution has {} channels and the recurrence takes {}",
                conv.channels,
                recurrence.activations()
            )));
        }
        if recurrence.is_none() && conv.is_none() {
            return Err(BenchError::Shape("neither a recurrence nor a convolution".to_owned()));
        }
        Ok(Self { recurrence, conv, target })
    }

    /// State bytes of a request.
    fn bytes(&self) -> usize {
        let recurrent = self.recurrence.map_or(0, |(form, storage)| form.values() * storage.bytes());
        recurrent + self.conv.map_or(0, |(conv, storage)| conv.values() * storage.bytes())
    }

    fn inputs(&self) -> usize {
        match (self.conv, self.recurrence) {
            (Some((conv, _)), _) => conv.inputs(),
            (None, Some((form, _))) => form.activations(),
            (None, None) => 0,
        }
    }

    fn outputs(&self) -> usize {
        match (self.recurrence, self.conv) {
            (Some((form, _)), _) => form.outputs(),
            (None, Some((conv, _))) => conv.channels,
            (None, None) => 0,
        }
    }

    fn kernel_names(&self) -> [Option<(&'static str, String)>; 2] {
        let conv = self.conv.map(|(conv, storage)| ("convolution", conv.kernel(storage)));
        [conv, self.recurrence.map(|(form, storage)| form.kernel(storage))]
    }
}

impl Conv {
    fn values(self) -> usize {
        (self.taps - 1) * self.channels
    }

    fn inputs(self) -> usize {
        if self.around == Around::Factors { 3 * self.channels } else { self.channels }
    }

    fn kernel(self, storage: Storage) -> String {
        let factors = if self.around == Around::Factors { "factors_" } else { "" };
        format!("convolution_{factors}{}_{}", storage.name(), self.taps)
    }

    /// One step of one request in f64: what it leaves and what it gives.
    fn reference(self, state: &[f64], taps: &[f64], inputs: &[f64]) -> (Vec<f64>, Vec<f64>) {
        let column = |n: usize, channel: usize| inputs[n * self.channels + channel];
        let has_factors = self.around == Around::Factors;
        let x: Vec<f64> = (0..self.channels)
            .map(|channel| column(0, channel) * if has_factors { column(1, channel) } else { 1.0 })
            .collect();
        let outcome = convolution(state, taps, &x);
        let finish = |(channel, y): (usize, f64)| if has_factors { y * column(2, channel) } else { silu(y) };
        (outcome.state, outcome.output.into_iter().enumerate().map(finish).collect())
    }
}

impl Plan for Recurrent {
    fn layout(&self, _context: u64, batch: u64) -> Result<Layout, BenchError> {
        Ok(Layout {
            layer_bytes: times(self.bytes(), batch)?,
            padding_bytes: 0,
            padding_reason: "",
            launches: self.kernel_names().into_iter().flatten().count() as u64,
            instructions: self.target,
        })
    }

    fn hold(&self, gpu: &Rc<Gpu>, extent: Extent) -> Result<Box<dyn Held>, BenchError> {
        let Extent { layers, requests, seed, .. } = extent;
        let store = |values: usize, storage: Storage, seed: u64| -> Result<Stored, BenchError> {
            let layer_bytes = (values * storage.bytes() * requests) as u64;
            let runs = [Run { bytes: 16, kind: storage.kind() }];
            let memory = filled(gpu, layer_bytes * layers as u64, 16, &runs, seed)?;
            Ok(Stored { memory, storage, values, layer_bytes })
        };
        let state = self.recurrence.map(|(form, storage)| store(form.values(), storage, seed)).transpose()?;
        let conv = self.conv.map(|(conv, storage)| store(conv.values(), storage, seed ^ 0xC0)).transpose()?;
        let mut random = Random::new(seed ^ 0x5157);
        let inputs = random.floats(requests * self.inputs());
        let form = self.recurrence.map(|(form, _)| form);
        let gates: Vec<f32> = (0..requests)
            .flat_map(|_| form.map_or_else(Vec::new, |form| form.random_gates(&mut random)))
            .collect();
        let weights = form.map_or_else(Vec::new, |form| form.random_weights(&mut random));
        let taps = random.bf16(self.conv.map_or(1, |(conv, _)| conv.taps * conv.channels));
        let [first, second] = self.kernel_names();
        let load = |name: Option<(&'static str, String)>| {
            name.map(|(file, name)| gpu.kernel(file, &name, 128)).transpose()
        };
        let results = |count: usize| Memory::new(gpu, (requests * count * 4) as u64);
        Ok(Box::new(HeldRecurrent {
            plan: *self,
            requests,
            state,
            conv,
            to_inputs: Memory::of(gpu, &bytes_of(&inputs))?,
            to_gates: Memory::of(gpu, &bytes_of(&gates))?,
            to_weights: weights
                .iter()
                .map(|weights| Memory::of(gpu, &bytes_of(weights)))
                .collect::<Result<_, _>>()?,
            to_taps: Memory::of(gpu, &taps)?,
            inputs,
            gates,
            weights,
            taps,
            activations: results(form.map_or(1, Recurrence::activations))?,
            output: results(self.outputs())?,
            kernels: [load(first)?, load(second)?],
            gpu: Rc::clone(gpu),
        }))
    }
}

impl Stored {
    /// A pointer to a layer's state.
    fn pointer(&self, layer: usize) -> Arguments {
        Arguments::new().memory_at(&self.memory, layer as u64 * self.layer_bytes)
    }

    /// The first request's state in a layer, as numbers.
    fn numbers(&self, layer: usize) -> Result<Vec<f64>, GpuError> {
        let bytes = self.values * self.storage.bytes();
        Ok(self.storage.numbers(&self.memory.read(layer as u64 * self.layer_bytes, bytes)?))
    }
}

impl Held for HeldRecurrent {
    fn launch(&self, layer: usize) -> Result<(), GpuError> {
        if let (Some(kernel), Some((conv, storage)), Some(stored)) =
            (&self.kernels[0], self.plan.conv, &self.conv)
        {
            let piece = 16 / storage.bytes();
            let to = if self.state.is_some() { &self.activations } else { &self.output };
            let arguments = stored
                .pointer(layer)
                .memory(&self.to_taps)
                .memory(&self.to_inputs)
                .memory(to)
                .count(conv.channels);
            self.gpu.launch(kernel, [conv.channels.div_ceil(128 * piece), self.requests, 1], &arguments)?;
        }
        if let (Some(kernel), Some((form, storage)), Some(stored)) =
            (&self.kernels[1], self.plan.recurrence, &self.state)
        {
            let activations = if self.conv.is_some() { &self.activations } else { &self.to_inputs };
            let arguments = form.arguments(
                stored.pointer(layer),
                activations,
                &self.to_gates,
                &self.to_weights,
                &self.output,
            );
            self.gpu.launch(kernel, form.grid(storage, self.requests), &arguments)?;
        }
        Ok(())
    }

    /// The first request, whole: what it leaves and what it gives.
    fn check(&self, layer: usize) -> Result<Check, GpuError> {
        let numbers = |stored: &Option<Stored>| match stored {
            Some(stored) => stored.numbers(layer),
            None => Ok(Vec::new()),
        };
        let (mut state, conv) = (numbers(&self.state)?, numbers(&self.conv)?);
        self.output.fill(0xFF)?;
        self.launch(layer)?;
        let (state_after, conv_after) = (numbers(&self.state)?, numbers(&self.conv)?);
        let got = widen(&floats_of(&self.output.read(0, self.plan.outputs() * 4)?));

        let mut values = widen(&self.inputs[..self.plan.inputs()]);
        let mut worst = 0.0_f64;
        if let Some((form, storage)) = self.plan.conv {
            let (right, output) = form.reference(&conv, &halves_of(&self.taps), &values);
            worst = worst.max(storage.error(&right, &conv_after));
            values = output;
        }
        if let Some((form, storage)) = self.plan.recurrence {
            let weights: Vec<Vec<f64>> = self.weights.iter().map(|weights| widen(weights)).collect();
            let gates = widen(&self.gates[..form.gates()]);
            let before = Before { activations: &values, gates: &gates, weights: &weights };
            values = form.reference(&mut state, before);
            worst = worst.max(storage.error(&state, &state_after));
        }
        worst = worst.max(Storage::F32.error(&values, &got));
        Ok(Check { largest_relative_error: worst, part: part(&[first_of(self.requests)]) })
    }

    fn kernels(&self) -> Vec<String> {
        self.plan.kernel_names().into_iter().flatten().map(|(_, name)| name).collect()
    }

    fn state_bytes(&self) -> u64 {
        self.state.iter().chain(&self.conv).map(|stored| stored.memory.bytes()).sum()
    }
}
