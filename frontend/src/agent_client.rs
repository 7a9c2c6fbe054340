//! The agent's API, where an agent serves the page. All addresses are relative: a static host just does not know them.

use kvscope_protocol::run::Run;
use serde_json::Value;
use wasm_bindgen::JsCast;
use wasm_bindgen_futures::JsFuture;

/// One row of the list of runs.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct RunRow {
    pub(crate) run: String,
    /// What else is known of it, in words.
    pub(crate) about: String,
}

/// The API that this page speaks.
const API: u64 = 1;

/// The agent's version, where an agent of this API serves the page. A static host answers with an error or with a page.
pub(crate) async fn version() -> Option<String> {
    let health: Value = serde_json::from_str(&get("api/v1/health").await.ok()?).ok()?;
    let speaks_this = health["api"].as_u64().is_none_or(|api| api == API) && health.is_object();
    speaks_this.then(|| health["version"].as_str().unwrap_or("of unknown version").to_owned())
}

/// The agent's runs, newest first.
pub(crate) async fn runs() -> Result<Vec<RunRow>, String> {
    let text = get("api/v1/runs").await?;
    let rows: Value = serde_json::from_str(&text).map_err(|error| not_understood(&error))?;
    Ok(rows.as_array().into_iter().flatten().filter_map(row).collect())
}

/// One run.
pub(crate) async fn run(name: &str) -> Result<Run, String> {
    let name = String::from(js_sys::encode_uri_component(name));
    let text = get(&format!("api/v1/runs/{name}")).await?;
    let run: Value = serde_json::from_str(&text).map_err(|error| not_understood(&error))?;
    serde_json::from_value(run).map_err(|error| not_understood(&error))
}

fn row(row: &Value) -> Option<RunRow> {
    let run = row["run"].as_str()?.to_owned();
    let words =
        ["started", "backend", "machine", "ended"].map(|field| row[field].as_str().map(str::to_owned));
    let mut words: Vec<String> = words.into_iter().flatten().collect();
    if let Some(measured) = row["measured"].as_u64() {
        words.push(if measured == 1 { "1 point".to_owned() } else { format!("{measured} points") });
    }
    Some(RunRow { run, about: words.join(" · ") })
}

fn not_understood(error: &serde_json::Error) -> String {
    format!(
        "The agent's answer was not understood ({error}). It may be of another version: restart it and reload."
    )
}

async fn get(path: &str) -> Result<String, String> {
    let gone = |_| "The agent does not answer. Start it with `cargo xtask serve` and reload.".to_owned();
    let answer = JsFuture::from(leptos::prelude::window().fetch_with_str(path)).await.map_err(gone)?;
    let answer: web_sys::Response = answer.unchecked_into();
    let text =
        JsFuture::from(answer.text().map_err(gone)?).await.map_err(gone)?.as_string().unwrap_or_default();
    if answer.ok() {
        return Ok(text);
    }
    let problem: Value = serde_json::from_str(&text).unwrap_or_default();
    Err(match problem["message"].as_str() {
        Some(message) => message.to_owned(),
        None => format!("The agent answered {} to {path}.", answer.status()),
    })
}
