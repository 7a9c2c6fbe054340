//! Answers of plans as people read them, and what is drawn of them.

use kvscope_sizing::engine::{Engine, EngineKind};
use kvscope_sizing::plan::simulation::{Compare, Trace};
use kvscope_sizing::plan::{
    Given, LabelPlan, LineAxis, LineQuantity, Moving, NamedTrace, Offloading, PlanKind, Subject, capacity_of,
    compression_of, cost_curve_of, cost_of, datasheet_tier, handover_curve_of, handover_of, label_of,
    network_links, simulation_of, typed_links, typed_tiers,
};
use kvscope_sizing::{Settings, Tokens, UnitSystem, find_entry};

fn given(pairs: &[(&str, &str)]) -> Given {
    Given::of(pairs.iter().map(|(name, text)| (*name, Some((*text).to_owned()))))
}

/// DeepSeek-V3 has 671 billion parameters: 1.34 TB in bf16, where eight H200 have 8 × 141 GB.
#[test]
fn what_does_not_fit_is_the_sentence_and_has_no_line() {
    let entry = find_entry("deepseek-v3").unwrap();
    let architecture = entry.architecture().unwrap();
    let subject = Subject::of(entry, &architecture);
    let ask = |count: &str| {
        let given = given(&[("gpu", "h200"), ("count", count)]);
        let logical = Engine::newest(EngineKind::Logical);
        let (settings, contexts) = (Settings::default(), [Tokens::new(1000)]);
        capacity_of(&subject, logical, &settings, &contexts, None, &given, Moving::Nothing).unwrap()
    };
    let sheet = ask("8").sheet(UnitSystem::Decimal);
    assert_eq!(
        sheet.sentence,
        "deepseek-v3 on 8 × H200 SXM does not fit: weights alone need 1.34 TB, 8 GPUs have 1.13 TB."
    );
    assert_eq!(sheet.tables.len(), 1, "its memory alone");
    let plan = ask("16");
    // 70,272 B a token, whole on every rank: what is left of one GPU holds as many as that goes into it.
    let left = plan.memory.state_bytes.unwrap().get();
    let requests = left / 70_272_000;
    let sheet = plan.sheet(UnitSystem::Decimal);
    assert!(sheet.sentence.starts_with(&format!("16 × H200 SXM hold {requests} requests of 1,000 tokens")));
    let lines = plan.lines();
    assert_eq!(lines.quantity, LineQuantity::Requests);
    assert_eq!((lines.at, lines.places[0], lines.lines[0].values[0]), (1000, 1000, requests as f64));
    assert!(lines.places.windows(2).all(|pair| pair[0] < pair[1]));
}

/// One function computes both.
#[test]
fn curves_of_restoring_are_the_seconds_of_the_plan() {
    let entry = find_entry("qwen3-8b").unwrap();
    let architecture = entry.architecture().unwrap();
    let subject = Subject::of(entry, &architecture);
    let settings = Settings::default();
    let given = given(&[("tflops", "400")]);
    let tiers = typed_tiers(&["host=50GB/s,15us", "nvme=26GB/s,20us,1ms"]).unwrap();
    let offloading = Offloading::of(subject, &settings, &given).unwrap();
    let contexts = [1000, 6400, 20_000].map(Tokens::new);
    let curves = offloading.curves(&contexts, &tiers).unwrap();
    assert_eq!(curves.restores.len(), 6, "two tiers in three layouts");
    for (place, context) in contexts.into_iter().enumerate() {
        let answer = offloading.at(context, &tiers).unwrap();
        assert_eq!(curves.recompute_seconds[place].to_bits(), answer.plan.recompute_seconds.to_bits());
        for (row, curve) in answer.plan.rows.iter().zip(&curves.restores) {
            assert_eq!((&row.tier, row.layout), (&curve.tier, curve.layout));
            assert_eq!(row.seconds.unwrap().to_bits(), curve.seconds[place].to_bits());
        }
        for table in answer.sheet(UnitSystem::Binary).tables {
            assert!(table.rows.iter().all(|row| row.len() == table.columns.len()));
        }
    }
    // By its datasheet a link has no α, so all layouts take as long and are one line.
    let tier = datasheet_tier(&self::given(&[("gpu", "h200"), ("count", "2")])).unwrap().unwrap();
    assert_eq!(offloading.curves(&contexts, &[tier]).unwrap().restores.len(), 1);
}

