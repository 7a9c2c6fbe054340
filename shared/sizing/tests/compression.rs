//! Compression by hand, and what `KVServe`'s released table tells.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

use kvscope_sizing::plan::compression::{
    CompressionPlan, KVSERVE_GBPS, KVSERVE_ROWS, Method, Strategy, Touch, Transfer, compress, kvserve_points,
    line, published, told, touch,
};
use kvscope_sizing::{ComponentKind, Result, Settings, StateModel, Tokens, find_entry};

fn strategy(name: &str, method: Method, ratio: f64, speed: f64, loss: Option<f64>) -> Strategy {
    Strategy {
        name: name.to_owned(),
        method,
        ratio,
        codec_bytes_per_second: speed,
        accuracy_loss_points: loss,
        source: "given".to_owned(),
    }
}

fn transfer(bytes_per_second: f64) -> Transfer {
    Transfer {
        model_seconds: 1.0,
        bytes_per_second,
        start_seconds: 0.0,
        accuracy_floor_points: None,
        slo_seconds: None,
    }
}

fn plan(id: &str, context: u64, transfer: &Transfer, strategies: &[Strategy]) -> Result<CompressionPlan> {
    let state = StateModel::new(&find_entry(id)?.architecture()?, &Settings::default())?;
    compress(&state, Tokens::new(context), transfer, strategies)
}

fn near(got: f64, right: f64) {
    assert!((got / right - 1.0).abs() < 1e-12, "{got}, not {right}");
}

/// Qwen3-8B: 36 × 8 × 256 × 2 B = 147,456 B a token; 100,000 of them over 1 GB/s, four times smaller at 20 GB/s.
#[test]
fn times_and_the_bandwidth_where_it_stops_paying() {
    let four = strategy("four", Method::Quantise, 4.0, 20e9, Some(1.0));
    let plan = plan("qwen3-8b", 100_000, &transfer(1e9), &[four]).unwrap();
    assert_eq!(plan.transfer_bytes.get(), 14_745_600_000);
    near(plan.options[0].seconds, 1.0 + 14.7456);
    near(plan.options[1].seconds, 1.0 + 14.7456 / 20.0 + 14.7456 / 4.0);
    near(plan.options[1].pays_below_bytes_per_second.unwrap(), 15e9);
    assert_eq!(plan.winner.as_deref(), Some("four"));
    // Bytes move both terms, and time beside the transfer is small: 1 + 1.1 × (0.73728 + 3.6864) s with a tenth more.
    assert_eq!(plan.sensitivities[0].input, "bytes");
    near(plan.sensitivities[0].with_more.unwrap(), 1.0 + 1.1 * (14.7456 / 20.0 + 14.7456 / 4.0));
    // At B* both take as long; beyond it nothing is compressed.
    let ends: Vec<_> =
        plan.by_bandwidth.iter().map(|one| (one.fastest.as_str(), one.to_bytes_per_second)).collect();
    assert_eq!(ends.len(), 2);
    assert_eq!((ends[0].0, ends[1]), ("four", ("none", None)));
    near(ends[0].1.unwrap(), 15e9);
}

#[test]
fn the_rest_of_the_state_moves_no_break_even() {
    // A hybrid: 12 of 48 layers have K and V, the states are left alone.
    let four = || strategy("four", Method::Quantise, 4.0, 20e9, None);
    let plan = plan("qwen3-next-80b-a3b", 100_000, &transfer(15e9), &[four()]).unwrap();
    let kv = plan.components.iter().find(|one| one.kind == ComponentKind::Kv).unwrap().bytes;
    assert_eq!(plan.options[1].touched_bytes, kv);
    assert!(kv < plan.transfer_bytes && plan.options[1].whole_ratio < 4.0);
    near(plan.options[1].seconds, plan.options[0].seconds);
}

