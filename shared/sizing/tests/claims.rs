//! Published figures: every verdict in the data holds, and the checks can fail.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

use std::collections::BTreeSet;

use kvscope_sizing::Ratio;
use kvscope_sizing::claims::{CheckedClaim, Claim, Expected, check_claims, claims};
use serde_json::{Value, json};

fn checked(id: &str) -> CheckedClaim {
    check_claims().into_iter().find(|row| row.claim.id == id).unwrap_or_else(|| panic!("no claim {id}"))
}

#[test]
fn every_verdict_in_the_data_holds() {
    for row in check_claims() {
        assert!(row.holds, "{}: {} ({:?})", row.claim.id, row.verdict, row.computed.map(Ratio::as_f64));
    }
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
    let fields = ["id", "source", "published", "unit", "computed", "difference", "assumption", "verdict"];
    for row in check_claims() {
        let json = serde_json::to_value(&row).unwrap();
        assert_eq!(json.as_object().unwrap().keys().collect::<Vec<_>>(), fields);
        assert!(json["published"].is_number(), "{}", row.claim.id);
        if matches!(row.claim.expected, Expected::NotComputed {}) {
            assert_eq!(json["computed"], Value::Null);
            assert_eq!(json["difference"], Value::Null);
            assert_eq!(json["verdict"], "not computed: needs the cost model");
        }
    }
    let ids: BTreeSet<&str> = claims().iter().map(|claim| claim.id.as_str()).collect();
    assert_eq!(ids.len(), claims().len(), "an id is used twice");
}

/// A claim whose data is changed must be found out.
#[test]
fn a_verdict_that_no_longer_holds_is_told() {
    let claim = |published: &str, expected: Value| -> &'static Claim {
        let data = json!({
            "id": "x", "source": "test", "statement": "", "published": published, "unit": "layers",
            "recipe": {"layers": {"model": "kimi-k2.6"}}, "assumption": null, "expected": expected,
        });
        Box::leak(Box::new(serde_json::from_value(data).unwrap()))
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
        "id": "x", "source": "test", "statement": "", "published": "1", "unit": "layers",
        "recipe": {"layers": {"model": "no-such-model"}}, "assumption": null, "expected": {"verdict": "reproduced"},
    });
    let claim: &'static Claim = Box::leak(Box::new(serde_json::from_value(data).unwrap()));
    let row = claim.check();
    assert!(!row.holds && row.computed.is_none() && row.verdict.contains("no-such-model"), "{}", row.verdict);
}
