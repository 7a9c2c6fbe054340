//! Measures the page in headless Chromium at two device pixels per CSS pixel and prints one JSON object:
//! `sweep_ms` and `redraw_ms`, which the page measures itself, `first_chart_ms`, from navigation to first chart, and `plans`:
//! for each plan `{plan, of, model, anew_ms, moved_ms, inputs_ms}` with its usual options, `of` being `usual` for the version of
//! a first visit and `slowest` for the version that takes longest.
#![allow(clippy::print_stdout, reason = "this program's result")]

use std::time::Duration;

use kvscope_sizing::catalogue;
use kvscope_sizing::plan::PlanKind;
use kvscope_tests::browser::{Browser, Look, PixelRatio, Theme};
use kvscope_tests::page::Page;
use kvscope_tests::static_host;
use serde_json::{Value, json};

/// The page's own context; versions of fewer tokens are asked for all of theirs.
const CONTEXT: u64 = 100_000;

#[tokio::main]
async fn main() {
    let address = static_host::start().await;
    let browser = Browser::start_with(Look { ratio: PixelRatio(2.0), theme: Theme::Light }).await;
    let page = browser.open(&address).await;
    page.allow_scripts(Duration::from_mins(10)).await;
    let script = "const done = arguments[arguments.length - 1];
        if (typeof window.kvscope_bench !== 'function') { done(null); return; }
        Promise.resolve(window.kvscope_bench())
          .then(result => done(typeof result === 'string' ? JSON.parse(result) : result))
          .catch(error => done({ error: String(error) }));";
    let mut result = page.run_until_called(script).await;
    if result.is_object() {
        result["plans"] = plans(&page).await;
    }
    println!("{result}");
}

/// Medians of many answers: of the version of a first visit, and of the one whose shortest of three is the longest.
async fn plans(page: &Page) -> Value {
    let versions: Vec<Value> = catalogue()
        .iter()
        .map(|entry| {
            let architecture = entry.architecture().expect("the catalogue reads");
            let longest = architecture.max_context().map_or(CONTEXT, kvscope_sizing::Fact::get);
            json!({ "id": entry.id, "query": format!("m={}&n={}", entry.id, CONTEXT.min(longest)) })
        })
        .collect();
    let script = "const [plan, versions] = arguments;
        const ask = version => JSON.parse(window.kvscope_bench(`v=1&r=plans&p=${plan}&${version.query}`));
        const middle = list => list.sort((a, b) => a - b)[list.length >> 1];
        const sum = times => times.anew_ms + times.moved_ms;
        const shortest = version => Math.min(...[0, 0, 0].map(() => sum(ask(version))));
        const median = (of, version) => {
          const all = Array.from({ length: 31 }, () => ask(version));
          const row = { plan, of, model: version.id };
          for (const name of ['anew_ms', 'moved_ms', 'inputs_ms']) row[name] = middle(all.map(one => one[name]));
          return row;
        };
        const answered = versions.filter(version => ask(version).anew_ms !== null);
        const timed = answered.map(version => [shortest(version), version]);
        const [, slowest] = timed.reduce((most, one) => (one[0] > most[0] ? one : most));
        const usual = { id: 'first visit', query: plan === 'label' ? '' : versions.find(v => v.id === 'minimax-m2.7').query };
        return [median('usual', usual), { ...median('slowest', slowest), answered: answered.length }];";
    let mut rows = Vec::new();
    for plan in PlanKind::ALL {
        let both = page.run(script, vec![plan.name().into(), versions.clone().into()]).await;
        rows.extend(both.as_array().expect("two rows").iter().cloned());
    }
    rows.into()
}
