//! Replays by hand, against plain reference replays, and against every possible choice.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

use std::collections::HashMap;
use std::fmt::Write as _;

use kvscope_sizing::plan::Moving;
use kvscope_sizing::plan::simulation::{
    Compare, Moment, Rates, Replay, Simulation, StoreTier, Trace, simulate,
};
use kvscope_sizing::{Bytes, ComponentKind, Result, Settings, StateModel, Tokens, find_entry, read_config};
use proptest::prelude::*;

/// Qwen3-8B: 36 × 8 × 256 × 2 B = 147,456 B a token; a block of 512 tokens.
const QWEN3_BLOCK: u64 = 147_456 * 512;

fn state(id: &str) -> StateModel {
    StateModel::new(&find_entry(id).unwrap().architecture().unwrap(), &Settings::default()).unwrap()
}

fn tier(name: &str, bytes: Option<u64>) -> StoreTier {
    StoreTier { name: name.to_owned(), capacity_bytes: bytes.map(Bytes::new) }
}

/// One request a second, with whole blocks.
fn trace(requests: &[&[u64]]) -> Trace {
    let mut text = String::new();
    for (second, blocks) in requests.iter().enumerate() {
        let (ms, tokens) = (second * 1000, blocks.len() * 512 + 1);
        let _ = writeln!(
            text,
            r#"{{"timestamp": {ms}, "input_length": {tokens}, "output_length": 10, "hash_ids": {blocks:?}}}"#
        );
    }
    Trace::read(&text, Tokens::new(512)).unwrap()
}

fn try_replay(id: &str, trace: &Trace, tiers: &[StoreTier], prefetch: u64) -> Result<Simulation> {
    replay_of(&state(id), trace, tiers, prefetch)
}

fn replay_of(state: &StateModel, trace: &Trace, tiers: &[StoreTier], prefetch: u64) -> Result<Simulation> {
    simulate(&Replay {
        moving: Moving::Nothing,
        trace,
        state,
        tiers,
        prefetch_blocks: prefetch,
        rates: None,
        optimum: Compare::WithOptimum,
    })
}

fn replay(id: &str, requests: &[&[u64]], tiers: &[StoreTier]) -> Simulation {
    try_replay(id, &trace(requests), tiers, 0).unwrap()
}

fn best(simulation: &Simulation) -> u64 {
    simulation.optimum.as_ref().unwrap().counts.hit_blocks
}

/// A conversation of a model that keeps states alone, with room for one: each turn goes on from the state of the one before, so that
/// is what is kept, though every later turn begins with the first block too: 1 + 2 + 3 blocks.
#[test]
fn the_optimum_keeps_the_state_that_the_next_turn_goes_on_from() {
    let turns: [&[u64]; 4] = [&[1], &[1, 2], &[1, 2, 3], &[1, 2, 3, 4]];
    let mamba = r#"{"model_type": "mamba2", "num_hidden_layers": 2, "hidden_size": 256, "num_heads": 8, "head_dim": 64,
        "state_size": 128, "n_groups": 1, "conv_kernel": 4, "expand": 2, "dtype": "bfloat16"}"#;
    let mamba = StateModel::new(&read_config(mamba).unwrap(), &Settings::default()).unwrap();
    let room = mamba.fixed(None).unwrap().get();
    assert_eq!(best(&replay_of(&mamba, &trace(&turns), &[tier("host", Some(room))], 0).unwrap()), 6);
}

/// Who knows the future takes over more than who does not, of hybrids too, though that is no law for objects of several sizes.
#[test]
fn the_optimum_of_hybrids_is_above_the_least_recently_used() {
    let trace = Trace::synthetic(2000, Tokens::new(512), 1).unwrap();
    for id in ["qwen3.6-27b", "gemma-3-27b"] {
        for bytes in [50_000_000_000, 200_000_000_000] {
            let found = try_replay(id, &trace, &[tier("host", Some(bytes))], 0).unwrap();
            assert!(best(&found) > found.lru.hit_blocks, "{id} {bytes}");
        }
    }
}

