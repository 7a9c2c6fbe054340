use kvscope_charts::figures::{Cursor, GrowthInput, GrowthScale, Hit, Provenance, Series, sample_contexts};
use kvscope_charts::scene::Point;
use kvscope_charts::{Growth, Ink, Size};
use kvscope_protocol::AxisScale;
use kvscope_sizing::{Tokens, UnitSystem};
use leptos::ev;
use leptos::prelude::*;

use crate::canvas::Figure;
use crate::state::address::link_to;
use crate::state::{Page, Shared, Step, ink};
use crate::ui::context_steps::{self, Direction};
use crate::ui::{Choice, DataTable};

const SCALES: &[(AxisScale, &str)] = &[(AxisScale::Log, "log"), (AxisScale::Linear, "linear")];
const UNITS: &[(UnitSystem, &str)] = &[(UnitSystem::Decimal, "GB"), (UnitSystem::Binary, "GiB")];

/// The growth figure with its row of choices, its tooltip and its table.
#[component]
pub(super) fn GrowthChart() -> impl IntoView {
    let page = expect_context::<Page>();
    let width = RwSignal::new(0.0);
    let under_pointer = RwSignal::new(None::<(Point, Hit)>);
    let table_is_open = RwSignal::new(false);

    let domain = Memo::new(move |_| domain_around(page.context.get()));
    let series = Memo::new(move |_| Shared::new(curves(page, domain.get(), width.get())));
    let growth = Memo::new(move |_| {
        let series = series.get();
        let input = GrowthInput {
            contexts: &series.contexts,
            series: &series.lines,
            domain: domain.get(),
            scale: match page.view(|view| view.scale) {
                AxisScale::Log => GrowthScale::Log,
                AxisScale::Linear => GrowthScale::Linear,
            },
            units: page.view(|view| view.units),
            size: size_for(width.get()),
            measured: &[],
            limits: &[],
        };
        // Without room there is no figure yet.
        Growth::layout(&input).ok().map(Shared::new)
    });
    let base = Memo::new(move |_| growth.get().map(|growth| Shared::new(growth.scene().clone())));
    let overlay = Memo::new(move |_| {
        let emphasis = under_pointer.with(|under| under.as_ref().and_then(|(_, hit)| hit.nearest));
        Some(Shared::new(growth.get()?.overlay(&cursor(page, page.cursor(), emphasis))))
    });
    let sentence = move || {
        let described = growth.get().map(|growth| growth.scene().description.clone());
        format!("{} Arrow keys move the cursor.", described.unwrap_or_default())
    };
    let spoken = move || Some(growth.get()?.overlay(&cursor(page, page.context.get(), None)).description);

    // Pointer moves come faster than frames; only the last one before a frame counts.
    let waiting = StoredValue::new(None::<Point>);
    let pointer_moved = move |event: ev::PointerEvent| {
        let point = Point::new(f64::from(event.offset_x()), f64::from(event.offset_y()));
        if waiting.get_value().is_none() {
            request_animation_frame(move || {
                let Some(Some(point)) = waiting.try_update_value(Option::take) else { return };
                let hit = growth.get_untracked().and_then(|growth| growth.hit(point));
                page.hover.set(hit.as_ref().map(|hit| hit.context));
                under_pointer.set(hit.map(|hit| (point, hit)));
            });
        }
        waiting.set_value(Some(point));
    };
    let release = move || {
        waiting.set_value(None);
        page.hover.set(None);
        under_pointer.set(None);
    };
    let pin = move |event: ev::MouseEvent| {
        let point = Point::new(f64::from(event.offset_x()), f64::from(event.offset_y()));
        if let Some(hit) = growth.get_untracked().and_then(|growth| growth.hit(point)) {
            page.change(Step::Push, |view| view.context = hit.context);
        }
    };
    let key = move |event: ev::KeyboardEvent| {
        if move_by_key(page, &event) {
            event.prevent_default();
            release();
        }
    };

    view! {
        <div class="bar">
            <Choice
                label="Byte axis"
                options=SCALES
                chosen=Signal::derive(move || page.view(|view| view.scale))
                choose=move |scale| page.change(Step::Push, |view| view.scale = scale)
            />
            <Choice
                label="Units"
                options=UNITS
                chosen=Signal::derive(move || page.view(|view| view.units))
                choose=move |units| page.change(Step::Push, |view| view.units = units)
            />
            <div class="choice">
                <button
                    type="button"
                    aria-pressed=move || if table_is_open.get() { "true" } else { "false" }
                    on:click=move |_| table_is_open.update(|open| *open = !*open)
                >
                    "table"
                </button>
                <CopyLink/>
            </div>
        </div>
        <div
            class="figure"
            role="img"
            tabindex="0"
            aria-label=sentence
            on:pointermove=pointer_moved
            on:pointerleave=move |_| release()
            on:click=pin
            on:keydown=key
        >
            <Figure name="growth" width=width base=base overlay=overlay/>
            {move || under_pointer.get().map(|(at, hit)| tooltip(page, &series.get().lines, width.get(), at, &hit))}
        </div>
        <p class="unseen" aria-live="polite">{spoken}</p>
        {move || {
            let table = table_is_open.get().then(|| growth.get()).flatten()?.table();
            Some(view! { <DataTable caption="State in bytes by context" table=table/> })
        }}
    }
}

