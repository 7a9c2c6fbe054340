//! The exact largest scores.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a panic is a test's report")]

use kvscope_emulation::{Argument, Job, Launch, ORDERS, OUT_OF_SHARED, Random, f32s, run, run_everywhere};

/// Indices of the `k` largest in rising order, the earlier of equal ones first, and −1 beyond.
fn right(scores: &[f32], k: usize) -> Vec<i32> {
    let mut order: Vec<usize> = (0..scores.len()).collect();
    order.sort_by(|a, b| scores[*b].total_cmp(&scores[*a]).then(a.cmp(b)));
    order.truncate(k);
    order.sort_unstable();
    let mut right: Vec<i32> = order.iter().map(|index| i32::try_from(*index).unwrap()).collect();
    right.resize(k, -1);
    right
}

fn job(requests: &[Vec<f32>], k: usize) -> Job {
    let stride = requests.iter().map(Vec::len).max().unwrap();
    // What lies beyond a request's scores is NaN.
    let padded = |scores: &Vec<f32>| {
        let mut scores = scores.clone();
        scores.resize(stride, f32::NAN);
        scores
    };
    let mut job = Job::new();
    let scores = job.input(f32s(&requests.iter().flat_map(padded).collect::<Vec<f32>>()));
    let count = |scores: &Vec<f32>| i32::try_from(scores.len()).unwrap().to_le_bytes();
    let counts = job.input(requests.iter().flat_map(count).collect::<Vec<u8>>());
    let chosen = job.output(requests.len() * k * 4);
    let argument = Argument::new().address(scores).address(counts).address(chosen).count(stride).count(k);
    let grid = [u32::try_from(requests.len()).unwrap(), 1, 1];
    job.launch(Launch { kernel: "top_k".to_owned(), grid, threads: 1024, dynamic_shared: 0, argument });
    job
}

fn numbers(bytes: &[u8]) -> Vec<i32> {
    bytes.chunks(4).map(|b| i32::from_le_bytes(b.try_into().unwrap())).collect()
}

fn check(requests: &[Vec<f32>], k: usize) {
    let chosen = numbers(&run_everywhere(&job(requests, k))[0]);
    for (scores, chosen) in requests.iter().zip(chosen.chunks(k)) {
        assert_eq!(chosen, right(scores, k), "{k} of {}", scores.len());
    }
}

#[test]
fn fewer_scores_than_places_as_many_and_one_more() {
    let mut random = Random::new(1);
    check(&[1, 69, 70, 71].map(|count| random.floats(count)), 70);
}

#[test]
fn real_sizes() {
    let mut random = Random::new(2);
    check(&[5000, 3333].map(|count| random.floats(count)), 2048);
    check(&[random.floats(2500)], 1);
    // The whole of what DeepSeek-V3.2 chooses from at 64Ki tokens, in the plain program alone.
    let scores = random.floats(65536);
    let results = run("plain", &job(std::slice::from_ref(&scores), 2048), &ORDERS[..1]).unwrap();
    assert_eq!(numbers(&results[0][0]), right(&scores, 2048));
}

#[test]
fn equal_scores_go_to_the_earlier_index() {
    let mut random = Random::new(3);
    let few_values: Vec<f32> = (0..3000).map(|_| [-1.0, 0.5, 0.5, 2.0][random.rng().usize(..4)]).collect();
    check(&[vec![0.25; 2100], few_values], 1000);
}

#[test]
fn scores_of_both_signs_and_all_magnitudes() {
    let mut random = Random::new(4);
    let any = |random: &mut Random| loop {
        let value = f32::from_bits(random.rng().u32(..));
        // 0 and −0 are equal numbers of unequal order.
        if value.is_finite() && value != 0.0 {
            return value;
        }
    };
    check(&[(0..2048).map(|_| any(&mut random)).collect()], 512);
}

#[test]
fn shared_memory_that_is_not_the_block_s_is_seen() {
    let scores = Random::new(5).floats(2000);
    let failure = run(OUT_OF_SHARED.name, &job(&[scores], 64), &ORDERS[..1]).unwrap_err();
    assert!(failure.report.contains("top_k.cu"), "{}", failure.report);
}
