//! Plans against published figures and derivations by hand.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

use kvscope_sizing::cost::{CostOf, FlopWeights, ModelCost, Operand, Part, Types};
use kvscope_sizing::engine::{Engine, EngineKind};
use kvscope_sizing::hardware::{find_gpu, find_link, gpus};
use kvscope_sizing::parameters::Parameters;
use kvscope_sizing::plan::{
    CapacityPlan, CapacityQuestion, ChosenLink, HandoverPlan, HandoverQuestion, MemoryQuestion, Mix, Moving,
    PrefillTime, Subject, capacity, handover, label,
};
use kvscope_sizing::{Bytes, Result, Settings, Tokens, catalogue, find_entry};
use serde_json::Value;

/// The cost of one decode step in the model's own records, with weights in FP8.
fn step(id: &str, n: u64) -> ModelCost {
    let entry = find_entry(id).unwrap();
    let architecture = entry.architecture().unwrap();
    let parameters = Parameters::of(&entry.config, &architecture).unwrap();
    let mut settings = Settings::default();
    if id == "deepseek-v3.2" {
        settings.set("kv_dtype", "fp8_ds_mla").unwrap();
        settings.set("index_dtype", "fp8").unwrap();
    }
    let types = Types { weights: Operand::Fp8, experts: Operand::Fp8, checkpoint: None, core: Operand::Bf16 };
    let of = CostOf {
        architecture: &architecture,
        parameters: &parameters,
        settings: &settings,
        types,
        weights: FlopWeights::fp8_equivalents(),
    };
    of.decode(Tokens::new(n), 1).unwrap()
}

fn read(cost: &ModelCost, part: Part) -> u64 {
    cost.rows.iter().filter(|row| row.part == part).map(|row| row.state_read_bytes.get()).sum()
}

/// By hand, K = 1,024 tokens, in MB. V3.2: 61 layers read 132 B of every index key and 2,048 records of 656 B. V4-Pro: 30 CSA
/// layers read 68 B for every 4 tokens and 1,024 of 584 B, 31 HCA layers one of 584 B for every 128 tokens, all 61 a window of
/// 128. V4-Flash: 21 CSA layers with top 512, 20 HCA. V4.1: three layers read 68 B for every 2 tokens and one for each, four
/// read 16,384 candidates; 38 layers read 512 entries of 288 B, 40 a window of 128 × 528 B.
#[test]
fn what_a_decode_step_reads() {
    const K: u64 = 1024;
    for (id, n, index, core) in [
        ("deepseek-v3.2", 32 * K, 264, 82),
        ("deepseek-v3.2", 128 * K, 1055, 82),
        ("deepseek-v3.2", 1024 * K, 8443, 82),
        ("deepseek-v4-pro", 32 * K, 17, 18 + 5 + 5),
        ("deepseek-v4-pro", 128 * K, 67, 18 + 19 + 5),
        ("deepseek-v4-pro", 1024 * K, 535, 18 + 148 + 5),
    ] {
        let cost = step(id, n);
        let megabytes = |part| (read(&cost, part) + 500_000) / 1_000_000;
        assert_eq!(megabytes(Part::Indexer), index, "{id} at {n}");
        assert!(megabytes(Part::Core).abs_diff(core) <= 1, "{id} at {n}: {}", megabytes(Part::Core));
    }
    for (id, n, sum) in [
        ("deepseek-v4-flash", 32 * K, 24),
        ("deepseek-v4-flash", 128 * K, 68),
        ("deepseek-v4-flash", 1024 * K, 480),
        ("deepseek-v4.1-flash", 32 * K, 18),
        ("deepseek-v4.1-flash", 128 * K, 35),
        ("deepseek-v4.1-flash", 1024 * K, 191),
    ] {
        let cost = step(id, n);
        let megabytes = ((read(&cost, Part::Indexer) + read(&cost, Part::Core)) as f64 / 1e6).round();
        assert!((megabytes - f64::from(sum)).abs() <= 1.0, "{id} at {n}: {megabytes}");
    }
}