/// Three blocks in turn and room for two: the least recently used one is always the next. Who knows the future keeps two.
#[test]
fn a_cycle_defeats_the_least_recently_used() {
    let cycle: [&[u64]; 6] = [&[7], &[8], &[9], &[7], &[8], &[9]];
    let found = replay("qwen3-8b", &cycle, &[tier("gpu", Some(2 * QWEN3_BLOCK))]);
    assert_eq!((found.lru.asked_blocks, found.lru.hit_blocks, best(&found)), (6, 0, 2));
    assert_eq!((found.tiers[0].evicted_blocks, found.tiers[0].peak_bytes.get()), (4, 2 * QWEN3_BLOCK));
    // 1 block for the first of five seconds, then 2.
    assert!((found.tiers[0].mean_bytes.unwrap() / (QWEN3_BLOCK as f64) - 9.0 / 5.0).abs() < 1e-12);
    let all = replay("qwen3-8b", &cycle, &[tier("gpu", None)]);
    assert_eq!((all.lru.hit_blocks, best(&all), all.lru.hit_rate), (3, 3, Some(0.5)));
}

/// By hand: of 7 8 9 7 8 9 who knows the future never keeps 9, and finds the second 7 and 8; least recently used finds none and
/// evicts a block from the third request on.
#[test]
fn moments_are_those_of_a_replay_by_hand() {
    let cycle: [&[u64]; 6] = [&[7], &[8], &[9], &[7], &[8], &[9]];
    let found = replay("qwen3-8b", &cycle, &[tier("gpu", Some(2 * QWEN3_BLOCK))]);
    let of = |value: &dyn Fn(&Moment) -> u64| found.moments.iter().map(value).collect::<Vec<_>>();
    assert_eq!(of(&|moment| moment.requests), [1, 2, 3, 4, 5, 6]);
    assert_eq!(of(&|moment| moment.asked_blocks), [1, 2, 3, 4, 5, 6]);
    assert_eq!(of(&|moment| moment.hit_blocks), [0; 6]);
    assert_eq!(of(&|moment| moment.optimum_hit_blocks.unwrap()), [0, 0, 0, 1, 2, 2]);
    assert_eq!(of(&|moment| moment.tiers[0].used_bytes / QWEN3_BLOCK), [1, 2, 2, 2, 2, 2]);
    assert_eq!(of(&|moment| moment.tiers[0].evicted_blocks), [0, 0, 1, 2, 3, 4]);
}

/// However many requests, the last moment has the figures of the whole replay.
#[test]
fn the_last_moment_is_the_answer() {
    let trace = Trace::synthetic(1234, Tokens::new(512), 7).unwrap();
    let tiers = [tier("gpu", Some(40_000_000_000)), tier("host", Some(100_000_000_000))];
    let found = try_replay("qwen3.5-9b", &trace, &tiers, 12).unwrap();
    assert!((60..=121).contains(&found.moments.len()), "{}", found.moments.len());
    let last = found.moments.last().unwrap();
    assert_eq!(last.requests, 1234);
    assert_eq!((last.asked_blocks, last.hit_blocks), (found.lru.asked_blocks, found.lru.hit_blocks));
    assert_eq!(last.optimum_hit_blocks, Some(best(&found)));
    for (tier, moment) in found.tiers.iter().zip(&last.tiers) {
        assert_eq!(tier.evicted_blocks, moment.evicted_blocks);
        assert_eq!(tier.evicted_checkpoints, moment.evicted_checkpoints);
        assert!(moment.used_bytes <= tier.peak_bytes.get());
    }
}

#[test]
fn what_leaves_a_tier_goes_to_the_next() {
    let tiers = [tier("gpu", Some(QWEN3_BLOCK)), tier("host", Some(QWEN3_BLOCK))];
    let found = replay("qwen3-8b", &[&[1], &[2], &[1], &[3], &[2]], &tiers);
    // 1; 2 | 1; 1 | 2; 3 | 1; 2 is gone.
    assert_eq!(found.lru.hit_blocks, 1);
    assert_eq!((found.tiers[0].hit_blocks, found.tiers[1].hit_blocks), (0, 1));
    assert_eq!((found.tiers[0].evicted_blocks, found.tiers[1].evicted_blocks), (4, 2));
    assert_eq!(found.tiers[0].received_bytes.get(), 5 * QWEN3_BLOCK);
    assert_eq!(found.tiers[1].received_bytes.get(), 4 * QWEN3_BLOCK);
}

