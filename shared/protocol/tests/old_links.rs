//! Links that were given out keep opening on the same view. Lines are added to the file, never changed.

use kvscope_protocol::{EngineSetting, ListView, PlansView, Room, VersionsView, ViewState};
use kvscope_sizing::engine::EngineKind;
use kvscope_sizing::{ByteKind, IndexFormat, KvFormat, StateFormat, UnitSystem};

const LINKS: &str = include_str!("data/old_links.txt");

fn described(state: &ViewState) -> String {
    let room = match state.room {
        Room::Growth => "growth",
        Room::Versions => "versions",
        Room::Plans => "plans",
        Room::Models => "models",
        Room::Claims => "claims",
        Room::Log => "log",
        Room::Measure => "measure",
    };
    let units = if state.units == UnitSystem::Binary { "GiB" } else { "GB" };
    let or_own = |name: Option<&str>| name.unwrap_or("own").to_owned();
    let mut words = vec![
        room.to_owned(),
        state.models.join("+"),
        state.context.get().to_string(),
        state.batch.to_string(),
        or_own(state.kv_format.map(KvFormat::name)),
        or_own(state.index_format.map(IndexFormat::name)),
        or_own(state.state_format.map(StateFormat::name)),
        units.to_owned(),
        state.scale.name().to_owned(),
        state.selected.clone().unwrap_or_else(|| "-".to_owned()),
        state.run.clone().unwrap_or_else(|| "-".to_owned()),
    ];
    // Lines from before engines end here.
    if state.engine.kind() != EngineKind::Logical {
        words.push(state.engine.to_string());
        let own = EngineSetting::all()
            .filter_map(|setting| Some(format!("{}={}", setting.name(), setting.value(&state.engine_own)?)));
        words.extend(own);
    }
    // And these from before claims.
    let claims = &state.claims;
    words.extend(claims.verdict.map(|verdict| format!("only-{}", verdict.name())));
    words.extend(claims.publication.as_ref().map(|id| format!("from-{id}")));
    words.extend(claims.open.as_ref().map(|id| format!("open-{id}")));
    // And these from before memory.
    words.extend(state.memory.map(|memory| format!("in {memory}")));
    // And these from before two versions were compared.
    if state.versions != VersionsView::default() {
        let [from, to] = state.versions.pair();
        words.push(format!("{from}>{to} {}", state.versions.moved.name()));
    }
    // And these from before plans.
    if state.plans != PlansView::default() {
        words.push(state.plans.plan.name().to_owned());
        words.extend(state.plans.given.pairs().map(|(name, text)| format!("{name}={text}")));
    }
    // And these from before the list of all versions.
    if state.list != ListView::default() {
        let turned = if state.list.descends { "-" } else { "" };
        words.push(format!("by {turned}{} of {:?}", state.list.column.name(), state.list.filter));
    }
    // And these from before GPUs and other bytes than resident ones.
    words.extend(state.gpus.map(|gpus| format!("on {gpus}")));
    if state.bytes != ByteKind::Resident {
        words.push(state.bytes.name().to_owned());
    }
    words.join(" ")
}

#[test]
fn every_old_link_opens_on_its_view() {
    let mut checked = 0;
    for line in LINKS.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (query, expected) = line.split_once(" => ").expect("query => view");
        let (state, notices) = ViewState::from_query(query);
        assert_eq!(described(&state), expected, "{query}");
        assert!(notices.is_empty(), "{query}: {notices:?}");
        checked += 1;
    }
    assert!(checked >= 5);
}
