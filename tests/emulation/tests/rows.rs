//! Attention over records that all heads share: MLA, CSA, HCA, CSA2 and the window beside them.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a panic is a test's report")]

#[path = "common/records.rs"]
mod records;

use kvscope_emulation::{Job, MISSING_WAIT, ORDERS, Random, f32s, floats, run, run_everywhere, run_plain};
use kvscope_reference::relative_error;
use records::{Attended, Record, Store};

/// bf16 inputs: what a run on a GPU allows too.
const TOLERANCE: f64 = 2e-3;

struct Case {
    job: Job,
    /// Among the results.
    output: usize,
    right: Vec<f64>,
}

fn case(record: Record, heads: usize, counts: &[usize], tile: usize) -> Case {
    let mut random = Random::new(heads as u64);
    let store = Store::random(record, counts, &mut random);
    let attended = Attended { heads, query: random.bf16(counts.len() * heads * record.width()) };
    let mut job = Job::new();
    let output = attended.launch_as(&mut job, &[(&store, None)], None, tile);
    let rows = |request: usize| (0..counts[request]).map(|index| store.row(request, index)).collect();
    Case { job, output, right: attended.reference(&rows, None) }
}

impl Case {
    fn error(self, run: fn(&Job) -> Vec<Vec<u8>>) -> f64 {
        relative_error(self.right, &floats(&run(&self.job)[self.output]))
    }
}

#[test]
fn every_record_agrees_with_the_reference_in_both_tiles() {
    for record in Record::ALL {
        for (tile, heads) in [(16, 16), (64, 64)] {
            let error = case(record, heads, &[130], tile).error(run_plain);
            assert!(error < TOLERANCE, "{record:?}, tile of {tile}: {error}");
        }
    }
}

#[test]
fn nothing_is_found_by_those_that_watch() {
    for record in Record::ALL {
        let error = case(record, 7, &[70, 1], 16).error(run_everywhere);
        assert!(error < TOLERANCE, "{record:?}: {error}");
    }
    for record in [Record::Bf16Latent, Record::ScaledEntry] {
        let error = case(record, 40, &[70], 64).error(run_everywhere);
        assert!(error < TOLERANCE, "{record:?}: {error}");
    }
}

#[test]
fn short_contexts_and_heads_that_are_no_whole_tile() {
    for counts in [[1, 31], [32, 33], [64, 65]] {
        for record in [Record::Bf16Latent, Record::ScaledLatent] {
            let error = case(record, 20, &counts, 16).error(run_plain);
            assert!(error < TOLERANCE, "{record:?}, {counts:?}: {error}");
        }
    }
    let error = case(Record::Bf16Latent, 128, &[100], 64).error(run_plain);
    assert!(error < TOLERANCE, "128 heads: {error}");
}

/// DeepSeek-V4: a window of 128 records, the compressed entries, and a sink for each head.
#[test]
fn a_window_its_entries_and_sinks_are_one_softmax() {
    for (window, entries) in [(Record::ScaledEntry, Record::ScaledEntry), (Record::Mxfp8, Record::Nvfp4)] {
        let mut random = Random::new(3);
        let (window, entries) =
            (Store::random(window, &[128, 77], &mut random), Store::random(entries, &[61, 19], &mut random));
        let attended = Attended { heads: 9, query: random.bf16(2 * 9 * 512) };
        let sinks = random.between(-1.0, 3.0, 9);
        let base_2: Vec<f32> = sinks.iter().map(|sink| sink * std::f32::consts::LOG2_E).collect();
        let mut job = Job::new();
        let to_sinks = job.input(f32s(&base_2));
        let output = attended.launch(&mut job, &[(&window, None), (&entries, None)], Some(to_sinks));
        let rows = |request: usize| -> Vec<Vec<f64>> {
            let of = |store: &Store| -> Vec<Vec<f64>> {
                (0..store.counts[request]).map(|index| store.row(request, index)).collect()
            };
            [of(&window), of(&entries)].concat()
        };
        let right = attended.reference(&rows, Some(&kvscope_reference::widen(&sinks)));
        let error = relative_error(right, &floats(&run_plain(&job)[output]));
        assert!(error < TOLERANCE, "{error}");
    }
}

#[test]
fn a_copy_that_is_not_waited_for_shows_as_a_wrong_result() {
    let Case { job, .. } = case(Record::Bf16Latent, 16, &[130], 16);
    let job = job.first_launch_alone();
    let parts = |program: &str| run(program, &job, &ORDERS[..1]).unwrap().swap_remove(0).swap_remove(0);
    let (sound, faulty) = (floats(&parts("plain")), floats(&parts(MISSING_WAIT.name)));
    let error = relative_error(sound.iter().copied().map(f64::from), &faulty);
    assert!(error > 0.01, "{error}");
}
