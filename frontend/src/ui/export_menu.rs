//! Ways to take a figure or a table away: one button that opens them.

use std::sync::Arc;
use std::time::Duration;

use kvscope_charts::Theme;
use kvscope_charts::export::{Export, Format, Origin};
use kvscope_charts::scene::{Ink, Node, Rect, Scene, Texture};
use leptos::ev;
use leptos::prelude::*;
use wasm_bindgen::closure::Closure;
use wasm_bindgen::{JsCast, JsValue};
use wasm_bindgen_futures::JsFuture;
use web_sys::{Blob, BlobPropertyBag, ClipboardItem, HtmlAnchorElement, HtmlCanvasElement, Url};

use crate::canvas::paint_on;
use crate::erased::{on, words};
use crate::state::Page;
use crate::state::address::link_to;

/// Device pixels of a picture for each CSS pixel.
const PIXELS: f64 = 2.0;
/// How long what was done stays said.
const SAID_FOR: Duration = Duration::from_secs(4);
const REFUSED: &str = "the browser did not allow it";

/// What one line of the menu does.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Way {
    Save(Format),
    CopyPicture,
    CopyTable,
}

const OF_DRAWINGS: [(Way, &str); 4] = [
    (Way::CopyPicture, "copy picture"),
    (Way::Save(Format::Svg), "SVG"),
    (Way::Save(Format::Png), "PNG"),
    (Way::Save(Format::VegaLite), "Vega-Lite"),
];
const OF_TABLES: [(Way, &str); 6] = [
    (Way::CopyTable, "copy table"),
    (Way::Save(Format::Csv), "CSV"),
    (Way::Save(Format::Json), "JSON"),
    (Way::Save(Format::Markdown), "Markdown"),
    (Way::Save(Format::Latex), "LaTeX"),
    (Way::Save(Format::Typst), "Typst"),
];

/// Whether there is a figure beside the table.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Holds {
    Figure,
    Table,
}

/// Makes what is asked for when it is asked for, or says why there is nothing.
pub(crate) type Make = Arc<dyn Fn(Origin) -> Result<Export, String> + Send + Sync>;

/// A button that opens the ways to take something away; files are called by `stem`.
pub(crate) fn export_menu(page: Page, stem: &'static str, holds: Holds, make: Make) -> AnyView {
    let said = RwSignal::new(None::<String>);
    let menu = format!("export-{stem}");
    let closes = menu.clone();
    let button = move |(way, name): &(Way, &'static str)| {
        let (way, make) = (*way, Arc::clone(&make));
        let take = move |_: ev::MouseEvent| match untrack(|| make(origin(page))) {
            Ok(export) => take(way, stem, &export, said),
            Err(why) => say(said, why),
        };
        view! {
            <button
                type="button"
                data-export=*name
                popovertarget=closes.clone()
                popovertargetaction="hide"
                on:click=on(take)
            >
                {*name}
            </button>
        }
        .into_any()
    };
    let drawn: Vec<AnyView> = match holds {
        Holds::Figure => OF_DRAWINGS.iter().map(&button).collect(),
        Holds::Table => Vec::new(),
    };
    let listed: Vec<AnyView> = OF_TABLES.iter().map(&button).collect();
    view! {
        <span class="export">
            <span class="note" role="status">{words(move || said.get().unwrap_or_default())}</span>
            <button type="button" class="opens" popovertarget=menu.clone() aria-label=format!("Export {stem}")>"export"</button>
            <div popover="auto" id=menu.clone() class="menu" role="group" aria-label=format!("Export {stem} as")>
                {drawn}
                {listed}
            </div>
        </span>
    }
    .into_any()
}

/// Where an export of this page comes from.
fn origin(page: Page) -> Origin {
    let now = js_sys::Date::new_0().to_iso_string().as_string().unwrap_or_default();
    Origin {
        program: concat!("kvscope ", env!("CARGO_PKG_VERSION")).to_owned(),
        day: now.split('T').next().unwrap_or_default().to_owned(),
        link: page.view(link_to),
    }
}