/// The tail of a request is older than its head: room for two keeps the first two of three.
#[test]
fn the_tail_goes_first() {
    let found = replay("qwen3-8b", &[&[1, 2, 3], &[1, 2, 3]], &[tier("gpu", Some(2 * QWEN3_BLOCK))]);
    assert_eq!((found.lru.hit_blocks, best(&found)), (2, 2));
    // A hit is a run from the first block on, and leaves one token to compute.
    assert_eq!(found.lru.hit_tokens, 1024);
    let found = replay("qwen3-8b", &[&[1, 2], &[9, 2]], &[tier("gpu", None)]);
    assert_eq!((found.lru.hit_blocks, found.lru.hit_tokens), (0, 0));
}

/// Qwen3.5-9B: 8 layers of 4,096 B a token, and 24 states of 2,097,152 + 49,152 B where a request ends. A branch has the blocks of
/// its shared part and no state.
#[test]
fn a_branch_finds_blocks_and_no_state() {
    let found = replay("qwen3.5-9b", &[&[1, 2, 3], &[1, 2, 9], &[1, 2, 3, 4]], &[tier("gpu", None)]);
    assert_eq!(found.sizes.block_bytes.get(), 512 * 8 * 4096);
    assert_eq!(found.sizes.checkpoint_bytes.get(), 24 * (2_097_152 + 49_152));
    assert_eq!((found.lru.resident_blocks, found.lru.hit_blocks, found.lru.hit_requests), (5, 3, 1));
    let rate = |kind: ComponentKind| {
        let row = found.kinds.iter().find(|row| row.kind == kind).unwrap();
        (row.unit, row.asked, row.found, row.found_bytes.get())
    };
    assert_eq!(rate(ComponentKind::Kv), ("block", 10, 5, 5 * 512 * 8 * 4096));
    assert_eq!(rate(ComponentKind::RecurrentState), ("checkpoint", 2, 1, 24 * 2_097_152));
    assert!(!found.optimum.as_ref().unwrap().is_bound);
}

/// With windows alone one checkpoint saves as many blocks as stand before it: by hand 1 + 2 + 3 of 10 blocks are found with room
/// for one, and the rule, which goes by the next use alone, is no bound.
#[test]
fn checkpoints_save_unequal_parts() {
    let growing: [&[u64]; 4] = [&[1], &[1, 2], &[1, 2, 3], &[1, 2, 3, 4]];
    let one = 32 * 4096 * 4096;
    let found = replay("mistral-7b-v0.1", &growing, &[tier("gpu", Some(one))]);
    assert_eq!((found.sizes.checkpoint_bytes.get(), found.lru.hit_blocks), (one, 6));
    assert!(!found.optimum.as_ref().unwrap().is_bound);
}

/// V4-Pro in blocks of 512: 30 × (584 + 68) × 128 + 31 × 584 × 4 B, and 61 windows of 128 × 584 B.
#[test]
fn compressed_streams_and_windows_have_exact_sizes() {
    let found = replay("deepseek-v4-pro", &[&[1]], &[tier("gpu", None)]);
    assert_eq!(found.sizes.block_bytes.get(), 30 * 652 * 128 + 31 * 584 * 4);
    assert_eq!(found.sizes.checkpoint_bytes.get(), 61 * 128 * 584);
}

#[test]
fn running_requests_hold_their_whole_state() {
    let trace = trace(&[&[1], &[1], &[2]]);
    let rates = Rates { prefill_tokens_per_second: 342.0, decode_tokens_per_second: 10.0 };
    let found = simulate(&Replay {
        moving: Moving::Nothing,
        trace: &trace,
        state: &state("qwen3-8b"),
        tiers: &[tier("gpu", None)],
        prefetch_blocks: 0,
        rates: Some(rates),
        optimum: Compare::Alone,
    });
    // 513 tokens in 1.5 s and 10 in 1 s: from 0 to 2.5; 1 token of the second: from 1 to 2.003; from 2 to 4.5.
    let running = found.unwrap().running.unwrap();
    assert_eq!((running.peak_requests, running.peak_bytes.get()), (3, 3 * 523 * 147_456));
    let busy = 2.5 + 1.0 + 1.0 / 342.0 + 2.5;
    assert!((running.mean_bytes.unwrap() / (523.0 * 147_456.0 * busy / 4.5) - 1.0).abs() < 1e-12);
}

