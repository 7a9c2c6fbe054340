//! How fast figures come: reading configs, and the sweep behind a page of growth curves. Each runs for a second, since
//! the first hundred calls of a process are slower than the rest.

use std::fmt;
use std::time::Instant;

use divan::{Bencher, black_box};
use kvscope_sizing::cost::{FlopWeights, Types};
use kvscope_sizing::engine::{Engine, EngineKind, Quantity, Query, answer, report};
use kvscope_sizing::hardware::{find_gpu, links};
use kvscope_sizing::plan::prefix::{PrefixQuestion, SharedPrefix, reuse};
use kvscope_sizing::plan::simulation::{Compare, Replay, StateSizes, StoreTier, Trace, simulate};
use kvscope_sizing::plan::{
    CapacityQuestion, ChosenLink, CostQuestion, Given, HandoverQuestion, MemoryQuestion, Moving, Offloading,
    PrefillTime, Subject, capacity, cost, datasheet_tier, handover, label,
};
use kvscope_sizing::{Architecture, Bytes, Settings, StateModel, Tokens, catalogue, read_config};

fn main() {
    divan::main();
}

/// 40 versions × 512 contexts, bytes by component, from architectures already read.
#[divan::bench(min_time = 1)]
fn sweep_40_versions_512_contexts(bencher: Bencher<'_, '_>) {
    let states: Vec<StateModel> = catalogue()
        .iter()
        .take(40)
        .map(|entry| {
            let architecture = entry.architecture().expect("the catalogue reads");
            StateModel::new(&architecture, &Settings::default()).expect("the catalogue sizes")
        })
        .collect();
    bencher.bench_local(|| {
        for state in &states {
            for step in 1..=512 {
                let kinds = state.by_kind(Tokens::new(black_box(step * 2048)));
                black_box(&kinds.expect("no overflow below 2^21 tokens"));
            }
        }
    });
}

/// The config whose reading takes longest, from its text to an architecture.
#[divan::bench(args = [slowest(ids(), |id| config_of(id), |text| drop(black_box(read_config(text))))], min_time = 1)]
fn slowest_config(bencher: Bencher<'_, '_>, id: &str) {
    let text = config_of(id);
    bencher.bench_local(|| black_box(read_config(black_box(&text)).expect("the catalogue reads")));
}

/// The version whose figures at one context take longest, from a state that holds every derivation.
#[divan::bench(args = [slowest(ids(), |id| state_of(id), |state| sized(state, "model"))], min_time = 1)]
fn slowest_size(bencher: Bencher<'_, '_>, id: &str) {
    let state = state_of(id);
    bencher.bench_local(|| sized(black_box(&state), id));
}

/// The version whose state takes longest to derive: components, growth, formulas with their inputs.
#[divan::bench(args = [slowest(ids(), |id| architecture_of(id), |architecture| drop(derived(architecture)))], min_time = 1)]
fn slowest_state(bencher: Bencher<'_, '_>, id: &str) {
    let architecture = architecture_of(id);
    bencher.bench_local(|| derived(black_box(&architecture)));
}

/// The version and engine whose whole report takes longest: every figure, padding, log lines.
#[divan::bench(args = [slowest(
    versions_in_engines(),
    |case| (architecture_of(case.0), case.1.clone()),
    |(architecture, engine)| reported(architecture, engine),
)], min_time = 1)]
fn slowest_engine_report(bencher: Bencher<'_, '_>, Named(id, engine): &Named) {
    let architecture = architecture_of(id);
    bencher.bench_local(|| reported(black_box(&architecture), engine));
}

/// One figure of vLLM's plan, planned anew: what a hover over a chart in an engine's accounting costs.
#[divan::bench(args = ["deepseek-v4-pro", "qwen3.6-27b", "gemma-4-31b", "llama-3.1-405b"], min_time = 1)]
fn engine_profile(bencher: Bencher<'_, '_>, id: &str) {
    let architecture = architecture_of(id);
    let settings = usual();
    let engine: Engine = "vllm@0.33".parse().expect("a known engine");
    bencher.bench_local(|| {
        let query = Query::new(&architecture, engine.clone(), &settings).expect("checked settings");
        black_box(answer(&query, Quantity::LoggedKvTokens).expect("the pool is given"))
    });
}

