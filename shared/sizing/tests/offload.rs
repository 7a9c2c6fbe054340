//! Offload by hand: pieces, times, break-evens, and fits to published rows.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

use kvscope_sizing::plan::offload::{
    Copies, CopyLayout, OffloadPlan, OffloadQuestion, Recompute, Restore, Tier, TierGrade, Way,
    break_even_bandwidth, kappa, offload,
};
use kvscope_sizing::plan::{Given, Offloading, Subject};
use kvscope_sizing::prediction::{LinkFit, LinkPoint};
use kvscope_sizing::{Bytes, Result, Settings, StateModel, Tokens, find_entry, read_config};

fn settings(pairs: &[(&str, &str)]) -> Settings {
    let mut settings = Settings::default();
    for (name, value) in pairs {
        settings.set(name, value).unwrap();
    }
    settings
}

fn tier(alpha_seconds: f64, beta_bytes_per_second: f64) -> Tier {
    Tier {
        name: "host".to_owned(),
        start_seconds: 0.0,
        alpha_seconds,
        beta_bytes_per_second,
        ranks: 1,
        grade: TierGrade::Given,
        source: "given".to_owned(),
    }
}

struct Ask<'a> {
    model: &'a str,
    context: u64,
    tier: Tier,
    settings: Settings,
    /// FLOPs of a token and of a pair of tokens.
    flops: [f64; 2],
}

impl Ask<'_> {
    fn try_plan(&self) -> Result<OffloadPlan> {
        let architecture = find_entry(self.model)?.architecture()?;
        let [linear, square] = self.flops;
        let flops = |n: Tokens| Ok(linear * n.get() as f64 + square * (n.get() as f64).powi(2));
        offload(&OffloadQuestion {
            model: self.model,
            architecture: &architecture,
            settings: &self.settings,
            context: Tokens::new(self.context),
            tiers: std::slice::from_ref(&self.tier),
            recompute: Recompute { flops: &flops, seconds: &|n| Ok(flops(n)? / 495e12) },
        })
    }

    fn row(&self, layout: CopyLayout) -> Restore {
        let plan = self.try_plan().unwrap();
        plan.rows.into_iter().find(|row| row.layout == layout).unwrap()
    }
}

fn near(got: f64, right: f64, share: f64) {
    assert!((got / right - 1.0).abs() < share, "{got}, not {right}");
}

/// Beside 495 TFLOP/s and 50 GB/s, linear part alone: κ* = 2·N/F · BW/b and BW* = b·F/2N by hand, with the active parameters as
/// published (V4.1: those of prefill).
#[test]
fn break_evens_of_published_models() {
    let fp8 = [("kv_dtype", "fp8_ds_mla"), ("index_dtype", "fp8")];
    for (model, active, formats, cached, gbps) in [
        ("llama-3.1-8b", 8e9, &[][..], 12.0, 32.4),
        ("llama-3.1-70b", 70e9, &[], 43.0, 9.3),
        ("deepseek-v3", 37e9, &[], 106.0, 3.8),
        ("deepseek-v3.2", 37e9, &fp8, 156.0, 2.6),
        ("deepseek-v4-flash", 13e9, &[], 747.0, 0.54),
        ("deepseek-v4-pro", 49e9, &[], 1970.0, 0.20),
        ("deepseek-v4.1-flash", 8e9, &[], 1820.0, 0.22),
    ] {
        let architecture = find_entry(model).unwrap().architecture().unwrap();
        let slope = StateModel::new(&architecture, &settings(formats)).unwrap().slope(None).unwrap();
        near(kappa(2.0 * active, 495e12, 50e9, slope).unwrap(), cached, 0.03);
        near(break_even_bandwidth(slope, 495e12, 2.0 * active).unwrap() * 8e-9, gbps, 0.03);
    }
}

/// vLLM 0.11 copied pieces of one layer and side, 0.12 whole blocks: <https://blog.vllm.ai/2026/01/08/kv-offloading-connector.html>
/// names 32 KB → 2 MB for Llama-3.1-8B and 72 KB → 1.9 MB for DeepSeek-V2-Lite.
#[test]
fn pieces_of_the_two_layouts() {
    for (model, block, piece, whole) in
        [("llama-3.1-8b", 16, 32 << 10, 2 << 20), ("deepseek-v2-lite", 64, 72 << 10, 27 * (72 << 10))]
    {
        let ask = Ask {
            model,
            context: 6400,
            tier: tier(15e-6, 50e9),
            settings: settings(&[("block_size", &block.to_string())]),
            flops: [16e9, 0.0],
        };
        let (by_layer, by_block) = (ask.row(CopyLayout::ByLayer), ask.row(CopyLayout::ByBlock));
        assert_eq!(by_layer.bytes.get() / by_layer.copies, piece, "{model}");
        assert_eq!(by_block.bytes.get() / by_block.copies, whole, "{model}");
        assert_eq!(by_block.copies, 6400 / block);
        assert_eq!(ask.row(CopyLayout::Whole).copies, 1);
    }
}

