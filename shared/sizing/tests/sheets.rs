//! Answers of plans as people read them, and what is drawn of them.

use kvscope_sizing::engine::{Engine, EngineKind};
use kvscope_sizing::plan::{
    Given, LineQuantity, Offloading, PlanKind, Subject, capacity_of, datasheet_tier, typed_tiers,
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
        capacity_of(&subject, logical, &Settings::default(), &[Tokens::new(1000)], None, &given).unwrap()
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
    let place = lines.contexts.iter().position(|context| context.get() == 1000).unwrap();
    assert_eq!((place, lines.lines[0].values[0]), (0, requests as f64));
    assert!(lines.contexts.windows(2).all(|pair| pair[0] < pair[1]));
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

#[test]
fn tiers_have_names_of_their_own() {
    for (texts, sentence) in [
        (&["=50GB/s"][..], "tier: \"=50GB/s\" has no name; write host=50GB/s,15us"),
        (&["a=1GB/s", " a =2GB/s"], "tier: \"a\" is given twice; leave one out or name it otherwise"),
        (&["host"], "tier: \"host\" is not NAME=RATE[,ALPHA[,START]], such as host=50GB/s,15us"),
        (&["host=0GB/s"], "tier: a link of 0 B/s moves nothing"),
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