/// A million requests of 15 blocks and a state each in two tiers, with Belady's rule beside them.
#[divan::bench(sample_count = 3, sample_size = 1)]
fn simulate_a_million_requests(bencher: Bencher<'_, '_>) {
    let trace = Trace::synthetic(1_000_000, Tokens::new(512), 1).expect("a made trace");
    let state = state_of("qwen3.5-397b-a17b");
    let sizes = StateSizes::of(&state, trace.block_tokens()).expect("whole groups");
    let tier = |name: &str, blocks: u64| StoreTier {
        name: name.to_owned(),
        capacity_bytes: Some(sizes.block_bytes.times(blocks).expect("a few TB")),
    };
    let replay = Replay {
        moving: Moving::Nothing,
        trace: &trace,
        state: &state,
        tiers: &[tier("gpu", 10_000), tier("host", 90_000)],
        prefetch_blocks: 0,
        rates: None,
        optimum: Compare::WithOptimum,
    };
    bencher.bench_local(|| black_box(simulate(black_box(&replay)).expect("a replay")));
}

fn derived(architecture: &Architecture) -> StateModel {
    StateModel::new(architecture, &Settings::default()).expect("the catalogue sizes")
}

fn sized(state: &StateModel, id: &str) {
    let n = Tokens::new(131_072);
    black_box(state.size(id, Some(n), 1, &Settings::default()).expect("no overflow below 2^21 tokens"));
}

fn reported(architecture: &Architecture, engine: &Engine) {
    let settings = usual();
    let query = Query::new(architecture, engine.clone(), &settings).expect("checked settings");
    // A model that an engine refuses costs no more than one that it takes.
    let _ = black_box(report(&query));
}

/// What a usual start sets, so that every figure is answered.
fn usual() -> Settings {
    Settings {
        context: Some(100_000),
        available_kv_bytes: Some(1 << 35),
        max_model_len: Some(131_072),
        max_num_batched_tokens: Some(8192),
        prefix_caching: Some(true),
        ..Settings::default()
    }
}

/// The case that takes longest, by the shortest of a few runs of each.
fn slowest<T, P>(cases: impl IntoIterator<Item = T>, prepared: impl Fn(&T) -> P, work: impl Fn(&P)) -> T {
    let shortest = |case: &T| {
        let case = prepared(case);
        let runs = (0..7).map(|_| {
            let start = Instant::now();
            work(&case);
            start.elapsed()
        });
        runs.min().expect("a few runs")
    };
    cases.into_iter().max_by_key(|case| shortest(case)).expect("the catalogue is not empty")
}

/// What eight GPUs hold, with frontier, wrong formulas and sensitivities: the slowest plan but the simulation.
#[divan::bench(min_time = 1, args = ["deepseek-v4-pro", "qwen3.5-397b-a17b"])]
fn plan_capacity(bencher: Bencher<'_, '_>, id: &str) {
    let entry = kvscope_sizing::find_entry(id).expect("a catalogue id");
    let architecture = architecture_of(id);
    let gpu = find_gpu("h200").expect("a known GPU");
    let settings = Settings { tp: Some(8), ..Settings::default() };
    let contexts = [Tokens::new(100_000)];
    let question = CapacityQuestion {
        moving: Moving::Inputs,
        memory: MemoryQuestion {
            gpu,
            count: 8,
            memory: None,
            weights: Some(Bytes::new(400_000_000_000)),
            types: Types::of(&architecture),
            weight_ranks: 8,
            share_percent: 90,
            batch_tokens: 8192,
            activations: None,
            graphs: Bytes::new(2_000_000_000),
        },
        engine: Engine::newest(EngineKind::Vllm),
        settings: &settings,
        contexts: &contexts,
        mix: None,
        price_per_hour: None,
    };
    let subject = Subject::of(entry, &architecture);
    bencher.bench_local(|| capacity(black_box(&subject), &question).expect("it fits"));
}

/// A decode step and a prefill of the model with the most parts.
#[divan::bench(min_time = 1)]
fn plan_cost(bencher: Bencher<'_, '_>) {
    let id = "deepseek-v4-pro";
    let entry = kvscope_sizing::find_entry(id).expect("a catalogue id");
    let architecture = architecture_of(id);
    let settings = Settings::default();
    let question = CostQuestion {
        moving: Moving::Inputs,
        context: Tokens::new(1_000_000),
        batch: 1,
        settings: &settings,
        types: Types::of(&architecture),
        weights: FlopWeights::fp8_equivalents(),
    };
    let subject = Subject::of(entry, &architecture);
    bencher.bench_local(|| cost(black_box(&subject), &question).expect("it is counted"));
}

