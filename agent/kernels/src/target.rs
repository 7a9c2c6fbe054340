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

    #[test]
    fn targets_go_by_their_names() {
        for target in TARGETS {
            assert_eq!(target.name().parse::<Target>().unwrap(), target);
        }
        let error = "sm_70".parse::<Target>().unwrap_err().to_string();
        assert!(error.contains("sm_70") && error.contains("known: sm_80, sm_86"), "{error}");
    }
}
