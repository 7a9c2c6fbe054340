//! Scores of an indexer, and a whole step of sparse attention: score, choose, gather, attend.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a panic is a test's report")]

#[path = "common/keys.rs"]
mod keys;
#[path = "common/records.rs"]
mod records;

use keys::{KeyFormat, Keys};
use kvscope_emulation::{Argument, Job, Launch, Random, bf16, f32s, floats, run_everywhere};
use kvscope_reference::attention::index_score;
use kvscope_reference::{relative_error, widen};
use records::{Attended, Record, Store};

/// Products of narrow values are exact, their sums f32.
const SCORE_TOLERANCE: f64 = 1e-6;
const TOLERANCE: f64 = 2e-3;
const WIDTH: usize = 128;

/// Right scores, request by request.
fn right_scores(keys: &Keys, heads: usize, query: &[u8], weights: &[f32]) -> Vec<Vec<f64>> {
    let score = |request: usize, key: usize| {
        let query = bf16(&query[request * heads * WIDTH * 2..][..heads * WIDTH * 2]);
        let queries: Vec<Vec<f64>> = query.chunks(WIDTH).map(<[f64]>::to_vec).collect();
        index_score(&queries, &widen(&weights[request * heads..][..heads]), &keys.key(request, key))
    };
    let counts = keys.counts.iter().enumerate();
    counts.map(|(request, count)| (0..*count).map(|key| score(request, key)).collect()).collect()
}

fn check_scores(format: KeyFormat, heads: usize, counts: &[usize]) {
    let mut random = Random::new(heads as u64);
    let keys = Keys::random(format, counts, &mut random);
    let query = format.query(counts.len() * heads * WIDTH, &mut random);
    let weights = random.floats(counts.len() * heads);
    let right = right_scores(&keys, heads, &query, &weights);

    let mut job = Job::new();
    let query = job.input(query);
    let weights = job.input(f32s(&weights));
    let stride = *counts.iter().max().unwrap();
    let scores = job.output(counts.len() * stride * 4);
    keys.launch(&mut job, heads, query, weights, scores, stride);
    let results = run_everywhere(&job);
    let got = floats(&results[0]);
    for ((request, right), count) in right.into_iter().enumerate().zip(counts) {
        let (scores, beyond) = got[request * stride..][..stride].split_at(*count);
        let error = relative_error(right, scores);
        assert!(error < SCORE_TOLERANCE, "{format:?}, {heads} heads, request {request}: {error}");
        assert!(beyond.iter().all(|score| score.is_nan()), "a score that no key has");
    }
}

#[test]
fn every_format_of_keys_agrees_with_the_reference() {
    for format in KeyFormat::ALL {
        // One key, a whole warp's, whole pages and one more; heads that are no whole tile.
        check_scores(format, 64, &[200, 1, 32]);
        check_scores(format, 5, &[129]);
    }
}

/// The kernel's own scores are chosen from exactly, and the attention is that over what was chosen.
#[test]
fn a_whole_step_of_sparse_attention() {
    const TOP_K: usize = 70;
    const INDEX_HEADS: usize = 32;
    let counts = [300, 90];
    for (record, format) in [(Record::ScaledLatent, KeyFormat::Fp8), (Record::ScaledEntry, KeyFormat::Fp4)] {
        let mut random = Random::new(7);
        let keys = Keys::random(format, &counts, &mut random);
        let store = Store::random(record, &counts, &mut random);
        let index_query = format.query(counts.len() * INDEX_HEADS * WIDTH, &mut random);
        let index_weights = random.floats(counts.len() * INDEX_HEADS);
        let right = right_scores(&keys, INDEX_HEADS, &index_query, &index_weights);
        let attended = Attended { heads: 20, query: random.bf16(counts.len() * 20 * record.width()) };

        let mut job = Job::new();
        let [index_query, index_weights] = [index_query, f32s(&index_weights)].map(|bytes| job.input(bytes));
        let scores = job.scratch(counts.len() * 300 * 4);
        keys.launch(&mut job, INDEX_HEADS, index_query, index_weights, scores, 300);
        let number = |count: &usize| i32::try_from(*count).unwrap().to_le_bytes();
        let lengths = job.input(counts.iter().flat_map(number).collect::<Vec<u8>>());
        let chosen = job.output(counts.len() * TOP_K * 4);
        job.launch(Launch {
            kernel: "top_k".to_owned(),
            grid: [2, 1, 1],
            threads: 1024,
            dynamic_shared: 0,
            argument: Argument::new()
                .address(scores)
                .address(lengths)
                .address(chosen)
                .count(300)
                .count(TOP_K),
        });
        let output = attended.launch(&mut job, &[(&store, Some((chosen, TOP_K)))], None);
        let results = run_everywhere(&job);
        let chosen: Vec<usize> = results[0]
            .chunks(4)
            .map(|b| usize::try_from(i32::from_le_bytes(b.try_into().unwrap())).unwrap())
            .collect();
        for (request, chosen) in chosen.chunks(TOP_K).enumerate() {
            assert!(chosen.windows(2).all(|pair| pair[0] < pair[1]), "indices rise");
            let scores = &right[request];
            let least = chosen.iter().map(|key| scores[*key]).fold(f64::INFINITY, f64::min);
            let others = (0..scores.len()).filter(|key| !chosen.contains(key));
            let best = others.map(|key| scores[key]).fold(f64::NEG_INFINITY, f64::max);
            let largest = scores.iter().fold(0.0_f64, |largest, score| largest.max(score.abs()));
            assert!(best - least < 1e-6 * largest, "a better key was left out: {best} before {least}");
        }
        let rows = |request: usize| {
            chosen[request * TOP_K..][..TOP_K].iter().map(|index| store.row(request, *index)).collect()
        };
        let error = relative_error(attended.reference(&rows, None), &floats(&results[output]));
        assert!(error < TOLERANCE, "{record:?}: {error}");
    }
}
