//! What a step adds: the compressor's row and entry, the records and keys that are written.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a panic is a test's report")]

#[path = "common/keys.rs"]
mod keys;
#[path = "common/records.rs"]
mod records;

use keys::{KeyFormat, Keys};
use kvscope_emulation::{Argument, Job, Launch, Random, f32s, floats, run_everywhere};
use kvscope_reference::numbers::{e2m1, e4m3};
use kvscope_reference::pooling::Group;
use kvscope_reference::{relative_error, widen};
use records::{Record, take};

fn launch(kernel: String, requests: usize, threads: u32, argument: Argument) -> Launch {
    Launch { kernel, grid: [u32::try_from(requests).unwrap(), 1, 1], threads, dynamic_shared: 0, argument }
}

fn numbers(values: impl IntoIterator<Item = usize>) -> Vec<u8> {
    values.into_iter().flat_map(|value| i32::try_from(value).unwrap().to_le_bytes()).collect()
}

/// One compressor that shares its ring's rows with another.
fn check_compressor(width: usize, rope: usize, ratio: usize, halves: usize, tokens: &[usize]) {
    let mut random = Random::new(width as u64);
    let (first, requests, ring) = (16, tokens.len(), halves * ratio);
    let row = 2 * halves * width;
    let stride = first + row + 8;
    let rows = random.between(-2.0, 2.0, requests * ring * stride);
    let fresh = random.between(-2.0, 2.0, requests * stride);
    let bias = random.between(-0.5, 0.5, ratio * halves * width);
    let gains = random.between(0.5, 1.5, width);
    let angles = random.between(0.0, 6.0, requests * rope / 2);
    let turns: Vec<f32> = angles.iter().flat_map(|angle| [angle.cos(), angle.sin()]).collect();

    let mut job = Job::new();
    let to_rows = job.changed(f32s(&rows));
    let entries = job.output(requests * width * 4);
    let [to_fresh, to_bias, to_gains, to_turns] =
        [&fresh, &bias, &gains, &turns].map(|values| job.input(f32s(values)));
    let to_tokens = job.input(numbers(tokens.iter().copied()));
    let argument = Argument::new()
        .address(to_rows)
        .address(to_fresh)
        .address(to_bias)
        .address(to_gains)
        .address(to_turns)
        .address(to_tokens)
        .address(entries)
        .count(stride)
        .count(first)
        .count(width)
        .count(rope)
        .count(ratio)
        .count(halves);
    job.launch(launch("compress".to_owned(), requests, 512, argument));
    let results = run_everywhere(&job);

    let (bias, gains) = (widen(&bias), widen(&gains));
    let entries = floats(&results[1]);
    let mut wanted = rows;
    for (request, tokens) in tokens.iter().enumerate() {
        let of_ring = (request * ring + (tokens - 1) % ring) * stride + first;
        let of_fresh = request * stride + first;
        wanted[of_ring..of_ring + row].copy_from_slice(&fresh[of_fresh..of_fresh + row]);
        let entry = &entries[request * width..][..width];
        if tokens % ratio != 0 {
            assert!(entry.iter().all(|value| value.is_nan()), "an entry within a group");
            continue;
        }
        let turns: Vec<(f64, f64)> = turns[request * rope..][..rope]
            .chunks(2)
            .map(|turn| (f64::from(turn[0]), f64::from(turn[1])))
            .collect();
        let group = Group { width, ratio, halves, bias: &bias, gains: &gains, turns: &turns };
        let of = |token: usize| widen(&wanted[(request * ring + token % ring) * stride + first..][..row]);
        let error = relative_error(group.entry(tokens / ratio - 1, &of), entry);
        assert!(error < 1e-5, "width {width}, request {request}: {error}");
    }
    assert_eq!(floats(&results[0]), wanted, "the ring holds the new rows and nothing else is changed");
}

#[test]
fn compressors_agree_with_the_reference() {
    // CSA: the first group, a later one, and within one; its index keys; HCA.
    check_compressor(512, 64, 4, 2, &[4, 1004, 1003]);
    check_compressor(128, 64, 4, 2, &[8]);
    check_compressor(512, 64, 128, 1, &[128, 640]);
    check_compressor(34, 2, 2, 1, &[6, 7]);
}

/// The magnitudes of all codes.
fn magnitudes(number: fn(u8) -> f64, codes: std::ops::Range<u8>) -> Vec<f64> {
    codes.map(number).filter(|value| value.is_finite()).map(f64::abs).collect()
}

/// Demands that every value of a block is the nearest that its scale allows.
fn check_nearest(what: &str, values: &[f32], stored: &[f64], scale: f64, magnitudes: &[f64]) {
    for (value, stored) in widen(values).into_iter().zip(stored) {
        let off = |magnitude: &f64| (value.abs() - magnitude * scale).abs();
        let least = magnitudes.iter().map(off).fold(f64::INFINITY, f64::min);
        let largest = magnitudes.iter().fold(0.0_f64, |largest, magnitude| largest.max(*magnitude));
        assert!(
            (value - stored).abs() <= least + 1e-6 * scale * largest,
            "{what}: {value} became {stored} with a scale of {scale}"
        );
    }
}