/// 1 2 3 is pushed out by 8 9; the branch 1 7 brings 2 and 3 along, of which the next request asks for 2 only.
#[test]
fn what_was_brought_for_nothing_is_wasted() {
    let requests: [&[u64]; 4] = [&[1, 2, 3], &[8, 9, 10, 11], &[1], &[1, 2, 5]];
    let tiers = [tier("gpu", Some(4 * QWEN3_BLOCK)), tier("host", None)];
    let found = try_replay("qwen3-8b", &trace(&requests), &tiers, 2).unwrap();
    assert_eq!(found.prefetched_bytes.get(), 2 * QWEN3_BLOCK);
    assert_eq!(found.wasted_prefetch_bytes.get(), QWEN3_BLOCK);
    assert_eq!(try_replay("qwen3-8b", &trace(&requests), &tiers, 0).unwrap().prefetched_bytes, Bytes::ZERO);
}

/// The most hits of any choice of what to keep, by trying all of them.
fn most_hits(sequence: &[u64], room: usize) -> u64 {
    let mut best: HashMap<Vec<u64>, u64> = HashMap::from([(Vec::new(), 0)]);
    for block in sequence {
        let mut next: HashMap<Vec<u64>, u64> = HashMap::new();
        for (kept, hits) in best {
            let hits = hits + u64::from(kept.contains(block));
            let mut all = kept.clone();
            all.push(*block);
            all.sort_unstable();
            all.dedup();
            let mut choices = vec![all.clone()];
            if all.len() > room {
                choices = (0..all.len())
                    .map(|out| {
                        all.iter().enumerate().filter(|(at, _)| *at != out).map(|(_, one)| *one).collect()
                    })
                    .collect();
            }
            for choice in choices {
                let known = next.entry(choice).or_insert(0);
                *known = hits.max(*known);
            }
        }
        best = next;
    }
    best.into_values().max().unwrap()
}

/// Least recently used, as a list.
fn plain_lru(requests: &[Vec<u64>], room: usize) -> u64 {
    let (mut kept, mut hits) = (Vec::<u64>::new(), 0);
    for request in requests {
        hits += request.iter().take_while(|block| kept.contains(block)).count() as u64;
        for block in request.iter().rev() {
            kept.retain(|one| one != block);
            kept.push(*block);
            if kept.len() > room {
                kept.remove(0);
            }
        }
    }
    hits
}

proptest! {
    #[test]
    fn no_choice_finds_more_than_the_optimum(sequence in prop::collection::vec(0_u64..6, 1..14), room in 1_u64..4) {
        let requests: Vec<&[u64]> = sequence.chunks(1).collect();
        let found = replay("qwen3-8b", &requests, &[tier("gpu", Some(room * QWEN3_BLOCK))]);
        prop_assert_eq!(best(&found), most_hits(&sequence, usize::try_from(room).unwrap()));
        prop_assert!(found.lru.hit_blocks <= best(&found));
        prop_assert!(found.optimum.unwrap().is_bound);
    }

    #[test]
    fn the_replay_is_the_plain_list(
        requests in prop::collection::vec(prop::collection::vec(0_u64..12, 1..6), 1..40),
        rooms in (1_u64..6, 1_u64..6),
    ) {
        let distinct: Vec<Vec<u64>> = requests
            .into_iter()
            .map(|mut blocks| {
                let mut seen = Vec::new();
                blocks.retain(|block| !seen.contains(block) && { seen.push(*block); true });
                blocks
            })
            .collect();
        let borrowed: Vec<&[u64]> = distinct.iter().map(Vec::as_slice).collect();
        let tiers = [tier("gpu", Some(rooms.0 * QWEN3_BLOCK)), tier("host", Some(rooms.1 * QWEN3_BLOCK))];
        let found = replay("qwen3-8b", &borrowed, &tiers);
        // Two tiers hold what one of both sizes holds.
        let room = usize::try_from(rooms.0 + rooms.1).unwrap();
        prop_assert_eq!(found.lru.hit_blocks, plain_lru(&distinct, room));
        prop_assert_eq!(found.tiers[0].hit_blocks + found.tiers[1].hit_blocks, found.lru.hit_blocks);
        prop_assert!(found.tiers.iter().all(|one| one.peak_bytes <= one.tier.capacity_bytes.unwrap()));
    }
}

