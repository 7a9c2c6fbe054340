//! GGUF metadata: the catalogue's versions as llama.cpp's converter writes them, and what broken files get.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

use crate::support::converted;
use crate::support::gguf_file;

use converted::convert;
use gguf_file::{GgufFile, Value};
use kvscope_sizing::{
    Architecture, Error, GgufRead, LayerClass, Settings, StateFormat, StateModel, Tokens, Unknown, catalogue,
    is_gguf, read_gguf,
};

/// Reads as a caller does: a small prefix first, then as much as is asked for. Returns how much was needed, too.
fn read(bytes: &[u8], unknown: Unknown) -> Result<(Architecture, usize), Error> {
    let mut given = 16.min(bytes.len());
    loop {
        match read_gguf(&bytes[..given], Some(bytes.len() as u64), unknown)? {
            GgufRead::Architecture(architecture) => return Ok((*architecture, given)),
            GgufRead::NeedsPrefix { bytes: needed } => {
                assert!(needed > given as u64 && needed <= bytes.len() as u64, "{needed} after {given}");
                given = usize::try_from(needed).unwrap();
            }
        }
    }
}

fn architecture(file: &GgufFile) -> Architecture {
    read(&file.bytes(), Unknown::Warn).unwrap().0
}

fn refusal(file: &GgufFile) -> String {
    line(&read(&file.bytes(), Unknown::Warn).unwrap_err())
}

fn line(error: &Error) -> String {
    let line = error.to_string();
    assert!(!line.contains('\n'), "{line:?} is not one line");
    line
}

fn state(architecture: &Architecture) -> StateModel {
    let settings = Settings { state_dtype: Some(StateFormat::Bf16), ..Settings::default() };
    StateModel::new(architecture, &settings).unwrap()
}

/// A dense model of two layers.
fn dense() -> GgufFile {
    GgufFile::new("llama")
        .with("llama.block_count", Value::U32(2))
        .with("llama.context_length", Value::U32(8192))
        .with("llama.embedding_length", Value::U32(4096))
        .with("llama.attention.head_count", Value::U32(32))
        .with("llama.attention.head_count_kv", Value::U32(8))
}

/// Two ways to one architecture: the config of the catalogue, and the keys that llama.cpp's converter makes of it.
#[test]
fn a_converted_version_has_the_state_of_its_config() {
    let mut classes = std::collections::BTreeSet::new();
    let mut versions = 0;
    for entry in catalogue() {
        let Some(file) = convert(&entry.config) else { continue };
        let from_file = architecture(&file);
        let (got, want) = (state(&from_file), state(&entry.architecture().unwrap()));
        assert_eq!(got.slope(None).unwrap(), want.slope(None).unwrap(), "{}: slope", entry.id);
        assert_eq!(got.fixed(None).unwrap(), want.fixed(None).unwrap(), "{}: fixed part", entry.id);
        for n in [1, 1000, 100_001] {
            let n = Tokens::new(n);
            assert_eq!(got.by_kind(n).unwrap(), want.by_kind(n).unwrap(), "{}: at {n}", entry.id);
            let (got, want) = (got.read_per_step(n, 1).unwrap(), want.read_per_step(n, 1).unwrap());
            assert_eq!(got, want, "{}: read at {n}", entry.id);
        }
        // Without query heads in the config, the converter's stand-in decides between GQA and MQA.
        if entry.config.to_string().contains("num_attention_heads") {
            let names = |architecture: &Architecture| -> Vec<String> {
                architecture.layers().map(LayerClass::name).collect()
            };
            assert_eq!(names(&from_file), names(&entry.architecture().unwrap()), "{}: mixers", entry.id);
        }
        read(&file.bytes(), Unknown::Refuse).unwrap_or_else(|error| panic!("{}: {error}", entry.id));
        classes.insert(from_file.model_type().unwrap().to_owned());
        versions += 1;
    }
    assert!(classes.len() >= 30 && versions >= 70, "{versions} versions of {} classes", classes.len());
}