fn take(way: Way, stem: &str, export: &Export, said: RwSignal<Option<String>>) {
    match way {
        Way::Save(Format::Png) | Way::CopyPicture => {
            let file = format!("{stem}.png");
            let done = move |picture: Option<Blob>| match picture {
                None => say(said, "the picture is too large; save the SVG".to_owned()),
                Some(picture) if way == Way::CopyPicture => copy_picture(&picture, said),
                Some(picture) => save(&file, &picture, said),
            };
            picture(&export.whole_scene(), Box::new(done));
        }
        Way::Save(format) => {
            let text = export.text(format, &Theme::light());
            let ending = Format::ALL.iter().find(|(_, known)| *known == format).map(|(ending, _)| *ending);
            if let (Some(text), Some(ending)) = (text, ending)
                && let Some(blob) = text_blob(&text)
            {
                save(&format!("{stem}.{ending}"), &blob, said);
            }
        }
        Way::CopyTable => {
            let written = window().navigator().clipboard().write_text(&export.tab_separated());
            tell(said, written);
        }
    }
}

fn say(said: RwSignal<Option<String>>, sentence: String) {
    let _ = said.try_set(Some(sentence));
    set_timeout(move || drop(said.try_set(None)), SAID_FOR);
}

/// Says whether something was copied, when that is known.
fn tell(said: RwSignal<Option<String>>, written: js_sys::Promise) {
    leptos::task::spawn_local(async move {
        let outcome = JsFuture::from(written).await;
        say(said, if outcome.is_ok() { "copied" } else { REFUSED }.to_owned());
    });
}

fn text_blob(text: &str) -> Option<Blob> {
    let options = BlobPropertyBag::new();
    options.set_type("text/plain;charset=utf-8");
    Blob::new_with_str_sequence_and_options(&js_sys::Array::of1(&text.into()), &options).ok()
}

/// Paints a scene on a canvas of its own and gives the picture; none where it is larger than a canvas may be.
fn picture(scene: &Scene, done: Box<dyn FnOnce(Option<Blob>)>) {
    let canvas =
        document().create_element("canvas").ok().and_then(|made| made.dyn_into::<HtmlCanvasElement>().ok());
    let Some(canvas) = canvas else { return };
    // Transparent paper would be black in many readers.
    let mut scene = scene.clone();
    let rect = Rect::new(0.0, 0.0, scene.size.width, scene.size.height);
    scene.nodes.insert(0, Node::Rect { rect, fill: Ink::Paper, texture: Texture::Plain });
    paint_on(&canvas, &scene, &Theme::light(), PIXELS);
    let done = Closure::once_into_js(move |picture: JsValue| done(picture.dyn_into().ok()));
    let _ = canvas.to_blob(done.unchecked_ref());
}

fn copy_picture(picture: &Blob, said: RwSignal<Option<String>>) {
    let parts = js_sys::Object::new();
    let _ = js_sys::Reflect::set(&parts, &"image/png".into(), &js_sys::Promise::resolve(picture));
    match ClipboardItem::new_with_record_from_str_to_blob_promise(&parts) {
        Ok(item) => tell(said, window().navigator().clipboard().write(&js_sys::Array::of1(&item).into())),
        Err(_) => say(said, REFUSED.to_owned()),
    }
}

/// Gives a file to the browser's downloads.
fn save(name: &str, content: &Blob, said: RwSignal<Option<String>>) {
    let address = Url::create_object_url_with_blob(content).ok();
    let link = document().create_element("a").ok().and_then(|made| made.dyn_into::<HtmlAnchorElement>().ok());
    let (Some(address), Some(link)) = (address, link) else {
        say(said, REFUSED.to_owned());
        return;
    };
    link.set_href(&address);
    link.set_download(name);
    link.click();
    say(said, format!("saved {name}"));
    // The browser has begun to read by then.
    set_timeout(move || drop(Url::revoke_object_url(&address)), Duration::from_secs(10));
}
