//! The GPU that an engine believes it has, by its name: it chooses back ends, record layouts and batches.

use crate::settings::Settings;
use crate::warning::Warning;

/// Generations that engines choose differently for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Family {
    /// Before Hopper: T4, A100, A10, L4, L40S, RTX 30 and 40.
    Ampere,
    /// Hopper: H100, H200, H20, GH200.
    Sm90,
    /// Blackwell for data centres: B100, B200, B300, GB200, GB300.
    Sm100,
    /// Blackwell for workstations: RTX PRO 6000, RTX 50, GB10.
    Sm120,
}

/// A GPU by its name.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Gpu {
    pub(super) family: Family,
    /// Its memory: what the name says (`A100-SXM4-40GB`), else what the smallest of that name has, of A100 the larger.
    pub(super) gib: u64,
    /// Whether it is one of those that vLLM gives small batches whatever their memory.
    pub(super) slow: bool,
    /// Whether the name was understood.
    known: bool,
}

/// Words that stand side by side in a name: family and GiB of memory, by the makers' datasheets.
const NAMES: &[(&str, Family, u64)] = &[
    ("GB10", Family::Sm120, 119),
    ("GB200", Family::Sm100, 180),
    ("GB300", Family::Sm100, 270),
    ("B300", Family::Sm100, 270),
    ("B200", Family::Sm100, 180),
    ("B100", Family::Sm100, 180),
    ("GH200", Family::Sm90, 96),
    ("H100", Family::Sm90, 80),
    ("H200", Family::Sm90, 141),
    ("H800", Family::Sm90, 80),
    ("H20", Family::Sm90, 96),
    ("A100", Family::Ampere, 80),
    ("A100X", Family::Ampere, 80),
    ("A800", Family::Ampere, 80),
    ("RTX PRO 6000", Family::Sm120, 96),
    ("RTX 5090", Family::Sm120, 32),
    ("RTX 5080", Family::Sm120, 16),
    ("RTX 5070", Family::Sm120, 12),
    ("RTX 5060", Family::Sm120, 8),
    ("RTX 5050", Family::Sm120, 8),
    ("RTX 6000 ADA", Family::Ampere, 48),
    ("L40", Family::Ampere, 48),
    ("L40S", Family::Ampere, 48),
    ("L20", Family::Ampere, 48),
    ("A40", Family::Ampere, 48),
    ("A30", Family::Ampere, 24),
    ("A10", Family::Ampere, 24),
    ("A10G", Family::Ampere, 24),
    ("L4", Family::Ampere, 24),
    ("A6000", Family::Ampere, 48),
    ("A5000", Family::Ampere, 24),
    ("A4500", Family::Ampere, 20),
    ("A4000", Family::Ampere, 16),
    ("A2000", Family::Ampere, 6),
    ("A1000", Family::Ampere, 8),
    ("RTX 4090", Family::Ampere, 24),
    ("RTX 4080", Family::Ampere, 16),
    ("RTX 4070", Family::Ampere, 12),
    ("RTX 3090", Family::Ampere, 24),
    ("RTX 3080", Family::Ampere, 10),
    ("T4", Family::Ampere, 16),
];

/// vLLM 0.33 keeps these at the batch of small cards (`EngineArgs.get_batch_defaults`).
const SLOW: [&str; 3] = ["A100", "A100X", "GB10"];

impl Gpu {
    /// The GPU of the settings; without one, or with an unknown name, an H100.
    pub(super) fn of(settings: &Settings) -> Self {
        let name = settings.gpu.as_deref().map(str::to_ascii_uppercase);
        let words = name.as_deref().map(words);
        let found = words
            .as_deref()
            .and_then(|words| NAMES.iter().find(|(part, ..)| words.contains(&format!(" {part} "))).copied());
        let (part, family, gib) = found.unwrap_or(("H100", Family::Sm90, 80));
        let stated = name.as_deref().filter(|_| found.is_some()).and_then(stated_gib);
        Self {
            family,
            gib: stated.unwrap_or(gib),
            slow: SLOW.contains(&part),
            known: name.is_none() || found.is_some(),
        }
    }

    /// Whether its compute capability is 10 or later.
    pub(super) fn is_blackwell(self) -> bool {
        matches!(self.family, Family::Sm100 | Family::Sm120)
    }

    /// Says which card is taken where none is given, and what `chooses` by it, or one that no rule knows.
    pub(super) fn warning(self, settings: &Settings, chooses: &str) -> Option<Warning> {
        let message = match settings.gpu.as_deref() {
            None => format!("not given; an H100 is assumed, which {chooses}"),
            Some(gpu) if !self.known => format!("no rule knows {gpu:?}; the figures are those of an H100"),
            Some(_) => return None,
        };
        Some(Warning::new("gpu", message))
    }
}