/// A hand-over over every network link, with its prefill counted.
#[divan::bench(min_time = 1)]
fn plan_handover(bencher: Bencher<'_, '_>) {
    let id = "deepseek-v4-pro";
    let entry = kvscope_sizing::find_entry(id).expect("a catalogue id");
    let architecture = architecture_of(id);
    let settings = Settings::default();
    let links: Vec<ChosenLink> = links().iter().map(ChosenLink::nominal).collect();
    let question = HandoverQuestion {
        moving: Moving::Inputs,
        contexts: &[Tokens::new(100_000)],
        settings: &settings,
        gpu: find_gpu("h200").expect("a known GPU"),
        count: 8,
        tp: 8,
        fleet: Some(512),
        links: &links,
        blocks: None,
        prefill: PrefillTime::Estimated { percent: 40.0, types: Types::of(&architecture) },
    };
    let subject = Subject::of(entry, &architecture);
    bencher.bench_local(|| handover(black_box(&subject), &question).expect("it is sent"));
}

/// Restore or recompute with its break-evens, and both ways at the lengths of a figure.
#[divan::bench(min_time = 1)]
fn plan_offload(bencher: Bencher<'_, '_>) {
    let id = "deepseek-v4.1-flash";
    let entry = kvscope_sizing::find_entry(id).expect("a catalogue id");
    let architecture = architecture_of(id);
    let settings = Settings::default();
    let given = Given::of([("gpu", Some("h200".to_owned())), ("count", Some("8".to_owned()))]);
    let tiers: Vec<_> = datasheet_tier(&given).expect("a known GPU").into_iter().collect();
    let contexts: Vec<Tokens> = (1..=30).map(|step| Tokens::new(step * 30_000)).collect();
    let subject = Subject::of(entry, &architecture);
    bencher.bench_local(|| {
        let offloading = Offloading::of(black_box(subject), &settings, &given).expect("it computes");
        black_box(offloading.at(Tokens::new(100_000), &tiers).expect("it is restored"));
        black_box(offloading.curves(&contexts, &tiers).expect("it is drawn"));
    });
}

/// Labels at three lengths.
#[divan::bench(min_time = 1)]
fn plan_label(bencher: Bencher<'_, '_>) {
    let id = "deepseek-v4-pro";
    let entry = kvscope_sizing::find_entry(id).expect("a catalogue id");
    let architecture = architecture_of(id);
    let settings = Settings::default();
    let hardware = Some((find_gpu("h200").expect("a known GPU"), 8));
    let contexts = [10_000, 100_000, 1_000_000].map(Tokens::new);
    let subject = Subject::of(entry, &architecture);
    bencher.bench_local(|| {
        label(black_box(&subject), &settings, &contexts, hardware, Moving::Inputs).expect("it has labels")
    });
}

/// What a second prompt reuses, under every rule.
#[divan::bench(min_time = 1)]
fn plan_prefix(bencher: Bencher<'_, '_>) {
    let id = "deepseek-v4-pro";
    let architecture = architecture_of(id);
    let settings = Settings::default();
    let length = Tokens::new(100_000);
    let question = PrefixQuestion {
        moving: Moving::Inputs,
        model: id,
        architecture: &architecture,
        settings: &settings,
        vllm: &Engine::newest(EngineKind::Vllm),
        prefix: SharedPrefix::new(length, length, Tokens::new(90_000)).expect("a shared prefix"),
        interval: Tokens::new(4096),
    };
    bencher.bench_local(|| reuse(black_box(&question)).expect("it is reused"));
}

fn ids() -> impl Iterator<Item = &'static str> {
    catalogue().iter().map(|entry| entry.id.as_str())
}

fn versions_in_engines() -> impl Iterator<Item = Named> {
    ids().flat_map(|id| EngineKind::ALL.map(|kind| Named(id, Engine::newest(kind))))
}

fn config_of(id: &str) -> String {
    kvscope_sizing::find_entry(id).expect("a catalogue id").config.to_string()
}

fn architecture_of(id: &str) -> Architecture {
    let entry = kvscope_sizing::find_entry(id).expect("a catalogue id");
    entry.architecture().expect("the catalogue reads")
}

fn state_of(id: &str) -> StateModel {
    derived(&architecture_of(id))
}

/// A version in an engine, as a row of the table.
#[derive(Clone, Debug)]
struct Named(&'static str, Engine);

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} in {}", self.0, self.1)
    }
}