/// The plan adds up components and the curve asks the state for all of them at once.
#[test]
fn curves_of_sending_are_the_seconds_of_the_plan() {
    let given = given(&[("gpu", "h200"), ("blocks", "7"), ("start_us", "3"), ("bandwidth", "10GB/s")]);
    let settings = Settings::default();
    let mut links = typed_links(&given).unwrap();
    links.extend(network_links());
    for id in ["qwen3.5-397b-a17b", "deepseek-v4.1-flash", "gemma-3-27b"] {
        let entry = find_entry(id).unwrap();
        let architecture = entry.architecture().unwrap();
        let subject = Subject::of(entry, &architecture);
        let contexts = [100, 6400, 20_000].map(Tokens::new);
        let curve = handover_curve_of(&subject, &settings, &contexts, &links, &given).unwrap();
        let plan = handover_of(&subject, &settings, &contexts, &links, &given, Moving::Nothing).unwrap();
        let lines = curve.lines();
        assert_eq!(lines.lines.len(), links.len() + 1, "the prefill and every link");
        for (place, at) in plan.at.iter().enumerate() {
            for line in &lines.lines {
                assert_eq!(line.values[place].to_bits(), at.drawn(&line.name).unwrap().to_bits(), "{id}");
            }
        }
    }
}

/// Llama-3.1-8B: 131,072 B a token, which a step reads and a request holds; 1.5 GB and more of weights in every step.
#[test]
fn curves_of_costs_and_labels_are_the_figures_of_the_plans() {
    let entry = find_entry("llama-3.1-8b").unwrap();
    let architecture = entry.architecture().unwrap();
    let subject = Subject::of(entry, &architecture);
    let (settings, given) = (Settings::default(), Given::default());
    let contexts = [1000, 20_000].map(Tokens::new);
    let lines = cost_curve_of(&subject, &settings, &contexts, 3, &given).unwrap().lines();
    let asked = cost_of(&subject, &settings, Tokens::new(5000), 3, &given, Moving::Nothing).unwrap();
    let lines = lines.asked_at(Tokens::new(5000), |name| asked.drawn(name));
    let state = lines.lines.iter().find(|line| line.name == "state").unwrap();
    assert_eq!(state.values, [1000.0, 5000.0, 20_000.0].map(|n| 3.0 * n * 131_072.0));
    let weights = lines.lines.iter().find(|line| line.name == "weights").unwrap();
    assert_eq!(weights.values, [asked.decode.weight_read_bytes.get() as f64; 3]);
    let label =
        |contexts: &[Tokens]| vec![label_of(&subject, &settings, contexts, &given, Moving::Nothing).unwrap()];
    let one = label(&[Tokens::new(5000)]);
    let lines = LabelPlan::lines(&label(&contexts));
    let lines = lines.asked_at(Tokens::new(5000), |name| LabelPlan::drawn(&one, name));
    assert_eq!(lines.lines[0].values, [1000.0, 5000.0, 20_000.0].map(|n| n * 131_072.0));
}

/// 131,072,000 B at 8 Gbit/s take 131.072 ms; a quarter of them, and as long as coding takes, 32.768 ms and 6.5536 ms more.
#[test]
fn lines_over_bandwidth_cross_where_the_plan_turns() {
    let entry = find_entry("llama-3.1-8b").unwrap();
    let architecture = entry.architecture().unwrap();
    let subject = Subject::of(entry, &architecture);
    let given = given(&[("bandwidth", "8Gbps")]);
    let strategy = ["four=quantise:4:20GB/s"];
    let answer =
        compression_of(&subject, &Settings::default(), Tokens::new(1000), &strategy, &given).unwrap();
    let lines = answer.lines();
    assert_eq!((lines.across, lines.at), (LineAxis::BitRate, 8_000_000_000));
    let at = |bits: u64| lines.places.binary_search(&bits).unwrap();
    let seconds = |line: usize, bits: u64| lines.lines[line].values[at(bits)];
    assert!((seconds(0, 8_000_000_000) - 0.131_072).abs() < 1e-12);
    assert!((seconds(1, 8_000_000_000) - (0.032_768 + 0.006_553_6)).abs() < 1e-12);
    // B* = 3/4 × 20 GB/s = 120 Gbit/s.
    assert!((seconds(0, 120_000_000_000) - seconds(1, 120_000_000_000)).abs() < 1e-12);
    assert!(lines.places.last().unwrap() >= &800_000_000_000);
}