#[component]
fn CopyLink() -> impl IntoView {
    let page = expect_context::<Page>();
    let said = RwSignal::new("copy link");
    let copy = move |_| {
        let link = page.view(link_to);
        let written = window().navigator().clipboard().write_text(&link);
        leptos::task::spawn_local(async move {
            let outcome = wasm_bindgen_futures::JsFuture::from(written).await;
            said.set(if outcome.is_ok() { "copied" } else { "copy the address instead" });
            set_timeout(move || drop(said.try_set("copy link")), std::time::Duration::from_secs(2));
        });
    };
    view! { <button type="button" on:click=copy>{move || said.get()}</button> }
}

/// Exact values of everything that could be sized.
struct Curves {
    contexts: Vec<Tokens>,
    lines: Vec<Series>,
}

fn curves(page: Page, domain: (Tokens, Tokens), width: f64) -> Curves {
    let (chosen, batch) = (page.chosen.get(), page.batch.get());
    let kinks: Vec<Tokens> = chosen.iter().flat_map(|chosen| chosen.state.iter()).flat_map(|state| state.kinks()).collect();
    let contexts = readable_contexts(domain, width, &kinks);
    let lines = chosen.iter().filter_map(|chosen| {
        let state = chosen.state.as_ref().ok()?;
        // A line ends where its figure would no longer fit in 64 bits.
        let values = contexts.iter().map_while(|n| state.resident(*n, batch).ok()).collect();
        Some(Series {
            id: chosen.id.clone(),
            name: chosen.name.clone(),
            colour: chosen.colour,
            provenance: Provenance::Computed,
            values,
        })
    });
    let lines = lines.collect();
    Curves { contexts, lines }
}

/// About a context a pixel, rounded to three digits where nothing asks for more: what the pointer reads and sets.
fn readable_contexts(domain: (Tokens, Tokens), width: f64, kinks: &[Tokens]) -> Vec<Tokens> {
    const MOST: u16 = 1200;
    let count = (1..MOST).rev().step_by(50).find(|count| f64::from(*count) <= width * 0.8).unwrap_or(120);
    let exact = |n: u64| n.is_power_of_two() || kinks.iter().any(|kink| kink.get() == n);
    let mut contexts: Vec<Tokens> = sample_contexts(domain, usize::from(count), kinks)
        .into_iter()
        .map(|n| if exact(n.get()) || n == domain.1 { n } else { three_digits(n) })
        .filter(|n| (domain.0..=domain.1).contains(n))
        .collect();
    contexts.sort_unstable();
    contexts.dedup();
    contexts
}

fn three_digits(n: Tokens) -> Tokens {
    let unit = 10_u64.pow(n.get().max(1).ilog10().saturating_sub(2));
    Tokens::new((n.get() + unit / 2) / unit * unit)
}

/// 1Ki to 1Mi, further where the cursor is.
fn domain_around(context: Tokens) -> (Tokens, Tokens) {
    let low = (1_u64 << context.get().max(1).ilog2()).min(context_steps::FIRST.get());
    let high = context.get().next_power_of_two().max(context_steps::LAST.get());
    (Tokens::new(low), Tokens::new(high))
}

fn size_for(width: f64) -> Size {
    Size::new(width, (width * 0.46).clamp(300.0, 560.0))
}

/// Exact values at any context, sampled or not.
fn cursor(page: Page, context: Tokens, emphasis: Option<usize>) -> Cursor {
    let (chosen, batch) = (page.chosen.get(), page.batch.get());
    let values = chosen.iter().filter_map(|chosen| Some(chosen.state.as_ref().ok()?.resident(context, batch).ok()));
    Cursor { context, values: values.collect(), emphasis }
}

