//! The reader's own configs in links, compressed, behind the `#`: no browser sends that part of an address to a server.
//!
//! `#own=A.B` has a part for each opened config in the order in which they were opened, empty where one does not fit.

use kvscope_sizing::read_config_value;
use leptos::prelude::*;
use serde_json::{Value, json};
use wasm_bindgen::JsCast;
use wasm_bindgen_futures::JsFuture;
use web_sys::{Blob, ReadableStream, ReadableWritablePair, Response};

use crate::state::{Model, Page, Shared, Source, address};

/// Characters that all configs of a link may have together: what mail and chats still carry.
const LONGEST: usize = 8_000;

/// Puts the configs that are open into the address, each as far as there is room.
pub(crate) fn keep(page: Page) {
    let models = page.opened.with_untracked(|opened| opened.models.clone());
    leptos::task::spawn_local(async move {
        let mut parts: Vec<String> = Vec::new();
        for model in &models {
            let part = match &model.config {
                Some(config) => encoded(&model.name, config).await.unwrap_or_default(),
                None => String::new(),
            };
            let length = parts.iter().map(String::len).sum::<usize>() + part.len();
            parts.resize(model.number().saturating_sub(1), String::new());
            parts.push(if length <= LONGEST { part } else { String::new() });
        }
        address::set_own(&parts.join("."));
        page.view(address::replace);
    });
}

/// Opens the configs that the address holds; what cannot be read is said, and the rest of the link opens.
pub(crate) fn open(page: Page) {
    let own = address::own();
    if own.is_empty() {
        return;
    }
    leptos::task::spawn_local(async move {
        for (part, number) in own.split('.').zip(1..).filter(|(part, _)| !part.is_empty()) {
            match model(part, number).await {
                Ok(model) => page.opened.update(|opened| opened.models.push(Shared::new(model))),
                Err(why) => {
                    let line = format!("The config in the link cannot be read ({why}); open its file here.");
                    page.notices.update(|lines| {
                        let lines = lines.get_or_insert_default();
                        lines.push_str(if lines.is_empty() { "" } else { "\n" });
                        lines.push_str(&line);
                    });
                }
            }
        }
    });
}

/// Which of the shown versions a copied link leaves out, and what to do; none where it has all.
pub(crate) fn left_out(page: Page) -> Option<String> {
    let own = address::own();
    let parts: Vec<&str> = own.split('.').collect();
    let is_shown = |id: &String| {
        page.view(|view| view.models.contains(id) || view.versions.pair().contains(&id.as_str()))
    };
    let lacks = |model: &Shared<Model>| {
        is_shown(&model.id) && parts.get(model.number().saturating_sub(1)).is_none_or(|part| part.is_empty())
    };
    page.opened.with(|opened| {
        let model = opened.models.iter().find(|model| lacks(model))?;
        let why = match model.source {
            Source::Gguf => "a GGUF file does not fit into a link".to_owned(),
            _ => format!("its config needs more than the {LONGEST} characters that a link may have"),
        };
        Some(format!("copied without {}: {why}; send its file along, to be opened there", model.name))
    })
}

async fn encoded(name: &str, config: &Value) -> Option<String> {
    let text = json!({"name": name, "config": config}).to_string();
    let bytes = through(text.as_bytes(), "CompressionStream").await?;
    let binary: String = bytes.into_iter().map(char::from).collect();
    let base64 = window().btoa(&binary).ok()?;
    Some(base64.trim_end_matches('=').replace('+', "-").replace('/', "_"))
}

async fn model(part: &str, number: usize) -> Result<Model, String> {
    let damaged = || "it is cut or changed".to_owned();
    let base64 = part.replace('-', "+").replace('_', "/");
    let binary = window().atob(&base64).map_err(|_| damaged())?;
    let bytes: Vec<u8> = binary.chars().filter_map(|c| u8::try_from(u32::from(c)).ok()).collect();
    let text = through(&bytes, "DecompressionStream").await.ok_or_else(damaged)?;
    let mut value: Value = serde_json::from_slice(&text).map_err(|_| damaged())?;
    let config = value["config"].take();
    let architecture = read_config_value(&config).map_err(|error| error.to_string())?;
    Ok(Model {
        id: format!("{}{number}", Model::OWN),
        name: value["name"].as_str().unwrap_or("own config").to_owned(),
        family: architecture.model_type().unwrap_or("own config").to_owned(),
        source: Source::Config,
        architecture,
        config: Some(config),
    })
}

/// All that comes out of one of the browser's own streams of that class; none where it breaks off.
async fn through(bytes: &[u8], class: &str) -> Option<Vec<u8>> {
    let class: js_sys::Function = js_sys::Reflect::get(&window(), &class.into()).ok()?.dyn_into().ok()?;
    let stream = js_sys::Reflect::construct(&class, &js_sys::Array::of1(&"deflate-raw".into())).ok()?;
    let parts = js_sys::Array::of1(&js_sys::Uint8Array::from(bytes));
    let blob = Blob::new_with_u8_array_sequence(&parts).ok()?;
    let out: ReadableStream = blob.stream().pipe_through(stream.unchecked_ref::<ReadableWritablePair>());
    let response = Response::new_with_opt_readable_stream(Some(&out)).ok()?;
    let buffer = JsFuture::from(response.array_buffer().ok()?).await.ok()?;
    Some(js_sys::Uint8Array::new(&buffer).to_vec())
}
