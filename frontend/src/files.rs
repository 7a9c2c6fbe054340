//! What the reader drops, opens or pastes: a config or a GGUF file, which becomes a version, or a stored run. Nothing leaves
//! the browser, and of a GGUF file only the start is read, as far as its metadata goes.

use kvscope_protocol::Room;
use kvscope_protocol::run::{Run, read_lines};
use kvscope_sizing::plan::simulation::Trace;
use kvscope_sizing::plan::{NamedTrace, PlanKind, typed_block};
use kvscope_sizing::record::read_record;
use kvscope_sizing::{
    Architecture, GgufRead, Unknown, first_part, is_gguf, is_gguf_name, model_file, read_config_and_value,
    read_gguf,
};
use leptos::prelude::*;
use serde_json::Value;
use wasm_bindgen_futures::JsFuture;
use web_sys::File;

use crate::own_link;
use crate::state::{Model, Page, Shared, Source, Step};

/// As the command line has it.
const LARGEST_MIB: u32 = 64;

/// The files of a list.
pub(crate) fn listed(files: &web_sys::FileList) -> Vec<File> {
    (0..files.length()).filter_map(|index| files.get(index)).collect()
}

/// Reads files that were given together, each as what it is; of the parts that a model was split into only the first. What is
/// refused of them is said of each.
pub(crate) fn open_all(page: Page, files: &[File]) {
    let names: Vec<String> = files.iter().map(File::name).collect();
    for (file, name) in files.iter().zip(&names) {
        if first_part(name).is_none_or(|first| first == *name || !names.contains(&first)) {
            open_as(page, file, name.clone());
        }
    }
}

/// Reads the one file of a folder that says what the model is.
pub(crate) fn open_folder(page: Page, files: Vec<File>) {
    page.forget_refusals();
    let files: Vec<(File, String)> = files.into_iter().map(|file| (file.clone(), path(&file))).collect();
    let folder =
        files.first().and_then(|(_, path)| path.split_once('/')).map_or("folder", |(folder, _)| folder);
    // Folders inside the chosen one are other models.
    let own: Vec<&(File, String)> = files.iter().filter(|(_, path)| path.matches('/').count() < 2).collect();
    let names: Vec<String> = own.iter().map(|(file, _)| file.name()).collect();
    match model_file(&names) {
        Ok(place) => {
            let (file, path) = own[place];
            open_as(page, file, path.clone());
        }
        Err(sentence) => page.refuse(&format!("{folder}: {sentence}")),
    }
}

fn open_as(page: Page, file: &File, name: String) {
    let file = file.clone();
    leptos::task::spawn_local(async move {
        match read(&file, &name).await {
            Ok(Content::Text(text)) => take(page, &name, &text),
            Ok(Content::Gguf(architecture)) => {
                show_model(page, opened_model(page, &name, Source::Gguf, *architecture, None));
            }
            Err(sentence) => page.refuse(&format!("{name}: {sentence}")),
        }
    });
}

/// What a file holds.
enum Content {
    Text(String),
    Gguf(Box<Architecture>),
}

/// Reads as much of a file as it takes to know what it is.
async fn read(file: &File, name: &str) -> Result<Content, String> {
    let length = whole(file.size());
    let mut bytes = slice(file, 0, length.min(64 << 10)).await?;
    if is_gguf(&bytes) {
        loop {
            match read_gguf(&bytes, Some(length), Unknown::Warn).map_err(|error| error.to_string())? {
                GgufRead::Architecture(architecture) => return Ok(Content::Gguf(architecture)),
                GgufRead::NeedsPrefix { bytes: wanted } => {
                    bytes.extend(slice(file, bytes.len() as u64, wanted).await?);
                }
            }
        }
    }
    if is_gguf_name(name) {
        return Err("byte 0: not a GGUF file; it does not begin with \"GGUF\"".to_owned());
    }
    if length > u64::from(LARGEST_MIB) << 20 {
        return Err(format!(
            "a config.json or a trace has at most {LARGEST_MIB} MiB, this has {length} bytes"
        ));
    }
    bytes.extend(slice(file, bytes.len() as u64, length).await?);
    String::from_utf8(bytes).map(Content::Text).map_err(|error| {
        let place = error.utf8_error().valid_up_to();
        format!("byte {place} is not UTF-8; expected a config.json or a GGUF file")
    })
}