/// Operations for each byte, by hand: an absorbed latent of 128 heads 128 × 2 × 1,088 over 1,152 B (242) or 656 B (425); the
/// indexer of V3.2 64 × 128 × 2 over 132 B (124); V4's core 128 or 64 heads × 2 × 1,024 over 584 B (449, 224) and its
/// FP4 indexer 64 × 128 × 2 over 68 B (241).
#[test]
fn arithmetic_intensities() {
    let intensity = |cost: &ModelCost, part: Part| {
        let flops: u64 = cost.rows.iter().filter(|row| row.part == part).map(|row| row.flops).sum();
        (flops + read(cost, part) / 2) / read(cost, part)
    };
    let v32 = step("deepseek-v3.2", 100_000);
    assert_eq!((intensity(&v32, Part::Core), intensity(&v32, Part::Indexer)), (425, 124));
    assert_eq!(intensity(&step("deepseek-v3", 100_000), Part::Core), 242);
    let pro = step("deepseek-v4-pro", 100_000);
    assert_eq!((intensity(&pro, Part::Core), intensity(&pro, Part::Indexer)), (449, 241));
    assert_eq!(intensity(&step("deepseek-v4-flash", 100_000), Part::Core), 224);
}

/// At 1M tokens, in GFLOP of FP8 (by hand, with 37B, 49B and 13B active parameters): V3.2 74 + 70 + 999, V4-Pro 98 + 147 + 61,
/// V4-Flash 26 + 45 + 43.
#[test]
fn operations_of_a_step_by_part() {
    for (id, weights, core, index) in [
        ("deepseek-v3.2", 74.0, 69.6, 999.4),
        ("deepseek-v4-pro", 98.0, 147.0, 61.4),
        ("deepseek-v4-flash", 26.0, 45.0, 43.0),
    ] {
        let cost = step(id, 1_000_000);
        let of = |wanted: &dyn Fn(Part) -> bool| {
            let weights = FlopWeights::fp8_equivalents();
            let rows = cost.rows.iter().filter(|row| wanted(row.part));
            rows.map(|row| row.flops as f64 * weights.of(row.operand).as_f64()).sum::<f64>() / 1e9
        };
        let near = |got: f64, hand: f64, within: f64| {
            assert!((got / hand - 1.0).abs() < within, "{id}: {got}, not {hand}");
        };
        near(of(&|part| part == Part::Core), core, 0.01);
        near(of(&|part| part == Part::Indexer), index, 0.01);
        // The published counts of active parameters are rounded, and have the table of token vectors in them or not.
        let state = [Part::Core, Part::Indexer, Part::Compressor];
        near(of(&|part| !state.contains(&part)), weights, 0.04);
    }
}

fn memory(gpu: &str, count: u64) -> MemoryQuestion<'static> {
    MemoryQuestion {
        gpu: find_gpu(gpu).unwrap(),
        count,
        memory: None,
        weights: None,
        types: Types {
            weights: Operand::Bf16,
            experts: Operand::Bf16,
            checkpoint: None,
            core: Operand::Bf16,
        },
        weight_ranks: count,
        share_percent: 100,
        batch_tokens: 8192,
        activations: Some(Bytes::ZERO),
        graphs: Bytes::ZERO,
    }
}

fn ask(id: &str, memory: MemoryQuestion<'_>, contexts: &[u64], mix: Option<Mix>) -> Result<CapacityPlan> {
    let entry = find_entry(id)?;
    let architecture = entry.architecture()?;
    let mut settings = Settings::default();
    if memory.weight_ranks > 1 {
        settings.tp = Some(memory.weight_ranks);
    }
    let contexts: Vec<Tokens> = contexts.iter().map(|n| Tokens::new(*n)).collect();
    let question = CapacityQuestion {
        moving: Moving::Inputs,
        memory,
        engine: Engine::newest(EngineKind::Logical),
        settings: &settings,
        contexts: &contexts,
        mix,
        price_per_hour: Some(2.0),
    };
    capacity(&Subject::of(entry, &architecture), &question)
}

