//! GPUs and links by their datasheets: the files of `assets/hardware/`, built in.
//!
//! Nothing here was measured. A datasheet's memory is taken in decimal bytes, which errs low; its FLOP rates are dense, and
//! its links count one direction.

use std::sync::OnceLock;

use serde::Serialize;
use serde_json::Value;

use crate::cost::Operand;
use crate::record::{FromJson, field, object, read_json};
use crate::{Bytes, Error, Result, record, sort_short, word_record};

/// `(id, file text)` of every hardware file, sorted by id.
const FILES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/hardware.rs"));

/// One accelerator.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct Gpu {
    /// The file's name: `h200`.
    #[serde(rename = "gpu")]
    pub id: String,
    /// `H200 SXM`
    pub name: String,
    /// Who makes it.
    pub vendor: String,
    /// Where the figures come from.
    pub source: Vec<String>,
    /// How sure they are.
    pub confidence: String,
    /// Memory as the datasheet prints it, GB as 10^9.
    pub memory_bytes: Bytes,
    /// Bytes a second between memory and chip.
    pub memory_bytes_per_second: u64,
    /// Dense operations a second, by type.
    pub flops_per_second: FlopRates,
    /// To other GPUs of the same server; absent where there is no link of its own.
    pub peer_link: Option<NamedLink>,
    /// To the host's memory; absent where the memory is the host's.
    pub host_link: Option<NamedLink>,
    /// What to know about the figures.
    pub notes: Option<String>,
}

/// Dense operations a second; none where the datasheet prints none.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
pub struct FlopRates {
    /// bf16 and f16, with sums in FP32.
    pub bf16: Option<u64>,
    /// 8-bit floats.
    pub fp8: Option<u64>,
    /// 4-bit floats with scales.
    pub fp4: Option<u64>,
}

/// A link of a GPU.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct NamedLink {
    /// `NVLink 4`
    pub name: String,
    /// Bytes a second in one direction.
    pub bytes_per_second: u64,
}

/// A link between servers or parts of one.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct Link {
    /// The file's name: `ethernet-100g`.
    #[serde(rename = "link")]
    pub id: String,
    /// `Ethernet, 100 Gbps`
    pub name: String,
    /// What kind of link it is.
    pub class: LinkClass,
    /// Where the figure comes from.
    pub source: Vec<String>,
    /// How sure it is.
    pub confidence: String,
    /// Bytes a second in one direction.
    pub bytes_per_second: u64,
    /// What to know about it.
    pub notes: Option<String>,
}

/// Kinds of links, from the slowest on.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LinkClass {
    /// One Ethernet port.
    Ethernet,
    /// Ports that read and write remote memory by themselves.
    Rdma,
    /// Within a server.
    Pcie,
    /// Between GPUs.
    Nvlink,
}

impl LinkClass {
    /// Whether it reaches from one instance to another.
    pub(crate) fn is_of_network(self) -> bool {
        matches!(self, Self::Ethernet | Self::Rdma | Self::Nvlink)
    }
}

record!(Gpu {
    name, vendor, source, confidence, memory_bytes, memory_bytes_per_second, flops_per_second, peer_link,
    host_link, notes; or default id
});
record!(FlopRates { bf16, fp8, fp4 });
record!(NamedLink { name, bytes_per_second });
record!(Link { name, class, source, confidence, bytes_per_second, notes; or default id });
word_record!(LinkClass, name, [Ethernet, Rdma, Pcie, Nvlink]);

impl LinkClass {
    /// The word in data and on screen.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ethernet => "ethernet",
            Self::Rdma => "rdma",
            Self::Pcie => "pcie",
            Self::Nvlink => "nvlink",
        }
    }
}

impl FlopRates {
    /// The rate for operands of a type; a type without a rate of its own computes at that of the next wider one. None for
    /// FP32 and where nothing is printed.
    pub fn of(&self, operand: Operand) -> Option<u64> {
        match operand {
            Operand::F32 => None,
            Operand::Bf16 => self.bf16,
            Operand::Fp8 => self.fp8.or(self.bf16),
            Operand::Fp4 => self.fp4.or(self.fp8).or(self.bf16),
        }
    }
}

impl Gpu {
    /// The memory of `count` of them.
    ///
    /// # Errors
    ///
    /// A count of zero, or bytes beyond 64 bits.
    pub fn memory_of(&self, count: u64) -> Result<Bytes> {
        if count == 0 {
            return Err(Error::setting("count", "0 GPUs hold nothing; give at least 1"));
        }
        self.memory_bytes.times(count)
    }
}

