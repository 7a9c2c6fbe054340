use kvscope_sizing::Bytes;
use kvscope_sizing::cost::Operand;
use kvscope_sizing::prediction::{Calibration, CeilingSpread, Ceilings, OperandRate, ReadPoint, Unsteady};

use crate::bench::stats;

/// A ceiling whose median is uncertain by more than this share, or moves by it from the first half of the turns to the
/// second, does not hold still.
const STEADY: f64 = 0.1;
/// Rows of a tile of the tensor cores: fewer rows leave the rest of it empty.
const TILE_ROWS: u64 = 16;

/// Samples of every figure, one for each turn.
pub(super) struct Turns {
    pub(super) read: Vec<f64>,
    pub(super) write: Vec<f64>,
    pub(super) copy: Vec<f64>,
    pub(super) update: Vec<f64>,
    pub(super) matrix: Vec<f64>,
    pub(super) fma: Vec<f64>,
    pub(super) exponentials: Vec<f64>,
    pub(super) launch: Vec<f64>,
    pub(super) sets: Vec<Vec<f64>>,
}

impl Turns {
    pub(super) fn new(sets: usize) -> Self {
        let none = Vec::new;
        Self {
            read: none(),
            write: none(),
            copy: none(),
            update: none(),
            matrix: none(),
            fma: none(),
            exponentials: none(),
            launch: none(),
            sets: vec![none(); sets],
        }
    }

    pub(super) fn taken(&self) -> usize {
        self.read.len()
    }

    pub(super) fn add(&mut self, turn: Self) {
        self.read.extend(turn.read);
        self.write.extend(turn.write);
        self.copy.extend(turn.copy);
        self.update.extend(turn.update);
        self.matrix.extend(turn.matrix);
        self.fma.extend(turn.fma);
        self.exponentials.extend(turn.exponentials);
        self.launch.extend(turn.launch);
        for (all, one) in self.sets.iter_mut().zip(turn.sets) {
            all.extend(one);
        }
    }

    pub(super) fn calibration(&self, sets: &[u64], cache: Bytes, workers: u32) -> Calibration {
        let matrix = stats::median(&self.matrix);
        let fma = stats::median(&self.fma);
        let ceilings = Ceilings {
            read_bytes_per_second: stats::median(&self.read),
            flops_per_second: fma,
            launch_seconds: stats::median(&self.launch),
            write_bytes_per_second: Some(stats::median(&self.write)),
            copy_bytes_per_second: Some(stats::median(&self.copy)),
            update_bytes_per_second: Some(stats::median(&self.update)),
            one_core: None,
            read_by_working_set: sets
                .iter()
                .zip(&self.sets)
                .map(|(set, rates)| ReadPoint {
                    working_set_bytes: Bytes::new(*set),
                    bytes_per_second: stats::median(rates),
                })
                .collect(),
            rates: rates(matrix, fma),
            streamed_rates: Vec::new(),
            exponentials_per_second: Some(stats::median(&self.exponentials)),
        };
        Calibration {
            date: humantime::format_rfc3339_seconds(std::time::SystemTime::now()).to_string(),
            ceilings,
            relative_spread: CeilingSpread {
                read: stats::relative_spread(&self.read),
                flops: stats::relative_spread(&self.fma),
                launch: stats::relative_spread(&self.launch),
                update: Some(stats::relative_spread(&self.update)),
            },
            last_level_cache_bytes: Some(cache),
            workers,
            unsteady: self.unsteady(),
        }
    }

    fn unsteady(&self) -> Vec<Unsteady> {
        let of =
            [("read", &self.read), ("update", &self.update), ("matrix", &self.matrix), ("flops", &self.fma)];
        of.into_iter()
            .filter_map(|(name, samples)| {
                let uncertain = stats::median_uncertainty(samples).unwrap_or(0.0);
                let moved = stats::drift(samples);
                (uncertain > STEADY || moved > STEADY).then(|| Unsteady {
                    of: name.to_owned(),
                    sentence: format!(
                        "the {name} ceiling of the device moved by {:.0} % while it was measured",
                        uncertain.max(moved) * 100.0
                    ),
                })
            })
            .collect()
    }
}

/// Kernels multiply in tiles of 16 rows, in bf16 or f16, which are equally fast; narrower values become f16 first. So a use by
/// fewer rows gets a share of the measured rate.
fn rates(matrix: f64, fma: f64) -> Vec<OperandRate> {
    let of = |operand, rows, flops_per_second| OperandRate { operand, rows, flops_per_second };
    let tiles = [Operand::Bf16, Operand::Fp8, Operand::Fp4]
        .into_iter()
        .flat_map(|operand| [of(operand, 1, matrix / TILE_ROWS as f64), of(operand, TILE_ROWS, matrix)]);
    std::iter::once(of(Operand::F32, 1, fma)).chain(tiles).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tile_with_few_rows_is_mostly_empty() {
        let ceilings = Ceilings { rates: rates(160.0, 10.0), ..Ceilings::default() };
        assert_eq!(ceilings.rate(Operand::Bf16, 1), Some(10.0));
        assert_eq!(ceilings.rate(Operand::Fp8, 16), Some(160.0));
        assert_eq!(ceilings.rate(Operand::Bf16, 128), Some(160.0));
        // Half of the rows: between 10 and 160 as 8 is between 1 and 16.
        assert!((ceilings.rate(Operand::Fp4, 8).unwrap() - 80.0).abs() < 1e-9);
        assert_eq!(ceilings.rate(Operand::F32, 1), Some(10.0));
    }

    #[test]
    fn a_ceiling_that_moves_is_named() {
        let mut turns = Turns::new(0);
        (turns.read, turns.update) = (vec![1.0; 8], vec![1.0; 8]);
        turns.matrix = vec![1.0, 1.0, 1.0, 1.0, 1.3, 1.3, 1.3, 1.3];
        turns.fma = vec![1.0; 8];
        let unsteady = turns.unsteady();
        assert_eq!((unsteady.len(), unsteady[0].of.as_str()), (1, "matrix"));
    }
}
