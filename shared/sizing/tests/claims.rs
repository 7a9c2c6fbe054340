//! Published figures: every verdict in the data holds, and the checks can fail.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

use std::collections::BTreeSet;

use kvscope_sizing::Ratio;
use kvscope_sizing::claims::{
    CheckedClaim, Claim, Expected, Origin, VerdictKind, Working, check_claims, claims, publications,
};
use serde_json::{Value, json};

fn checked(id: &str) -> CheckedClaim {
    check_claims().into_iter().find(|row| row.claim.id == id).unwrap_or_else(|| panic!("no claim {id}"))
}

#[test]
fn every_verdict_in_the_data_holds() {
    let broken = check_claims().into_iter().filter(|row| !row.holds);
    let broken: Vec<String> = broken
        .map(|row| format!("{}: {} ({:?})", row.claim.id, row.verdict, row.computed.map(Ratio::as_f64)))
        .collect();
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

/// Right values by hand: 15 × 2 × 2 × 256 × 2 B × 100,000 + 192,061,440; 61 × 576 × 2 × 100,000; 78 × (1,152 + 132) ×
/// 100,000; 12 instead of 15 layers.
#[test]
fn figures_of_the_opening() {
    for (id, computed) in [
        ("article-qwen3.5-100k", 3.264_061_44),
        ("article-qwen3.5-100k-12-layers", 2.457_6),
        ("article-kimi-k2.6-100k", 7.027_2),
        ("article-deepseek-v3.2-100k", 7.832_4),
        ("article-glm-5.1-100k", 10.015_2),
        ("article-minimax-m2.7-100k", 25.395_2),
        ("article-glm-4.5-100k", 37.683_2),
        ("article-spread", 25.395_2 / 3.264_061_44),
        ("v1-deepseek-67b", 389_120.0 / 890.0),
        ("v7-mla-as-mha", 65_536.0 / 1_152.0),
        ("v5-v4-flash", 25_112.0 / 3_157.25),
    ] {
        let got = checked(id).computed.unwrap().as_f64();
        assert!((got / computed - 1.0).abs() < 1e-12, "{id}: {got}, not {computed}");
    }
    let row = checked("article-qwen3.5-100k");
    assert!(row.verdict.starts_with("differs: 15 of 60 layers"), "{}", row.verdict);
    assert_eq!(row.difference.unwrap(), Ratio::new(864_061_440, 1_000_000_000).unwrap());
}

#[test]
fn rows_have_the_fields_of_the_contract_and_what_is_not_computed_is_null() {
    let fields =
        ["id", "source", "published", "unit", "computed", "difference", "assumption", "verdict", "origin"];
    for row in check_claims() {
        let json = serde_json::to_value(&row).unwrap();
        assert_eq!(json.as_object().unwrap().keys().collect::<Vec<_>>(), fields);
        assert!(json["published"].is_number(), "{}", row.claim.id);
        if matches!(row.claim.expected, Expected::NotComputed) {
            assert_eq!(json["computed"], Value::Null);
            assert_eq!(json["difference"], Value::Null);
            let verdict = json["verdict"].as_str().unwrap();
            assert!(verdict.starts_with("not computed: needs "), "{}: {verdict}", row.claim.id);
        }
    }
    let ids: BTreeSet<&str> = claims().map(|claim| claim.id.as_str()).collect();
    assert_eq!(ids.len(), claims().count(), "an id is used twice");
}

/// A claim whose data is changed must be found out.
#[test]
fn a_verdict_that_no_longer_holds_is_told() {
    let claim = |published: &str, expected: Value| -> &'static Claim {
        let data = json!({
            "id": "x", "statement": "", "published": published, "unit": "layers",
            "recipe": {"layers": {"model": "kimi-k2.6"}}, "expected": expected,
        });
        Box::leak(Box::new(Claim::read(&data, "test").unwrap()))
    };
    let reproduced = json!({"verdict": "reproduced"});
    let differs = |computed: &str| json!({"verdict": "differs", "computed": computed, "why": "because"});
    for (published, expected, holds, verdict) in [
        ("61", reproduced.clone(), true, "reproduced"),
        ("62", reproduced, false, "differs: the computed figure no longer has the published digits"),
        ("62", differs("61"), true, "differs: because"),
        ("62", differs("60"), false, "differs: the computed figure is no longer the 60 explained"),
        ("61", differs("61"), false, "reproduced"),
        ("61", json!({"verdict": "not_computed"}), false, "reproduced"),
    ] {
        let row = claim(published, expected).check();
        assert_eq!((row.holds, row.verdict.as_str()), (holds, verdict), "{published}");
    }
}

/// An unknown model in a recipe is a verdict that does not hold, not a panic.
#[test]
fn a_recipe_that_cannot_be_computed_is_told() {
    let data = json!({
        "id": "x", "statement": "", "published": "1", "unit": "layers",
        "recipe": {"layers": {"model": "no-such-model"}}, "expected": {"verdict": "reproduced"},
    });
    let claim: &'static Claim = Box::leak(Box::new(Claim::read(&data, "test").unwrap()));
    let row = claim.check();
    assert!(!row.holds && row.computed.is_none() && row.verdict.contains("no-such-model"), "{}", row.verdict);
    assert_eq!(row.kind(), VerdictKind::NotComputed);
}