/// Llama-3.1-8B on one H100 with 16 GB of weights: 64 GB for state, 131,072 B a token, so 59 requests of 8,192 tokens.
#[test]
fn requests_are_what_is_left_over_their_bytes() {
    let asked = MemoryQuestion { weights: Some(Bytes::new(16_000_000_000)), ..memory("h100", 1) };
    let plan = ask("llama-3.1-8b", asked, &[8192], Some(Mix::listed(vec![4096, 12_288]).unwrap())).unwrap();
    assert_eq!(plan.memory.state_bytes.unwrap().get(), 64_000_000_000);
    assert_eq!(plan.at[0].requests, Some(64_000_000_000 / (131_072 * 8192)));
    assert_eq!(plan.at[0].requests, Some(59));
    assert!((plan.at[0].price_per_request_hour.unwrap() - 2.0 / 59.0).abs() < 1e-12);
    // The mean of the mix is as long; at its longest only two thirds fit.
    let mix = plan.mix.unwrap();
    assert_eq!((mix.requests, mix.requests_at_longest), (Some(59), Some(39)));
    assert!((mix.mean_tokens - 8192.0).abs() < 1e-9);
    assert!(plan.largest_context_is_limit && plan.largest_context == plan.max_context);
    assert_eq!(plan.frontier.first().unwrap().requests, Some(64_000_000_000 / (131_072 * 1024)));
    // 16 of 80 GB are weights: a tenth of the memory moves most.
    assert_eq!(plan.sensitivities[0].input, "memory");
    let context = plan.sensitivities.iter().find(|row| row.input == "context").unwrap();
    assert_eq!((context.with_less, context.with_more), (Some(66.0), Some(54.0)), "7,373 and 9,011 tokens");
}

#[test]
fn a_model_that_does_not_fit_is_told_in_a_sentence() {
    let plan = ask("deepseek-v3", memory("h200", 8), &[100_000], None).unwrap();
    assert_eq!(plan.memory.does_not_fit.as_deref(), Some("weights alone need 1.34 TB, 8 GPUs have 1.13 TB"));
    assert_eq!((plan.memory.state_bytes, plan.at[0].requests, plan.largest_context), (None, Some(0), None));
    assert!(plan.wrong_formulas.is_empty());
    let tight = MemoryQuestion { weights: Some(Bytes::new(79_000_000_000)), ..memory("h100", 1) };
    let tight = MemoryQuestion { share_percent: 90, ..tight };
    let plan = ask("llama-3.1-8b", tight, &[8192], None).unwrap();
    let why = plan.memory.does_not_fit.unwrap();
    assert!(why.ends_with("the engine takes 72.0 GB of 80.0 GB"), "{why}");
}

/// 57 and 71 times: DeepSeek-V3's 1,152 B a layer against 128 heads of 2 × 128 and of 192 + 128 values in two bytes.
/// Qwen3.5 as 60 full layers: 4 times its K/V, 3.76 with its state at 100K. GLM-5 sized as GLM-4.7: 37.7 GB against 10.0.
#[test]
fn wrong_formulas_admit_too_few_or_too_many() {
    let wrong = |id: &str| {
        ask(id, MemoryQuestion { weights: Some(Bytes::ZERO), ..memory("h200", 1) }, &[100_000], None)
    };
    let v3 = wrong("deepseek-v3").unwrap();
    let factor = |plan: &CapacityPlan, words: &str| {
        let found = plan.wrong_formulas.iter().find(|wrong| wrong.taken_for.contains(words));
        found.unwrap_or_else(|| panic!("{words}: {:?}", plan.wrong_formulas)).clone()
    };
    assert!((factor(&v3, "as wide as values").factor - 65_536.0 / 1152.0).abs() < 1e-9);
    let real = factor(&v3, "the real keys");
    assert!((real.factor - 81_920.0 / 1152.0).abs() < 1e-9);
    // 141 GB hold 20 requests of 7.03 GB; a request of 499.7 GB is never admitted.
    assert_eq!((v3.at[0].requests, real.admits), (Some(20), 0));
    assert_eq!(real.wasted_bytes.get(), 20 * 7_027_200_000);
    let qwen = wrong("qwen3.5-397b-a17b").unwrap();
    let full = factor(&qwen, "full attention in every layer");
    assert_eq!(full.bytes_per_request.get(), 60 * 2048 * 100_000);
    assert!((full.factor - 12_288_000_000.0 / 3_264_061_440.0).abs() < 1e-9);
    let glm = wrong("glm-5").unwrap();
    let before = factor(&glm, "its previous version, GLM-4.7");
    assert_eq!(before.bytes_per_request.get(), 37_683_200_000);
    // The other way round a version that grew is overcommitted: MiniMax-M2.7 keeps what M2.5 kept.
    assert!(
        wrong("minimax-m2.7").unwrap().wrong_formulas.iter().all(|wrong| !wrong.taken_for.contains("M2.5"))
    );
}