/// The slowest link takes the smallest, the fastest nothing; in between the envelope has no option that is never fastest.
#[test]
fn the_envelope_of_several() {
    let strategies = [
        strategy("small", Method::Quantise, 8.0, 5e9, None),
        strategy("quick", Method::Quantise, 2.0, 50e9, None),
        strategy("bad", Method::Quantise, 1.9, 4e9, None),
    ];
    let plan = plan("qwen3-8b", 10_000, &transfer(1e9), &strategies).unwrap();
    let names: Vec<&str> = plan.by_bandwidth.iter().map(|one| one.fastest.as_str()).collect();
    assert_eq!(names, ["small", "quick", "none"]);
    // V/5 + V/(8B) = V/50 + V/(2B): B = (1/2 − 1/8) / (1/5 − 1/50) = 0.375 / 0.18.
    near(plan.by_bandwidth[0].to_bytes_per_second.unwrap(), 0.375 / 0.18 * 1e9);
    near(plan.by_bandwidth[1].to_bytes_per_second.unwrap(), 25e9);
    for one in &plan.by_bandwidth {
        let inside = match one.to_bytes_per_second {
            Some(to) => f64::midpoint(one.from_bytes_per_second, to),
            None => one.from_bytes_per_second * 2.0,
        };
        let at = self::plan("qwen3-8b", 10_000, &transfer(inside), &strategies).unwrap();
        assert_eq!(at.winner.as_deref(), Some(one.fastest.as_str()), "at {inside}");
    }
}

#[test]
fn accuracy_and_time_refuse() {
    let strategies = [
        strategy("lossy", Method::Quantise, 8.0, 50e9, Some(4.0)),
        strategy("unknown", Method::Quantise, 6.0, 50e9, None),
        strategy("exact", Method::Lossless, 1.4, 600e9, Some(0.0)),
    ];
    let strict = Transfer { accuracy_floor_points: Some(3.0), ..transfer(1e9) };
    let plan = plan("qwen3-8b", 100_000, &strict, &strategies).unwrap();
    let refused: Vec<Option<&str>> = plan.options.iter().map(|one| one.refused.as_deref()).collect();
    assert_eq!(
        refused,
        [
            None,
            Some("loses 4 points, more than the 3 allowed"),
            Some("its loss of accuracy is not known"),
            None
        ]
    );
    assert_eq!(plan.winner.as_deref(), Some("exact"));
    // Nothing is quick enough: no winner, and the slowest link that would do.
    let hurried = Transfer { slo_seconds: Some(2.0), ..transfer(1e9) };
    let plan = self::plan("qwen3-8b", 100_000, &hurried, &strategies[2..]).unwrap();
    assert_eq!(plan.winner, None);
    near(plan.options[0].slo_bytes_per_second.unwrap(), 14.7456e9);
    // Of the second that is left 14.7456 GB / 600 GB/s are the codec's; on slower links than these nothing is in time.
    near(plan.by_bandwidth[0].from_bytes_per_second, 14.7456e9 / 1.4 / (1.0 - 0.024_576));
    let impossible = Transfer { slo_seconds: Some(0.5), ..transfer(1e9) };
    let plan = self::plan("qwen3-8b", 100_000, &impossible, &[]).unwrap();
    assert_eq!((plan.winner, plan.options[0].slo_bytes_per_second), (None, None));
}

/// Lossy methods were measured on 16-bit K and V of heads: a latent, an index key and a state are not theirs.
#[test]
fn what_must_not_be_touched() {
    let lossy = [Method::Quantise, Method::QuantiseByHead, Method::DeltaCodec];
    for kind in ComponentKind::ALL {
        assert_eq!(touch(Method::Lossless, kind, "bf16"), Touch::Applies);
        let heads = matches!(
            kind,
            ComponentKind::Kv | ComponentKind::WindowKv | ComponentKind::ChunkKv | ComponentKind::CrossKv
        );
        for method in lossy {
            assert_eq!(touch(method, kind, "bf16") == Touch::Applies, heads, "{kind:?}");
            assert_ne!(touch(method, kind, "fp8"), Touch::Applies);
        }
    }
    let kivi = strategy("KIVI", Method::Quantise, 7.0, 10e9, None);
    let plan = plan("deepseek-v3.2", 100_000, &transfer(1e9), &[kivi]).unwrap();
    assert_eq!(plan.options[1].refused.as_deref(), Some("nothing of this state may be touched by it"));
    assert_eq!(plan.winner.as_deref(), Some("none"));
    assert_eq!(plan.by_bandwidth.len(), 1);
}

