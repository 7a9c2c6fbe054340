//! Prefix reuse: hits, replays and kept bytes by hand, and what a user measured.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

use kvscope_sizing::plan::Moving;
use kvscope_sizing::plan::prefix::{
    PrefixPlan, PrefixQuestion, ReuseUnder, SharedPrefix, reuse, reuse_curve,
};
use kvscope_sizing::{Ratio, Result, Settings, Tokens, find_entry};

struct Ask {
    model: &'static str,
    vllm: &'static str,
    lengths: [u64; 3],
    interval: u64,
    settings: &'static [(&'static str, &'static str)],
}

impl Ask {
    fn of(model: &'static str, lengths: [u64; 3]) -> Self {
        Self { model, vllm: "vllm@0.33", lengths, interval: 4096, settings: &[] }
    }

    fn try_plan(&self) -> Result<PrefixPlan> {
        let [first, second, shared] = self.lengths.map(Tokens::new);
        let architecture = find_entry(self.model)?.architecture()?;
        let mut settings = Settings::default();
        for (name, value) in self.settings {
            settings.set(name, value)?;
        }
        reuse(&PrefixQuestion {
            moving: Moving::Inputs,
            model: self.model,
            architecture: &architecture,
            settings: &settings,
            vllm: &self.vllm.parse()?,
            prefix: SharedPrefix::new(first, second, shared)?,
            interval: Tokens::new(self.interval),
        })
    }

    fn rule(&self, rule: &str) -> ReuseUnder {
        let plan = self.try_plan().unwrap();
        plan.rule(rule).unwrap_or_else(|| panic!("no {rule}: {:?}", plan.warnings)).clone()
    }

    fn hit(&self, rule: &str) -> u64 {
        self.rule(rule).hit_tokens.get()
    }
}

fn ratio(numerator: i128, denominator: i128) -> Ratio {
    Ratio::new(numerator, denominator).unwrap()
}

/// <https://github.com/vllm-project/vllm/issues/40696>: vLLM 0.19.1, Qwen3.5-4B, whose attention and states have the 9B's
/// shapes: 32 × 128 × 128 × 4 B + 3 × 8,192 × 2 B over 4 × 256 × 2 × 2 B is 524 tokens, in blocks of 16: 528.
#[test]
fn a_user_saw_no_hits_below_a_block_of_528() {
    for (tokens, hit) in [(480, 0), (552, 528), (979, 528)] {
        let ask = Ask { vllm: "vllm@0.19", ..Ask::of("qwen3.5-9b", [tokens; 3]) };
        let row = ask.rule("vllm_blocks");
        assert_eq!(row.hit_tokens.get(), hit, "{}", row.why);
        assert_eq!(row.saved_share, ratio(hit.into(), tokens.into()));
        assert_eq!(row.computed_tokens.get(), tokens - hit);
    }
}

/// A state saved behind the shared part is of no use: 15 blocks of 528 fill a step of 8,192 tokens, and the last whole block
/// ends at 9,504.
#[test]
fn states_lie_where_steps_end() {
    for (shared, vllm) in [(5000, 0), (7919, 0), (7920, 7920), (9503, 7920), (9504, 9504)] {
        let ask = Ask { vllm: "vllm@0.19", ..Ask::of("qwen3.5-9b", [10_000, 12_000, shared]) };
        assert_eq!((ask.hit("vllm_blocks"), ask.hit("sglang_checkpoints")), (vllm, 0), "{shared}");
    }
    // SGLang's buffered strategy saves the last whole chunk of 64 tokens; a plain copy lies behind the last usable token.
    let ask = Ask::of("qwen3.5-9b", [10_000; 3]);
    assert_eq!(ask.hit("sglang_checkpoints"), 9984);
    assert_eq!(
        Ask { settings: &[("mamba_radix_strategy", "no_buffer")], ..ask }.hit("sglang_checkpoints"),
        0
    );
    let spaced =
        Ask { settings: &[("checkpoint_interval", "2000")], ..Ask::of("qwen3.5-9b", [10_000, 12_000, 5000]) };
    assert_eq!(spaced.hit("sglang_checkpoints"), 4000);
    assert_eq!(spaced.rule("vllm_blocks").granularity_tokens, None);
}

/// Two states of 24 layers, each padded to a page of 528 × 4,096 B, beside 18 blocks of 8 layers.
#[test]
fn what_vllm_keeps_of_a_hybrid() {
    let ask = Ask { vllm: "vllm@0.19", ..Ask::of("qwen3.5-9b", [10_000, 12_000, 8000]) };
    let (page, blocks) = (528 * 4096, 18);
    let row = ask.rule("vllm_blocks");
    assert_eq!(row.kept_bytes.get(), blocks * 8 * page + 2 * 24 * page);
    // Taken over: 15 blocks and one state as it is, 32 × 128 × 128 × 4 B and 3 × 8,192 × 2 B a layer.
    assert_eq!(row.reused_bytes.get(), 7920 * 4096 * 8 + 24 * (2_097_152 + 49_152));
    assert_eq!(row.write_amplification, None);
}