#[test]
fn tensor_data_and_large_lists_stay_unread() {
    let tokens: Vec<String> = (0..50_000).map(|token| format!("token {token}")).collect();
    let mut file = dense();
    file.set("tokenizer.ggml.tokens", Value::Texts(tokens));
    let mut bytes = file.bytes();
    let metadata = bytes.len();
    bytes.resize(metadata + (16 << 20), 0);
    let (read, given) = read(&bytes, Unknown::Refuse).unwrap();
    assert_eq!(state(&read).slope(None).unwrap().whole(), Some(2 * 2 * 8 * 128 * 2));
    assert!(given <= 2 * metadata, "{given} bytes read of {metadata} bytes of metadata");
}

#[test]
fn every_cut_asks_for_more_or_says_where_the_file_ends() {
    let bytes = dense().with("llama.rope.freq_base", Value::F32(10_000.0)).bytes();
    for cut in 0..bytes.len() {
        let open = read_gguf(&bytes[..cut], None, Unknown::Warn).unwrap();
        assert!(matches!(open, GgufRead::NeedsPrefix { bytes } if bytes > cut as u64), "at {cut}");
        let error = line(&read_gguf(&bytes[..cut], Some(cut as u64), Unknown::Warn).unwrap_err());
        assert!(error.contains("cut short") && error.contains("byte "), "at {cut}: {error}");
    }
    assert!(is_gguf(&bytes) && !is_gguf(&bytes[1..]) && !is_gguf(b""));
}

#[test]
fn other_versions_and_byte_orders_are_refused_with_a_sentence() {
    for (version, word) in
        [(1_u32, "version 1"), (4, "version 4"), (0, "version 0"), (3_u32.swap_bytes(), "big-endian")]
    {
        let mut bytes = dense().bytes();
        bytes[4..8].copy_from_slice(&version.to_le_bytes());
        let error = line(&read(&bytes, Unknown::Warn).unwrap_err());
        assert!(error.contains(word) && error.contains("byte 4"), "{error}");
    }
    let mut second = dense().bytes();
    second[4..8].copy_from_slice(&2_u32.to_le_bytes());
    assert!(read(&second, Unknown::Warn).is_ok());
    let error = line(&read(b"GGML\x03\0\0\0", Unknown::Warn).unwrap_err());
    assert!(error.contains("byte 0") && error.contains("not a GGUF"), "{error}");
}

/// A value of `kind` and its bytes behind the keys of [`dense`].
fn with_raw(kind: u32, value: &[u8]) -> Vec<u8> {
    let mut bytes = dense().with("llama.odd", Value::Bool(true)).bytes();
    bytes.truncate(bytes.len() - 5);
    bytes.extend(kind.to_le_bytes());
    bytes.extend(value);
    bytes
}

#[test]
fn lengths_that_overflow_and_nested_lists_are_refused() {
    let list = |kind: u32, count: u64| [kind.to_le_bytes().as_slice(), &count.to_le_bytes()].concat();
    let rows = [
        (with_raw(8, &u64::MAX.to_le_bytes()), "beyond any file"),
        (with_raw(8, &(1_u64 << 40).to_le_bytes()), "cut short"),
        (with_raw(9, &list(4, u64::MAX)), "beyond any file"),
        (with_raw(9, &list(4, 1 << 40)), "cut short"),
        (with_raw(9, &list(8, u64::MAX)), "beyond any file"),
        (with_raw(9, &list(8, 1 << 32)), "cut short"),
        (with_raw(9, &list(9, 1)), "list of lists"),
        (with_raw(9, &list(77, 1)), "type 77"),
        (with_raw(77, &[]), "type 77"),
        (with_raw(7, &[2]), "neither false (0) nor true (1)"),
    ];
    for (bytes, word) in rows {
        let error = line(&read(&bytes, Unknown::Warn).unwrap_err());
        assert!(error.contains(word) && error.contains("llama.odd (byte "), "{word}: {error}");
        // A pipe has no known length: then the reader's own limit holds.
        if let Ok(GgufRead::NeedsPrefix { bytes: needed }) = read_gguf(&bytes, None, Unknown::Warn) {
            panic!("{word}: asks for {needed} bytes of a pipe");
        }
    }
    let mut many = dense().bytes();
    many[16..24].copy_from_slice(&u64::MAX.to_le_bytes());
    assert!(line(&read(&many, Unknown::Warn).unwrap_err()).contains("keys"));
    let mut twice = dense();
    twice.keys.push(("llama.block_count".to_owned(), Value::U32(3)));
    assert!(refusal(&twice).contains("llama.block_count"));
}

