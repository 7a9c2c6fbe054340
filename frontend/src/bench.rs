//! How long the page's own work takes, for the speed table: `window.kvscope_bench()`.

use std::cell::Cell;

use kvscope_charts::figures::{GrowthInput, GrowthScale, Provenance, Series, sample_contexts};
use kvscope_charts::palette::assign_colours;
use kvscope_charts::{Growth, Size, Theme};
use kvscope_sizing::plan::Moving;
use kvscope_sizing::{ByteKind, Bytes, Settings, StateModel, Tokens, UnitSystem, catalogue};
use leptos::prelude::*;
use wasm_bindgen::closure::Closure;
use wasm_bindgen::{JsCast, JsValue};

use crate::canvas::paint_on;
use crate::views::plans::Trial;

const VERSIONS: usize = 40;
const SWEEP_CONTEXTS: usize = 512;
const REPEATS: usize = 30;
const DOMAIN: (Tokens, Tokens) = (Tokens::new(1024), Tokens::new(1 << 20));
const FIGURE: Size = Size::new(900.0, 460.0);

thread_local! {
    /// Milliseconds from the start of navigation to the first figure.
    static FIRST_CHART: Cell<f64> = const { Cell::new(f64::NAN) };
}

/// Notes the moment of the first figure.
pub(crate) fn first_chart_is_drawn() {
    FIRST_CHART.set(now());
}

/// Makes the measurement callable. It gives JSON: `sweep_ms` for 40 versions × 512 contexts by component, `redraw_ms`
/// for layout and paint of 40 curves at this pixel ratio, both medians, and `first_chart_ms`. Called with the query of a link
/// it answers the link's plan instead, once: see [`plan`].
pub(crate) fn install() {
    let run = Closure::<dyn Fn(JsValue) -> JsValue>::new(|query: JsValue| {
        let text = query.as_string().map_or_else(measure, |query| plan(&query));
        JsValue::from_str(&text)
    });
    let _ = js_sys::Reflect::set(&window(), &JsValue::from_str("kvscope_bench"), run.as_ref());
    run.forget();
}

fn measure() -> String {
    let settings = Settings::default();
    let sized = catalogue().iter().filter_map(|entry| {
        let state = StateModel::new(&entry.architecture().ok()?, &settings).ok()?;
        Some((entry, state))
    });
    let sized: Vec<_> = sized.take(VERSIONS).collect();
    let contexts = sample_contexts(DOMAIN, SWEEP_CONTEXTS, &[]);
    let contexts = &contexts[..SWEEP_CONTEXTS.min(contexts.len())];

    let sweep = median(&mut || {
        let mut total = 0_u64;
        for (_, state) in &sized {
            for context in contexts {
                for bytes in state.by_kind(*context).into_iter().flatten() {
                    total = total.wrapping_add(bytes.get());
                }
            }
        }
        std::hint::black_box(total);
    });

    let families: Vec<&str> = sized.iter().map(|(entry, _)| entry.family.as_str()).collect();
    let series: Vec<Series> = sized
        .iter()
        .zip(assign_colours(&families))
        .map(|((entry, state), colour)| Series {
            id: entry.id.clone(),
            name: entry.name.clone(),
            colour,
            provenance: Provenance::Computed,
            values: contexts.iter().map(|n| state.resident(*n, 1).unwrap_or(Bytes::ZERO)).collect(),
            ..Series::default()
        })
        .collect();
    let ratio = window().device_pixel_ratio();
    let canvas = document().create_element("canvas").ok().and_then(|canvas| canvas.dyn_into().ok());
    let redraw = canvas.map_or(f64::NAN, |canvas: web_sys::HtmlCanvasElement| {
        median(&mut || {
            let input = GrowthInput {
                contexts,
                series: &series,
                domain: DOMAIN,
                scale: GrowthScale::Log,
                units: UnitSystem::Decimal,
                bytes: ByteKind::Resident,
                size: FIGURE,
                measured: &[],
                limits: &[],
                ranks: None,
            };
            if let Ok(growth) = Growth::layout(&input) {
                paint_on(&canvas, growth.scene(), &Theme::light(), ratio);
            }
        })
    });
    let [sweep, redraw, first] = [sweep, redraw, FIRST_CHART.get()].map(number);
    format!(
        "{{\"sweep_ms\":{sweep},\"redraw_ms\":{redraw},\"first_chart_ms\":{first},\"versions\":{},\"contexts\":{},\
         \"pixel_ratio\":{ratio}}}",
        sized.len(),
        contexts.len()
    )
}

/// Milliseconds of a plan's answer without drawing: `anew_ms` with its lines over context, `moved_ms` at another context,
/// `inputs_ms` anew with ±10 % of each input; null where it is refused.
fn plan(query: &str) -> String {
    let time = |trial: Option<&mut Trial>, moving: Moving| {
        let start = now();
        let is_answered = trial.is_some_and(|trial| trial.answers(moving));
        if is_answered { now() - start } else { f64::NAN }
    };
    let mut trial = Trial::of(query);
    let anew = time(trial.as_mut(), Moving::Nothing);
    if let Some(trial) = &mut trial {
        trial.next();
    }
    let moved = time(trial.as_mut(), Moving::Nothing);
    let inputs = time(Trial::of(query).as_mut(), Moving::Inputs);
    let [anew, moved, inputs] = [anew, moved, inputs].map(number);
    format!("{{\"anew_ms\":{anew},\"moved_ms\":{moved},\"inputs_ms\":{inputs}}}")
}

/// The middle time: as many are at least as long as are shorter.
fn median(work: &mut dyn FnMut()) -> f64 {
    let mut time = || {
        let start = now();
        work();
        now() - start
    };
    let samples: [f64; REPEATS] = std::array::from_fn(|_| time());
    let shorter = |sample: f64| samples.iter().filter(|other| **other < sample).count();
    samples.into_iter().filter(|sample| shorter(*sample) <= REPEATS / 2).fold(f64::NAN, f64::max)
}

fn now() -> f64 {
    window().performance().map_or(f64::NAN, |performance| performance.now())
}

/// JSON has no NaN: what is unknown is null.
fn number(value: f64) -> String {
    if value.is_finite() { format!("{value:.3}") } else { "null".to_owned() }
}
