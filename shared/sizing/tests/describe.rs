//! The three layers of metadata: the document fits its schema for every version, and its figures are the right ones.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

use kvscope_sizing::describe::{DecodeReads, Description, Needs, RanksHold, ReadRule, SCHEMA, describe};
use kvscope_sizing::hardware::find_gpu;
use kvscope_sizing::plan::{Moving, Subject, label};
use kvscope_sizing::{ComponentKind, Settings, StateModel, Tokens, catalogue, find_entry};
use serde_json::{Value, json};

fn described(id: &str, settings: &[(&str, &str)]) -> Description {
    let mut chosen = Settings::default();
    for (name, value) in settings {
        chosen.set(name, value).unwrap();
    }
    describe(id, &find_entry(id).unwrap().architecture().unwrap(), &chosen).unwrap()
}

fn index_of(document: &Description, kind: ComponentKind) -> usize {
    document.lifecycle.iter().position(|row| row.kind == kind).unwrap_or_else(|| panic!("no {kind:?}"))
}

fn schema() -> jsonschema::Validator {
    jsonschema::validator_for(&serde_json::from_str(SCHEMA).unwrap()).unwrap()
}

#[test]
fn every_version_fits_the_schema() {
    let schema = schema();
    let formats: [&[(&str, &str)]; 3] =
        [&[], &[("kv_dtype", "fp8"), ("index_dtype", "bf16")], &[("kv_dtype", "q8_0")]];
    for entry in catalogue() {
        for settings in formats {
            let document = serde_json::to_value(described(&entry.id, settings)).unwrap();
            let errors: Vec<String> = schema
                .iter_errors(&document)
                .map(|error| format!("{}: {error}", error.instance_path()))
                .collect();
            assert!(errors.is_empty(), "{} {settings:?}: {errors:?}", entry.id);
        }
    }
}

/// The later passes of a loop name the layer whose weights they run with: layer 5 of 4 is the second pass of layer 1.
#[test]
fn a_loop_fits_the_schema() {
    let config = r#"{"num_hidden_layers": 4, "num_attention_heads": 8, "num_key_value_heads": 8, "head_dim": 64,
        "num_loops": 2, "dtype": "bfloat16"}"#;
    let architecture = kvscope_sizing::read_config(config).unwrap();
    let document =
        serde_json::to_value(describe("looped", &architecture, &Settings::default()).unwrap()).unwrap();
    assert_eq!(schema().iter_errors(&document).count(), 0);
    let layers = document["architecture"]["layers"].as_array().unwrap();
    assert_eq!((layers.len(), layers[1].get("weights_of")), (8, None));
    assert_eq!(layers[5]["weights_of"], 1);
}

/// With labels too, of every lifecycle, on a GPU and without.
#[test]
fn labels_fit_the_schema() {
    let schema = schema();
    for entry in catalogue() {
        let architecture = entry.architecture().unwrap();
        let subject = Subject::of(entry, &architecture);
        let settings = Settings { encoder_tokens: Some(1500), ..Settings::default() };
        let mut document = describe(&entry.id, &architecture, &settings).unwrap();
        for hardware in [None, Some((find_gpu("h200").unwrap(), 8)), Some((find_gpu("m4-max").unwrap(), 1))] {
            let plan = label(&subject, &settings, &[Tokens::new(1000)], hardware, Moving::Nothing).unwrap();
            document.service.labels = Some(plan.labels);
            let value = serde_json::to_value(&document).unwrap();
            let errors: Vec<String> = schema.iter_errors(&value).map(|error| error.to_string()).collect();
            assert!(errors.is_empty(), "{}: {errors:?}", entry.id);
        }
    }
}

/// A schema that takes anything would prove nothing.
#[test]
fn the_schema_refuses_what_the_document_never_says() {
    let schema = schema();
    let good = serde_json::to_value(described("deepseek-v4-pro", &[])).unwrap();
    assert!(schema.is_valid(&good));
    let spoilt: [(&str, Value); 8] = [
        ("/schema", json!("kvscope-describe-2")),
        ("/lifecycle/0/growth", json!("quadratic")),
        ("/lifecycle/0/entry_bytes", json!(0)),
        ("/lifecycle/0/prefix_hit/needs", json!("luck")),
        ("/lifecycle/0/decode_reads/entries", json!("some")),
        ("/lifecycle/0/decode_reads", json!(null)),
        ("/service/components/0/tensor_parallel/ranks_hold", json!(true)),
        ("/service/components/0/payload/parts", json!([])),
    ];
    for (place, value) in spoilt {
        let mut document = good.clone();
        *document.pointer_mut(place).unwrap() = value;
        assert!(!schema.is_valid(&document), "{place}");
    }
    let mut more = good.clone();
    more["service"]["restore_seconds"] = json!(1.5);
    assert!(!schema.is_valid(&more), "a field that the schema does not know");
}