#[test]
fn the_offending_key_is_named() {
    let rows: [(&str, Value, &str); 18] = [
        ("llama.block_count", Value::U32(0), "): 0, and every figure"),
        ("llama.block_count", Value::U32(20_000), "10000"),
        ("llama.block_count", Value::I32(-2), "-2"),
        ("llama.block_count", Value::Text("two".to_owned()), "byte "),
        ("llama.nextn_predict_layers", Value::U32(2), "leave none"),
        ("llama.attention.head_count_kv", Value::U32s(vec![8, 8, 8]), "3 entries for 2 layers"),
        ("llama.attention.head_count_kv", Value::U32s(vec![8]), "1 entry for 2 layers"),
        ("llama.attention.head_count_kv", Value::U32(64), "only 32 query heads"),
        ("llama.attention.head_count_kv", Value::F32(8.5), "whole number"),
        ("llama.attention.head_count", Value::U32(0), "no heads"),
        // A config with 0 heads is refused too; llama.cpp compares the types of keys, and a flag is no number.
        ("llama.attention.head_count_kv", Value::U32(0), "at least one"),
        ("llama.attention.head_count_kv", Value::Bool(true), "whole number"),
        ("llama.attention.head_count_kv", Value::Bools(vec![true, true]), "whole number"),
        ("llama.attention.key_length", Value::Bool(true), "whole number"),
        ("llama.attention.key_length", Value::U32s(vec![128, 128]), "one whole number"),
        ("llama.attention.sliding_window_pattern", Value::Bools(vec![true, false]), "layer 0 has a window"),
        ("llama.wkv.head_size", Value::U32(64), "RWKV"),
        ("llama.attention.shared_kv_layers", Value::U32(2), "none is left"),
    ];
    for (key, value, word) in rows {
        let mut file = dense();
        file.set(key, value.clone());
        let error = refusal(&file);
        let stem = key.trim_end_matches("_pattern");
        assert!(error.contains(stem) && error.contains(word), "{key} {value:?}: {error}");
    }
    let missing = refusal(&GgufFile::default().with("llama.block_count", Value::U32(2)));
    assert!(missing.starts_with("general.architecture"), "{missing}");
    let adapter = dense().with("general.type", Value::Text("adapter".to_owned()));
    assert!(refusal(&adapter).contains("adapter"));
    let projector = GgufFile::default()
        .with("general.architecture", Value::Text("clip".to_owned()))
        .with("clip.has_vision_encoder", Value::Bool(true));
    let told = refusal(&projector);
    assert!(told.starts_with("general.architecture: \"clip\" is a projector"), "{told}");
    assert!(told.contains("the GGUF file of the language model"), "{told}");
    let part = dense().with("split.no", Value::U32(1)).with("split.count", Value::U32(3));
    assert!(refusal(&part).contains("part 2 of 3"));
}

