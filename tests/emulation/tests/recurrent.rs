//! Recurrences of a fixed state: Mamba-1, Mamba-2, lightning, and the short convolution. (The gated delta rule has its own file.)
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a panic is a test's report")]

use kvscope_emulation::{Argument, Job, Launch, Random, Storage, bf16, f32s, floats, run_everywhere};
use kvscope_reference::recurrence::{
    Mamba1Channel, Mamba2Head, convolution, lightning, mamba1, mamba2, silu,
};
use kvscope_reference::{relative_error, widen};

/// f32 sums over f32 values.
const TOLERANCE: f64 = 1e-6;
const STORAGES: [Storage; 2] = [Storage::F32, Storage::Bf16];

/// What a step leaves and gives.
#[derive(Default)]
struct Right {
    state: Vec<f64>,
    output: Vec<f64>,
}

/// Runs a kernel over state and other inputs and compares what it leaves and gives.
fn check(
    what: &str,
    storage: Storage,
    state: Vec<u8>,
    inputs: &[Vec<u8>],
    counts: &[usize],
    launch: Launch,
    right: Right,
) {
    let mut job = Job::new();
    let state = job.changed(state);
    let mut argument = Argument::new().address(state);
    for input in inputs {
        argument = argument.address(job.input(input.clone()));
    }
    argument = argument.address(job.output(right.output.len() * 4));
    for count in counts {
        argument = argument.count(*count);
    }
    job.launch(Launch { argument, ..launch });
    let results = run_everywhere(&job);
    let off = relative_error(right.output, &floats(&results[1]));
    assert!(off < TOLERANCE, "{what}: the output is off by {off}");
    let off = storage.error(&right.state, &results[0]);
    assert!(off < TOLERANCE, "{what}: the state is off by {off}");
}

fn launch(kernel: String, grid: [usize; 3]) -> Launch {
    let grid = grid.map(|blocks| u32::try_from(blocks).unwrap());
    Launch { kernel, grid, threads: 128, dynamic_shared: 0, argument: Argument::new() }
}

#[test]
fn mamba2_agrees_with_the_reference() {
    // Heads, channels of a head, state of a channel, groups: real widths, one of them no multiple of a tile's rows.
    for (heads, head_dim, n, groups) in [(3, 64, 64, 1), (4, 80, 128, 2), (2, 64, 256, 2)] {
        for storage in STORAGES {
            let mut random = Random::new(n as u64);
            let requests = 2;
            let state = storage.random(requests * heads * head_dim * n, &mut random);
            let inputs = heads * head_dim + 2 * groups * n;
            let activations = random.floats(requests * inputs);
            let gates = random.between(0.05, 0.99, requests * 2 * heads);
            let skips = random.between(0.5, 1.5, heads);
            let mut right = Right { state: storage.numbers(&state), output: Vec::new() };
            for (place, state) in right.state.chunks_mut(head_dim * n).enumerate() {
                let (request, head) = (place / heads, place % heads);
                let activations = widen(&activations[request * inputs..][..inputs]);
                let gates = widen(&gates[request * 2 * heads..][..2 * heads]);
                let group = heads * head_dim + head * groups / heads * n;
                right.output.extend(mamba2(
                    state,
                    &Mamba2Head {
                        decay: gates[head],
                        step: gates[heads + head],
                        x: &activations[head * head_dim..][..head_dim],
                        b: &activations[group..][..n],
                        c: &activations[group + groups * n..][..n],
                        skip: f64::from(skips[head]),
                    },
                ));
            }
            let kernel = format!("mamba2_{}_{n}", storage.name());
            let launch = launch(kernel.clone(), [head_dim.div_ceil(32), heads, requests]);
            let inputs = [activations, gates, skips].map(|values| f32s(&values));
            check(&kernel, storage, state, &inputs, &[heads, head_dim, groups], launch, right);
        }
    }
}

