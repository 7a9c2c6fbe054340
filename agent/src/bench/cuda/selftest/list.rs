//! What the selftest goes through: every kernel at least once, and shapes that are no whole tile or page.

use kvscope_sizing::{IndexFormat, KvFormat, StateFormat};

use super::SelfCase;
use crate::bench::shape::{
    BranchShape, CompressedShape, ConvShape, DsaShape, FormShape, GqaShape, IndexShape, MlaShape,
    RecurrenceShape, RecurrentShape, RowsShape, StoreOwner, TokenRange,
};

pub(super) fn cases() -> Vec<SelfCase> {
    let mut cases = attention();
    cases.extend(latents());
    cases.extend(compressed());
    cases.extend(recurrences());
    cases
}

fn case(what: String, shape: FormShape, context: usize, requests: usize) -> SelfCase {
    SelfCase { what, shape, context, requests }
}

fn attention() -> Vec<SelfCase> {
    let formats = [KvFormat::Bf16, KvFormat::Fp8, KvFormat::Fp8PerTokenHead, KvFormat::Int8PerTokenHead];
    let widths = [(64, 64), (128, 128), (192, 128), (256, 256), (512, 512)];
    let gqa = |query_heads, kv_heads, (k_width, v_width), format, range| {
        FormShape::Gqa(GqaShape {
            query_heads,
            kv_heads,
            k_width,
            v_width,
            range,
            k_format: format,
            v_format: format,
        })
    };
    let mut cases = Vec::new();
    for format in formats {
        for width in widths {
            let what = format!("gqa, keys of {} and values of {} in {format}", width.0, width.1);
            cases.push(case(what, gqa(8, 2, width, format, TokenRange::All), 167, 2));
        }
    }
    let plain = |query_heads, kv_heads, range| gqa(query_heads, kv_heads, (128, 128), KvFormat::Bf16, range);
    for (what, query_heads, kv_heads) in [("mha", 4, 4), ("mqa, more heads than a tile", 40, 1)] {
        cases.push(case(what.to_owned(), plain(query_heads, kv_heads, TokenRange::All), 77, 1));
    }
    cases.push(case("swa, a window of 100".to_owned(), plain(8, 2, TokenRange::Window(100)), 300, 2));
    cases.push(case("chunked, a chunk of 64".to_owned(), plain(8, 2, TokenRange::Chunk(64)), 300, 1));
    cases.push(case("cross, 50 encoder tokens".to_owned(), plain(8, 2, TokenRange::Encoder(50)), 300, 1));
    cases.push(case("gqa, one token".to_owned(), plain(8, 2, TokenRange::All), 1, 1));
    cases
}

fn mla(query_heads: u64, format: KvFormat) -> MlaShape {
    MlaShape { query_heads, latent: 512, rope: 64, format }
}

fn index(query_heads: u64, pool: u64, format: IndexFormat) -> IndexShape {
    IndexShape { query_heads, key_heads: 1, width: 128, pool, format }
}

fn latents() -> Vec<SelfCase> {
    let mut cases = Vec::new();
    for format in [KvFormat::Bf16, KvFormat::Fp8DsMla] {
        for heads in [16, 64] {
            let what = format!("mla, {heads} heads over {format}");
            cases.push(case(what, FormShape::Mla(mla(heads, format)), 199, 2));
        }
    }
    let dsa = |heads, format, keys: Option<IndexFormat>| {
        FormShape::Dsa(DsaShape {
            attention: mla(heads, format),
            index: keys.map(|keys| index(32, 1, keys)),
            top_k: Some(70),
        })
    };
    for (format, keys) in [(KvFormat::Fp8DsMla, IndexFormat::Fp8), (KvFormat::Bf16, IndexFormat::Bf16)] {
        let what = format!("dsa, {} keys over {format}", keys.name());
        cases.push(case(what, dsa(16, format, Some(keys)), 300, 2));
    }
    let what = "dsa, what an earlier layer chose".to_owned();
    cases.push(case(what, dsa(16, KvFormat::Fp8DsMla, None), 300, 1));
    cases
}