/// The same words as for a config.
#[test]
fn heads_that_do_not_divide_are_told() {
    let mut file = dense();
    file.set("llama.attention.head_count_kv", Value::U32(5));
    let told: Vec<String> = architecture(&file).warnings().iter().map(ToString::to_string).collect();
    assert!(
        told.contains(&"llama.attention.head_count_kv: 5 K/V heads do not divide 32 query heads".to_owned()),
        "{told:?}"
    );
}

#[test]
fn an_unknown_key_that_speaks_of_state_is_a_doubt_or_an_error() {
    let odd = dense().with("llama.attention.memory_heads", Value::U32(4));
    let warnings: Vec<String> = architecture(&odd).warnings().iter().map(ToString::to_string).collect();
    assert!(warnings.iter().any(|text| text.starts_with("llama.attention.memory_heads")), "{warnings:?}");
    let error = line(&read(&odd.bytes(), Unknown::Refuse).unwrap_err());
    assert!(error.starts_with("llama.attention.memory_heads"), "{error}");
    let harmless = dense().with("llama.favourite_colour", Value::U32(4));
    assert!(architecture(&harmless).warnings().is_empty());
}

/// llama.cpp's `hrm_text` runs its layers in cycles (`hrm.h_cycles`), of which no key of the other classes tells.
#[test]
fn a_class_that_no_rule_knows_is_a_doubt_or_an_error() {
    let new = GgufFile::new("hrm_text")
        .with("hrm_text.block_count", Value::U32(2))
        .with("hrm_text.embedding_length", Value::U32(512))
        .with("hrm_text.attention.head_count", Value::U32(8));
    let told: Vec<String> = architecture(&new).warnings().iter().map(ToString::to_string).collect();
    assert!(told.iter().any(|text| text.starts_with("general.architecture: no rule knows")), "{told:?}");
    let error = line(&read(&new.bytes(), Unknown::Refuse).unwrap_err());
    assert!(error.starts_with("general.architecture") && error.contains("\"hrm_text\""), "{error}");
}

/// gguf-parser issues 31 and 35: an estimate of zero for LFM2, whose head counts are a list with zeros.
#[test]
fn zero_heads_are_convolutions_in_lfm2() {
    let file = GgufFile::new("lfm2")
        .with("lfm2.block_count", Value::U32(3))
        .with("lfm2.embedding_length", Value::U32(2048))
        .with("lfm2.attention.head_count", Value::U32(32))
        .with("lfm2.attention.head_count_kv", Value::U32s(vec![0, 8, 0]))
        .with("lfm2.shortconv.l_cache", Value::U32(3));
    let state = state(&architecture(&file));
    assert_eq!(state.slope(None).unwrap().whole(), Some(2 * 8 * 64 * 2));
    assert_eq!(state.fixed(None).unwrap().get(), 2 * (3 - 1) * 2048 * 2);
}

/// Gemma 3n E2B: windows of 512 on four of five layers, and only the first 20 of 30 own a cache.
#[test]
fn gemma_3n_shares_the_caches_of_its_last_layers() {
    let file = GgufFile::new("gemma3n")
        .with("gemma3n.block_count", Value::U32(30))
        .with("gemma3n.attention.head_count", Value::U32(8))
        .with("gemma3n.attention.head_count_kv", Value::U32(2))
        .with("gemma3n.attention.key_length", Value::U32(256))
        .with("gemma3n.attention.value_length", Value::U32(256))
        .with("gemma3n.attention.sliding_window", Value::U32(512));
    // Published files state the count of the others, as a float.
    let stated = file.clone().with("gemma3n.attention.shared_kv_layers", Value::F32(10.0));
    for file in [file.clone(), stated] {
        let state = state(&architecture(&file));
        assert_eq!(state.slope(None).unwrap().whole(), Some(4 * 2 * 2 * 256 * 2));
        assert_eq!(state.fixed(None).unwrap().get(), 16 * 512 * 2 * 2 * 256 * 2);
    }
    let error = refusal(&file.with("gemma3n.attention.shared_kv_layers", Value::F32(10.5)));
    assert!(error.contains("expected a whole number") && error.contains("10.5"), "{error}");
}

