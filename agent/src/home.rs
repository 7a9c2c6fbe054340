//! Where the agent keeps what outlives a process.

use std::env;
use std::path::PathBuf;

use crate::failure::Failure;

/// The folder of stored runs: `$KVSCOPE_HOME/runs`, else the platform's folder for application data.
pub(crate) fn runs() -> Result<PathBuf, Failure> {
    if let Some(home) = env::var_os("KVSCOPE_HOME").filter(|home| !home.is_empty()) {
        return Ok(PathBuf::from(home).join("runs"));
    }
    let data = dirs::data_dir()
        .ok_or_else(|| Failure::check("no home folder is known; set KVSCOPE_HOME to a folder for runs"))?;
    Ok(data.join("kvscope").join("runs"))
}
