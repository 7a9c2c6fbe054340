//! One decode step of one layer over all workers: the convolution, then the recurrence that it feeds.
#![allow(unsafe_code, reason = "workers change their own parts of state and output")]

use std::ops::Range;
use std::sync::Mutex;

use super::conv::{self, Convolution};
use super::form;
use super::layer::{Layer, pieces};
use super::shared::{Shared, SharedValues};
use super::state::State;
use crate::bench::cpu::barrier::Barrier;
use crate::bench::cpu::pool::Pool;
use crate::bench::cpu::simd::InstructionSet;
use crate::bench::cpu::state::random_value;

/// Different tokens that steps take in turns, so that the state does not settle on one of them.
const TOKENS: usize = 4;
/// Requests whose projections differ; others repeat them, so that a large batch reads state and little else.
const PROJECTIONS: usize = 8;

/// A step over the state of `requests` requests.
#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) layer: Layer,
    pub(crate) set: InstructionSet,
    requests: usize,
    workers: Vec<Mutex<Worker>>,
    barrier: Barrier,
    pub(crate) weights: Weights,
    tokens: Vec<Token>,
    /// The token that comes next.
    next: usize,
    /// What the convolutions give, `[request][channel]`.
    activations: Vec<f32>,
    /// `[request][unit][unit_outputs]`; empty where there is no recurrence.
    output: Vec<f32>,
}

/// Weights that the step itself uses. All layers share them: as other weights, they are not what is measured.
#[derive(Debug)]
pub(crate) struct Weights {
    /// bf16 bits, `[kernel][channels]`, held as bf16 state is.
    pub(crate) taps: Vec<u16>,
    /// Of the recurrence.
    pub(crate) recurrence: Vec<f32>,
}

/// What the projections give for one token of every request.
#[derive(Debug)]
pub(crate) struct Token {
    /// `[projection][inputs]`, bf16 values.
    inputs: Vec<f32>,
    /// `[projection][gates]`.
    gates: Vec<f32>,
}

#[derive(Debug)]
struct Worker {
    /// Blocks of channels.
    blocks: Vec<(usize, Range<usize>)>,
    units: Vec<(usize, Range<usize>)>,
    scratch: Vec<f32>,
}

impl Step {
    /// Splits channels and units over the workers as [`State`] does, and draws weights and tokens.
    pub(crate) fn new(layer: Layer, set: InstructionSet, requests: usize, seed: u64, workers: usize) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let weights = Weights::draw(&layer, &mut random);
        let tokens = (0..TOKENS).map(|_| Token::draw(&layer, requests, &mut random)).collect();
        let channels = layer.convolution.as_ref().map_or(0, |(convolution, _)| convolution.channels);
        let outputs = layer.recurrence.as_ref().map_or(0, |_| layer.outputs());
        let barrier = Barrier::new(workers);
        let workers =
            (0..workers).map(|worker| Mutex::new(Worker::new(&layer, requests, worker, workers))).collect();
        Self {
            layer,
            set,
            requests,
            workers,
            barrier,
            weights,
            tokens,
            next: 0,
            activations: vec![0.0; requests * channels],
            output: vec![0.0; requests * outputs],
        }
    }

    /// Runs the step for one layer; call it inside [`Pool::enter`].
    pub(crate) fn run_layer(&mut self, state: &mut State, at: usize, pool: &Pool) {
        let first = at * self.requests;
        let [recurrent, conv] = state.share();
        let job = Job {
            layer: &self.layer,
            set: self.set,
            weights: &self.weights,
            token: &self.tokens[self.next],
            first,
            recurrent,
            conv,
            activations: Shared::new(&mut self.activations),
            output: Shared::new(&mut self.output),
        };
        let feeds = self.layer.convolution.is_some() && self.layer.recurrence.is_some();
        let (workers, barrier) = (&self.workers, &self.barrier);
        pool.each(|worker| {
            let _member = barrier.member();
            let mut worker = workers[worker].lock().expect("no worker panics in a kernel");
            job.convolve(&worker);
            if feeds {
                barrier.wait();
            }
            job.recur(&mut worker);
        });
    }

    /// To be called after the last layer: the next step takes another token.
    pub(crate) fn advance(&mut self) {
        self.next = (self.next + 1) % TOKENS;
    }

    /// The token that the next step takes.
    pub(crate) fn token(&self) -> &Token {
        &self.tokens[self.next]
    }

    /// `[request][outputs]` of the last layer that was run.
    pub(crate) fn output(&self) -> &[f32] {
        if self.layer.recurrence.is_some() { &self.output } else { &self.activations }
    }
}