/// The dtype of state that a GGUF leaves open is f32 where nothing is set, which is what llama.cpp keeps.
#[test]
fn recurrent_state_is_f32_where_nothing_is_said() {
    let file = GgufFile::new("mamba2")
        .with("mamba2.block_count", Value::U32(2))
        .with("mamba2.embedding_length", Value::U32(1024))
        .with("mamba2.attention.head_count", Value::U32(0))
        .with("mamba2.ssm.conv_kernel", Value::U32(4))
        .with("mamba2.ssm.state_size", Value::U32(128))
        .with("mamba2.ssm.inner_size", Value::U32(2048))
        .with("mamba2.ssm.time_step_rank", Value::U32(32))
        .with("mamba2.ssm.group_count", Value::U32(1));
    let architecture = architecture(&file);
    let state = StateModel::new(&architecture, &Settings::default()).unwrap();
    assert_eq!(state.fixed(None).unwrap().get(), 2 * (128 * 2048 * 4 + 3 * (2048 + 2 * 128) * 2));
    assert!(architecture.warnings().iter().any(|warning| warning.field == "state_dtype"));
}

#[test]
fn an_encoder_keeps_nothing() {
    let mut file = dense();
    file.set("llama.attention.causal", Value::Bool(false));
    assert_eq!(state(&architecture(&file)).slope(None).unwrap().whole(), Some(0));
}

/// `general.name` is words to show; it is cut to a line, and absent where there are none.
#[test]
fn a_files_name_for_its_model_is_shown() {
    let named = |name: &str| architecture(&dense().with("general.name", Value::Text(name.to_owned())));
    assert_eq!(named("Qwen3 8B\n Instruct\u{7}").name(), Some("Qwen3 8B Instruct"));
    assert_eq!(named(" \n").name(), None);
    assert_eq!(architecture(&dense()).name(), None);
    assert_eq!(named(&"é".repeat(1000)).name().unwrap().chars().count(), 80);
}

/// Four layers of Qwen3.5, of which the last has full attention.
fn qwen35() -> GgufFile {
    GgufFile::new("qwen35")
        .with("qwen35.block_count", Value::U32(4))
        .with("qwen35.embedding_length", Value::U32(1024))
        .with("qwen35.attention.head_count", Value::U32(8))
        .with("qwen35.attention.head_count_kv", Value::U32(2))
        .with("qwen35.attention.key_length", Value::U32(256))
        .with("qwen35.attention.value_length", Value::U32(256))
        .with("qwen35.full_attention_interval", Value::U32(4))
        .with("qwen35.ssm.conv_kernel", Value::U32(4))
        .with("qwen35.ssm.state_size", Value::U32(128))
        .with("qwen35.ssm.inner_size", Value::U32(2048))
        .with("qwen35.ssm.time_step_rank", Value::U32(16))
        .with("qwen35.ssm.group_count", Value::U32(16))
}

/// llama.cpp divides by the interval (`(i + 1) % full_attn_interval != 0` is a recurrent layer, `src/models/qwen35.cpp`), and the
/// layers that are not recurrent have K and V: 2 × 2 heads × 256 values × 2 B in one of four.
#[test]
fn an_interval_and_the_heads_of_its_layers_must_agree() {
    let interval = "qwen35.full_attention_interval";
    let heads = "qwen35.attention.head_count_kv";
    let slope = |file: &GgufFile| state(&architecture(file)).slope(None).unwrap().whole();
    let mut file = qwen35();
    assert_eq!(slope(&file), Some(2 * 2 * 256 * 2));
    file.set(heads, Value::U32s(vec![0, 0, 0, 2]));
    assert_eq!(slope(&file), Some(2 * 2 * 256 * 2));
    file.set(heads, Value::U32s(vec![2, 2, 2, 0]));
    let error = refusal(&file);
    assert!(error.starts_with("qwen35.attention.head_count_kv[3]: 0, but layer 3 has attention"), "{error}");
    let mut zero = qwen35();
    zero.set(interval, Value::U32(0));
    let error = refusal(&zero);
    assert!(error.starts_with("qwen35.full_attention_interval: 0;"), "{error}");
}