/// The smallest power of two that is at least `value`.
fn power_above(value: f64) -> f64 {
    value.log2().ceil().exp2()
}

fn largest(block: &[f32]) -> f64 {
    block.iter().fold(0.0_f64, |largest, value| largest.max(f64::from(value.abs())))
}

/// Rows of which blocks have very different magnitudes.
fn rows(width: usize, count: usize, random: &mut Random) -> Vec<f32> {
    let block = |random: &mut Random| {
        let power = 2_f32.powi(random.rng().i32(-9..9));
        random.between(-power, power, 16)
    };
    (0..count * width / 16).flat_map(|_| block(random)).collect()
}

#[test]
fn records_are_written_as_the_nearest_their_scales_allow() {
    let (eights, fours) = (magnitudes(e4m3, 0..128), magnitudes(e2m1, 0..8));
    for record in Record::ALL {
        let mut random = Random::new(record.bytes() as u64);
        let rows = rows(record.width(), 3, &mut random);
        let mut job = Job::new();
        let from = job.input(f32s(&rows));
        let untouched = random.bytes(2 * 64 * record.bytes());
        let pages = job.changed(untouched.clone());
        // The second request writes nothing.
        let slots =
            job.input([5_i32, -1, 64 + 63].iter().flat_map(|slot| slot.to_le_bytes()).collect::<Vec<u8>>());
        let argument = Argument::new().address(from).address(pages).address(slots);
        job.launch(launch(format!("write_{}", record.name()), 3, 64, argument));
        let pages = run_everywhere(&job).swap_remove(0);

        for slot in (0..128).filter(|slot| ![5, 127].contains(slot)) {
            assert_eq!(
                take(record, &pages, slot),
                take(record, &untouched, slot),
                "{record:?}: slot {slot} is changed"
            );
        }
        for (request, slot) in [(0, 5), (2, 127)] {
            let row = &rows[request * record.width()..][..record.width()];
            let stored = record.values(&take(record, &pages, slot));
            let what = format!("{record:?}");
            let (block, plain) = match record {
                Record::Bf16Latent | Record::Bf16Entry => (16, 0),
                Record::ScaledLatent => (128, 512),
                Record::ScaledEntry => (64, 448),
                Record::Mxfp8 => (32, 512),
                Record::Nvfp4 => (16, 512),
            };
            for (values, stored) in row[..plain].chunks(block).zip(stored.chunks(block)) {
                let (scale, magnitudes) = match record {
                    Record::ScaledLatent => (largest(values) / 448.0, &eights),
                    Record::Nvfp4 => {
                        let wanted = largest(values) / 6.0;
                        let nearest = |best: f64, scale: &f64| {
                            if (scale - wanted).abs() < (best - wanted).abs() { *scale } else { best }
                        };
                        (eights.iter().fold(0.0, nearest), &fours)
                    }
                    _ => (power_above(largest(values) / 448.0), &eights),
                };
                check_nearest(&what, values, stored, scale, magnitudes);
            }
            for (value, stored) in widen(&row[plain..]).into_iter().zip(&stored[plain..]) {
                assert!((value - stored).abs() <= value.abs() / 256.0, "{what}: {value} became {stored}");
            }
        }
    }
}

#[test]
fn keys_are_written_as_the_nearest_their_scales_allow() {
    let (eights, fours) = (magnitudes(e4m3, 0..128), magnitudes(e2m1, 0..8));
    for format in KeyFormat::ALL {
        let mut random = Random::new(9);
        let rows = rows(128, 2, &mut random);
        let mut job = Job::new();
        let from = job.input(f32s(&rows));
        let pages = job.changed(vec![0; 2 * Keys::page_bytes(format)]);
        let slots = job.input(numbers([3, 64 + 9]));
        let argument = Argument::new().address(from).address(pages).address(slots);
        job.launch(launch(format!("write_key_{}", format.name()), 2, 64, argument));
        let keys = Keys::of_pages(format, run_everywhere(&job).swap_remove(0));

        for (request, slot) in [(0, 3), (1, 73)] {
            let (row, stored) = (&rows[request * 128..][..128], keys.key(0, slot));
            let block = if format == KeyFormat::Fp4 { 32 } else { 128 };
            for (values, stored) in row.chunks(block).zip(stored.chunks(block)) {
                match format {
                    KeyFormat::Fp8 => check_nearest("fp8", values, stored, largest(values) / 448.0, &eights),
                    KeyFormat::Fp4 => {
                        check_nearest("fp4", values, stored, power_above(largest(values) / 6.0), &fours);
                    }
                    KeyFormat::Bf16 => {
                        for (value, stored) in widen(values).into_iter().zip(stored) {
                            assert!((value - stored).abs() <= value.abs() / 256.0, "{value} became {stored}");
                        }
                    }
                }
            }
        }
        let empty = keys.key(0, 4);
        assert!(empty.iter().all(|value| *value == 0.0), "another key is changed");
    }
}
