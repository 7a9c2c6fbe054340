use std::sync::Arc;

use kvscope_charts::Scene;
use kvscope_charts::runs::{RunFigure, latency, memory, residuals};
use kvscope_charts::versions::USUAL_WIDTH;
use kvscope_protocol::run::Run;
use leptos::prelude::*;

use crate::canvas::{Drawn, DrawnMemo, Figure};
use crate::erased::mark;
use crate::state::{Page, Shared};
use crate::ui::{Holds, export_menu};

/// Time over context with its residuals below, then memory: measured rings over predicted lines.
pub(super) fn run_figures(page: Page, run: &Shared<Run>) -> AnyView {
    let time = figure(page, run, RunFigure::Latency, "latency");
    let ratio = figure(page, run, RunFigure::Residuals, "residuals");
    let memory = figure(page, run, RunFigure::Memory, "memory");
    view! {
        <section class="measured">{time}{ratio}</section>
        <section class="measured">{memory}</section>
    }
    .into_any()
}

fn scene(page: Page, run: &Run, of: RunFigure, width: f64) -> Option<Scene> {
    match of {
        RunFigure::Latency => Some(latency(run, width)?.scene),
        RunFigure::Residuals => residuals(run, width, latency(run, width)?.edges),
        RunFigure::Memory => memory(run, width, page.view(|view| view.units)),
    }
}

fn figure(page: Page, run: &Shared<Run>, of: RunFigure, name: &'static str) -> AnyView {
    let width = RwSignal::new(0.0);
    let drawn = run.clone();
    let base: DrawnMemo = Memo::new(move |_| scene(page, &drawn, of, width.get()).map(Drawn::plain));
    let sentence = move || base.get().map(|drawn| drawn.scene.description.clone());
    let (title, note) = (of.title(run), of.note(run));
    let run = run.clone();
    let give = move |origin| of.export(&run, page.view(|view| view.units), USUAL_WIDTH, origin);
    view! {
        <div class="heading">
            <h2>{title}</h2>
            {export_menu(page, name, Holds::Figure, Arc::new(give))}
        </div>
        <p class="quiet">{note}</p>
        <div class="figure" role="img" aria-label=mark(sentence)>
            <Figure name=name width=width base=base/>
        </div>
    }
    .into_any()
}
