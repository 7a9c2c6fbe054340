use kvscope_sizing::cost::WeightChoice;
use kvscope_sizing::hardware::{Gpu, gpus as all_gpus};
use kvscope_sizing::plan::Gpus;
use kvscope_sizing::{Bytes, IndexFormat, KvFormat};
use proptest::prelude::*;

use super::super::{ClaimsView, ListView, PlansView, VersionsView};
use super::*;

fn any_name() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z0-9][a-z0-9.-]{0,20}", "\\PC{1,12}"]
}

fn publication_ids() -> Vec<String> {
    publications().iter().map(|publication| publication.id.clone()).collect()
}

fn gpus() -> Vec<&'static Gpu> {
    all_gpus().iter().collect()
}

fn claim_ids() -> Vec<String> {
    claims().map(|claim| claim.id.clone()).collect()
}

prop_compose! {
    fn any_state()(
        room in prop::sample::select(ROOMS.to_vec()),
        models in prop::collection::vec(any_name(), 0..8),
        context in 1..=Tokens::MAX.get(),
        batch in 1..=MOST_REQUESTS,
        kv in prop::option::of(prop::sample::select(KvFormat::all().map(|(_, format)| format).collect::<Vec<_>>())),
        index in prop::option::of(prop::sample::select(IndexFormat::all().map(|(_, format)| format).collect::<Vec<_>>())),
        state in prop::option::of(prop::sample::select(vec![StateFormat::F32, StateFormat::Bf16, StateFormat::F16])),
        engine in prop::sample::select(vec!["logical", "vllm", "vllm@0.30", "sglang@nightly", "llama.cpp", "trtllm"]),
        tp in prop::option::of(1_u64..=1024),
        prefix_caching in prop::option::of(any::<bool>()),
        gpu in prop::option::of("\\PC{1,12}"),
        pool in prop::option::of(any::<u64>()),
        memory in prop::option::of(prop_oneof![1..=u64::MAX, (1..4096_u64).prop_map(|count| count << 28)]),
        gpus in prop::option::of((prop::sample::select(gpus()), 1..=Gpus::MOST, prop::option::of(prop::sample::select(WeightChoice::ALL.to_vec())))),
        bytes in prop::sample::select(ByteKind::ALL.to_vec()),
        binary in any::<bool>(),
        scale in prop::sample::select(AxisScale::ALL.to_vec()),
        selects_first in any::<bool>(),
        run in prop::option::of(any_name()),
        verdict in prop::option::of(prop::sample::select(VerdictKind::ALL.to_vec())),
        publication in prop::option::of(prop::sample::select(publication_ids())),
        open in prop::option::of(prop::sample::select(claim_ids())),
        pair in prop::option::of([any_name(), any_name()]),
        moved in prop::sample::select(Moved::ALL.to_vec()),
        plan in prop::sample::select(PlanKind::ALL.to_vec()),
        tier in prop::option::of("\\PC{1,20}"),
        count in prop::option::of(any::<u64>()),
        column in prop::sample::select(ModelColumn::ALL.to_vec()),
        descends in any::<bool>(),
        filter in "\\PC{0,12}",
    ) -> ViewState {
        let mut versions = VersionsView { moved, ..VersionsView::default() };
        if let Some([from, to]) = &pair {
            versions.set_pair([from, to]);
        }
        let selected = models.first().filter(|_| selects_first).cloned();
        let gpu = gpu.map(|gpu| gpu.trim().to_owned()).filter(|gpu| !gpu.is_empty());
        ViewState {
            room,
            models,
            context: Tokens::new(context),
            batch,
            kv_format: kv,
            index_format: index,
            state_format: state,
            engine: engine.parse().unwrap(),
            engine_own: Settings {
                tp,
                prefix_caching,
                gpu,
                available_kv_bytes: pool,
                v_dtype: kv,
                ..Settings::default()
            },
            memory: memory.map(Bytes::new),
            gpus: gpus.map(|(gpu, count, weights)| Gpus { gpu, count, weights }),
            bytes,
            units: if binary { UnitSystem::Binary } else { UnitSystem::Decimal },
            scale,
            selected,
            run,
            claims: ClaimsView { verdict, publication, open },
            versions,
            plans: PlansView { plan, given: Given::of([("tier", tier), ("count", count.map(|count| count.to_string()))]) },
            list: ListView { column, descends, filter },
        }
    }
}

