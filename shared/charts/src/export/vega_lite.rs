use serde_json::{Value, json};

use super::data::Mark;
use super::{Export, json as rows};

/// A specification that any Vega-Lite 5 viewer draws, with its data inside.
pub(super) fn vega_lite(export: &Export) -> String {
    let data = &export.data;
    let plot = data.plot;
    let scale = |base: u64| {
        if plot.powers { json!({"type": "log", "base": base}) } else { json!({"type": "linear"}) }
    };
    let bars = plot.mark == Mark::Bar;
    let mut x = json!({"field": plot.x, "type": if bars { "ordinal" } else { "quantitative" }, "title": data.title(plot.x)});
    let mut y = json!({"field": plot.y, "type": "quantitative", "title": data.title(plot.y)});
    if !bars {
        x["scale"] = scale(2);
        y["scale"] = scale(10);
    }
    let mut encoding = json!({
        "x": x,
        "y": y,
        "color": {"field": plot.colour, "type": "nominal", "sort": Value::Null, "title": data.title(plot.colour)},
    });
    if let Some(second) = plot.second {
        let channel = if plot.mark == Mark::Line { "strokeDash" } else { "row" };
        encoding[channel] =
            json!({"field": second, "type": "nominal", "sort": Value::Null, "title": data.title(second)});
    }
    let mark = match plot.mark {
        Mark::Line | Mark::LineInRows => json!({"type": "line", "tooltip": true}),
        Mark::Point => json!({"type": "point", "tooltip": true}),
        Mark::Bar => json!({"type": "bar", "tooltip": true}),
    };
    let mut drawing = json!({
        "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
        "title": {"text": export.title, "subtitle": export.lines_below(), "anchor": "start"},
        "width": if bars { 700 } else { 640 },
        "height": if bars { 60 } else { 360 },
        "data": {"values": rows::rows(data)},
        "mark": mark,
        "encoding": encoding,
    });
    if plot.mark == Mark::LineInRows {
        drawing["resolve"] = json!({"scale": {"y": "independent"}});
    }
    rows::pretty(&drawing)
}