/// Layers of the document add up to what the state model holds, and parts of a payload to the payload.
#[test]
fn the_document_agrees_with_the_sizes() {
    let n = 1_000_003;
    for entry in catalogue() {
        for settings in [&[][..], &[("kv_dtype", "fp8_per_token_head")]] {
            let document = described(&entry.id, settings);
            let mut total: u64 = 0;
            for row in &document.lifecycle {
                let entries = match (row.saturates_at, row.tokens_per_entry) {
                    (_, None) => 1,
                    (Some(cap), Some(_)) => cap.get().min(n),
                    (None, Some(tokens)) => n / tokens,
                };
                total += entries * row.entry_bytes.get() * row.layers.len() as u64;
            }
            let mut chosen = Settings::default();
            for (name, value) in settings {
                chosen.set(name, value).unwrap();
            }
            let state = StateModel::new(&entry.architecture().unwrap(), &chosen).unwrap();
            assert_eq!(total, state.resident(Tokens::new(n), 1).unwrap().get(), "{}", entry.id);

            let listed: usize = document.architecture.layers.iter().map(|layer| layer.components.len()).sum();
            assert_eq!(listed, document.lifecycle.iter().map(|row| row.layers.len()).sum::<usize>());
            for (row, service) in document.lifecycle.iter().zip(&document.service.components) {
                let parts: u64 = service.payload.parts.iter().map(|part| part.bytes.get()).sum();
                assert_eq!(parts, service.payload.bytes.get(), "{} {:?}", entry.id, row.kind);
                assert_eq!(service.payload.bytes, row.entry_bytes, "{} {:?}", entry.id, row.kind);
            }
        }
    }
}

/// What a step reads follows from the document alone.
#[test]
fn the_document_says_what_a_step_reads() {
    for n in [100, 5_000, 1_000_003_u64] {
        for entry in catalogue() {
            let document = described(&entry.id, &[]);
            let mut total: u64 = 0;
            for row in &document.lifecycle {
                let entries = match (row.saturates_at, row.tokens_per_entry) {
                    (_, None) => 1,
                    (Some(cap), Some(_)) => cap.get().min(n),
                    (None, Some(tokens)) => n / tokens,
                };
                let read = |reads: DecodeReads| match (reads.entries, row.prefix_hit.tokens) {
                    (ReadRule::CurrentChunk, Some(chunk)) => (n - 1) % chunk.get() + 1,
                    _ => reads.at_most.map_or(entries, |most| most.min(entries)),
                };
                total += read(row.decode_reads) * row.entry_bytes.get() * row.layers.len() as u64;
                for other in &row.other_readers {
                    total += read(other.decode_reads) * row.entry_bytes.get() * other.layers;
                }
            }
            let state = StateModel::new(&entry.architecture().unwrap(), &Settings::default()).unwrap();
            assert_eq!(total, state.read_per_step(Tokens::new(n), 1).unwrap().get(), "{} at {n}", entry.id);
        }
    }
    // Published configs: index_topk 2,048 (DeepSeek-V3.2) and 512 (V4-Flash); the keys are all read.
    for (id, chosen, most) in [
        ("deepseek-v3.2", ComponentKind::MlaLatent, 2048),
        ("deepseek-v4-flash", ComponentKind::CompressedKv, 512),
    ] {
        let document = described(id, &[]);
        let reads = |kind| document.lifecycle[index_of(&document, kind)].decode_reads;
        assert!(
            document.lifecycle.iter().any(|row| row.kind == chosen
                && row.decode_reads == DecodeReads { entries: ReadRule::Chosen, at_most: Some(most) }),
            "{id}"
        );
        let every = DecodeReads { entries: ReadRule::Every, at_most: None };
        assert_eq!(reads(ComponentKind::IndexKey), every, "{id}");
    }
}

/// DeepSeek-V4 report, cache layout: blocks of lcm(4, 128) = 128 tokens hold 32 CSA entries and one HCA entry of 584
/// bytes (448 FP8, 64 BF16, 7 scales and a byte of padding), and 32 index keys of 68; every rank holds all of them.
#[test]
fn deepseek_v4_pro() {
    let document = described("deepseek-v4-pro", &[]);
    assert_eq!(document.service.block.tokens.get(), 128);
    assert_eq!(document.service.block.bytes.get(), 30 * 32 * (584 + 68) + 31 * 584);
    assert_eq!(document.service.reuse.granularity_tokens.unwrap().get(), 128);
    assert_eq!(
        document.service.reuse.needs,
        [Needs::CompleteGroup, Needs::WholeWindow, Needs::PreviousGroup]
    );
    let window = index_of(&document, ComponentKind::WindowKv);
    assert_eq!(document.lifecycle[window].saturates_at, Some(Tokens::new(128)));
    assert_eq!(document.lifecycle[window].layers.len(), 61);
    let parts: Vec<_> = document.service.components[window]
        .payload
        .parts
        .iter()
        .map(|part| (part.name, part.values, part.bytes.get()))
        .collect();
    assert_eq!(parts, [("values", 448, 448), ("rope", 64, 128), ("scales", 7, 7), ("padding", 0, 1)]);
    for service in &document.service.components {
        assert_eq!(service.tensor_parallel.ranks_hold, RanksHold::Same);
    }
    // An entry of CSA is made of 8 rows, those of its own 4 tokens and of the 4 before; one of HCA of its own 128.
    let rows: Vec<_> = document
        .lifecycle
        .iter()
        .filter(|row| row.kind == ComponentKind::CompressorState)
        .map(|row| {
            let tokens = row.prefix_hit.tokens.map(Tokens::get);
            (
                row.layers.len(),
                row.prefix_hit.needs,
                tokens,
                document.service.components[row.component].persisted,
            )
        })
        .collect();
    assert!(rows.contains(&(30, Needs::PreviousGroup, Some(4), "nothing")), "{rows:?}");
    assert!(rows.contains(&(31, Needs::Nothing, None, "nothing")), "{rows:?}");
    assert_eq!(rows.len(), 2, "{rows:?}");
}

