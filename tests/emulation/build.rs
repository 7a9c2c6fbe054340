//! Compiles the kernels' text with the shim into programs that run jobs: a plain one, one that watches memory, one that
//! watches for races, and one for each planted fault.

#[cfg(unix)]
#[path = "build/compile.rs"]
mod compile;

#[cfg(unix)]
#[path = "src/faults.rs"]
#[allow(dead_code, unreachable_pub, reason = "what the library gives to tests is not all needed to build")]
mod faults;

fn main() {
    for changed in ["build", "shim", "src/faults.rs", "../../agent/kernels"] {
        println!("cargo::rerun-if-changed={changed}");
    }
    println!("cargo::rerun-if-env-changed=CXX");
    #[cfg(unix)]
    compile::all();
}