/// Every GPU, sorted by id. Parsed on first use.
pub fn gpus() -> &'static [Gpu] {
    static GPUS: OnceLock<Vec<Gpu>> = OnceLock::new();
    GPUS.get_or_init(|| read_kind("gpu", |id, gpu: Gpu| Gpu { id, ..gpu }))
}

/// Every link, the slowest first. Parsed on first use.
pub fn links() -> &'static [Link] {
    static LINKS: OnceLock<Vec<Link>> = OnceLock::new();
    LINKS.get_or_init(|| {
        let mut links = read_kind("link", |id, link: Link| Link { id, ..link });
        sort_short(&mut links, |a, b| a.bytes_per_second > b.bytes_per_second);
        links
    })
}

/// Finds a GPU by its id; case does not matter.
///
/// # Errors
///
/// An unknown id; the error names the known ones.
pub fn find_gpu(id: &str) -> Result<&'static Gpu> {
    let known = || gpus().iter().map(|gpu| gpu.id.as_str());
    gpus().iter().find(|gpu| gpu.id.eq_ignore_ascii_case(id)).ok_or_else(|| unknown("gpu", id, known()))
}

/// Finds a link by its id; case does not matter.
///
/// # Errors
///
/// An unknown id; the error names the known ones.
pub fn find_link(id: &str) -> Result<&'static Link> {
    let known = || links().iter().map(|link| link.id.as_str());
    links().iter().find(|link| link.id.eq_ignore_ascii_case(id)).ok_or_else(|| unknown("link", id, known()))
}

fn unknown<'k>(what: &str, id: &str, known: impl Iterator<Item = &'k str>) -> Error {
    Error::setting(what, format!("{id:?} is not known; known: {}", known.collect::<Vec<_>>().join(", ")))
}

fn read_kind<T: FromJson>(kind: &str, with_id: impl Fn(String, T) -> T) -> Vec<T> {
    let read = |(id, text): &(&str, &str)| -> Result<Option<T>> {
        let value: Value = read_json(text)?;
        if field::<String>(object(&value)?, "kind")? != kind {
            return Ok(None);
        }
        T::from_json(&value).map(|found| Some(with_id((*id).to_owned(), found)))
    };
    FILES.iter().filter_map(|file| read(file).expect("the tests read every hardware file")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_is_a_gpu_or_a_link_with_figures() {
        assert_eq!(gpus().len() + links().len(), FILES.len());
        for gpu in gpus() {
            assert!(gpu.memory_bytes > Bytes::ZERO && gpu.memory_bytes_per_second > 0, "{}", gpu.id);
            assert!(!gpu.source.is_empty(), "{}", gpu.id);
            let rates = [gpu.flops_per_second.bf16, gpu.flops_per_second.fp8, gpu.flops_per_second.fp4];
            let known: Vec<u64> = rates.into_iter().flatten().collect();
            assert!(known.is_sorted() && !known.contains(&0), "{}: narrower types are not slower", gpu.id);
        }
        assert!(links().is_sorted_by_key(|link| link.bytes_per_second));
        assert!(links().iter().all(|link| link.bytes_per_second > 0));
    }

    /// NVIDIA H200 datasheet: 141 GB, 4.8 TB/s, 3,958 TFLOP/s of FP8 with sparsity, 900 GB/s of `NVLink` both ways.
    #[test]
    fn the_h200_is_as_printed() {
        let gpu = find_gpu("H200").unwrap();
        assert_eq!(gpu.memory_of(8).unwrap().get(), 1_128_000_000_000);
        assert_eq!(gpu.flops_per_second.of(Operand::Fp8), Some(3_958_000_000_000_000 / 2));
        // Hopper has no FP4 arithmetic.
        assert_eq!(gpu.flops_per_second.of(Operand::Fp4), gpu.flops_per_second.fp8);
        assert_eq!(gpu.peer_link.as_ref().unwrap().bytes_per_second, 900_000_000_000 / 2);
        assert!(gpu.memory_of(0).is_err());
    }

    #[test]
    fn an_unknown_id_names_the_known_ones() {
        let sentence = find_gpu("h300").unwrap_err().to_string();
        assert!(sentence.starts_with("gpu: \"h300\" is not known; known: a100-40gb"), "{sentence}");
        assert!(find_link("string").unwrap_err().to_string().contains("ethernet-100g"));
    }
}