/// 15 layers keep blocks of 2 K/V heads, 45 a state of 64 heads that is of use only where it was saved.
#[test]
fn qwen3_5() {
    let document = described("qwen3.5-397b-a17b", &[]);
    let kv = index_of(&document, ComponentKind::Kv);
    let state = index_of(&document, ComponentKind::RecurrentState);
    assert_eq!(document.architecture.layers[3].components, [kv]);
    assert_eq!(document.lifecycle[kv].layers[..3], [3, 7, 11]);
    assert_eq!(document.lifecycle[kv].prefix_hit.needs, Needs::AnyBlock);
    assert_eq!(document.service.components[kv].block_bytes.unwrap().get(), 16 * 30_720);
    assert_eq!(document.service.components[kv].tensor_parallel.parts, Some(2));
    assert_eq!(document.lifecycle[state].prefix_hit.needs, Needs::ExactCheckpoint);
    assert_eq!(document.service.components[state].tensor_parallel.parts, Some(64));
    assert_eq!(document.service.components[state].checkpoint_bytes.unwrap().get(), 45 * 64 * 128 * 128 * 4);
    assert_eq!(document.service.reuse.granularity_tokens, None, "only where a state was saved");

    let saved = described("qwen3.5-397b-a17b", &[("checkpoint_interval", "528"), ("block_size", "16")]);
    assert_eq!(saved.service.reuse.granularity_tokens.unwrap().get(), 528);
}

/// A scaled DSA record: 512 FP8 values, 4 scales of 4 bytes, 64 BF16 rotary values (FlashMLA README).
#[test]
fn a_latent_is_held_whole_by_every_rank() {
    let document = described("deepseek-v3.2", &[("kv_dtype", "fp8_ds_mla"), ("block_size", "64")]);
    let latent = index_of(&document, ComponentKind::MlaLatent);
    let service = &document.service.components[latent];
    let parts: Vec<_> = service.payload.parts.iter().map(|part| (part.name, part.bytes.get())).collect();
    assert_eq!(parts, [("latent", 512), ("scales", 16), ("rope", 128)]);
    assert_eq!(service.tensor_parallel.ranks_hold, RanksHold::Same);
    assert_eq!(service.block_bytes_per_layer.unwrap().get(), 64 * 656);
    assert_eq!(document.service.block.bytes.get(), 64 * 61 * (656 + 132));
}

#[test]
fn a_block_that_cuts_a_compression_group_is_refused() {
    let architecture = find_entry("deepseek-v4-pro").unwrap().architecture().unwrap();
    let settings = Settings { block_size: Some(64), ..Settings::default() };
    let error = describe("x", &architecture, &settings).unwrap_err();
    assert_eq!(error.to_string(), "block_size: 64 tokens cut a compression group; give a multiple of 128");
}

/// `LongcatFlashConfig`: two attention blocks in a layer, each with a latent of 512 + 64 values of 2 bytes. Every layer
/// stands once in each component, and all of them together are all bytes.
#[test]
fn a_layer_with_two_attention_blocks_stands_once_in_each_component() {
    let config = r#"{"model_type": "longcat_flash", "num_layers": 4, "num_attention_heads": 64, "hidden_size": 6144,
        "kv_lora_rank": 512, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128, "v_head_dim": 128, "dtype": "bfloat16"}"#;
    let architecture = kvscope_sizing::read_config(config).unwrap();
    let description = describe("longcat", &architecture, &Settings::default()).unwrap();
    let document = serde_json::to_value(&description).unwrap();
    assert_eq!(schema().iter_errors(&document).count(), 0);
    assert_eq!(document["architecture"]["layers"][1]["components"], json!([0, 1]));
    let rows: Vec<(&[usize], u64)> =
        description.lifecycle.iter().map(|row| (row.layers.as_slice(), row.entry_bytes.get())).collect();
    let row: (&[usize], u64) = (&[0, 1, 2, 3], 576 * 2);
    assert_eq!(rows, [row, row]);
}
