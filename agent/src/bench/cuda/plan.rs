//! Which kernels a shape has, and what all forms do.

use std::rc::Rc;

use super::composite::Composite;
use super::gqa::Gqa;
use super::recurrent::Recurrent;
use crate::bench::BenchError;
use crate::bench::backend::{Check, Layout};
use crate::bench::shape::FormShape;
use crate::gpu::{Gpu, GpuError};

/// The kernels of one shape.
pub(super) trait Plan {
    /// How one layer of `batch` requests is laid out.
    fn layout(&self, context: u64, batch: u64) -> Result<Layout, BenchError>;

    /// Asks for the state of so many layers, fills it, and prepares their kernels.
    fn hold(&self, gpu: &Rc<Gpu>, extent: Extent) -> Result<Box<dyn Held>, BenchError>;
}

/// State of some layers.
pub(super) trait Held {
    /// Starts the kernels of one layer.
    fn launch(&self, layer: usize) -> Result<(), GpuError>;

    /// Runs one layer and compares it with the reference.
    fn check(&self, layer: usize) -> Result<Check, GpuError>;

    /// The kernels of a layer in their order.
    fn kernels(&self) -> Vec<String>;

    /// Bytes asked for state, all layers.
    fn state_bytes(&self) -> u64;
}

/// How much is held.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extent {
    pub(super) layers: usize,
    pub(super) requests: usize,
    pub(super) context: usize,
    pub(super) seed: u64,
}

/// The kernels that fit a shape: one line a family.
pub(super) fn plan(shape: &FormShape, gpu: &Gpu) -> Result<Box<dyn Plan>, BenchError> {
    let target = gpu.device().target().map_or("", |target| target.name());
    match shape {
        FormShape::Gqa(gqa) => Ok(Box::new(Gqa::new(gqa, target)?)),
        FormShape::Mla(mla) => Ok(Box::new(Composite::mla(mla, target)?)),
        FormShape::Dsa(dsa) => Ok(Box::new(Composite::dsa(dsa, target)?)),
        FormShape::Compressed(compressed) => Ok(Box::new(Composite::compressed(compressed, target)?)),
        FormShape::Recurrent(recurrent) => Ok(Box::new(Recurrent::new(recurrent, target)?)),
        FormShape::Indexed(_) => {
            Err(BenchError::Shape("K/V heads behind an indexer are not measured on a GPU yet".to_owned()))
        }
    }
}

/// `count` evenly among `most`, all of them where there are no more.
pub(super) fn spread(most: usize, count: usize) -> Vec<usize> {
    let count = count.clamp(1, most.max(1));
    (0..count).map(|place| place * most / count).collect()
}

/// How many blocks share the tokens of a request: enough to fill the device, each with at least `least` pieces.
pub(super) fn splits(blocks_at_once: usize, others: usize, pieces: usize, least: usize) -> usize {
    let wanted = blocks_at_once.div_ceil(others.max(1));
    wanted.clamp(1, (pieces / least).max(1))
}

/// Each as a positive number within what kernels count with.
pub(super) fn sizes<const N: usize>(
    shape: &dyn std::fmt::Debug,
    values: [u64; N],
) -> Result<[usize; N], BenchError> {
    let mut sizes = [0; N];
    for (size, value) in sizes.iter_mut().zip(values) {
        let fits = usize::try_from(value).ok().filter(|value| (1..=1 << 24).contains(value));
        *size = fits.ok_or_else(|| {
            BenchError::Shape(format!("{shape:?} has a count or width outside 1 to 16,777,216"))
        })?;
    }
    Ok(sizes)
}

/// Bytes of a layer for all requests.
pub(super) fn times(bytes: usize, batch: u64) -> Result<u64, BenchError> {
    let overflow = || kvscope_sizing::Error::overflow(format!("state of {batch} requests"));
    Ok((bytes as u64).checked_mul(batch).ok_or_else(overflow)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_are_spread_and_blocks_fill_the_device() {
        assert_eq!(spread(8, 100), [0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(spread(64, 4), [0, 16, 32, 48]);
        assert_eq!(spread(5, 0), [0]);
        // 264 blocks at once over 8 heads: 33 splits; a short context has fewer, none less than one.
        assert_eq!(splits(264, 8, 10_000, 4), 33);
        assert_eq!(splits(264, 8, 40, 4), 10);
        assert_eq!(splits(264, 8, 3, 4), 1);
        assert_eq!(splits(2, 8, 1000, 4), 1);
    }
}