impl Weights {
    fn draw(layer: &Layer, random: &mut fastrand::Rng) -> Self {
        let taps = layer.convolution.as_ref().map_or(0, |(convolution, _)| convolution.taps());
        let mut recurrence = vec![0.0; layer.recurrence.as_ref().map_or(0, |(form, _)| form.weights())];
        if let Some((form, _)) = &layer.recurrence {
            form.draw_weights(random, &mut recurrence);
        }
        // An eighth of usual values: 1/64 to 1/4.
        let taps = (0..taps).map(|_| random_value(random.u64(..)) - 0x180).collect();
        Self { taps, recurrence }
    }
}

impl Token {
    fn draw(layer: &Layer, requests: usize, random: &mut fastrand::Rng) -> Self {
        let projections = requests.min(PROJECTIONS);
        let inputs = (0..projections * layer.inputs())
            .map(|_| half::bf16::from_bits(random_value(random.u64(..))).to_f32())
            .collect();
        let mut gates = vec![0.0; projections * layer.gates()];
        if let Some((form, _)) = &layer.recurrence {
            for gates in gates.chunks_mut(form.gates().max(1)) {
                form.draw_gates(random, gates);
            }
        }
        Self { inputs, gates }
    }

    /// What a request's convolution takes, or its recurrence where there is no convolution.
    pub(crate) fn inputs(&self, request: usize, layer: &Layer) -> &[f32] {
        &self.inputs[request % PROJECTIONS * layer.inputs()..][..layer.inputs()]
    }

    /// A request's gates.
    pub(crate) fn gates(&self, request: usize, layer: &Layer) -> &[f32] {
        &self.gates[request % PROJECTIONS * layer.gates()..][..layer.gates()]
    }
}

impl Worker {
    fn new(layer: &Layer, requests: usize, worker: usize, workers: usize) -> Self {
        let blocks = layer.convolution.as_ref().map_or(0, |(convolution, _)| convolution.blocks());
        let (units, scratch) =
            layer.recurrence.as_ref().map_or((0, 0), |(form, _)| (form.units(), form.scratch()));
        Self {
            blocks: pieces(requests, blocks, worker, workers),
            units: pieces(requests, units, worker, workers),
            scratch: vec![0.0; scratch],
        }
    }
}

/// One layer's step as all workers see it.
struct Job<'a> {
    layer: &'a Layer,
    set: InstructionSet,
    weights: &'a Weights,
    token: &'a Token,
    /// The first request of the layer, counted layer by layer.
    first: usize,
    recurrent: Option<SharedValues<'a>>,
    conv: Option<SharedValues<'a>>,
    activations: Shared<'a, f32>,
    output: Shared<'a, f32>,
}

impl Job<'_> {
    fn convolve(&self, worker: &Worker) {
        let (Some((convolution, _)), Some(state)) = (&self.layer.convolution, &self.conv) else { return };
        for (request, blocks) in &worker.blocks {
            let channels = Convolution::channels_of(blocks.clone());
            let row = request * convolution.channels;
            let output = row + channels.start..row + channels.end;
            let inputs = self.token.inputs(*request, self.layer);
            let state = state.pointer((self.first + request) * convolution.values());
            // SAFETY: pieces of different workers do not overlap, and nobody reads activations before the barrier.
            unsafe {
                let output = self.activations.part(output);
                let taps = &self.weights.taps;
                conv::update(self.set, *convolution, conv::Span { channels, taps, inputs, output, state });
            }
        }
    }

    fn recur(&self, worker: &mut Worker) {
        let (Some((form, _)), Some(state)) = (&self.layer.recurrence, &self.recurrent) else { return };
        let (values, outputs) = (form.unit_values(), form.unit_outputs());
        for (request, units) in &worker.units {
            let activations = request * form.activations()..(request + 1) * form.activations();
            let state_unit = (self.first + request) * form.units();
            let unit = request * form.units();
            // SAFETY: pieces of different workers do not overlap; activations do not change after the barrier.
            unsafe {
                let state =
                    state.part((state_unit + units.start) * values..(state_unit + units.end) * values);
                form.update(
                    self.set,
                    form::Span {
                        units: units.clone(),
                        state,
                        activations: match self.layer.convolution {
                            Some(_) => self.activations.read(activations),
                            None => self.token.inputs(*request, self.layer),
                        },
                        gates: self.token.gates(*request, self.layer),
                        weights: &self.weights.recurrence,
                        output: self
                            .output
                            .part((unit + units.start) * outputs..(unit + units.end) * outputs),
                        scratch: &mut worker.scratch,
                    },
                );
            }
        }
    }
}