/// What proptest keeps of a state of so many parts is more than the 2 MiB of a test's thread.
const STACK_BYTES: usize = 16 << 20;

#[test]
fn a_link_brings_everything_back() {
    let comes_back = || {
        proptest!(|(state in any_state())| {
            let query = state.to_query();
            prop_assert!(query.bytes().all(|byte| byte.is_ascii_graphic()), "{query}");
            prop_assert_eq!(ViewState::from_query(&query), (state, Vec::new()));
        });
    };
    std::thread::Builder::new().stack_size(STACK_BYTES).spawn(comes_back).unwrap().join().unwrap();
}

proptest! {
    #[test]
    fn no_text_breaks_the_reader(query in "\\PC{0,80}") {
        let (state, _) = ViewState::from_query(&query);
        prop_assert!(state.batch >= 1 && state.context.get() >= 1);
    }
}

#[test]
fn names_that_lead_nowhere_and_repeated_ones_are_said() {
    let query = "v=1&m=glm-4.5&l=zork&c=zork&cs=zork&e=vllm&es=tp:8,tp:4&b=2&b=3";
    let (state, notices) = ViewState::from_query(query);
    assert_eq!((state.engine_own.tp, state.batch), (Some(4), 3));
    let said: Vec<String> = notices.iter().map(LinkNotice::to_string).collect();
    let words =
        ["\"es=tp\" more than once", "\"b\" more than once", "l = \"zork\"", "cs = \"zork\"", "c = \"zork\""];
    assert_eq!(said.len(), words.len(), "{said:?}");
    for (line, word) in said.iter().zip(words) {
        assert!(line.contains(word), "{line}");
    }
}

/// What is good is kept, and each pair that is not is said with its own reason.
#[test]
fn every_bad_pair_of_an_engines_settings_is_said() {
    let (state, notices) = ViewState::from_query("v=1&e=vllm&es=tp:0,foo:3,pp:2,tp,block_size:32");
    assert_eq!((state.engine_own.tp, state.engine_own.pp), (None, Some(2)));
    assert_eq!(state.engine_own.block_size, Some(32));
    let said: Vec<String> = notices.iter().map(LinkNotice::to_string).collect();
    assert_eq!(
        said,
        [
            "The link says es = \"tp:0\", which is not used: 0 is outside 1 to 1024.",
            "The link says es = \"foo:3\", which is not used: no engine has a setting of that name.",
            "The link says es = \"tp\", which is not used: it has no value.",
        ]
    );
}

#[test]
fn a_first_visit_needs_no_query() {
    assert_eq!(ViewState::default().to_query(), "");
    assert_eq!(ViewState::from_query(""), (ViewState::default(), Vec::new()));
    let state = ViewState { batch: 4, ..ViewState::default() };
    assert_eq!(state.to_query(), "v=1&b=4");
}

#[test]
fn what_cannot_be_followed_is_said_and_the_rest_opens() {
    let (state, notices) = ViewState::from_query("?v=1&n=0&engine=vllm&b=8&kv=q9&m=glm-4.5");
    assert_eq!((state.batch, state.models), (8, vec!["glm-4.5".to_owned()]));
    assert_eq!((state.context, state.kv_format), (ViewState::default().context, None));
    let said: Vec<String> = notices.iter().map(LinkNotice::to_string).collect();
    assert_eq!(said.len(), 3);
    assert!(said[0].contains("n = \"0\"") && said[0].contains("outside 1"), "{}", said[0]);
    assert!(said[1].contains("\"engine\""), "{}", said[1]);
    assert!(said[2].contains("kv = \"q9\""), "{}", said[2]);
    let (_, engine) = ViewState::from_query("v=1&e=ollama&es=tp:0&b=2");
    let said: Vec<String> = engine.iter().map(LinkNotice::to_string).collect();
    assert!(said[0].contains("e = \"ollama\"") && said[0].contains("unknown engine"), "{}", said[0]);
    assert!(said[1].contains("es = \"tp:0\"") && said[1].contains("outside 1"), "{}", said[1]);
    let (_, newer) = ViewState::from_query("v=2&b=3");
    assert_eq!(newer, [LinkNotice::NewerVersion("2".to_owned())]);
}