#[test]
fn questions_without_an_answer_are_refused() {
    let refused = |plan: Result<CapacityPlan>| plan.unwrap_err().to_string();
    let beyond = refused(ask("qwen3-8b", memory("h200", 1), &[1_000_000], None));
    assert!(
        beyond.starts_with("context: 1,000,000 tokens is beyond the 40Ki that the config allows"),
        "{beyond}"
    );
    let share = MemoryQuestion { share_percent: 0, ..memory("h200", 1) };
    assert!(refused(ask("qwen3-8b", share, &[1000], None)).starts_with("memory_percent: "));
    let uneven = MemoryQuestion { weight_ranks: 3, ..memory("h200", 8) };
    assert!(refused(ask("qwen3-8b", uneven, &[1000], None)).starts_with("count: "));
    let long = Mix::listed(vec![5, 2_000_000]).unwrap();
    assert!(refused(ask("qwen3-8b", memory("h200", 1), &[], Some(long))).starts_with("context: "));
}

fn hand(
    id: &str,
    settings: &Settings,
    tp: u64,
    links: &[ChosenLink],
    seconds: &[f64],
    contexts: &[u64],
) -> Result<HandoverPlan> {
    let entry = find_entry(id)?;
    let architecture = entry.architecture()?;
    let contexts: Vec<Tokens> = contexts.iter().map(|n| Tokens::new(*n)).collect();
    let question = HandoverQuestion {
        moving: Moving::Inputs,
        contexts: &contexts,
        settings,
        gpu: find_gpu("h200")?,
        count: 8,
        tp,
        fleet: Some(512),
        links,
        blocks: Some(1000),
        prefill: PrefillTime::Given(seconds),
    };
    handover(&Subject::of(entry, &architecture), &question)
}

/// To the byte: B a token × tokens, plus what does not grow. V4-Pro: 30 × 652 B for 4 tokens and 31 × 584 B for 128, windows
/// 61 × 128 × 584 B, and the compressors' rows.
#[test]
fn payloads_to_the_byte() {
    let plain = Settings::default();
    let of = |id: &str, settings: &Settings, n: u64| {
        hand(id, settings, 1, &[], &[1.0], &[n]).unwrap().at[0].payload_bytes.get()
    };
    assert_eq!(of("minimax-m2.5", &plain, 32_768), 253_952 * 32_768);
    assert_eq!(of("qwen3-235b-a22b", &plain, 32_768), 192_512 * 32_768);
    assert_eq!(of("deepseek-v3", &plain, 131_072), 70_272 * 131_072);
    let mut fp8 = Settings::default();
    fp8.set("kv_dtype", "fp8_ds_mla").unwrap();
    fp8.set("index_dtype", "fp8").unwrap();
    assert_eq!(of("deepseek-v3.2", &fp8, 32_768), 48_068 * 32_768);
    let n = 131_072;
    let growing = 30 * (n / 4) * 652 + 31 * (n / 128) * 584;
    assert_eq!(of("deepseek-v4-pro", &plain, n), growing + 61 * 128 * 584 + 18_710_528);
    assert_eq!(of("deepseek-v4.1-flash", &plain, n), 890 * n + 40 * 128 * 528);
}