#[test]
fn a_made_trace_has_the_shape_that_it_says() {
    let trace = Trace::synthetic(20_000, Tokens::new(512), 1).unwrap();
    let mean = |of: &dyn Fn(usize) -> u64| (0..20_000).map(of).sum::<u64>() as f64 / 20_000.0;
    let input = mean(&|at| trace.requests()[at].input_tokens);
    let output = mean(&|at| trace.requests()[at].output_tokens);
    assert!((6000.0..9500.0).contains(&input) && (150.0..215.0).contains(&output), "{input} {output}");
    let found = try_replay("qwen3-8b", &trace, &[tier("gpu", None)], 0).unwrap();
    let rate = found.lru.hit_rate.unwrap();
    assert!((0.4..0.75).contains(&rate), "{rate}");
    assert_eq!(best(&found), found.lru.hit_blocks, "without a limit nothing can be better");
    let again = Trace::synthetic(20_000, Tokens::new(512), 1).unwrap();
    assert_eq!(again.requests(), trace.requests());
}

#[test]
fn what_has_no_answer_is_a_sentence() {
    let read = |text: &str| Trace::read(text, Tokens::new(512)).unwrap_err().to_string();
    assert!(read("{}").starts_with("trace: line 1: timestamp: missing"), "{}", read("{}"));
    let line = |ms: &str, tokens: u64, blocks: &str| {
        format!(
            r#"{{"timestamp": {ms}, "input_length": {tokens}, "output_length": 1, "hash_ids": {blocks}}}"#
        )
    };
    let good = line("0", 512, "[1]");
    assert!(
        read(&format!("{good}\n\n{}", line("1", 512, "[1, 2]"))).contains("line 3: 2 blocks of 512 tokens")
    );
    assert!(read(&line("-1", 512, "[1]")).contains("line 1: -0.001 s is no time"));
    assert!(read(&line("1e300", 512, "[1]")).contains("line 1: timestamp 1e300 is later than any trace"));
    assert!(
        read(&line("0", 0, "[]")).contains("a prompt of 0 tokens and an answer of 1 token are no request")
    );
    assert!(Trace::read(&good, Tokens::new(0)).unwrap_err().to_string().starts_with("block: "));
    assert!(Trace::synthetic(0, Tokens::new(512), 1).unwrap_err().to_string().starts_with("synthetic: "));

    let one = Trace::read(&good, Tokens::new(512)).unwrap();
    let error = |trace: &Trace, id: &str, tiers: &[StoreTier]| {
        try_replay(id, trace, tiers, 0).unwrap_err().to_string()
    };
    assert_eq!(
        error(&Trace::read("", Tokens::new(512)).unwrap(), "qwen3-8b", &[tier("gpu", None)]),
        "trace: it holds no request"
    );
    assert!(error(&one, "qwen3-8b", &[]).starts_with("tier: 0 tiers"));
    assert!(
        error(&one, "qwen3-8b", &[tier("gpu", Some(1000))])
            .starts_with("tier: gpu: holds less than one block")
    );
    let odd = Trace::read(&line("0", 1000, "[1]"), Tokens::new(1000)).unwrap();
    assert!(error(&odd, "deepseek-v4-pro", &[tier("gpu", None)]).contains("cuts a compression group of 128"));
    for rates in [(0.0, 1.0), (1.0, f64::NAN)] {
        let asked = Replay {
            moving: Moving::Nothing,
            trace: &one,
            state: &state("qwen3-8b"),
            tiers: &[tier("gpu", None)],
            prefetch_blocks: 0,
            rates: Some(Rates { prefill_tokens_per_second: rates.0, decode_tokens_per_second: rates.1 }),
            optimum: Compare::Alone,
        };
        assert!(simulate(&asked).unwrap_err().to_string().contains("serves nothing"));
    }
}

/// Three blocks in turn and room for exactly three: a tenth less room, or larger blocks, and none is there when it is asked for.
#[test]
fn a_tenth_of_each_input_moves_what_is_taken_over() {
    let trace = trace(&[&[7], &[8], &[9], &[7], &[8], &[9]]);
    let state = state("qwen3-8b");
    let tiers = [tier("gpu", Some(3 * QWEN3_BLOCK)), tier("nothing", None)];
    let mut asked = Replay {
        moving: Moving::Inputs,
        trace: &trace,
        state: &state,
        tiers: &tiers[..1],
        prefetch_blocks: 0,
        rates: None,
        optimum: Compare::Alone,
    };
    let moved = simulate(&asked).unwrap().sensitivities;
    let rows: Vec<_> = moved.iter().map(|row| (row.input, row.with_less, row.with_more)).collect();
    assert_eq!(
        rows,
        [("capacity of the first tier", Some(0.0), Some(0.5)), ("bytes of a block", Some(0.5), Some(0.0)),]
    );
    // A second tier without a limit holds all that leaves the first.
    asked.tiers = &tiers;
    let moved = simulate(&asked).unwrap().sensitivities;
    assert!(moved.iter().all(|row| (row.with_less, row.with_more) == (Some(0.5), Some(0.5))));
    assert_eq!(moved.iter().filter(|row| row.input.starts_with("capacity")).count(), 1);
    asked.moving = Moving::Nothing;
    assert_eq!(simulate(&asked).unwrap().sensitivities, []);
}

