//! A bounded replay of the fuzz targets: every seed of their corpora, broken in a fixed number of ways from a fixed
//! start.
//!
//! The targets themselves are in `fuzz/`; they need nightly, cargo-fuzz and time.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

use crate::support::checks;
use crate::support::converted;
use crate::support::engine_checks;
use crate::support::engine_seeds;

use kvscope_sizing::catalogue;

const MUTANTS_OF_A_SEED: usize = 60;
/// There are twenty queries of engines for each config.
const MUTANTS_OF_A_QUERY: usize = 6;
/// Logs are few.
const MUTANTS_OF_A_LOG: usize = 60;

/// The `SplitMix64` generator, so that a failure is the same everywhere.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, below: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        usize::try_from((mixed ^ (mixed >> 31)) % below.max(1) as u64).unwrap()
    }
}

/// One to four breaks: a changed byte, an odd number, a cut, a doubled or moved stretch.
fn broken(seed: &[u8], dice: &mut Dice) -> Vec<u8> {
    let mut bytes = seed.to_vec();
    for _ in 0..=dice.roll(4) {
        if bytes.is_empty() {
            break;
        }
        let at = dice.roll(bytes.len());
        let length = dice.roll(bytes.len() - at).min(64);
        match dice.roll(6) {
            0 => bytes[at] = u8::try_from(dice.roll(256)).unwrap(),
            1 => bytes[at] ^= 1 << dice.roll(8),
            2 => bytes.truncate(at),
            3 => drop(bytes.drain(at..at + length)),
            4 => {
                let copy = bytes[at..at + length].to_vec();
                let to = dice.roll(bytes.len());
                bytes.splice(to..to, copy);
            }
            _ => {
                let odd = [0_u64, 1, 0xFFFF, 1 << 31, 1 << 32, 1 << 62, u64::MAX][dice.roll(7)].to_le_bytes();
                let width = [1, 4, 8][dice.roll(3)].min(bytes.len() - at);
                bytes[at..at + width].copy_from_slice(&odd[..width]);
            }
        }
    }
    bytes
}

/// Numbers and words of a config that other tools have written.
fn reworded(seed: &str, dice: &mut Dice) -> String {
    const ODD: [&str; 12] = [
        "0",
        "-1",
        "null",
        "1e308",
        "4294967297",
        "18446744073709551616",
        "128.0",
        "\"\"",
        "[]",
        "{}",
        "true",
        "7",
    ];
    let numbers: Vec<(usize, &str)> = seed
        .match_indices(|c: char| c.is_ascii_digit())
        .filter(|(at, _)| !seed[..*at].ends_with(|c: char| c.is_ascii_alphanumeric() || c == '.' || c == '_'))
        .collect();
    let Some((at, _)) = numbers.get(dice.roll(numbers.len())) else { return seed.to_owned() };
    let end = seed[*at..].find(|c: char| !c.is_ascii_digit()).map_or(seed.len(), |length| at + length);
    format!("{}{}{}", &seed[..*at], ODD[dice.roll(ODD.len())], &seed[end..])
}

#[test]
fn configs() {
    let mut dice = Dice(1);
    for entry in catalogue() {
        let seed = entry.config.to_string();
        checks::config(seed.as_bytes());
        for _ in 0..MUTANTS_OF_A_SEED {
            checks::config(&broken(seed.as_bytes(), &mut dice));
            checks::config(reworded(&seed, &mut dice).as_bytes());
        }
    }
}

#[test]
fn gguf_files() {
    let mut dice = Dice(2);
    for entry in catalogue() {
        let Some(file) = converted::convert(&entry.config) else { continue };
        let seed = file.bytes();
        checks::gguf(&seed);
        for _ in 0..2 * MUTANTS_OF_A_SEED {
            checks::gguf(&broken(&seed, &mut dice));
        }
    }
}

#[test]
fn queries_of_engines() {
    let mut dice = Dice(3);
    for seed in engine_seeds::seeds() {
        engine_checks::engine(&seed);
        for _ in 0..MUTANTS_OF_A_QUERY {
            engine_checks::engine(&broken(&seed, &mut dice));
        }
    }
}

#[test]
fn logs() {
    let mut dice = Dice(4);
    let folder = format!("{}/tests/data/logs", env!("CARGO_MANIFEST_DIR"));
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    for file in files {
        let seed = std::fs::read_to_string(file).unwrap();
        engine_checks::log(seed.as_bytes());
        for _ in 0..MUTANTS_OF_A_LOG {
            engine_checks::log(&broken(seed.as_bytes(), &mut dice));
            engine_checks::log(reworded(&seed, &mut dice).as_bytes());
        }
    }
}
