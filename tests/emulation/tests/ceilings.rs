//! The kernels that measure a card move and compute what they say.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a panic is a test's report")]

use kvscope_emulation::{Argument, Job, Launch, Random, bf16, f32s, floats, run_everywhere};

fn launch(kernel: &str, grid: [u32; 3], threads: u32, argument: Argument) -> Launch {
    Launch { kernel: kernel.to_owned(), grid, threads, dynamic_shared: 0, argument }
}

/// All bits that were read, added up as the kernel does: where that is what it waits for, it says so, else it is silent.
#[test]
fn a_read_sees_every_byte_once() {
    let bytes = Random::new(1).bytes(16 * 5000);
    let word = |b: &[u8]| u32::from_le_bytes(b.try_into().unwrap());
    let piece = |b: &[u8]| b.chunks(4).map(word).fold(0, |all, word| all ^ word);
    // One thread reads all of it, in a grid of which the other threads find nothing.
    let one_thread: u32 = bytes.chunks(16).step_by(512).map(piece).fold(0, u32::wrapping_add);
    for (never, said) in [(one_thread, true), (one_thread ^ 1, false)] {
        let mut job = Job::new();
        let from = job.input(bytes.clone());
        let seen = job.output(4);
        let argument = Argument::new().address(from).address(seen).long(5000).word(never);
        job.launch(launch("ceiling_read", [2, 1, 1], 256, argument));
        let seen = word(&run_everywhere(&job)[0]);
        assert_eq!(seen, if said { never } else { u32::MAX });
    }
}

#[test]
fn copies_and_gathers_move_every_byte() {
    let bytes = Random::new(2).bytes(16 * 3001);
    let mut job = Job::new();
    let (from, to) = (job.input(bytes.clone()), job.output(bytes.len()));
    job.launch(launch("ceiling_copy", [2, 1, 1], 256, Argument::new().address(from).address(to).long(3001)));
    assert_eq!(run_everywhere(&job)[0], bytes);

    // Blocks of 37 pieces, in another order, one of them twice.
    let blocks = [5_i32, 0, 80, 5, 17];
    let mut job = Job::new();
    let from = job.input(bytes.clone());
    let to = job.output(blocks.len() * 37 * 16);
    let list = job.input(blocks.iter().flat_map(|block| block.to_le_bytes()).collect::<Vec<u8>>());
    let argument = Argument::new().address(from).address(to).address(list).long(37);
    job.launch(launch("ceiling_gather", [2, 5, 1], 256, argument));
    let right: Vec<u8> = blocks
        .iter()
        .flat_map(|block| bytes[usize::try_from(*block).unwrap() * 37 * 16..][..37 * 16].to_vec())
        .collect();
    assert_eq!(run_everywhere(&job)[0], right);
}

/// Three rounds of 16 × 8 × 16, eight sums: what the count of FLOPs stands for.
#[test]
fn multiplications_are_as_many_as_they_are_counted() {
    let mut random = Random::new(3);
    let operands = random.bf16(6 * 32 * 2);
    let numbers = bf16(&operands);
    // Register i of lane l holds two numbers; places by the PTX ISA's tables.
    let register = |i: usize, lane: usize, half: usize| numbers[(i * 32 + lane) * 2 + half];
    let left = |row: usize, k: usize| register(row / 8 + k / 8 * 2, row % 8 * 4 + k % 8 / 2, k % 2);
    let right = |k: usize, column: usize| register(4 + k / 8, column * 4 + k % 8 / 2, k % 2);
    let product = |row: usize, column: usize| (0..16).map(|k| left(row, k) * right(k, column)).sum::<f64>();
    let mut job = Job::new();
    let (operands, sums) = (job.input(operands), job.output(256 * 4));
    job.launch(launch(
        "ceiling_multiply",
        [1, 1, 1],
        256,
        Argument::new().address(operands).address(sums).count(3),
    ));
    let got = floats(&run_everywhere(&job)[0]);
    for (lane, got) in got.iter().enumerate() {
        let (row, column) = (lane % 32 / 4, lane % 4 * 2);
        let own: f64 = [(row, column), (row, column + 1), (row + 8, column), (row + 8, column + 1)]
            .into_iter()
            .map(|(row, column)| product(row, column))
            .sum();
        // Sum n begins with n four times.
        let right = 8.0 * 3.0 * own + 4.0 * 28.0;
        assert!(
            (f64::from(*got) - right).abs() < 1e-3 * right.abs().max(10.0),
            "lane {lane}: {got}, not {right}"
        );
    }
}

#[test]
fn an_update_changes_every_word_once() {
    let bytes = Random::new(4).bytes(16 * 3001);
    let mut job = Job::new();
    let state = job.changed(bytes.clone());
    job.launch(launch("ceiling_update", [2, 1, 1], 256, Argument::new().address(state).long(3001)));
    let right: Vec<u8> =
        bytes.iter().enumerate().map(|(i, byte)| if i % 4 == 0 { byte ^ 1 } else { *byte }).collect();
    assert_eq!(run_everywhere(&job)[0], right);
}

/// By hand: sums begin at 0 … 7; two rounds of s × ½ + 3 make s / 4 + 4.5 of each; 28 / 4 + 8 × 4.5 = 43.
/// Values begin at 0 … 7 × 0; one round of 2^v × 0 + 3 makes 3 of each: 24.
#[test]
fn register_loops_do_the_rounds_that_are_counted() {
    for (kernel, factor, rounds, right) in [("ceiling_fma", 0.5, 2, 43.0), ("ceiling_exp2", 0.0, 1, 24.0)] {
        let mut job = Job::new();
        let sums = job.output(256 * 4);
        let argument = Argument::new().address(sums).float(factor).float(3.0).count(rounds);
        job.launch(launch(kernel, [1, 1, 1], 256, argument));
        let got = floats(&run_everywhere(&job)[0]);
        assert!(got.iter().all(|sum| (*sum - right).abs() < 1e-6), "{kernel}: {}", got[0]);
    }
}

/// No time passes in an emulation; the loop ends all the same.
#[test]
fn a_clock_that_stands_still_ends() {
    let mut job = Job::new();
    let times = job.output(16);
    job.launch(launch("ceiling_clock", [1, 1, 1], 32, Argument::new().address(times).long(20_000)));
    assert_eq!(run_everywhere(&job)[0], [0; 16]);
}

#[test]
fn nothing_does_nothing() {
    let mut job = Job::new();
    let untouched = job.changed(f32s(&[1.0]));
    job.launch(launch("ceiling_nothing", [3, 1, 1], 32, Argument::new().address(untouched)));
    assert_eq!(run_everywhere(&job)[0], f32s(&[1.0]));
}
