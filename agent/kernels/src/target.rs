//! What kernels are compiled for.

use std::str::FromStr;

use crate::Error;

/// A chip family, or the instruction set that drivers compile further.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Target {
    name: &'static str,
}

/// A100; RTX 30; RTX 40 and L40; H100 and H200; B200; B300; RTX 50; DGX Spark; and PTX for whatever comes later.
pub const TARGETS: [Target; 9] = [
    Target { name: "sm_80" },
    Target { name: "sm_86" },
    Target { name: "sm_89" },
    Target { name: "sm_90a" },
    Target { name: "sm_100a" },
    Target { name: "sm_103a" },
    Target { name: "sm_120" },
    Target { name: "sm_121" },
    Target { name: "compute_80" },
];

impl Target {
    /// What runs on a chip of this compute capability: its own image, or PTX; `None` before 8.0, whose chips lack `cp.async`
    /// and the tensor cores' bf16.
    pub fn for_capability(capability: (u32, u32)) -> Option<Self> {
        let (major, minor) = capability;
        let own = [format!("sm_{major}{minor}"), format!("sm_{major}{minor}a")];
        let found = TARGETS.into_iter().find(|target| own.iter().any(|name| name == target.name));
        found.or_else(|| TARGETS.into_iter().find(|target| target.is_portable() && major >= 8))
    }

    /// As NVRTC calls it.
    pub fn name(self) -> &'static str {
        self.name
    }

    /// Whether it is PTX, which the driver of a machine makes code of.
    pub fn is_portable(self) -> bool {
        self.name.starts_with("compute_")
    }

    /// The ending of an image's file.
    pub fn ending(self) -> &'static str {
        if self.is_portable() { "ptx" } else { "cubin" }
    }
}

impl FromStr for Target {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        TARGETS.into_iter().find(|target| target.name == name).ok_or_else(|| Error::Target {
            name: name.to_owned(),
            known: TARGETS.map(Target::name).join(", "),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compute capabilities as NVIDIA lists them: A100, RTX 3090, L40, H100, B200, B300, RTX 5090, DGX Spark; T4; a later one.
    #[test]
    fn chips_have_an_image_of_their_own_or_ptx() {
        let name = |capability| Target::for_capability(capability).map(Target::name);
        for (capability, target) in [
            ((8, 0), "sm_80"),
            ((8, 6), "sm_86"),
            ((8, 9), "sm_89"),
            ((9, 0), "sm_90a"),
            ((10, 0), "sm_100a"),
            ((10, 3), "sm_103a"),
            ((12, 0), "sm_120"),
            ((12, 1), "sm_121"),
            ((8, 7), "compute_80"),
            ((13, 0), "compute_80"),
        ] {
            assert_eq!(name(capability), Some(target));
        }
        assert_eq!(name((7, 5)), None);
    }

    #[test]
    fn targets_go_by_their_names() {
        for target in TARGETS {
            assert_eq!(target.name().parse::<Target>().unwrap(), target);
        }
        let error = "sm_70".parse::<Target>().unwrap_err().to_string();
        assert!(error.contains("sm_70") && error.contains("known: sm_80, sm_86"), "{error}");
    }
}
