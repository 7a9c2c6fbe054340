//! What the sizing crate computes, against sources outside it. One program, since each links for itself.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

mod attribution;
mod bad_input;
mod capacity;
mod capacity_plans;
mod cases;
mod catalogue;
mod claims;
mod class_rules;
mod class_windows;
mod classes;
mod compression;
mod derivations;
mod describe;
mod differences;
mod encoder_decoders;
mod encoders;
mod engines;
mod gguf;
mod growth_laws;
mod hostile;
mod launch_defaults;
mod lists;
mod llama_cpp;
mod log;
mod log_doubts;
mod log_launches;
mod log_lines;
mod log_pools;
mod loops;
mod model_cost;
mod offload;
mod own_names;
mod owners;
mod parameters;
mod pipeline;
mod plans;
mod pools;
mod prefix;
mod ranks;
mod reading;
mod refusals;
mod replay;
mod reserved;
mod saved_again;
mod sensitivities;
mod service;
mod sheets;
mod simulation;
mod strict;
mod support;
mod traps;
mod vllm;
mod vllm_classes;
mod vllm_versions;
mod weight_formats;

/// A file that is not named above would be compiled by nobody.
#[test]
fn every_file_of_tests_is_run() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let own = include_str!("main.rs");
    for entry in std::fs::read_dir(folder).expect("the folder of this file is there") {
        let name = entry.expect("it can be listed").file_name().into_string().expect("a plain name");
        let Some(module) = name.strip_suffix(".rs").filter(|module| *module != "main") else { continue };
        assert!(own.contains(&format!("mod {module};")), "{name} is not in main.rs");
    }
}
