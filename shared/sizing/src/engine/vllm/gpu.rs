//! The GPU that vLLM believes it has: it chooses back ends, and with them block sizes and record widths.

/// Generations that choose differently.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Family {
    /// Ampere and Ada: A100, A10, L4, L40S, RTX 30 and 40.
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
    /// `max_num_batched_tokens` of the server where nothing is set (vLLM 0.33, `engine/arg_utils.py`).
    pub(super) default_batched_tokens: u64,
    /// Whether the name was understood.
    pub(super) known: bool,
}

/// What a name contains, most specific first: family and default batch.
const NAMES: &[(&str, Family, u64)] = &[
    ("GB10", Family::Sm120, 2048),
    ("GB200", Family::Sm100, 16_384),
    ("GB300", Family::Sm100, 16_384),
    ("B300", Family::Sm100, 16_384),
    ("B200", Family::Sm100, 16_384),
    ("B100", Family::Sm100, 16_384),
    ("GH200", Family::Sm90, 8192),
    ("H100", Family::Sm90, 8192),
    ("H200", Family::Sm90, 8192),
    ("H800", Family::Sm90, 8192),
    ("H20", Family::Sm90, 8192),
    ("A100", Family::Ampere, 2048),
    ("A800", Family::Ampere, 2048),
    ("RTX PRO 6000", Family::Sm120, 8192),
    ("RTX 50", Family::Sm120, 2048),
    ("5090", Family::Sm120, 2048),
    ("L40", Family::Ampere, 2048),
    ("A40", Family::Ampere, 2048),
    ("A10", Family::Ampere, 2048),
    ("L4", Family::Ampere, 2048),
    ("4090", Family::Ampere, 2048),
    ("3090", Family::Ampere, 2048),
];

impl Gpu {
    /// The GPU of that name; without a name, or with an unknown one, an H100.
    pub(super) fn named(name: Option<&str>) -> Self {
        let upper = name.map(str::to_ascii_uppercase);
        let found =
            upper.as_deref().and_then(|name| NAMES.iter().find(|(part, ..)| name.contains(part)).copied());
        let (_, family, default_batched_tokens) = found.unwrap_or(("H100", Family::Sm90, 8192));
        Self { family, default_batched_tokens, known: name.is_none() || found.is_some() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_as_drivers_and_reports_write_them() {
        for (name, family) in [
            ("H100-80GB", Family::Sm90),
            ("NVIDIA H200", Family::Sm90),
            ("B200", Family::Sm100),
            ("NVIDIA GB200", Family::Sm100),
            ("NVIDIA A100-SXM4-80GB", Family::Ampere),
            ("NVIDIA RTX PRO 6000 Blackwell", Family::Sm120),
        ] {
            let gpu = Gpu::named(Some(name));
            assert!(gpu.known && gpu.family == family, "{name}: {gpu:?}");
        }
        assert!(!Gpu::named(Some("abacus")).known);
        assert!(Gpu::named(None).known);
    }
}