/// Bytes `from` to `to` of a file.
async fn slice(file: &File, from: u64, to: u64) -> Result<Vec<u8>, String> {
    let unread = |_| "the browser could not read it; is it still there, and a file, not a folder?".to_owned();
    // A file's positions are whole numbers below 2^53, which f64 holds.
    let blob = file.slice_with_f64_and_f64(from as f64, to as f64).map_err(unread)?;
    let buffer = JsFuture::from(blob.array_buffer()).await.map_err(unread)?;
    Ok(js_sys::Uint8Array::new(&buffer).to_vec())
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a file's length is a whole number below 2^53"
)]
fn whole(length: f64) -> u64 {
    length as u64
}

/// The path within a chosen folder, or the name.
fn path(file: &File) -> String {
    let path =
        js_sys::Reflect::get(file, &"webkitRelativePath".into()).ok().and_then(|path| path.as_string());
    path.filter(|path| !path.is_empty()).unwrap_or_else(|| file.name())
}

/// Puts a text on the page that was pasted.
pub(crate) fn take_pasted(page: Page, text: &str) {
    page.forget_refusals();
    take(page, "pasted text", text);
}

/// Puts a text on the page under the name of where it came from.
fn take(page: Page, name: &str, text: &str) {
    let taken = match run_in(text) {
        Some(run) => run.map(|run| show_run(page, run)),
        None if first_line(text).contains("\"hash_ids\"") => show_trace(page, name, text),
        None => read_config_and_value(text, Unknown::Warn)
            .map(|(architecture, config)| {
                show_model(page, opened_model(page, name, Source::Config, architecture, Some(config)));
            })
            .map_err(|error| error.to_string()),
    };
    if let Err(sentence) = taken {
        page.refuse(&format!("{name}: {sentence}"));
    }
}

/// A stored run in its lines, or as `bench run --json` prints it; none where the text is something else.
fn run_in(text: &str) -> Option<Result<Run, String>> {
    let first = first_line(text);
    if first.contains("\"line\"") && first.contains("\"header\"") {
        return Some(read_lines(text).map(|read| read.run).map_err(|warning| warning.to_string()));
    }
    if text.contains("\"verdicts\"") && text.contains("\"cases\"") {
        return Some(
            read_record(text).map_err(|error| format!("not a run that this version reads ({error})")),
        );
    }
    None
}

fn first_line(text: &str) -> &str {
    text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default()
}

/// Replays the requests of a trace.
fn show_trace(page: Page, name: &str, text: &str) -> Result<(), String> {
    let block = untrack(|| page.view(|view| typed_block(&view.plans.given)));
    let trace = block.and_then(|block| Trace::read(text, block)).map_err(|error| error.to_string())?;
    let named = Shared::new(NamedTrace { label: name.to_owned(), trace });
    page.opened.update(|opened| opened.trace = Some(named));
    page.change(Step::Push, |view| {
        view.room = Room::Plans;
        view.plans.plan = PlanKind::Simulate;
    });
    Ok(())
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

fn opened_model(
    page: Page,
    file: &str,
    source: Source,
    architecture: Architecture,
    config: Option<Value>,
) -> Model {
    let kind = architecture.model_type().unwrap_or("own config").to_owned();
    let shown = architecture.name().unwrap_or(&kind).to_owned();
    own_model(page, (&shown, file), source, architecture, config)
}

/// A version of the reader's own: `shown (name)`, or `shown (name, 2)` where another is called so.
pub(crate) fn own_model(
    page: Page,
    (shown, name): (&str, &str),
    source: Source,
    architecture: Architecture,
    config: Option<Value>,
) -> Model {
    let plain = format!("{shown} ({name})");
    page.opened.with_untracked(|opened| {
        let is_new = |label: &String| opened.models.iter().all(|model| model.name != *label);
        let labels = std::iter::once(plain).chain((2..).map(|number| format!("{shown} ({name}, {number})")));
        let number = opened.models.iter().map(|model| model.number()).max().unwrap_or(0) + 1;
        Model {
            id: format!("{}{number}", Model::OWN),
            name: labels.into_iter().find(is_new).unwrap_or_default(),
            family: architecture.model_type().unwrap_or("own config").to_owned(),
            source,
            architecture,
            config,
        }
    })
}

/// Adds a version of the reader's own to those that are shown.
pub(crate) fn show_model(page: Page, model: Model) {
    let id = model.id.clone();
    page.opened.update(|opened| opened.models.push(Shared::new(model)));
    // A config that is opened beside a log is the model of the log.
    if untrack(|| page.room()) == Room::Log {
        page.log_model.set(Some(id));
        own_link::keep(page);
        return;
    }
    page.change(Step::Push, |view| {
        if view.room != Room::Plans {
            view.room = Room::Growth;
        }
        view.models.push(id.clone());
        view.selected = Some(id);
    });
    own_link::keep(page);
}
