//! What crosses crates: the command line, and the page in a browser. One program, since each links for itself.

mod axe_page;
mod chart;
mod claims_and_log_page;
mod command_line;
mod edit_page;
mod emulated_gpu;
mod exports_page;
mod find_page;
mod growth_page;
mod jobs_page;
mod levels_page;
mod opened_page;
mod own_configs;
mod own_link_page;
mod page;
mod plan_reuse;
mod plans;
mod plans_page;
mod random_states_page;
mod ranks_page;
mod room_page;
mod run_exports;
mod screenshots;
mod settings_page;
mod truth;
mod versions_page;

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