/// Three blocks in turn and room for two, as `simulation` has them by hand: of four blocks asked Belady's rule found one.
#[test]
fn a_replay_is_drawn_as_shares_bytes_and_evictions() {
    let entry = find_entry("qwen3-8b").unwrap();
    let architecture = entry.architecture().unwrap();
    let subject = Subject::of(entry, &architecture);
    let line = |block: &u64| {
        format!(r#"{{"timestamp": 0, "input_length": 513, "output_length": 1, "hash_ids": [{block}]}}"#)
    };
    let replay = |blocks: &[u64]| {
        let text: Vec<String> = blocks.iter().map(line).collect();
        let trace = Trace::read(&text.join("\n"), Tokens::new(512)).unwrap();
        let named = NamedTrace { label: "cycle".to_owned(), trace };
        let (settings, given, optimum) = (Settings::default(), Given::default(), Compare::WithOptimum);
        let tiers = ["gpu=2blocks"];
        simulation_of(&subject, &settings, &named, &tiers, &given, optimum, Moving::Nothing).unwrap()
    };
    let lines = replay(&[7, 8, 9, 7, 8, 9]).lines().unwrap();
    assert_eq!((lines.across, lines.at, lines.places.len()), (LineAxis::Served, 6, 6));
    let names: Vec<&str> = lines.lines.iter().map(|line| line.name.as_str()).collect();
    assert_eq!(names, ["taken over", "Belady's optimum", "full K/V there"]);
    assert_eq!(lines.lines[1].values, [0.0, 0.0, 0.0, 25.0, 40.0, 100.0 * 2.0 / 6.0]);
    let block = 147_456.0 * 512.0;
    assert_eq!(lines.below[0].lines[0].values, [1.0, 2.0, 2.0, 2.0, 2.0, 2.0].map(|blocks| blocks * block));
    assert_eq!(lines.below[1].lines[0].values, [0.0, 0.0, 1.0, 2.0, 3.0, 4.0]);
    assert_eq!(lines.below[1].lines.len(), 1, "a model without states loses no checkpoint");
    let one = replay(&[7]);
    assert!(one.lines().is_none(), "one request is no line");
    let sentence = one.sheet(UnitSystem::Decimal).sentence;
    assert!(sentence.starts_with("1 request of qwen3-8b takes over 0.0 % of its blocks"), "{sentence}");
}

#[test]
fn tiers_have_names_of_their_own() {
    for (texts, sentence) in [
        (&["=50GB/s"][..], "tier: \"=50GB/s\" has no name; write host=50GB/s,15us"),
        (&["a=1GB/s", " a =2GB/s"], "tier: \"a\" is given twice; leave one out or name it otherwise"),
        (&["host"], "tier: \"host\" is not NAME=RATE[,ALPHA[,START]], such as host=50GB/s,15us"),
        (&["host=0GB/s"], "tier: a rate of 0 B/s moves nothing"),
    ] {
        assert_eq!(typed_tiers(texts).unwrap_err().to_string(), sentence);
    }
    assert_eq!(datasheet_tier(&Given::default()).unwrap(), None);
}

/// Options of one plan have names of their own, and what is usual can be read.
#[test]
fn forms_offer_what_plans_take() {
    for plan in PlanKind::ALL {
        let names: Vec<&str> = plan.fields().iter().map(|field| field.name).collect();
        assert!(names.iter().all(|name| PlanKind::has_field(name)));
        assert!(names.iter().enumerate().all(|(place, name)| !names[..place].contains(name)), "{plan:?}");
    }
    assert!(!PlanKind::has_field("batch"));
}