/// The table's own lines. Uncompressed: 25.7 GB at a mean error of 10 %; the controller's two constants leave as much.
#[test]
fn the_released_table_tells_slopes_and_little_else() {
    let points = |name: &str| kvserve_points(name).unwrap();
    assert_eq!((KVSERVE_GBPS.len(), KVSERVE_ROWS.len()), (6, 4));
    let plain = line(&points("none")).unwrap();
    assert!(
        (plain.mean_error - 0.1033).abs() < 1e-3 && (plain.worst_error - 0.178).abs() < 1e-3,
        "{plain:?}"
    );
    assert!((plain.bytes / 25.7e9 - 1.0).abs() < 1e-3);
    for (name, ratio, crossing_gbps) in
        [("CacheGen", 14.05, 85.3), ("KIVI", 7.14, 91.4), ("KVServe", 42.4, 81.3)]
    {
        let told = told(&points("none"), &points(name)).unwrap();
        assert!((told.bytes_ratio / ratio - 1.0).abs() < 2e-3, "{name}: {told:?}");
        let gbps = told.crossing_bytes_per_second.unwrap() * 8e-9;
        assert!((gbps / crossing_gbps - 1.0).abs() < 2e-3, "{name}: {gbps}");
        assert!(told.ahead_at_the_fastest, "{name}");
        // B* = (1 − 1/CR)·S is the same crossing.
        let speed = told.codec_bytes_per_second.unwrap();
        near((1.0 - 1.0 / told.bytes_ratio) * speed, told.crossing_bytes_per_second.unwrap());
    }
    let pays: Vec<f64> = published().unwrap().iter().map(|one| one.pays_below() * 8e-9).collect();
    assert!((pays[0] - 85.3).abs() < 0.2 && (pays[1] - 91.4).abs() < 0.2, "{pays:?}");
    assert!(kvserve_points("MixHQ").is_err());
}

#[test]
fn a_line_that_made_the_points_comes_back() {
    let points = [1e9, 2e9, 5e9].map(|rate| (rate, 0.25 + 7e9 / rate));
    let fit = line(&points).unwrap();
    assert!((fit.constant_seconds - 0.25).abs() < 1e-9 && (fit.bytes / 7e9 - 1.0).abs() < 1e-9, "{fit:?}");
    assert!(line(&points[..1]).is_err() && line(&[(1e9, 1.0), (1e9, 2.0)]).is_err());
    assert!(line(&[(0.0, 1.0), (1e9, 2.0)]).is_err() && line(&[(1e9, f64::NAN), (2e9, 2.0)]).is_err());
    // A strategy that is quicker beside the link as well never stops paying.
    let told = told(&points, &[1e9, 2e9, 5e9].map(|rate| (rate, 0.2 + 1e9 / rate))).unwrap();
    assert_eq!((told.codec_bytes_per_second, told.crossing_bytes_per_second), (None, None));
}

#[test]
fn what_has_no_answer_is_a_sentence() {
    let error = |transfer: &Transfer, strategies: &[Strategy]| {
        plan("qwen3-8b", 1000, transfer, strategies).unwrap_err().to_string()
    };
    assert_eq!(error(&transfer(0.0), &[]), "bandwidth: a rate of 0 B/s moves nothing");
    assert!(error(&transfer(f64::NAN), &[]).starts_with("bandwidth: "));
    assert!(error(&Transfer { slo_seconds: Some(-1.0), ..transfer(1e9) }, &[]).starts_with("slo: "));
    for (ratio, speed, loss) in
        [(1.0, 1e9, None), (0.5, 1e9, None), (f64::NAN, 1e9, None), (4.0, 0.0, None), (4.0, 1e9, Some(-1.0))]
    {
        let bad = strategy("bad", Method::Quantise, ratio, speed, loss);
        assert!(error(&transfer(1e9), &[bad]).starts_with("strategy: bad"), "{ratio} {speed}");
    }
    near(Strategy::harmonic(613e9, 2182e9), 613.0 * 2182.0 / (613.0 + 2182.0) * 1e9);
}