#[test]
fn plain_attention_hits_at_blocks_pages_and_tokens() {
    let ask = Ask::of("qwen3-8b", [1000, 1000, 1000]);
    assert_eq!(
        ["vllm_blocks", "sglang_checkpoints", "store_at_end"].map(|rule| ask.hit(rule)),
        [992, 999, 999]
    );
    // 256 positions a block in vLLM's V4, and as many a page in SGLang; groups of 128 on disk.
    let ask = Ask::of("deepseek-v4-pro", [1000, 1000, 1000]);
    assert_eq!(ask.hit("vllm_blocks"), 768);
    assert_eq!(ask.hit("store_full"), 896);
    // DSA: blocks of 64 in both.
    let ask = Ask::of("deepseek-v3.2", [1000, 1000, 1000]);
    assert_eq!(["vllm_blocks", "sglang_checkpoints"].map(|rule| ask.hit(rule)), [960, 960]);
}

/// DeepSeek-V4 report (arXiv 2606.19348), on-disk storage: without windows 128 tokens a layer run again, which is 128 × 61 for
/// Pro and 128 × 43 for Flash.
#[test]
fn replays_of_the_three_window_policies() {
    for (model, replayed) in [("deepseek-v4-pro", 7808), ("deepseek-v4-flash", 5504)] {
        let row = Ask::of(model, [100_000, 100_000, 90_000]).rule("store_zero");
        assert_eq!((row.hit_tokens.get(), row.replayed_tokens.get()), (90_000 / 128 * 128, replayed));
        assert_eq!(row.computed_tokens.get(), 100_000 - 89_984 + replayed);
        assert_eq!(row.write_amplification, Some(Ratio::whole(1)));
    }
    // 9,984 is the last whole group; the window before it lies 1,792 tokens back, at 2 × 4,096.
    let ask = Ask::of("deepseek-v4-pro", [20_000, 12_000, 10_000]);
    let replays = |rule: &str| ask.rule(rule).replayed_tokens.get();
    assert_eq!(["store_full", "store_periodic", "store_at_end"].map(replays), [0, 1792, 7808]);
    // A window of 128 × 584 B in 61 layers is taken over wherever one lies before the end of the hit.
    let reused = |rule: &str| ask.rule(rule).reused_bytes.get() - ask.rule("store_zero").reused_bytes.get();
    let window = 61 * 128 * 584;
    assert_eq!(["store_full", "store_periodic", "store_at_end"].map(reused), [window, window, 0]);
    // No replay is longer than what it replays.
    assert_eq!(Ask::of("deepseek-v4-pro", [1000, 1000, 600]).rule("store_zero").saved_share, Ratio::ZERO);
    // V4.1 runs one window again.
    let one = Ask::of("deepseek-v4.1-flash", [100_000; 3]).rule("store_one_window");
    assert_eq!(one.replayed_tokens.get(), 128);
}

/// V4-Pro at 131,072 tokens: 30 × 652 / 4 + 31 × 584 / 128 bytes a token, beside 61 windows of 584-byte entries.
#[test]
fn windows_of_every_token_are_written_and_one_is_read() {
    let n = 131_072_u64;
    let row = Ask::of("deepseek-v4-pro", [n, n, n]).rule("store_full");
    let entries = 30 * 652 * n / 4 + 31 * 584 * n / 128;
    assert_eq!(row.kept_bytes.get(), entries + 61 * 584 * n);
    let read = entries + 61 * 584 * 128;
    assert_eq!(row.write_amplification, Some(ratio(row.kept_bytes.get().into(), read.into())));
    // A window every 4,096 tokens: 32 of them.
    let row = Ask::of("deepseek-v4-pro", [n, n, n]).rule("store_periodic");
    assert_eq!(row.kept_bytes.get(), entries + 32 * 61 * 584 * 128);
}

/// Gemma 3 keeps 5 window layers for each full one; SGLang's list of window pools lacks it, a tree node's windows are those at
/// its end.
#[test]
fn windows_at_the_end_only() {
    let ask = Ask::of("gemma-3-27b", [50_000, 50_000, 40_000]);
    assert_eq!(ask.hit("vllm_blocks"), 40_000);
    assert_eq!(ask.hit("sglang_checkpoints"), 0);
    assert_eq!(Ask::of("gemma-3-27b", [50_000; 3]).hit("sglang_checkpoints"), 49_999);
}

