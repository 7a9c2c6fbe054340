//! What the reader drops, opens or pastes: a config, which becomes a version, or a stored run. Nothing leaves the browser.

use kvscope_protocol::Room;
use kvscope_protocol::run::{Run, read_lines};
use kvscope_sizing::read_config;
use leptos::prelude::*;
use wasm_bindgen_futures::JsFuture;

use crate::state::{Model, Page, Shared, Step};

/// As the command line has it.
const LARGEST_MIB: u32 = 64;

/// Reads a file and puts what it is on the page; says why not where it is neither config nor run.
pub(crate) fn open(page: Page, file: &web_sys::File) {
    let name = file.name();
    let size = file.size();
    if size > f64::from(LARGEST_MIB << 20) {
        refuse(page, format!("{name}: a config.json has at most {LARGEST_MIB} MiB, this has {size} bytes"));
        return;
    }
    let text = file.text();
    leptos::task::spawn_local(async move {
        match JsFuture::from(text).await {
            Ok(text) => take(page, &name, &text.as_string().unwrap_or_default()),
            Err(_) => refuse(page, format!("{name}: the browser could not read it; is it still there?")),
        }
    });
}

/// Puts a text on the page under the name of where it came from.
pub(crate) fn take(page: Page, name: &str, text: &str) {
    let taken = match run_in(text) {
        Some(run) => run.map(|run| show_run(page, run)),
        None => own_model(page, name, text).map(|model| show_model(page, model)),
    };
    match taken {
        Ok(()) => page.refusal.set(None),
        Err(sentence) => refuse(page, format!("{name}: {sentence}")),
    }
}

fn refuse(page: Page, sentence: String) {
    page.refusal.set(Some(sentence));
}

/// A stored run in its lines, or as `bench run --json` prints it; none where the text is something else.
fn run_in(text: &str) -> Option<Result<Run, String>> {
    let first = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    if first.contains("\"line\"") && first.contains("\"header\"") {
        return Some(read_lines(text).map(|read| read.run).map_err(|warning| warning.to_string()));
    }
    if text.contains("\"verdicts\"") && text.contains("\"cases\"") {
        let run = serde_json::from_str::<serde_json::Value>(text).and_then(serde_json::from_value);
        return Some(run.map_err(|error| format!("not a run that this version reads ({error})")));
    }
    None
}

fn show_run(page: Page, run: Run) {
    let name = run.run.clone();
    page.opened.update(|opened| {
        opened.runs.retain(|known| known.run != name);
        opened.runs.push(Shared::new(run));
    });
    page.change(Step::Push, |view| {
        view.room = Room::Measure;
        view.run = Some(name);
    });
}

fn own_model(page: Page, name: &str, text: &str) -> Result<Model, String> {
    let architecture = read_config(text).map_err(|error| error.to_string())?;
    let number = page.opened.with_untracked(|opened| opened.models.len()) + 1;
    let kind = architecture.model_type().unwrap_or("own config").to_owned();
    Ok(Model {
        id: format!("{}{number}", Model::OWN),
        name: format!("{kind} ({name})"),
        family: kind,
        entry: None,
        architecture,
    })
}

fn show_model(page: Page, model: Model) {
    let id = model.id.clone();
    page.opened.update(|opened| opened.models.push(Shared::new(model)));
    // A config that is opened beside a log is the model of the log.
    if untrack(|| page.room()) == Room::Log {
        page.log_model.set(Some(id));
        return;
    }
    page.change(Step::Push, |view| {
        view.room = Room::Growth;
        view.models.push(id.clone());
        view.selected = Some(id);
    });
}
