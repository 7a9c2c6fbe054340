use kvscope_charts::Ink;
use kvscope_charts::figures::{Hit, Reading};
use kvscope_charts::scene::Point;
use leptos::prelude::*;

use super::beside::{every_token, rank};
use crate::erased::nothing;
use crate::state::{Page, ink};

/// Every curve at the pointer, largest first; the nearest one stressed.
pub(super) fn tooltip(page: Page, width: f64, at: Point, hit: &Hit) -> AnyView {
    let units = page.view(|view| view.units);
    let chosen_set = page.drawn();
    let sized: Vec<_> = chosen_set.sized().map(|(chosen, _)| chosen).collect();
    let row = |reading: &Reading| {
        let chosen = sized.get(reading.series)?;
        let class = if hit.nearest == Some(reading.series) { "near" } else { "" };
        let allowed = chosen.model.as_ref().and_then(|model| model.max_context());
        let beyond = allowed.filter(|allowed| *allowed < hit.context);
        let beyond = beyond.map_or_else(nothing, |allowed| {
            view! { <span class="note">{format!(" beyond {}", allowed.short())}</span> }.into_any()
        });
        let reserved = match reading.reserved {
            Some(bytes) => format!("reserved {}", bytes.display(units)),
            None if chosen_set.engine.is_some() => "refused".to_owned(),
            None => String::new(),
        };
        let marker = chosen.colour.marker().map(kvscope_charts::palette::Marker::name);
        let row = view! {
            <tr class=class>
                <td>
                    <span class="swatch" data-marker=marker style:background=ink(Ink::Series(chosen.colour))></span>
                </td>
                <th scope="row">{chosen.name.clone()}{beyond}</th>
                <td>{reading.bytes.display(units)}</td>
                <td>{reserved}</td>
            </tr>
        };
        Some(row.into_any())
    };
    let rows: Vec<AnyView> = hit.readings.iter().filter_map(row).collect();
    let across = if at.x > width * 0.45 {
        format!("calc({}px - 100% - 14px)", at.x)
    } else {
        format!("{}px", at.x + 14.0)
    };
    let tokens = match every_token(page) {
        "" => nothing(),
        _ => view! { <p class="note">"Logical bytes are of every token, reserved ones of a rank's own."</p> }
            .into_any(),
    };
    view! {
        <div class="tip" style:transform=format!("translate({across}, {}px)", (at.y - 20.0).max(0.0))>
            <table>
                <caption>{format!("{} tokens{}", hit.context, rank(page, ", "))}</caption>
                <tbody>{rows}</tbody>
            </table>
            {tokens}
            <p class="note">{format!("Click sets it; headline and tables stay at {}.", page.context())}</p>
        </div>
    }
    .into_any()
}
