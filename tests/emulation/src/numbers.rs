//! Random state as kernels read it, and results as numbers.

/// Random numbers of the kinds that state has: never zero, never infinite or NaN, like normalised activations.
#[derive(Clone, Debug)]
pub struct Random(fastrand::Rng);

impl Random {
    /// From a seed.
    pub fn new(seed: u64) -> Self {
        Self(fastrand::Rng::with_seed(seed))
    }

    /// The generator itself.
    pub fn rng(&mut self) -> &mut fastrand::Rng {
        &mut self.0
    }

    /// f32 numbers of magnitudes from 0.125 to 2.
    pub fn floats(&mut self, count: usize) -> Vec<f32> {
        (0..count).map(|_| f32::from_bits(0x3E00_0000 | (self.0.u32(..) & 0x81FF_FFFF))).collect()
    }

    /// f32 numbers between these.
    pub fn between(&mut self, low: f32, high: f32, count: usize) -> Vec<f32> {
        (0..count).map(|_| low + (high - low) * self.0.f32()).collect()
    }

    /// bf16 numbers of magnitudes from 0.125 to 2, low byte first.
    pub fn bf16(&mut self, count: usize) -> Vec<u8> {
        (0..count).flat_map(|_| (0x3E00 | (self.0.u16(..) & 0x81FF)).to_le_bytes()).collect()
    }

    /// e4m3 codes of magnitudes from 0.125 to 1.875.
    pub fn e4m3(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| 0x20 | (self.0.u8(..) & 0x9F)).collect()
    }

    /// Any e4m3 codes but NaN: subnormals and both zeros are among them.
    pub fn any_e4m3(&mut self, count: usize) -> Vec<u8> {
        (0..count)
            .map(|_| self.0.u8(..))
            .map(|code| if code & 0x7F == 0x7F { code & 0xF7 } else { code })
            .collect()
    }

    /// Any bytes.
    pub fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.0.u8(..)).collect()
    }

    /// 0 … count − 1 in random order.
    pub fn permutation(&mut self, count: usize) -> Vec<i32> {
        let mut all: Vec<i32> = (0..count).map(|i| i32::try_from(i).expect("a small count")).collect();
        self.0.shuffle(&mut all);
        all
    }
}

/// The nearest f32.
#[allow(clippy::cast_possible_truncation, reason = "kernels take f32, which is what is wanted")]
pub fn narrow(value: f64) -> f32 {
    value as f32
}

/// f32 numbers as bytes.
pub fn f32s(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// Bytes as f32 numbers.
pub fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().expect("four bytes"))).collect()
}

/// Bytes as bf16 numbers.
pub fn bf16(bytes: &[u8]) -> Vec<f64> {
    bytes.chunks_exact(2).map(|b| kvscope_reference::numbers::bf16([b[0], b[1]])).collect()
}

/// The nearest bf16 of each, ties to even, low byte first.
pub fn to_bf16(values: &[f32]) -> Vec<u8> {
    let nearest = |value: &f32| {
        let bits = value.to_bits();
        bits.wrapping_add(0x7FFF + (bits >> 16 & 1)).to_le_bytes()
    };
    values.iter().map(nearest).flat_map(|bytes| [bytes[2], bytes[3]]).collect()
}

/// How a state of fixed size is stored.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Storage {
    /// 4 bytes a value.
    F32,
    /// 2 bytes a value, rounded to the nearest after every step.
    Bf16,
}

impl Storage {
    /// The name that kernels have it by.
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::Bf16 => "bf16",
        }
    }

    /// Random state.
    pub fn random(self, count: usize, random: &mut Random) -> Vec<u8> {
        match self {
            Self::F32 => f32s(&random.floats(count)),
            Self::Bf16 => random.bf16(count),
        }
    }

    /// State as numbers.
    pub fn numbers(self, bytes: &[u8]) -> Vec<f64> {
        match self {
            Self::F32 => kvscope_reference::widen(&floats(bytes)),
            Self::Bf16 => bf16(bytes),
        }
    }

    /// The largest difference from the right values over the largest of them, beyond the rounding of what is stored.
    pub fn error(self, right: &[f64], bytes: &[u8]) -> f64 {
        let got = self.numbers(bytes);
        assert_eq!(right.len(), got.len());
        let largest = right.iter().fold(0.0_f64, |largest, value| largest.max(value.abs()));
        let off = |(right, got): (&f64, &f64)| {
            let off = (right - got).abs();
            if off.is_nan() { f64::INFINITY } else { (off - self.half_unit(*right)).max(0.0) }
        };
        right.iter().zip(&got).map(off).fold(0.0, f64::max) / largest
    }

    /// Half of the distance of two neighbouring numbers.
    fn half_unit(self, value: f64) -> f64 {
        match self {
            Self::F32 => 0.0,
            Self::Bf16 => 2_f64.powf(value.abs().log2().floor() - 8.0),
        }
    }
}
