//! NVRTC from NVIDIA's Python package, in the build folder: 90 MB, which nothing but kernels needs.

use std::path::Path;
use std::process::Command;

use kvscope_kernels::Nvrtc;

use crate::error::{Error, Result};
use crate::output;
use crate::process;
use crate::workspace::Workspace;

/// One version for everyone, so that images are equal: the oldest that knows all targets.
const PACKAGE: &str = "nvidia-cuda-nvrtc==13.0.88";
/// Where the package keeps its libraries.
const LIBRARIES: &str = "nvidia/cu13/lib";

pub(crate) fn find_or_install(workspace: &Workspace) -> Result<Nvrtc> {
    let folder = workspace.own_folder().join("nvrtc-13.0.88");
    let libraries = folder.join(LIBRARIES);
    if !libraries.is_dir() {
        output::progress(&format!("installing {PACKAGE} into the build folder (90 MB)"));
        if !install(&folder) {
            let remedy = format!("python3 -m pip install --no-deps --target {} {PACKAGE}", folder.display());
            return Err(Error::NoNvrtc { remedy });
        }
    }
    Ok(Nvrtc::find(Some(&libraries))?)
}

fn install(folder: &Path) -> bool {
    let pip = |python: &str| {
        let mut command = Command::new(python);
        command.args(["-m", "pip", "install", "--quiet", "--no-deps", "--target"]);
        command.arg(folder).arg(PACKAGE);
        command
    };
    if ["python3", "python"].iter().any(|python| process::run(&mut pip(python)).is_ok()) {
        return true;
    }
    process::install_debian_packages("python3-pip");
    process::run(&mut pip("python3")).is_ok()
}