/// 6,400 tokens of Llama-3.1-8B: 400 blocks of 64 pieces, 838,860,800 B.
#[test]
fn restoring_costs_pieces_and_bytes() {
    let ask = Ask {
        model: "llama-3.1-8b",
        context: 6400,
        tier: tier(15e-6, 50e9),
        settings: Settings::default(),
        flops: [16e9, 0.0],
    };
    let row = ask.row(CopyLayout::ByLayer);
    let seconds = 25_600.0 * 15e-6 + 838_860_800.0 / 50e9;
    near(row.seconds.unwrap(), seconds, 1e-12);
    near(row.bytes_per_second.unwrap(), 838_860_800.0 / seconds, 1e-12);
    let computed = 6400.0 * 16e9 / 495e12;
    near(row.kappa.unwrap(), computed / seconds, 1e-12);
    // 384 ms of pieces are more than 207 ms of computing: no bandwidth helps.
    assert_eq!((row.break_even_bytes_per_second, row.restore_wins), (None, Some(false)));
    let block = ask.row(CopyLayout::ByBlock);
    near(block.break_even_bytes_per_second.unwrap(), 838_860_800.0 / (computed - 400.0 * 15e-6), 1e-12);
    assert_eq!(block.restore_wins, Some(true));
    // κ of whole blocks moves with the operations in full, and with β in part: 400 × 15 µs of 22.8 ms are pieces.
    let rows = ask.try_plan().unwrap().sensitivities;
    let row = |input: &str| rows.iter().find(|row| row.input == input).unwrap();
    near(row("operations").with_more.unwrap(), 1.1 * block.kappa.unwrap(), 1e-12);
    let slower = 400.0 * 15e-6 + 838_860_800.0 / 45e9;
    near(row("beta").with_less.unwrap(), computed / slower, 1e-12);
    assert_eq!(rows[0].input, "operations a second");
    assert!(rows.iter().all(|row| row.input != "start"), "nothing is a tenth of no start");
}

/// At 2 GB/s restoring 131,072 B takes 65.5 µs a token and computing 32.3 µs + n · 1e7 / 495e12 s: they meet at
/// (131,072 / 2e9 − 16e9 / 495e12) · 495e12 / 1e7 = 1,644,032 / 1000 … tokens.
#[test]
fn the_quadratic_part_turns_the_answer() {
    let ask = Ask {
        model: "llama-3.1-8b",
        context: 1000,
        tier: tier(0.0, 2e9),
        settings: settings(&[("block_size", "1")]),
        flops: [16e9, 1e6],
    };
    let right = (131_072.0 / 2e9 - 16e9 / 495e12) * 495e12 / 1e6;
    let row = ask.row(CopyLayout::Whole);
    assert_eq!(row.turns.len(), 2, "{:?}", row.turns);
    assert_eq!(row.turns[0].quicker, Way::Recompute);
    assert_eq!(row.turns[1].quicker, Way::Restore);
    let at = row.turns[1].from_tokens.get() as f64;
    assert!(at >= right && at <= right + 1.0, "{at}, not {right}");
}

/// Llama 4 Scout: 36 layers keep K and V of 8 heads of 128 for the current chunk of 8,192 tokens alone, 12 for every token. The
/// 100,000th token is the 1,696th of its chunk. The first token of a chunk asks for less than the last of the one before it, so
/// the quicker way changes anew in every chunk.
#[test]
fn of_chunks_what_the_next_token_attends_to_is_restored() {
    let entry_of_layer = 2 * 8 * 128 * 2;
    let ask = |context, flops| Ask {
        model: "llama-4-scout",
        context,
        tier: tier(0.0, 1e9),
        settings: settings(&[("block_size", "1")]),
        flops,
    };
    let bytes = |context| ask(context, [16e9, 1e6]).row(CopyLayout::Whole).bytes.get();
    assert_eq!(bytes(100_000), entry_of_layer * (12 * 100_000 + 36 * 1696));
    assert_eq!(bytes(8192), entry_of_layer * 48 * 8192);
    assert_eq!(bytes(8193), entry_of_layer * (12 * 8193 + 36));
    // Computing a token takes as long as restoring 24 of its 48 layers: quicker up to the chunk of which twelve layers for
    // every token and 36 for the live part come to less.
    let of_24_layers = 24.0 * entry_of_layer as f64 / 1e9 * 495e12;
    let turns = ask(20_000, [of_24_layers, 0.0]).row(CopyLayout::Whole).turns;
    let turns: Vec<(u64, Way)> =
        turns.iter().map(|turn| (turn.from_tokens.get(), turn.quicker)).take(5).collect();
    // In chunk c (8,192·c tokens before it) restoring costs 12 (8,192 c + m) + 36 m of live part m: as much as 24 (8,192 c + m) at
    // m = 4,096 c. The second chunk starts the quicker way, which lasts to its 4,096th token, the third to the end of its 8,192.
    let right = [
        (1, Way::Recompute),
        (8193, Way::Restore),
        (8192 + 4096, Way::Recompute),
        (2 * 8192 + 1, Way::Restore),
        (3 * 8192, Way::Recompute),
    ];
    assert_eq!(turns, right);
}