/// Whether the key was one of the figure's.
fn move_by_key(page: Page, event: &ev::KeyboardEvent) -> bool {
    if event.ctrl_key() || event.meta_key() || event.alt_key() {
        return false;
    }
    let now = page.context.get_untracked();
    let step = context_steps::nearest(now);
    let to = match (event.key().as_str(), event.shift_key()) {
        ("ArrowRight", false) => context_steps::next_tick(now, Direction::Up),
        ("ArrowLeft", false) => context_steps::next_tick(now, Direction::Down),
        ("ArrowRight", true) => context_steps::at(step + 1),
        ("ArrowLeft", true) => context_steps::at(step.saturating_sub(1)),
        ("Home", _) => context_steps::FIRST,
        ("End", _) => context_steps::LAST,
        ("ArrowUp", _) => return select_neighbour(page, Direction::Up),
        ("ArrowDown", _) => return select_neighbour(page, Direction::Down),
        ("Escape", _) => return true,
        _ => return false,
    };
    page.change(Step::Replace, |view| view.context = to);
    true
}

/// Selects the version whose curve is next above or below that of the selected one.
fn select_neighbour(page: Page, direction: Direction) -> bool {
    let (chosen, context) = (page.chosen.get_untracked(), page.context.get_untracked());
    let mut by_bytes: Vec<_> = chosen
        .iter()
        .filter_map(|chosen| Some((chosen.state.as_ref().ok()?.resident(context, 1).ok()?, &chosen.id)))
        .collect();
    by_bytes.sort();
    let selected = page.selected.get_untracked();
    let place = by_bytes.iter().position(|(_, id)| selected.as_ref().is_some_and(|model| model.id == **id));
    let next = match (place, direction) {
        (Some(place), Direction::Up) => place + 1,
        (Some(place), Direction::Down) => place.wrapping_sub(1),
        (None, _) => 0,
    };
    if let Some((_, id)) = by_bytes.get(next) {
        page.change(Step::Replace, |view| view.selected = Some((*id).clone()));
    }
    true
}

/// Every curve at the pointer, largest first; the nearest one stressed.
fn tooltip(page: Page, series: &[Series], width: f64, at: Point, hit: &Hit) -> impl IntoView + use<> {
    let units = page.view(|view| view.units);
    let row = |reading: &kvscope_charts::figures::Reading| {
        let series = &series[reading.series];
        view! {
            <tr class:near=hit.nearest == Some(reading.series)>
                <td><span class="swatch" style:background=ink(Ink::Series(series.colour))></span></td>
                <th scope="row">{series.name.clone()}</th>
                <td>{reading.bytes.display(units)}</td>
            </tr>
        }
    };
    let rows = hit.readings.iter().map(row).collect_view();
    let context = format!("{} tokens", hit.context);
    let left_of_pointer = at.x > width * 0.45;
    let across = if left_of_pointer { format!("calc({}px - 100% - 14px)", at.x) } else { format!("{}px", at.x + 14.0) };
    view! {
        <div class="tip" style:left="0" style:transform=format!("translate({across}, {}px)", (at.y - 20.0).max(0.0))>
            <table>
                <caption>{context}</caption>
                <tbody>{rows}</tbody>
            </table>
        </div>
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sampled_contexts_rise_and_are_readable() {
        let domain = (Tokens::new(1024), Tokens::new(1 << 20));
        for width in [0.0, 360.0, 900.0, 3000.0] {
            let contexts = readable_contexts(domain, width, &[Tokens::new(1025)]);
            assert!(contexts.windows(2).all(|pair| pair[0] < pair[1]));
            assert_eq!((contexts[0], contexts[contexts.len() - 1]), domain);
            assert!(contexts.contains(&Tokens::new(1025)) && contexts.contains(&Tokens::new(65_536)));
        }
        assert_eq!(three_digits(Tokens::new(103_219)).get(), 103_000);
        assert_eq!(three_digits(Tokens::new(999_600)).get(), 1_000_000);
        assert_eq!(three_digits(Tokens::new(7)).get(), 7);
    }

    #[test]
    fn the_axis_reaches_the_cursor() {
        let ends = |tokens| domain_around(Tokens::new(tokens));
        assert_eq!(ends(100_000), (Tokens::new(1 << 10), Tokens::new(1 << 20)));
        assert_eq!(ends(100), (Tokens::new(64), Tokens::new(1 << 20)));
        assert_eq!(ends(3_000_000), (Tokens::new(1 << 10), Tokens::new(1 << 22)));
        assert_eq!(ends(1), (Tokens::new(1), Tokens::new(1 << 20)));
    }
}