#[test]
fn what_has_no_answer_is_a_sentence() {
    let error = |ask: Ask| ask.try_plan().unwrap_err().to_string();
    for (lengths, sentence) in [
        ([0, 10, 0], "first: a prompt of 0 tokens has no prefix; give at least 1"),
        ([10, 0, 0], "second: a prompt of 0 tokens has no prefix; give at least 1"),
        ([10, 20, 11], "shared: 11 tokens cannot be shared by prompts of 10 and 20"),
        (
            [300_000, 10, 5],
            "first: 300,000 tokens is beyond the 256Ki that the config allows; give at most those",
        ),
    ] {
        assert_eq!(error(Ask::of("qwen3.5-9b", lengths)), sentence);
    }
    assert!(error(Ask { interval: 0, ..Ask::of("qwen3-8b", [9; 3]) }).starts_with("every: "));
    assert!(error(Ask { vllm: "sglang", ..Ask::of("qwen3-8b", [9; 3]) }).starts_with("vllm: "));
    // A step that holds no block: vLLM's row is left out, and a warning says why.
    let plan = Ask { settings: &[("max_num_batched_tokens", "512")], ..Ask::of("qwen3.5-9b", [9000; 3]) };
    let plan = plan.try_plan().unwrap();
    assert!(plan.rule("vllm_blocks").is_none());
    assert!(plan.warnings.iter().any(|warning| warning.to_string().contains("holds no block of")));
    // Nothing shared is nothing saved, by every rule.
    let nothing = Ask::of("deepseek-v4-pro", [1000, 1000, 0]).try_plan().unwrap();
    assert!(
        nothing.rules.iter().all(|row| row.saved_share == Ratio::ZERO && row.computed_tokens.get() == 1000)
    );
    assert!(nothing.rules.iter().all(|row| row.reused_bytes.get() == 0));
}

#[test]
fn token_files_say_what_is_shared() {
    let prefix = SharedPrefix::of_ids(&[1, 2, 3, 4], &[1, 2, 9]).unwrap();
    assert_eq!(prefix, SharedPrefix::new(Tokens::new(4), Tokens::new(3), Tokens::new(2)).unwrap());
    assert!(SharedPrefix::of_ids(&[], &[1]).is_err());
}

/// Every version of the catalogue, at every cut of a short prompt: nothing is saved that is not shared.
#[test]
fn no_rule_saves_more_than_is_shared() {
    for entry in kvscope_sizing::catalogue() {
        for shared in [0, 1, 63, 64, 127, 128, 500, 999, 1000] {
            let ask = Ask::of(&entry.id, [1000, 1000, shared]);
            let plan = ask.try_plan().unwrap_or_else(|error| panic!("{}: {error}", entry.id));
            for row in &plan.rules {
                assert!(row.hit_tokens.get() <= shared.min(999), "{} {}", entry.id, row.rule);
                assert!(row.replayed_tokens <= row.hit_tokens, "{} {}", entry.id, row.rule);
                assert_eq!(row.lost_tokens.get() + row.hit_tokens.get(), shared, "{} {}", entry.id, row.rule);
            }
        }
    }
}

/// Llama-3.1-8B keeps every token: of 1,000 tokens that share 800, which are 50 blocks of 16, 200 are computed. With 720 and 880
/// shared ones, which are whole blocks too, 280 and 120; of a prompt of 900 and 1,100 tokens 100 and 300.
#[test]
fn a_tenth_of_each_input_moves_what_is_computed() {
    let moved = Ask::of("llama-3.1-8b", [1000, 1000, 800]).rule("vllm_blocks").sensitivities;
    let row = |input: &str| {
        let row = moved.iter().find(|row| row.input == input).unwrap();
        (row.with_less, row.with_more)
    };
    assert_eq!(moved[0].input, "second prompt");
    assert_eq!(row("second prompt"), (Some(100.0), Some(300.0)));
    assert_eq!(row("shared tokens"), (Some(280.0), Some(120.0)));
    assert_eq!(row("first prompt"), (Some(200.0), Some(200.0)));
    // Of a first prompt of 900 tokens that is shared as a whole 896 are whole blocks.
    let moved = Ask::of("llama-3.1-8b", [1000, 1000, 1000]).rule("vllm_blocks").sensitivities;
    let first = moved.iter().find(|row| row.input == "first prompt").unwrap();
    assert_eq!(first.with_less, Some(104.0));
}

#[test]
fn a_curve_of_reuse_is_the_plan_at_every_length() {
    let architecture = find_entry("qwen3.5-9b").unwrap().architecture().unwrap();
    let (settings, vllm) = (Settings::default(), "vllm@0.33".parse().unwrap());
    let tokens = Tokens::new(20_000);
    let mut question = PrefixQuestion {
        moving: Moving::Nothing,
        model: "qwen3.5-9b",
        architecture: &architecture,
        settings: &settings,
        vllm: &vllm,
        prefix: SharedPrefix::new(tokens, tokens, Tokens::new(9001)).unwrap(),
        interval: Tokens::new(4096),
    };
    let curve = reuse_curve(&question).unwrap();
    assert!(curve.shared.len() == 65 && curve.shared.contains(&Tokens::new(9001)));
    for (place, shared_tokens) in curve.shared.iter().enumerate() {
        question.prefix.shared_tokens = *shared_tokens;
        let plan = reuse(&question).unwrap();
        assert_eq!(plan.rules.len(), curve.rules.len());
        for (rule, computed) in &curve.rules {
            assert_eq!(plan.rule(rule).unwrap().computed_tokens, computed[place], "{rule}, {shared_tokens}");
        }
        assert!(plan.rules.iter().all(|row| row.sensitivities.is_empty()));
    }
}