/// MiniMax-M2.5 at 32K over 50 GB/s with 15 µs a block: 0.1664 s + 0.015 s; of a prefill of 1.11 s all but the last of 62
/// layers hides. Φ is 8.32 GB / 1.11 s = 7.497 GB/s = 60 Gbps, of 64 instances 3.84 Tbps; 100 Gbps is the next link.
#[test]
fn times_rates_and_the_link_that_is_needed() {
    let given = ChosenLink {
        link: "mine".to_owned(),
        grade: "given",
        source: "given".to_owned(),
        start_seconds: 0.0,
        alpha_seconds: 15e-6,
        bytes_per_second: 50e9,
    };
    let plan =
        hand("minimax-m2.5", &Settings::default(), 8, std::slice::from_ref(&given), &[1.11], &[32_768])
            .unwrap();
    let at = &plan.at[0];
    let payload = 253_952.0 * 32_768.0;
    assert!((at.egress_bytes_per_second - payload / 1.11).abs() < 1.0);
    assert!((at.fleet_bytes_per_second.unwrap() * 8.0 / 1e12 - 3.838).abs() < 0.001);
    assert_eq!(at.needs_link.as_deref(), Some("ethernet-100g"));
    // 27.7 GB/s would fit PCIe 4.0, which ends at the server.
    let quick = hand("minimax-m2.5", &Settings::default(), 8, &[], &[0.3], &[32_768]).unwrap();
    assert_eq!(quick.at[0].needs_link.as_deref(), Some("ethernet-400g"));
    let seconds = 1000.0 * 15e-6 + payload / 50e9;
    assert!((at.links[0].seconds - seconds).abs() < 1e-12);
    assert!((at.links[0].layerwise_seconds - seconds / 62.0).abs() < 1e-12);
    // A prefill much shorter than the transfer hides little of it.
    let short = hand("minimax-m2.5", &Settings::default(), 8, &[given], &[0.01], &[32_768]).unwrap();
    assert!((short.at[0].links[0].layerwise_seconds - (seconds - 0.01 * 61.0 / 62.0)).abs() < 1e-12);
}

/// Qwen3.5-397B's last layer keeps K and V of 2 heads of 256 in bf16: 204.8 MB of 100,000 tokens, which waits alone behind a prefill
/// that is long enough for the rest, 45 of whose 59 layers send a state.
#[test]
fn the_last_layer_of_a_hybrid_waits_for_its_own_bytes() {
    let link = ChosenLink {
        link: "mine".to_owned(),
        grade: "given",
        source: "given".to_owned(),
        start_seconds: 0.0,
        alpha_seconds: 0.0,
        bytes_per_second: 400e9,
    };
    let plan = hand("qwen3.5-397b-a17b", &Settings::default(), 8, &[link], &[4.0], &[100_000]).unwrap();
    let last = 2.0 * 2.0 * 256.0 * 2.0 * 100_000.0 / 400e9;
    assert!((plan.at[0].links[0].layerwise_seconds - last).abs() < 1e-9);
}

/// Latents belong to all heads, so eight ranks hold eight copies; eight K/V heads are divided; four are held twice.
#[test]
fn ranks_hold_copies_where_they_cannot_share() {
    let held = |id: &str| {
        let plan = hand(id, &Settings::default(), 8, &[], &[1.0], &[10_000]).unwrap();
        plan.at[0].held_by_ranks_bytes.get() / plan.at[0].payload_bytes.get()
    };
    assert_eq!([held("deepseek-v3"), held("minimax-m2.5"), held("qwen3-235b-a22b")], [8, 1, 2]);
}

#[test]
fn links_and_prefills_without_a_time_are_refused() {
    let nothing =
        ChosenLink { bytes_per_second: 0.0, ..ChosenLink::nominal(find_link("ethernet-100g").unwrap()) };
    let settings = Settings::default();
    let refused = |links: &[ChosenLink], seconds: &[f64]| {
        hand("qwen3-8b", &settings, 1, links, seconds, &[1000]).unwrap_err().to_string()
    };
    assert_eq!(refused(&[nothing], &[1.0]), "bandwidth: ethernet-100g moves nothing; give a rate above 0");
    for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert!(refused(&[], &[bad]).starts_with("prefill_seconds: "), "{bad}");
    }
    assert!(refused(&[], &[]).starts_with("prefill_seconds: 0 for 1 length"));
    assert!(refused(&[], &[1.0, 2.0]).starts_with("prefill_seconds: 2 for 1 length"));
}

