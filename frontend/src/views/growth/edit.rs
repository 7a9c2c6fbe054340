//! The selected version's config, field by field: what is typed moves its curve.

use kvscope_sizing::{StateModel, read_config_value};
use leptos::prelude::*;
use serde_json::Value;

use super::fields::{paths, text, with};
use crate::erased::{nothing, on, part};
use crate::files::{own_model, show_model};
use crate::own_link;
use crate::state::{Model, Page, Shared, Source};
use crate::ui::TextBox;

/// The fields of a config of the reader's own, or the way to a copy of the catalogue's; nothing for GGUF files.
pub(super) fn edit(page: Page) -> AnyView {
    // The rows are made anew with the version and its fields alone, so that typing keeps its place.
    let fields = Memo::new(move |_| {
        let model = page.selected()?.model?;
        let mut lines = vec![model.id.clone()];
        lines.extend(paths(config(&model)?));
        Some(lines.join("\n"))
    });
    let shown = move || {
        let Some(fields) = fields.get() else { return nothing() };
        let (id, fields) = fields.split_once('\n').unwrap_or((&fields, ""));
        if !id.starts_with(Model::OWN) {
            return copy_button(page);
        }
        let rows: Vec<AnyView> = fields.lines().map(|path| row(page, id, path)).collect();
        view! {
            <div class="fields">{rows}{another(page, id)}</div>
            <p class="note">"A change moves the curve and goes into the link. An empty box leaves the field out: its class's default holds."</p>
        }
        .into_any()
    };
    view! {
        <section class="edit">
            <h2>"Config"</h2>
            {part(shown)}
        </section>
    }
    .into_any()
}

fn config(model: &Model) -> Option<&Value> {
    model.entry().map(|entry| &entry.config).or(model.config.as_ref())
}

fn copy_button(page: Page) -> AnyView {
    let copy = move |_| {
        let Some(model) = untrack(|| page.selected()).and_then(|chosen| chosen.model) else { return };
        let Some(config) = config(&model) else { return };
        // The catalogue's configs can be read.
        let Ok(architecture) = read_config_value(config) else { return };
        let copied =
            own_model(page, (&model.name, "edited"), Source::Config, architecture, Some(config.clone()));
        show_model(page, Model { family: model.family.clone(), ..copied });
    };
    view! {
        <p><button type="button" class="plain" data-action="edit" on:click=on(copy)>"edit a copy of its config"</button></p>
    }
    .into_any()
}

fn row(page: Page, id: &str, path: &str) -> AnyView {
    let (own, field) = (id.to_owned(), path.to_owned());
    let value =
        move || opened(page, &own).and_then(|model| Some(text(config(&model)?, &field))).unwrap_or_default();
    let (own, field) = (id.to_owned(), path.to_owned());
    view! {
        <div>
            <TextBox
                label=path
                name=path
                unit=""
                value=Box::new(value)
                take=Box::new(move |typed| change(page, &own, &field, typed))
            />
        </div>
    }
    .into_any()
}

/// A field that the config does not have.
fn another(page: Page, id: &str) -> AnyView {
    let own = id.to_owned();
    let take = move |typed: &str| {
        let Some((path, value)) = typed.split_once(':') else {
            return Err("write a field as name: value".to_owned());
        };
        change(page, &own, path.trim(), value)
    };
    view! {
        <div>
            <TextBox
                label="another field"
                name="Another field of the config"
                unit=""
                value=Box::new(String::new)
                take=Box::new(take)
                usual="name: value"
            />
        </div>
    }
    .into_any()
}

/// A version that the reader opened. Tracked.
fn opened(page: Page, id: &str) -> Option<Shared<Model>> {
    page.opened.with(|opened| opened.models.iter().find(|model| model.id == *id).cloned())
}

/// Puts a changed config in the place of the former one; one that has no state is refused, and the former stays.
fn change(page: Page, id: &str, path: &str, typed: &str) -> Result<(), String> {
    let Some(model) = untrack(|| opened(page, id)) else { return Ok(()) };
    let Some(former) = &model.config else { return Ok(()) };
    let config = with(former, path, typed)?;
    let architecture = read_config_value(&config).map_err(|error| error.to_string())?;
    let settings = untrack(|| page.chosen().settings.clone());
    StateModel::new(&architecture, &settings).map_err(|error| error.to_string())?;
    let changed = Shared::new(Model {
        id: model.id.clone(),
        name: model.name.clone(),
        family: model.family.clone(),
        source: model.source,
        architecture,
        config: Some(config),
    });
    page.opened.update(|opened| {
        if let Some(place) = opened.models.iter_mut().find(|known| known.id == changed.id) {
            *place = changed;
        }
    });
    own_link::keep(page);
    Ok(())
}
