//! What an engine reserves is never below the logical bytes at equal layers and formats, unsharded, past every window;
//! each rule of an engine that breaks this is named here.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

use crate::support::{asked, generated};

use asked::{catalogued, report_of};
use kvscope_sizing::engine::{Engine, EngineKind, Figure, Query, Rest, reservation, reserved_bytes};
use kvscope_sizing::{Architecture, LayerClass, Mixer, Settings, StateModel, Tokens, read_config_value};

/// The formats of a comparison.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Formats {
    /// BF16 values everywhere, asked for by name.
    Plain,
    /// What each mixer and the config bring, with recurrent state in one format.
    Own,
}

/// A rule by which an engine keeps less than the model's layers would take in the formats asked for.
struct Less {
    engine: EngineKind,
    formats: Formats,
    holds_for: fn(&LayerClass) -> bool,
    why: &'static str,
}

const LESS: [Less; 5] = [
    Less { formats: Formats::Plain, ..NEWEST_TOKEN_APART },
    Less { formats: Formats::Own, ..NEWEST_TOKEN_APART },
    NEWEST_TOKEN_OF_V4_APART,
    Less { formats: Formats::Plain, ..OUTPUT_RECOMPUTED },
    Less { formats: Formats::Own, ..OUTPUT_RECOMPUTED },
];

const OUTPUT_RECOMPUTED: Less = Less {
    engine: EngineKind::LlamaCpp,
    formats: Formats::Own,
    holds_for: |class| {
        class.mixers.len() > 1 && class.mixers.iter().any(|mixer| matches!(mixer, Mixer::Cross { .. }))
    },
    why: "each step computes K and V of the encoder's output again (`src/models/t5.cpp`)",
};

const NEWEST_TOKEN_APART: Less = Less {
    engine: EngineKind::Transformers,
    formats: Formats::Own,
    holds_for: |class| {
        class.mixers.iter().any(|mixer| matches!(mixer, Mixer::Sliding { .. } | Mixer::Chunked { .. }))
    },
    why: "a window keeps a token less, since each step brings its own (`DynamicSlidingWindowLayer`)",
};

/// In formats of their own the entries of the compressed streams take more than the window's token less.
const NEWEST_TOKEN_OF_V4_APART: Less = Less {
    engine: EngineKind::Transformers,
    formats: Formats::Plain,
    holds_for: |class| class.mixers.iter().any(|mixer| matches!(mixer, Mixer::Compressed(_))),
    why: NEWEST_TOKEN_APART.why,
};

impl Less {
    fn holds(&self, kind: EngineKind, formats: Formats, architecture: &Architecture) -> bool {
        (self.engine, self.formats) == (kind, formats) && architecture.classes().iter().any(self.holds_for)
    }
}

fn settings(formats: Formats) -> Settings {
    let plain: &[_] = match formats {
        Formats::Plain => &[("kv_dtype", "bf16"), ("index_dtype", "bf16")],
        Formats::Own => &[],
    };
    let others = [
        ("state_dtype", "f32"),
        ("conv_dtype", "bf16"),
        ("mla_storage", "latent"),
        ("encoder_tokens", "1500"),
        ("max_num_batched_tokens", "8192"),
    ];
    let mut settings = Settings::default();
    for (name, value) in plain.iter().chain(&others) {
        settings.set(name, value).unwrap();
    }
    settings
}

/// Every part that an engine reserves says how it comes about, at one token and at many.
#[test]
fn every_reserved_part_is_derived() {
    let mut silent = Vec::new();
    let mut parts = 0;
    for entry in kvscope_sizing::catalogue() {
        let architecture = entry.architecture().unwrap();
        for kind in EngineKind::ALL {
            for (n, batch) in [(1, 1), (99_991, 3)] {
                let settings = Settings::default();
                let mut query = Query::new(&architecture, Engine::newest(kind), &settings).unwrap();
                (query.context, query.batch) = (Some(Tokens::new(n)), batch);
                let Ok(found) = reservation(&query) else { continue };
                for part in found.parts.iter().filter(|part| part.reserved.get() > 0) {
                    parts += 1;
                    if part.worked.is_none() {
                        silent.push(format!("{} in {} at {n}: {}", entry.id, kind.name(), part.what));
                    }
                }
            }
        }
    }
    assert!(silent.is_empty(), "{} of {parts}:\n{}", silent.len(), silent.join("\n"));
    assert!(parts > 1500, "{parts}");
}

#[test]
fn engines_reserve_at_least_the_logical_bytes() {
    let mut wrong = Vec::new();
    let mut compared = 0;
    for (id, config) in generated::bases() {
        let architecture = read_config_value(&config).unwrap();
        for formats in [Formats::Plain, Formats::Own] {
            let settings = settings(formats);
            let state = StateModel::new(&architecture, &settings).unwrap();
            for kind in EngineKind::ALL.into_iter().filter(|kind| *kind != EngineKind::Logical) {
                let rule = LESS.iter().find(|rule| rule.holds(kind, formats, &architecture));
                for n in [300_000, 1_000_003] {
                    assert!(state.kinks().iter().all(|kink| kink.get() < n));
                    let mut query = Query::new(&architecture, Engine::newest(kind), &settings).unwrap();
                    query.context = Some(Tokens::new(n));
                    let Ok(reserved) = reserved_bytes(&query) else { continue };
                    let logical = state.resident(Tokens::new(n), 1).unwrap();
                    compared += 1;
                    match (reserved < logical, rule) {
                        (true, None) => wrong
                            .push(format!("{id} in {} ({formats:?}): {reserved} for {logical}", kind.name())),
                        (false, Some(rule)) => {
                            wrong.push(format!("{id} in {}: not less, although {}", kind.name(), rule.why));
                        }
                        _ => {}
                    }
                }
            }
        }
    }
    assert!(compared > 1500, "{compared}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The parts of a report, with what blocks are wider than their pages, make what is reserved: DeepSeek-V4's groups of unequal width,
/// and a state group that a draft layer leaves narrower.
#[test]
fn parts_of_a_report_add_up() {
    let drafts =
        [("context", "3024"), ("batch", "8"), ("num_speculative_tokens", "2"), ("draft_layers", "1")];
    for (id, pairs) in [("deepseek-v4-flash", &drafts[..2]), ("qwen3.5-397b-a17b", &drafts[..])] {
        let found = report_of(&catalogued(id), "vllm@0.33", pairs);
        let of = |name: &str| found.figure(name.parse().unwrap()).and_then(Figure::whole).unwrap();
        let parts =
            ["kv_bytes", "window_bytes", "state_bytes", "index_bytes", "cross_bytes", "unused_width_bytes"];
        assert!(of("unused_width_bytes") > 0, "{id}");
        assert_eq!(parts.map(of).iter().sum::<u64>(), of("resident_bytes"), "{id}");
    }
}

/// Where `n_ctx` has fewer cells than are asked for, that is why less is reserved.
#[test]
fn too_few_cells_are_the_reason() {
    let chosen = asked::settings(&[("context", "100000"), ("n_ctx", "512")]);
    let architecture = catalogued("llama-3.1-8b");
    let query = Query::new(&architecture, "llama.cpp".parse().unwrap(), &chosen).unwrap();
    let Rest::Less(bytes, why) = reservation(&query).unwrap().rest else { panic!("less is reserved") };
    assert_eq!(bytes.get(), (100_000 - 512) * 131_072);
    assert!(why.contains("n_ctx gives a stream 512 cells, where 100,000 are asked for"), "{why}");
}