fn compressed() -> Vec<SelfCase> {
    let shape = |query_heads, window_format, branch| {
        FormShape::Compressed(CompressedShape {
            query_heads,
            width: 512,
            rope: 64,
            window: 128,
            window_format,
            branch,
        })
    };
    let branch = |format| BranchShape {
        ratio: 4,
        store: StoreOwner::Earlier,
        format,
        top_k: None,
        index: None,
        rows: None,
    };
    // DeepSeek-V4's: rows of two halves of values and gates, for entries of 512 and keys of 128.
    let csa = BranchShape {
        store: StoreOwner::Own,
        top_k: Some(40),
        index: Some(index(64, 4, IndexFormat::Fp4)),
        rows: Some(RowsShape { rows: 8, values: 4 * 512 + 4 * 128 }),
        ..branch(KvFormat::Fp8DsMla)
    };
    let hca = BranchShape {
        ratio: 128,
        store: StoreOwner::Own,
        rows: Some(RowsShape { rows: 128, values: 2 * 512 }),
        ..branch(KvFormat::Fp8DsMla)
    };
    let mut cases = vec![
        case("csa, a step that ends a group".to_owned(), shape(16, KvFormat::Fp8DsMla, Some(csa)), 400, 2),
        case("csa, a step within a group".to_owned(), shape(16, KvFormat::Fp8DsMla, Some(csa)), 401, 1),
        case("hca".to_owned(), shape(64, KvFormat::Fp8DsMla, Some(hca)), 640, 1),
    ];
    for (window, entries) in [
        (KvFormat::Bf16, KvFormat::Bf16),
        (KvFormat::Mxfp8, KvFormat::Nvfp4),
        (KvFormat::Nvfp4, KvFormat::Mxfp8),
    ] {
        for heads in [16, 64] {
            let what = format!("csa2, {heads} heads, a window in {window} and entries in {entries}");
            cases.push(case(what, shape(heads, window, Some(branch(entries))), 300, 1));
        }
    }
    cases.push(case("csw".to_owned(), shape(16, KvFormat::Fp8DsMla, None), 77, 2));
    cases
}

fn recurrences() -> Vec<SelfCase> {
    let mut cases = Vec::new();
    for format in [StateFormat::F32, StateFormat::Bf16] {
        let mut add = |what: String, recurrence, conv: Option<(u64, u64)>| {
            let conv = conv.map(|(kernel, channels)| ConvShape { kernel, channels, format });
            let shape = FormShape::Recurrent(RecurrentShape { recurrence, format, conv });
            cases.push(case(format!("{what} in {}", format.name()), shape, 64, 2));
        };
        for dim in [64, 128, 256] {
            let gdn = RecurrenceShape::GatedDeltaNet { k_heads: 1, v_heads: 3, k_dim: dim, v_dim: 40 };
            add(format!("gdn, rows of {dim}"), gdn, Some((4, 2 * dim + 120)));
            add(format!("kda, rows of {dim}"), RecurrenceShape::Kda { heads: 2, dim }, Some((4, 6 * dim)));
            let mamba2 = RecurrenceShape::Mamba2 { heads: 4, head_dim: 80, d_state: dim, groups: 2 };
            add(format!("mamba2, rows of {dim}"), mamba2, Some((3, 320 + 4 * dim)));
            add(format!("lightning, rows of {dim}"), RecurrenceShape::Lightning { heads: 2, dim }, None);
        }
        add("mamba1".to_owned(), RecurrenceShape::Mamba1 { d_inner: 264, d_state: 16 }, Some((4, 264)));
        for taps in [3, 4] {
            add(format!("shortconv of {taps} taps"), RecurrenceShape::ShortConv, Some((taps, 520)));
        }
    }
    cases
}