/// Every answer on every GPU is finite: what JSON cannot hold would be null where a number has to be.
#[test]
fn no_answer_is_infinite() {
    let settings = Settings { encoder_tokens: Some(1500), ..Settings::default() };
    for entry in catalogue() {
        let architecture = entry.architecture().unwrap();
        let subject = Subject::of(entry, &architecture);
        let contexts = [Tokens::new(0), Tokens::new(1), Tokens::new(4096)];
        for gpu in gpus() {
            let plan = label(&subject, &settings, &contexts, Some((gpu, 4)), Moving::Nothing).unwrap();
            for label in serde_json::to_value(&plan.labels).unwrap().as_array().unwrap() {
                let seconds = &label["hardware"]["read_seconds_per_step"];
                assert!(seconds.is_number(), "{} on {}: {seconds}", entry.id, gpu.id);
            }
        }
    }
}

/// DeepSeek-V3.2 grows with every token; Gemma-3 has windows beside that; Qwen3.5 a state; a Nemotron-H step reads as much state
/// as it keeps, but for top-k nothing.
#[test]
fn labels_say_how_state_lives() {
    let of = |id: &str| {
        let entry = find_entry(id).unwrap();
        let architecture = entry.architecture().unwrap();
        let subject = Subject::of(entry, &architecture);
        label(&subject, &Settings::default(), &[Tokens::new(100_000)], None, Moving::Nothing)
            .unwrap()
            .labels
            .remove(0)
    };
    assert_eq!(of("deepseek-v3.2").lifecycle_class, "token");
    assert_eq!(of("gemma-3-27b").lifecycle_class, "token+window");
    assert_eq!(of("qwen3.5-397b-a17b").lifecycle_class, "token+request");
    let qwen = of("qwen3.5-397b-a17b");
    assert_eq!(qwen.resident_bytes.get(), 3_264_061_440);
    assert_eq!(qwen.handover_bytes, qwen.resident_bytes);
    assert_eq!(serde_json::to_value(&qwen).unwrap()["hardware"], Value::Null);
    // V3.2 reads 2,048 latents and all index keys.
    assert_eq!(of("deepseek-v3.2").read_bytes_per_step.get(), 61 * (2048 * 1152 + 100_000 * 132));
}

/// DeepSeek-V4.1-Flash: from 4K to 1M tokens the layers that score again look at 16,384 candidates, and a step's operations
/// grow by 27 %; were every key scored, it would be 69 % (by hand: 6.5 × 2 × 32 × 128 a token and step in FP4 against 2.5).
#[test]
fn candidates_keep_the_growth_of_a_step_small() {
    let growth = |candidates: bool| {
        let mut config = find_entry("deepseek-v4.1-flash").unwrap().config.clone();
        if !candidates {
            config.as_object_mut().unwrap().remove("candidate_topk_blocks");
        }
        let architecture = kvscope_sizing::read_config_value(&config).unwrap();
        let parameters = Parameters::of(&config, &architecture).unwrap();
        let of = CostOf {
            architecture: &architecture,
            parameters: &parameters,
            settings: &Settings::default(),
            types: Types {
                weights: Operand::Fp8,
                experts: Operand::Fp8,
                checkpoint: None,
                core: Operand::Bf16,
            },
            weights: FlopWeights::fp8_equivalents(),
        };
        let at = |n: u64| of.decode(Tokens::new(n), 1).unwrap().weighted_flops.as_f64();
        100.0 * (at(1_000_000) / at(4096) - 1.0)
    };
    let (with, without) = (growth(true), growth(false));
    // With 16B active by hand (26.62 − 0.11) and (10.51 − 0.11) over 38.56 GFLOP: 68.8 and 27.0; the config counts 15.8B.
    assert!((with - 27.0).abs() < 0.5 && (without - 68.8).abs() < 1.0, "{with} {without}");
}
