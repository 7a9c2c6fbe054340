//! Where the agent keeps what outlives a process.

use std::env;
use std::path::PathBuf;

use crate::failure::Failure;

/// The folder of stored runs.
pub(crate) fn runs() -> Result<PathBuf, Failure> {
    Ok(home()?.join("runs"))
}

/// The folder for files of tiers that are being measured.
#[cfg(target_os = "linux")]
pub(crate) fn tiers() -> Result<PathBuf, Failure> {
    Ok(home()?.join("tiers"))
}

/// The folder of images of kernels that were compiled on this machine.
pub(crate) fn kernels() -> Result<PathBuf, Failure> {
    Ok(home()?.join("kernels"))
}

/// `$KVSCOPE_HOME`, else the platform's folder for application data.
fn home() -> Result<PathBuf, Failure> {
    if let Some(home) = env::var_os("KVSCOPE_HOME").filter(|home| !home.is_empty()) {
        return Ok(PathBuf::from(home));
    }
    let data = dirs::data_dir()
        .ok_or_else(|| Failure::check("no home folder is known; set KVSCOPE_HOME to a folder for runs"))?;
    Ok(data.join("kvscope"))
}