#[test]
fn a_key_of_a_wrong_kind_is_named() {
    let state = |extra: Value| {
        let mut state = json!({"model": "qwen3-8b", "figure": "slope_bytes_per_token"});
        for (key, value) in extra.as_object().unwrap() {
            state[key] = value.clone();
        }
        json!({"state": state})
    };
    let reproduced = json!({"verdict": "reproduced"});
    for (place, recipe, expected) in [
        ("needs", json!({"needs": 3}), &reproduced),
        ("settings", state(json!({"settings": ["kv_dtype"]})), &reproduced),
        ("settings.tp", state(json!({"settings": {"tp": 2}})), &reproduced),
        ("with", state(json!({"with": "x"})), &reproduced),
        ("expected", json!({"needs": "x"}), &json!({"verdict": "reproduced", "computed": "1"})),
        ("expected", json!({"needs": "x"}), &json!({"verdict": "not_computed", "why": "x"})),
    ] {
        let data = json!({
            "id": "x", "statement": "", "published": "1", "unit": "layers", "recipe": recipe, "expected": expected,
        });
        let error = Claim::read(&data, "test").unwrap_err();
        assert_eq!(error.place(), Some(place), "{error}");
    }
}

fn all_of(steps: &[Working]) -> Vec<&Working> {
    steps.iter().flat_map(|step| std::iter::once(step).chain(all_of(&step.parts))).collect()
}

/// By hand: 15 × 100,000 × 2,048 B and 2 × (256 + 256) × 2 B; 45 × 4,194,304 B.
#[test]
fn a_working_ends_in_the_config_fields() {
    let row = checked("article-qwen3.5-100k");
    let steps = row.working().unwrap();
    let worked: Vec<&str> = all_of(&steps).iter().map(|step| step.worked.as_str()).collect();
    for part in [
        "3,264,061,440 B",
        "15 layers × 100,000 entries × 2,048 B = 3,072,000,000 B",
        "45 layers × 4,194,304 B = 188,743,680 B",
        "2, from text_config.num_key_value_heads",
        "3.264 GB − 2.4 GB = +0.864 GB",
    ] {
        assert!(worked.contains(&part), "{part} is not among {worked:#?}");
    }
    assert!(
        steps[0].what.starts_with("Qwen3.5-397B-A17B: bytes held, at 100,000 tokens"),
        "{}",
        steps[0].what
    );
}

#[test]
fn every_claim_has_a_working_that_ends_in_its_figure() {
    for row in check_claims() {
        let steps = row.working().unwrap_or_else(|error| panic!("{}: {error}", row.claim.id));
        assert!(
            steps.iter().all(|step| !step.what.is_empty() && !step.worked.is_empty()),
            "{}",
            row.claim.id
        );
        match row.computed {
            Some(_) => assert!(steps[1].worked.starts_with(&row.computed_words()), "{}", row.claim.id),
            None => assert!(steps[0].worked.starts_with("needs "), "{}: {}", row.claim.id, steps[0].worked),
        }
    }
}

#[test]
fn a_claim_says_which_versions_it_is_about_and_with_which_settings() {
    let subject = checked("v2-v4-pro-share").claim.subject();
    assert_eq!(subject.models, ["deepseek-v4-pro", "deepseek-v3.2"]);
    assert_eq!(subject.context.unwrap().get(), 1_000_000);
    assert!(subject.settings.is_none(), "one side has formats of its own");
    let subject = checked("v4-ratio").claim.subject();
    assert_eq!(subject.settings.unwrap().kv_dtype.map(kvscope_sizing::KvFormat::name), Some("bf16"));
    assert!(checked("article-batch-7.4").claim.subject().models.is_empty());
}

#[test]
fn verdicts_are_of_five_kinds_and_sources_can_be_followed() {
    let kind = |id: &str| checked(id).kind();
    assert_eq!(kind("article-qwen3.5-100k"), VerdictKind::Differs);
    assert_eq!(kind("article-mla-57"), VerdictKind::Assumed);
    assert_eq!(kind("article-minimax-m2.7-100k"), VerdictKind::Reproduced);
    // The reference's own arithmetic is no publication.
    assert_eq!(kind("payload-deepseek-v3-32k"), VerdictKind::ByHand);
    assert!(publications().iter().all(|publication| match publication.origin {
        Origin::Published => publication.claims.iter().all(|claim| !claim.source.contains("by hand")),
        Origin::ByHand => publication.url.is_none(),
    }));
    let open = json!({
        "id": "x", "statement": "", "published": "1", "unit": "layers",
        "recipe": {"needs": "more"}, "expected": {"verdict": "not_computed"},
    });
    let open: &'static Claim = Box::leak(Box::new(Claim::read(&open, "test").unwrap()));
    assert_eq!((open.check().kind(), open.check().holds), (VerdictKind::NotComputed, true));
    for publication in publications() {
        let cited = publication.claims.iter().filter_map(|claim| Some(&claim.cites.as_ref()?.1));
        for url in publication.url.iter().chain(cited) {
            assert!(url.starts_with("https://"), "{}: {url}", publication.id);
        }
    }
    assert_eq!(
        checked("article-mla-57").claim.source,
        "“KV Cache 不再只有一种增长公式”, v1.2, 2026-06-01, chapter 6; arXiv 2604.26968"
    );
}

#[test]
fn a_key_that_no_rule_knows_is_told() {
    let data = json!({"id": "x", "statement": "", "published": "1", "unit": "layers", "rounded": "up",
        "recipe": {"layers": {"model": "kimi-k2.6"}}, "expected": {"verdict": "reproduced"}});
    assert!(Claim::read(&data, "test").unwrap_err().to_string().contains("\"rounded\" is not known"));
}
