//! The `kvscope` binary.

use std::process::ExitCode;

fn main() -> ExitCode {
    kvscope::cli::run()
}
