//! The agent's API, where an agent serves the page. All addresses are relative: a static host just does not know them.

use kvscope_protocol::job::Job;
use kvscope_protocol::run::{Run, RunSummary};
use kvscope_sizing::Error;
use kvscope_sizing::plan::Measured;
use kvscope_sizing::record::{read_json, read_record};
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
    let health = read_json(&get("api/v1/health").await.ok()?).ok()?;
    let speaks_this = health["api"].as_u64().is_none_or(|api| api == API) && health.is_object();
    speaks_this.then(|| health["version"].as_str().unwrap_or("of unknown version").to_owned())
}

/// The agent's runs, newest first.
pub(crate) async fn runs() -> Result<Vec<RunRow>, String> {
    let text = get("api/v1/runs").await?;
    let rows: Vec<RunSummary> = read_record(&text).map_err(|error| not_understood(&error))?;
    Ok(rows.into_iter().map(row).collect())
}

/// One run.
pub(crate) async fn run(name: &str) -> Result<Run, String> {
    let name = String::from(js_sys::encode_uri_component(name));
    let text = get(&format!("api/v1/runs/{name}")).await?;
    read_record(&text).map_err(|error| not_understood(&error))
}

/// What this machine's runs measured of tiers and links.
pub(crate) async fn measured() -> Result<Measured, String> {
    read_record(&get("api/v1/plan/hardware").await?).map_err(|error| not_understood(&error))
}

/// The agent's jobs, newest first.
pub(crate) async fn jobs() -> Result<Vec<Job>, String> {
    read_record(&get("api/v1/jobs").await?).map_err(|error| not_understood(&error))
}

/// Asks for a run.
pub(crate) async fn start_job(request: &serde_json::Value) -> Result<Job, String> {
    let text = change("POST", "api/v1/jobs", &request.to_string()).await?;
    read_record(&text).map_err(|error| not_understood(&error))
}

/// Asks a job to stop.
pub(crate) async fn cancel_job(job: &str) -> Result<(), String> {
    change("DELETE", &format!("api/v1/jobs/{job}"), "").await.map(drop)
}

fn row(summary: RunSummary) -> RunRow {
    let ended = Some(summary.state());
    let points = match summary.points_measured() {
        measured if measured < summary.points() => None,
        1 => Some("1 point".to_owned()),
        n => Some(format!("{n} points")),
    };
    let damaged = match summary.warnings.len() {
        0 => None,
        1 => Some("1 damaged line".to_owned()),
        n => Some(format!("{n} damaged lines")),
    };
    let words = [summary.started, summary.backend, ended, points, damaged];
    RunRow { run: summary.run, about: words.into_iter().flatten().collect::<Vec<_>>().join(" · ") }
}

fn not_understood(error: &Error) -> String {
    format!(
        "The agent's answer was not understood ({error}). It may be of another version: restart it and reload."
    )
}

async fn get(path: &str) -> Result<String, String> {
    answered(leptos::prelude::window().fetch_with_str(path), path).await
}

/// Sends what changes something, with the header that pages of other sites cannot send.
async fn change(method: &str, path: &str, body: &str) -> Result<String, String> {
    let body = (!body.is_empty()).then_some(body);
    let headers = serde_json::json!({"content-type": "application/json", "x-kvscope": "1"});
    let init = serde_json::json!({"method": method, "headers": headers, "body": body}).to_string();
    let init = js_sys::JSON::parse(&init).unwrap_or_default();
    answered(leptos::prelude::window().fetch_with_str_and_init(path, init.unchecked_ref()), path).await
}

async fn answered(asked: js_sys::Promise, path: &str) -> Result<String, String> {
    let gone = |_| {
        "The agent does not answer. Start it with `cargo xtask serve`; this page goes on when it is there."
            .to_owned()
    };
    let answer = JsFuture::from(asked).await.map_err(gone)?;
    let answer: web_sys::Response = answer.unchecked_into();
    let text =
        JsFuture::from(answer.text().map_err(gone)?).await.map_err(gone)?.as_string().unwrap_or_default();
    if answer.ok() {
        return Ok(text);
    }
    let problem = read_json(&text).unwrap_or_default();
    Err(match problem["message"].as_str() {
        Some(message) => message.to_owned(),
        None => format!("The agent answered {} to {path}.", answer.status()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_of_the_list_says_what_is_known() {
        let known = r#"{"run":"a-1","started":"2026-11-29T15:00:00Z","backend":"cpu","ended":"complete","cases":3,"measured":1,
            "transfers":2,"transfers_measured":2,"warnings":[]}"#;
        let row_of = |text: &str| row(serde_json::from_str(text).unwrap()).about;
        assert_eq!(row_of(known), "2026-11-29T15:00:00Z · cpu · complete: 3 of 5 measured");
        let damaged = r#"{"run":"b-2","started":null,"backend":null,"ended":null,"cases":0,"measured":0,
            "transfers":0,"transfers_measured":0,"warnings":[{"line":1,"what":"no readable header"}]}"#;
        assert_eq!(row_of(damaged), "unreadable · 0 points · 1 damaged line");
    }
}