/// Copies of a fixed size, published as rates (arXiv 2510.09665): 64 KB at 4, 256 KB at 13 and 16 MB at 49 GB/s.
#[test]
fn the_rates_of_three_granularities() {
    let rows = [(64 << 10, 4.0), (256 << 10, 13.0), (16 << 20, 49.0)];
    let points: Vec<LinkPoint> = rows
        .iter()
        .map(|(bytes, rate)| LinkPoint {
            blocks: 1,
            bytes: Bytes::new(*bytes),
            measured_seconds: *bytes as f64 / (rate * 1e9),
        })
        .collect();
    let fit = LinkFit::of(&points).unwrap();
    near(fit.start_seconds + fit.alpha_seconds, 15.05e-6, 0.01);
    near(fit.beta_bytes_per_second, 51.2e9, 0.01);
    let fitted =
        Tier { alpha_seconds: fit.start_seconds + fit.alpha_seconds, ..Tier::fitted("copies", &fit, "") };
    for (bytes, rate) in rows {
        near(fitted.rate_of(Bytes::new(bytes)) / 1e9, rate, 0.01);
    }
    // By the rounder 15 µs and 50 GB/s: 4.0, 12.9 and 47.9.
    for (bytes, rate) in [(64 << 10, 4.02), (256 << 10, 12.94), (16 << 20, 47.86)] {
        near(tier(15e-6, 50e9).rate_of(Bytes::new(bytes)) / 1e9, rate, 1e-3);
    }
}

#[test]
fn a_state_is_one_piece_a_layer() {
    // Qwen3.5-9B: 24 layers with a state and a convolution, 8 with K and V.
    let ask = Ask {
        model: "qwen3.5-9b",
        context: 1600,
        tier: tier(0.0, 1e9),
        settings: Settings::default(),
        flops: [18e9, 0.0],
    };
    let row = ask.row(CopyLayout::ByLayer);
    assert_eq!(row.copies, 100 * 8 * 2 + 24 * 2);
    assert_eq!(row.bytes.get(), 1600 * 8 * 4096 + 24 * (2_097_152 + 49_152));
    assert_eq!(ask.row(CopyLayout::ByBlock).copies, 100 + 2);
    // A state alone: no blocks.
    let mamba = Ask { model: "nemotron-h-8b", context: 1, ..ask };
    assert!(mamba.row(CopyLayout::ByBlock).copies > 0);
}

/// Gemma-3-27B below its windows: 62 layers × 2 × 16 heads × 128 × 2 B a token, 10 of them in blocks of 16 tokens; Mistral-7B
/// v0.1 has windows of 4,096 alone, 32 × 2 × 8 × 128 × 2 B a token.
#[test]
fn a_window_that_is_not_full_has_as_many_entries_as_tokens() {
    let bytes = |model: &str, context: u64| {
        let ask =
            Ask { model, context, tier: tier(0.0, 1e9), settings: Settings::default(), flops: [54e9, 0.0] };
        ask.row(CopyLayout::ByBlock).bytes.get()
    };
    let layer = 2 * 16 * 128 * 2;
    assert_eq!(bytes("gemma-3-27b", 16), 62 * layer * 16);
    assert_eq!(bytes("gemma-3-27b", 17), 10 * layer * 32 + 52 * layer * 17);
    assert_eq!(bytes("gemma-3-27b", 1600), 10 * layer * 1600 + 52 * layer * 1024);
    assert_eq!(bytes("mistral-7b-v0.1", 16), 131_072 * 16);
    assert_eq!(bytes("mistral-7b-v0.1", 8192), 131_072 * 4096);
}

/// Four of Gemma-3's 16 heads are a quarter of the bytes; of DeepSeek-V3's latents every rank has all.
#[test]
fn each_rank_restores_what_it_holds() {
    let row = |model: &str, ranks: u64| {
        let tier = Tier { ranks, ..tier(0.0, 1e9) };
        let ask = Ask { model, context: 1600, tier, settings: Settings::default(), flops: [54e9, 0.0] };
        ask.row(CopyLayout::Whole)
    };
    let gemma = row("gemma-3-27b", 4);
    assert_eq!(gemma.rank_bytes.get() * 4, gemma.bytes.get());
    assert_eq!(row("gemma-3-27b", 32).rank_bytes.get() * 16, gemma.bytes.get());
    let latents = row("deepseek-v3", 8);
    assert_eq!((latents.bytes.get(), latents.rank_bytes.get()), (70_272 * 1600, 70_272 * 1600));
    near(latents.seconds.unwrap(), 70_272.0 * 1600.0 / 1e9, 1e-12);
}