/// `create_memory` in llama.cpp's `src/llama-model.cpp` returns no memory for these classes, whatever the file says; the
/// graphs of the last two attend without a cache.
#[test]
fn classes_without_a_cache_keep_nothing() {
    for class in [
        "bert",
        "nomic-bert",
        "nomic-bert-moe",
        "jina-bert-v2",
        "jina-bert-v3",
        "neo-bert",
        "modern-bert",
        "gemma-embedding",
        "dream",
        "llada",
        "llada-moe",
        "rnd1",
        "eurobert",
        "t5encoder",
    ] {
        let file = GgufFile::new(class)
            .with(&format!("{class}.block_count"), Value::U32(2))
            .with(&format!("{class}.embedding_length"), Value::U32(512))
            .with(&format!("{class}.attention.head_count"), Value::U32(8))
            .with(&format!("{class}.attention.sliding_window"), Value::U32(128))
            .with(&format!("{class}.attention.relative_buckets_count"), Value::U32(32));
        let (read, _) = read(&file.bytes(), Unknown::Refuse).unwrap();
        let kept = state(&read);
        assert_eq!(
            (kept.slope(None).unwrap().whole(), kept.fixed(None).unwrap().get()),
            (Some(0), 0),
            "{class}"
        );
        assert!(read.warnings().iter().any(|told| told.message.contains(class)), "{class}");
    }
}

/// llama.cpp of October 2026 sets Gemma 2's window to 4096 and Llama 4's chunks to 8192 where it reads their files, and the full
/// layers of gpt-oss to every second (`load_arch_hparams` of each class).
#[test]
fn windows_that_llama_cpp_sets_by_class_are_told() {
    let file = |class: &str| {
        GgufFile::new(class)
            .with(&format!("{class}.block_count"), Value::U32(4))
            .with(&format!("{class}.embedding_length"), Value::U32(512))
            .with(&format!("{class}.attention.head_count"), Value::U32(8))
            .with(&format!("{class}.attention.head_count_kv"), Value::U32(8))
    };
    let told = |file: &GgufFile| {
        let read = architecture(file);
        read.warnings().iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    };
    let gemma = told(&file("gemma2"));
    let window =
        "gemma2.attention.sliding_window: absent; 4096, as llama.cpp sets it for the class gemma2, is taken";
    assert!(gemma.contains(window), "{gemma}");
    let which = "gemma2.attention.sliding_window_pattern: absent; the last of every 2 layers has no window";
    assert!(gemma.contains(which), "{gemma}");
    let llama = told(&file("llama4"));
    assert!(llama.contains("llama4.attention.sliding_window: absent; 8192, as llama.cpp"), "{llama}");
    let oss = file("gpt-oss").with("gpt-oss.attention.sliding_window", Value::U32(128));
    let text = told(&oss);
    assert!(
        text.contains("the last of every 2 layers") && !text.contains("sliding_window: absent"),
        "{text}"
    );
    let whole = oss.with("gpt-oss.attention.sliding_window_pattern", Value::U32(2));
    assert!(!told(&whole).contains("sliding_window"), "{}", told(&whole));
}

/// A context beyond the longest one is told under the key that says which that is.
#[test]
fn a_context_that_is_too_long_names_the_files_own_key() {
    let settings = Settings::default();
    let size = state(&architecture(&dense())).size("own", Some(Tokens::new(10_000)), 1, &settings).unwrap();
    let told = size.warnings.iter().find(|told| told.message.contains("beyond the 8Ki")).unwrap();
    assert_eq!(told.field, "llama.context_length");
}
