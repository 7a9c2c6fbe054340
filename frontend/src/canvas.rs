//! A figure on two canvases: the base, repainted when data, size or theme change, and an overlay for the cursor.

use kvscope_charts::paint::drawing::{SUBPIXELS, paint};
use kvscope_charts::{Growth, Layers, Scene, Theme};
use leptos::html;
use leptos::prelude::*;
use plotters_canvas::CanvasBackend;
use wasm_bindgen::JsCast;
use wasm_bindgen::closure::Closure;
use web_sys::{CanvasRenderingContext2d, HtmlCanvasElement, HtmlElement};

use crate::erased::effect;
use crate::state::{Look, Page, Shared};

/// A laid-out figure and, where the pointer asks it, what made it.
#[derive(Debug)]
pub(crate) struct Drawn {
    pub(crate) scene: Scene,
    pub(crate) layout: Layout,
}

/// What made a scene.
#[derive(Debug)]
pub(crate) enum Layout {
    Growth(Box<Growth>),
    Layers(Layers),
    /// Nothing that is asked again.
    Plain,
}

/// All figures are memos of one type; see [`crate::erased`] for why.
pub(crate) type DrawnMemo = Memo<Option<Shared<Drawn>>>;

impl Drawn {
    /// A scene that the pointer does not ask.
    pub(crate) fn plain(scene: Scene) -> Shared<Self> {
        Shared::new(Self { scene, layout: Layout::Plain })
    }
}

/// A scene on screen. `width` follows the room that the figure has.
#[component]
pub(crate) fn Figure(
    /// What it shows: `growth`, `layers`, ….
    name: &'static str,
    /// CSS pixels across that the layout may use; written here, read by the layout.
    width: RwSignal<f64>,
    /// All but the cursor.
    base: DrawnMemo,
    /// What is painted over it.
    #[prop(optional)]
    overlay: Option<DrawnMemo>,
) -> impl IntoView {
    let look = expect_context::<Look>();
    let page = expect_context::<Page>();
    let frame = NodeRef::<html::Div>::new();
    let (under, over) = (NodeRef::<html::Canvas>::new(), NodeRef::<html::Canvas>::new());

    effect(move || {
        if let Some(frame) = frame.get() {
            observe_width(&frame, width);
        }
    });
    effect(move || {
        let (Some(canvas), drawn, true) = (under.get(), base.get(), look.font_is_here.get()) else {
            return;
        };
        let Some(drawn) = drawn else {
            clear(&canvas);
            return;
        };
        paint_on(&canvas, &drawn.scene, &look.theme(), look.ratio.get());
        if !page.ready.get_untracked() {
            crate::bench::first_chart_is_drawn();
            page.ready.set(true);
        }
    });
    effect(move || {
        let (Some(canvas), Some(overlay), true) = (over.get(), overlay, look.font_is_here.get()) else {
            return;
        };
        let Some(drawn) = overlay.get() else {
            clear(&canvas);
            return;
        };
        paint_on(&canvas, &drawn.scene, &look.theme(), look.ratio.get());
    });

    view! {
        <div class="frame" node_ref=frame>
            <canvas class="base" data-figure=name node_ref=under></canvas>
            <canvas class="over" node_ref=over></canvas>
        </div>
    }
    .into_any()
}

/// Paints `scene` on a canvas of its size, sharp at `ratio` device pixels per CSS pixel.
pub(crate) fn paint_on(canvas: &HtmlCanvasElement, scene: &Scene, theme: &Theme, ratio: f64) {
    let device = |pixels: f64| whole((pixels * ratio).round());
    let (width, height) = (device(scene.size.width), device(scene.size.height));
    if canvas.width() != width || canvas.height() != height {
        canvas.set_width(width);
        canvas.set_height(height);
        let style = canvas.unchecked_ref::<HtmlElement>().style();
        let _ = style.set_property("width", &format!("{}px", scene.size.width));
        let _ = style.set_property("height", &format!("{}px", scene.size.height));
    }
    let Some(context) = context_of(canvas) else { return };
    let _ = context.set_transform(1.0, 0.0, 0.0, 1.0, 0.0, 0.0);
    context.clear_rect(0.0, 0.0, f64::from(width), f64::from(height));
    let step = ratio / f64::from(SUBPIXELS);
    let _ = context.set_transform(step, 0.0, 0.0, step, 0.0, 0.0);
    context.set_line_join("round");
    if let Some(mut backend) = CanvasBackend::with_canvas_object(canvas.clone()) {
        // Only a canvas whose context was lost fails, and it shows nothing either way.
        let _ = paint(scene, theme, &mut backend);
    }
}

/// Leaves nothing of a figure that is no more.
fn clear(canvas: &HtmlCanvasElement) {
    canvas.set_width(0);
    canvas.set_height(0);
    let style = canvas.unchecked_ref::<HtmlElement>().style();
    let _ = style.set_property("width", "0");
    let _ = style.set_property("height", "0");
}

fn context_of(canvas: &HtmlCanvasElement) -> Option<CanvasRenderingContext2d> {
    canvas.get_context("2d").ok()??.dyn_into().ok()
}

fn observe_width(frame: &HtmlElement, width: RwSignal<f64>) {
    let follow = Closure::<dyn Fn(js_sys::Array)>::new(move |entries: js_sys::Array| {
        let Some(entry) = entries.iter().last() else { return };
        let across = entry.unchecked_into::<web_sys::ResizeObserverEntry>().content_rect().width().floor();
        // An element that has left the document reports nothing, to a signal that may be gone.
        if across > 0.0 && width.try_get_untracked().is_some_and(|known| (known - across).abs() > 0.5) {
            let _ = width.try_set(across);
        }
    });
    if let Ok(observer) = web_sys::ResizeObserver::new(follow.as_ref().unchecked_ref()) {
        observer.observe(frame);
        follow.forget();
    }
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a cast from f64 saturates, and no canvas is that large"
)]
fn whole(pixels: f64) -> u32 {
    pixels as u32
}