/// T5's encoder keeps nothing, which has no break-even: null, and a sentence.
#[test]
fn what_keeps_nothing_has_no_break_even() {
    let config = r#"{"model_type": "t5", "architectures": ["T5EncoderModel"], "d_model": 1024, "d_kv": 128, "d_ff": 16384,
        "num_heads": 32, "num_layers": 24, "is_encoder_decoder": false, "torch_dtype": "bfloat16"}"#;
    let architecture = read_config(config).unwrap();
    let flops = |n: Tokens| Ok(6e9 * n.get() as f64);
    let plan = offload(&OffloadQuestion {
        model: "t5",
        architecture: &architecture,
        settings: &Settings::default(),
        context: Tokens::new(100),
        tiers: &[tier(15e-6, 50e9)],
        recompute: Recompute { flops: &flops, seconds: &|n| Ok(flops(n)? / 495e12) },
    })
    .unwrap();
    for row in &plan.rows {
        assert_eq!((row.seconds, row.bytes_per_second, row.kappa), (None, None, None));
        assert_eq!((row.restore_wins, row.turns.len(), row.break_even_bytes_per_second), (None, 0, None));
    }
    assert!(plan.sensitivities.is_empty());
    assert!(plan.warnings.iter().any(|warning| warning.message.contains("keeps no state")));
}

#[test]
fn what_has_no_answer_is_a_sentence() {
    let ask = |context: u64, tier: Tier| Ask {
        model: "llama-3.1-8b",
        context,
        tier,
        settings: Settings::default(),
        flops: [16e9, 0.0],
    };
    let error = |ask: &Ask<'_>| ask.try_plan().unwrap_err().to_string();
    assert_eq!(error(&ask(1000, tier(0.0, 0.0))), "tier: host: a rate of 0 B/s moves nothing");
    assert!(error(&ask(1000, tier(f64::NAN, 1e9))).starts_with("tier: host"));
    assert!(error(&ask(1 << 30, tier(0.0, 1e9))).contains("beyond the 128Ki that the config allows"));
    let slope =
        StateModel::new(&find_entry("llama-3.1-8b").unwrap().architecture().unwrap(), &Settings::default())
            .unwrap()
            .slope(None)
            .unwrap();
    for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert!(kappa(bad, 1e12, 1e9, slope).is_err() && break_even_bandwidth(slope, bad, 1e9).is_err());
    }
    assert!(kappa(1e9, 1e12, 1e9, kvscope_sizing::BytesPerToken::ZERO).is_err());
    let nothing = Copies { pieces: 0, bytes: Bytes::ZERO, rank_bytes: Bytes::ZERO };
    assert!(tier(0.0, 1e9).seconds(nothing).abs() < 1e-15);
}

/// Each type at its own rate, as the prefill of a hand-over: 10,000 tokens of Llama-3.1-8B with weights in fp8 are 2 × 10,000 ×
/// 6.979 B (parameters of its layers) at 40 % of an H200's 1,979 TFLOP/s and 2 × 10,000² × 32 layers × 4,096 of attention in bf16
/// at 40 % of 989 TFLOP/s; without `fp8` all at the latter.
#[test]
fn computing_again_takes_as_long_as_a_prefill() {
    let entry = find_entry("llama-3.1-8b").unwrap();
    let architecture = entry.architecture().unwrap();
    let attention = 2.0 * 1e8 * 32.0 * 4096.0;
    let layers = 2.0 * 1e4 * 6.979e9;
    for (dtype, seconds) in
        [("fp8", layers / 1979e12 + attention / 989e12), ("bf16", (layers + attention) / 989e12)]
    {
        let given = Given::of([("gpu", Some("h200".to_owned())), ("weight_dtype", Some(dtype.to_owned()))]);
        let subject = Subject::of(entry, &architecture);
        let settings = Settings::default();
        let asked = Offloading::of(subject, &settings, &given).unwrap();
        let plan = asked.at(Tokens::new(10_000), &[tier(15e-6, 50e9)]).unwrap().plan;
        let expected = seconds / 0.4;
        assert!(
            (plan.recompute_seconds / expected - 1.0).abs() < 0.005,
            "{dtype}: {} {expected}",
            plan.recompute_seconds
        );
        assert!((plan.flops_per_second * plan.recompute_seconds / plan.recompute_flops - 1.0).abs() < 1e-12);
    }
}