#[test]
fn mamba1_agrees_with_the_reference() {
    const N: usize = 16;
    for (channels, requests) in [(256, 2), (67, 1)] {
        for storage in STORAGES {
            let mut random = Random::new(channels as u64);
            let state = storage.random(requests * channels * N, &mut random);
            let x = random.floats(requests * channels);
            let gates: Vec<f32> = (0..requests)
                .flat_map(|_| {
                    [random.between(0.001, 0.1, channels), random.between(-2.0, 2.0, 2 * N)].concat()
                })
                .collect();
            let rates = random.between(-24.0, -1.0, channels * N);
            let skips = random.between(0.5, 1.5, channels);
            let mut right = Right { state: storage.numbers(&state), output: Vec::new() };
            for (place, state) in right.state.chunks_mut(N).enumerate() {
                let (request, channel) = (place / channels, place % channels);
                let gates = widen(&gates[request * (channels + 2 * N)..][..channels + 2 * N]);
                // The kernel takes A × log2 e.
                let a: Vec<f64> =
                    widen(&rates[channel * N..][..N]).iter().map(|a| a * std::f64::consts::LN_2).collect();
                let of_channel = Mamba1Channel {
                    step: gates[channel],
                    x: f64::from(x[place]),
                    a: &a,
                    b: &gates[channels..][..N],
                    c: &gates[channels + N..],
                    skip: f64::from(skips[channel]),
                };
                right.output.push(mamba1(state, &of_channel));
            }
            let kernel = format!("mamba1_{}_16", storage.name());
            let of_a_block = if storage == Storage::F32 { 128 } else { 256 };
            let launch = launch(kernel.clone(), [channels.div_ceil(of_a_block), requests, 1]);
            let inputs = [x, gates, rates, skips].map(|values| f32s(&values));
            check(&kernel, storage, state, &inputs, &[channels], launch, right);
        }
    }
}

#[test]
fn lightning_agrees_with_the_reference() {
    for dim in [64, 128, 256] {
        for storage in STORAGES {
            let (heads, requests) = (2, 2);
            let mut random = Random::new(dim as u64);
            let state = storage.random(requests * heads * dim * dim, &mut random);
            let activations = random.floats(requests * 3 * heads * dim);
            let decays = random.between(0.5, 0.999, heads);
            let mut right = Right { state: storage.numbers(&state), output: Vec::new() };
            for (place, state) in right.state.chunks_mut(dim * dim).enumerate() {
                let (request, head) = (place / heads, place % heads);
                let activations = widen(&activations[request * 3 * heads * dim..][..3 * heads * dim]);
                let [query, key, value] =
                    [0, 1, 2].map(|part| &activations[(part * heads + head) * dim..][..dim]);
                right.output.extend(lightning(state, f64::from(decays[head]), query, key, value));
            }
            let kernel = format!("lightning_{}_{dim}", storage.name());
            let columns = if storage == Storage::F32 { 32 } else { 64 };
            let launch = launch(kernel.clone(), [dim / columns, heads, requests]);
            let inputs = [activations, decays].map(|values| f32s(&values));
            check(&kernel, storage, state, &inputs, &[heads], launch, right);
        }
    }
}

#[test]
fn convolutions_agree_with_the_reference() {
    for (taps, channels, factors) in [(4, 1056, false), (3, 96, false), (3, 520, true), (4, 64, true)] {
        for storage in STORAGES {
            let requests = 2;
            let mut random = Random::new(channels as u64);
            let state = storage.random(requests * (taps - 1) * channels, &mut random);
            let weights = random.bf16(taps * channels);
            let columns = if factors { 3 } else { 1 };
            let inputs = random.floats(requests * columns * channels);
            let before = storage.numbers(&state);
            let mut right = Right::default();
            for request in 0..requests {
                let state = &before[request * (taps - 1) * channels..][..(taps - 1) * channels];
                let inputs = widen(&inputs[request * columns * channels..][..columns * channels]);
                let column = |n: usize, c: usize| inputs[n * channels + c];
                let x: Vec<f64> =
                    (0..channels).map(|c| column(0, c) * if factors { column(1, c) } else { 1.0 }).collect();
                let outcome = convolution(state, &bf16(&weights), &x);
                right.state.extend(outcome.state);
                let finish = |(c, y): (usize, f64)| if factors { y * column(2, c) } else { silu(y) };
                right.output.extend(outcome.output.into_iter().enumerate().map(finish));
            }
            let kernel =
                format!("convolution_{}{}_{taps}", if factors { "factors_" } else { "" }, storage.name());
            let of_a_block = 128 * if storage == Storage::F32 { 4 } else { 8 };
            let launch = launch(kernel.clone(), [channels.div_ceil(of_a_block), requests, 1]);
            check(&kernel, storage, state, &[weights, f32s(&inputs)], &[channels], launch, right);
        }
    }
}