/// Turn by turn with room for five blocks: [1 2 3 4], then [9 8] in place of 4 (the tail is the older), then 4 in place of 8, then 8 in
/// place of 4, then 4 in place of 8: seven are found, nine come in, four go. What is found does not leave for what is added.
#[test]
fn what_a_request_goes_on_from_does_not_leave_for_what_it_adds() {
    let (long, short): (&[u64], &[u64]) = (&[1, 2, 3, 4], &[9, 8]);
    let found = replay("qwen3-8b", &[long, short, long, short, long], &[tier("gpu", Some(5 * QWEN3_BLOCK))]);
    let seen = &found.tiers[0];
    assert_eq!((seen.hit_blocks, seen.evicted_blocks), (7, 4));
    assert_eq!(seen.received_bytes.get(), 9 * QWEN3_BLOCK);
}

/// Mistral-7B-v0.1 keeps a window of 4,096 tokens, 131,072 B each: 134,217,728 B of prompts of 1,024 tokens, two of which fit 600 MB.
#[test]
fn a_checkpoint_of_a_short_prompt_has_the_window_so_far() {
    let found = replay("mistral-7b-v0.1", &[&[1, 2], &[3, 4], &[1, 2]], &[tier("gpu", Some(600_000_000))]);
    assert_eq!(found.lru.hit_blocks, 2);
    assert_eq!(found.tiers[0].peak_bytes.get(), 2 * 1024 * 131_072);
    assert_eq!(found.kinds[0].found_bytes.get(), 1024 * 131_072);
}

/// 111 blocks asked and 48 found where nothing leaves are 63 different ones.
#[test]
fn a_made_trace_counts_the_blocks_that_it_has() {
    let trace = Trace::synthetic(10, Tokens::new(512), 1).unwrap();
    let found = try_replay("qwen3-8b", &trace, &[tier("gpu", None)], 0).unwrap();
    assert_eq!(found.distinct_blocks, found.lru.asked_blocks - found.lru.hit_blocks);
}

/// 5,120 tokens are ten blocks of 512, and a block stands for one place in a prompt.
#[test]
fn a_trace_without_the_blocks_of_its_tokens_is_refused() {
    let read = |input: u64, ids: &str| {
        let line =
            format!(r#"{{"timestamp": 0, "input_length": {input}, "output_length": 1, "hash_ids": {ids}}}"#);
        Trace::read(&line, Tokens::new(512)).map(drop).map_err(|error| error.to_string())
    };
    assert_eq!(read(1024, "[1, 2]"), Ok(()));
    assert_eq!(read(1025, "[1, 2]"), Ok(()));
    assert_eq!(
        read(5120, "[1, 2]").unwrap_err(),
        "trace: line 1: 2 blocks of 512 tokens are not those of 5,120 tokens, which have 10"
    );
    let twice = read(1024, "[7, 7]").unwrap_err();
    assert!(twice.starts_with("trace: line 1: hash_ids has 7 twice"), "{twice}");
}

#[test]
fn a_trace_is_counted_in_blocks_of_another_length() {
    let requests = trace(&[&[1, 2], &[1, 2, 3]]);
    let smaller = requests.clone().in_blocks_of(Tokens::new(600)).unwrap();
    assert_eq!((smaller.block_tokens().get(), smaller.requests().len()), (600, 2));
    // 1,025 tokens are two blocks of 1,024 and no three.
    let error = requests.clone().in_blocks_of(Tokens::new(1024)).unwrap_err().to_string();
    assert_eq!(error, "trace: 3 blocks of 1,024 tokens are not those of 1,537 tokens, which have 1 or 2");
    assert!(requests.in_blocks_of(Tokens::new(0)).is_err());
}
