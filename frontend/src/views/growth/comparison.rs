use kvscope_charts::Ink;
use kvscope_sizing::{Bytes, Size, UnitSystem, group_digits};
use leptos::prelude::*;

use super::published::PublishedNote;
use crate::state::{Chosen, Page, Step, ink};

/// The figures of every chosen version at the cursor, side by side.
#[component]
pub(super) fn Comparison() -> impl IntoView {
    let page = expect_context::<Page>();
    let rows = move || page.chosen.get().iter().map(|chosen| row(page, chosen)).collect_view();
    view! {
        <section class="comparison">
            <h2>"Side by side at " {move || page.context.get().to_string()} " tokens"</h2>
            <div class="scroll" tabindex="0" role="region" aria-label="Figures of the chosen versions">
                <table class="side-by-side">
                    <thead>
                        <tr>
                            <th scope="col">"version"</th>
                            <th scope="col">"layers"</th>
                            <th scope="col">"kept"</th>
                            <th scope="col">"one more token"</th>
                            <th scope="col">"does not grow"</th>
                            <th scope="col">"read a step"</th>
                            <th scope="col">"config allows"</th>
                        </tr>
                    </thead>
                    <tbody>{rows}</tbody>
                </table>
            </div>
            <p class="quiet">"Kept and read are for the whole batch; what grows and what does not, for one request."</p>
        </section>
    }
}

fn row(page: Page, chosen: &Chosen) -> impl IntoView + use<> {
    let id = chosen.id.clone();
    let is_selected = {
        let id = chosen.id.clone();
        move || page.selected.get().is_some_and(|model| model.id == id)
    };
    let select = {
        let id = chosen.id.clone();
        move |_| page.change(Step::Push, |view| view.selected = Some(id.clone()))
    };
    let note = chosen.model.as_ref().and_then(|model| model.entry).filter(|entry| !entry.published.is_empty());
    let name = view! {
        <th scope="row">
            <button type="button" class="name" style:color=ink(Ink::Series(chosen.colour)) on:click=select>
                {chosen.name.clone()}
            </button>
            {note.map(|entry| view! { <PublishedNote entry=entry/> })}
        </th>
    };
    let cells = match size(page, chosen) {
        Ok(size) => figures(chosen, &size, page.view(|view| view.units)).into_any(),
        Err(sentence) => view! { <td colspan="6" class="refused">{sentence}</td> }.into_any(),
    };
    view! {
        <tr data-model=id aria-selected=move || if is_selected() { "true" } else { "false" }>{name} {cells}</tr>
    }
}

fn size(page: Page, chosen: &Chosen) -> Result<Size, String> {
    let state = chosen.state.as_ref().map_err(Clone::clone)?;
    let (context, batch) = (page.context.get(), page.batch.get());
    state.size(&chosen.id, Some(context), batch, &page.settings.get()).map_err(|error| error.to_string())
}

fn figures(chosen: &Chosen, size: &Size, units: UnitSystem) -> impl IntoView + use<> {
    let bytes = |bytes: Option<Bytes>| bytes.map_or("unknown".to_owned(), |bytes| bytes.display(units));
    let digits = |bytes: Option<Bytes>| bytes.map(|bytes| bytes.get().to_string());
    let all = |bytes: Option<Bytes>| bytes.map(|bytes| format!("{} B", group_digits(bytes.get())));
    let slope = size.slope_bytes_per_token;
    let exact_slope = slope.whole().map_or_else(|| slope.as_f64().to_string(), |whole| whole.to_string());
    let model = chosen.model.as_ref();
    let layers = model.map(|model| model.architecture.layer_count().to_string());
    let longest = model.and_then(|model| model.max_context());
    let fixed = if size.fixed_bytes == Bytes::ZERO { "nothing".to_owned() } else { bytes(Some(size.fixed_bytes)) };
    view! {
        <td>{layers}</td>
        <td data-figure="resident_bytes" data-value=digits(size.resident_bytes) title=all(size.resident_bytes)>
            <strong>{bytes(size.resident_bytes)}</strong>
        </td>
        <td data-figure="slope_bytes_per_token" data-value=exact_slope>{slope.to_string()}</td>
        <td
            data-figure="fixed_bytes"
            data-value=size.fixed_bytes.get().to_string()
            title=all(Some(size.fixed_bytes))
        >
            {fixed}
        </td>
        <td
            data-figure="read_bytes_per_step"
            data-value=digits(size.read_bytes_per_step)
            title=all(size.read_bytes_per_step)
        >
            {bytes(size.read_bytes_per_step)}
        </td>
        <td>{longest.map_or("no limit named".to_owned(), |longest| format!("{} tokens", longest.short()))}</td>
    }
}
