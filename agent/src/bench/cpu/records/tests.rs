//! Records are read as their description says, in every instruction set, and written so that reading gives back the row.

use super::*;
use crate::bench::cpu::pool::Pool;
use crate::bench::cpu::simd::{InstructionSet, dispatch};
use crate::bench::cpu::state::{PagedState, StateShape};

const RECORDS: [Record; 5] = [
    Record::Bf16 { width: 576 },
    Record::ScaledLatent { latent: 512, rope: 64 },
    Record::ScaledEntry { plain: 448, rope: 64 },
    Record::Mxfp8 { width: 512 },
    Record::Nvfp4 { width: 512 },
];

struct Reading<'a> {
    record: Record,
    from: &'a [u8],
    to: &'a mut [f32],
}

#[inline(always)]
unsafe fn read<S: Simd>(reading: Reading<'_>) {
    assert!(reading.from.len() == reading.record.bytes() && reading.to.len() == reading.record.width());
    // SAFETY: the lengths are those of the record.
    unsafe { reading.record.read::<S>(reading.from.as_ptr(), reading.to.as_mut_ptr()) }
}

fn row(set: InstructionSet, record: Record, from: &[u8]) -> Vec<f32> {
    let mut row = vec![0.0; record.width()];
    let reading = Reading { record, from, to: &mut row };
    dispatch!(set, read, reading, Reading<'_>);
    row
}

#[test]
fn sizes_are_the_published_ones() {
    assert_eq!(RECORDS.map(Record::bytes), [1152, 656, 584, 528, 288]);
    for record in RECORDS {
        assert!(record.is_whole());
        assert_eq!(record.runs().iter().map(|run| run.bytes).sum::<usize>(), record.bytes());
    }
}

#[test]
fn every_set_reads_what_the_description_says() {
    let pool = Pool::for_all_cores().unwrap();
    for record in RECORDS {
        let shape = StateShape { layers: 1, pages: 5, page_values: record.bytes() / 2 };
        let state = PagedState::filled(shape, &record.runs(), 8, &pool).unwrap();
        for bytes in state.layer_bytes(0).chunks(record.bytes()) {
            let right = reference::row(bytes, record);
            for set in InstructionSet::available() {
                for (right, got) in right.iter().zip(row(set, record, bytes)) {
                    // Products of a short number and a scale: exact, but for the f32 scales of the latent.
                    assert!((right - f64::from(got)).abs() <= right.abs() * 1e-6, "{set:?} {record:?}");
                }
            }
        }
    }
}

/// The largest error of a value: half a step of its type at the largest value of its block, which the scale puts at the
/// type's largest or (powers of two) at more than half of it; e4m3 has steps of 32 below 448, e2m1 of 2 below 6.
#[test]
fn what_is_written_is_read_back_within_half_a_step() {
    let mut random = fastrand::Rng::with_seed(12);
    for record in RECORDS {
        let width = record.width();
        let row: Vec<f32> =
            (0..width).map(|_| (random.f32() - 0.5) * 10_f32.powi(random.i32(-2..2))).collect();
        let mut bytes = vec![0xFF; record.bytes()];
        record.write(&row, &mut bytes);
        let read = reference::row(&bytes, record);
        let (block, plain, half_step) = match record {
            Record::Bf16 { .. } => (1, 0, 0.0),
            Record::ScaledLatent { latent, .. } => (128, latent, 16.0 / 448.0),
            Record::ScaledEntry { plain, .. } => (64, plain, 2.0 * 16.0 / 448.0),
            Record::Mxfp8 { width } => (32, width, 2.0 * 16.0 / 448.0),
            // The e4m3 scale itself is within a sixteenth.
            Record::Nvfp4 { width } => (16, width, (1.0 / 6.0) * 17.0 / 16.0 + 1.0 / 16.0),
        };
        for (d, (right, got)) in row.iter().zip(&read).enumerate() {
            let off = (f64::from(*right) - got).abs();
            if d >= plain {
                assert!(off <= f64::from(right.abs()) / 256.0, "{record:?}: bf16 value {d}");
                continue;
            }
            let block = &row[d / block * block..(d / block + 1) * block];
            let largest = f64::from(block.iter().fold(0.0_f32, |largest, value| largest.max(value.abs())));
            assert!(off <= largest * half_step * 1.0001, "{record:?}: value {d} is {got}, not {right}");
        }
    }
}