/// The words of a name, each between two spaces, so that a model's number is found whole and not in a longer one
/// (`A40` in `RTX A4000`). What people write without a space (`RTX4090`, `4090`) reads as drivers write it.
fn words(name: &str) -> String {
    let mut words = String::from(" ");
    for word in name.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty()) {
        let number = word.strip_prefix("RTX").unwrap_or(word);
        let is_series = number.len() == 4 && number.bytes().all(|digit| digit.is_ascii_digit());
        let has_prefix = words.ends_with(" RTX ") || words.ends_with(" PRO ");
        if is_series && !has_prefix {
            words.push_str("RTX ");
        }
        words.push_str(if is_series { number } else { word });
        words.push(' ');
    }
    words
}

/// The memory in a driver's name of a card, or of a part of one: `40GB` of `NVIDIA A100-SXM4-40GB`.
fn stated_gib(name: &str) -> Option<u64> {
    name.rmatch_indices("GB").find_map(|(at, _)| {
        let head = name[..at].trim_end();
        let digits = head.len() - head.trim_end_matches(|c: char| c.is_ascii_digit()).len();
        head[head.len() - digits..].parse().ok().filter(|gib| *gib > 0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str) -> Gpu {
        Gpu::of(&Settings { gpu: Some(name.to_owned()), ..Settings::default() })
    }

    #[test]
    fn names_as_drivers_and_reports_write_them() {
        for (name, family, gib) in [
            ("H100-80GB", Family::Sm90, 80),
            ("NVIDIA H200", Family::Sm90, 141),
            ("NVIDIA H20-3e", Family::Sm90, 96),
            ("B200", Family::Sm100, 180),
            ("NVIDIA GB200", Family::Sm100, 180),
            ("NVIDIA GB10", Family::Sm120, 119),
            ("NVIDIA A100-SXM4-80GB", Family::Ampere, 80),
            ("NVIDIA A100-SXM4-40GB", Family::Ampere, 40),
            ("NVIDIA A100-SXM4-80GB MIG 1g.10gb", Family::Ampere, 10),
            ("NVIDIA L40S", Family::Ampere, 48),
            ("NVIDIA L4", Family::Ampere, 24),
            ("NVIDIA RTX PRO 6000 Blackwell", Family::Sm120, 96),
            ("NVIDIA GeForce RTX 5090", Family::Sm120, 32),
            ("Tesla T4", Family::Ampere, 16),
            ("rtx4090", Family::Ampere, 24),
            ("4090", Family::Ampere, 24),
            ("NVIDIA A10G", Family::Ampere, 24),
        ] {
            let gpu = named(name);
            assert!(gpu.known, "{name}");
            assert_eq!((gpu.family, gpu.gib), (family, gib), "{name}");
        }
        assert!(named("NVIDIA A100").slow && named("NVIDIA GB10").slow && !named("NVIDIA A800").slow);
    }

    /// NVIDIA's datasheets: RTX A4000 16 GB, RTX A1000 8 GB, A40 48 GB, A100 80 GB
    /// (<https://www.nvidia.com/en-us/products/workstations/rtx-a4000/>,
    /// <https://www.nvidia.com/en-us/products/workstations/rtx-a1000/>).
    #[test]
    fn a_number_inside_a_longer_one_is_another_card() {
        for (name, gib) in
            [("NVIDIA RTX A4000", 16), ("NVIDIA RTX A1000", 8), ("NVIDIA A40", 48), ("A100", 80)]
        {
            assert_eq!((named(name).gib, named(name).known), (gib, true), "{name}");
        }
        for other in ["NVIDIA RTX A400", "NVIDIA T400", "Quadro RTX 4000", "NVIDIA L400", "NVIDIA H2000"] {
            assert!(!named(other).known, "{other}");
        }
    }

    #[test]
    fn a_card_that_is_not_known_is_told() {
        let told = |gpu: Option<&str>| {
            let settings = Settings { gpu: gpu.map(str::to_owned), ..Settings::default() };
            Gpu::of(&settings).warning(&settings, "chooses batches").map(|warning| warning.message)
        };
        assert_eq!(told(None).as_deref(), Some("not given; an H100 is assumed, which chooses batches"));
        assert_eq!(
            told(Some("abacus 9GB")).as_deref(),
            Some("no rule knows \"abacus 9GB\"; the figures are those of an H100")
        );
        assert_eq!(told(Some("L4")), None);
        assert_eq!(named("abacus 9GB").gib, 80);
    }
}
