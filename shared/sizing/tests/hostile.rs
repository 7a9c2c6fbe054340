//! Values of the right kind and of a size that no model has, in every field of every kind of config.

use kvscope_sizing::engine::{Query, report};
use kvscope_sizing::{CatalogueEntry, Settings, catalogue, find_entry, read_config};

use crate::support::{checks, hostile};

/// One version of each set of mixers.
fn kinds() -> Vec<&'static CatalogueEntry> {
    let mut seen: Vec<Vec<String>> = Vec::new();
    let mut kinds = Vec::new();
    for entry in catalogue() {
        let mixers = entry.architecture().unwrap().mixer_names();
        if !seen.contains(&mixers) {
            seen.push(mixers);
            kinds.push(entry);
        }
    }
    kinds
}

/// Whatever is read is planned or refused.
fn plan(config: &str) {
    let Ok(architecture) = read_config(config) else { return };
    let mut settings = Settings::default();
    settings.set("context", "100000").unwrap();
    for engine in ["vllm", "sglang", "llama.cpp", "trtllm", "transformers"] {
        let query = Query::new(&architecture, engine.parse().unwrap(), &settings);
        if let Ok(query) = query {
            let _ = report(&query);
        }
    }
}

#[test]
fn every_value_of_every_kind_of_config_may_be_hostile() {
    let kinds = kinds();
    assert!(kinds.len() > 15, "{}", kinds.len());
    for entry in kinds {
        for config in hostile::variants(&entry.config) {
            checks::config(config.as_bytes());
            plan(&config);
        }
    }
}

#[test]
fn patterns_and_names_of_modules_may_be_many_and_long() {
    for id in ["qwen3-8b", "deepseek-v3.2"] {
        for config in hostile::quantised(&find_entry(id).unwrap().config) {
            checks::config(config.as_bytes());
        }
    }
}
