use std::fmt::Write as _;

use clap::Args;
use kvscope_sizing::engine::{EngineKind, EngineReport, Query, Reservation, reservation, size_in_engine};
use kvscope_sizing::{
    Bytes, BytesPerToken, Derivation, Growth, PublishedFigure, Reads, StateModel, Tokens, UnitSystem,
    Warning, counted,
};
use serde::Serialize;

use super::request::{Accounting, Batch, Contexts, warn};
use super::reserved::{engine_words, reserved_text};
use crate::failure::Failure;
use crate::model::Model;
use crate::output;

#[derive(Args, Debug)]
pub(super) struct Arguments {
    /// Catalogue id, config.json or GGUF file, folder, or - for standard input
    #[arg(value_name = "MODEL")]
    model: String,
    #[command(flatten)]
    contexts: Contexts,
    #[command(flatten)]
    batch: Batch,
    #[command(flatten)]
    accounting: Accounting,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Report<'m> {
    model: &'m str,
    context: Tokens,
    batch: u64,
    engine: &'static str,
    source: &'m [String],
    confidence: Option<&'m str>,
    steps: Vec<ComponentStep>,
    resident_bytes: Bytes,
    slope_bytes_per_token: BytesPerToken,
    fixed_bytes: Bytes,
    read_bytes_per_step: Option<Bytes>,
    persisted_bytes: Option<Bytes>,
    transfer_bytes: Option<Bytes>,
    published: Vec<Published<'m>>,
    warnings: Vec<Warning>,
    /// What the chosen engine reserves for the same request, and where its padding goes.
    #[serde(skip_serializing_if = "Option::is_none")]
    reserved: Option<EngineReport>,
    /// Both accountings of the same batch, part by part, with the padding between them.
    #[serde(skip_serializing_if = "Option::is_none")]
    reservation: Option<Reservation>,
}

/// One component: what a layer keeps of an entry, how many entries, how many layers.
#[derive(Debug, Serialize)]
struct ComponentStep {
    component: &'static str,
    format: &'static str,
    growth: Growth,
    layers: u64,
    derivation: Derivation,
    entries: Option<u64>,
    bytes: Bytes,
    #[serde(skip)]
    reads: Reads,
    /// Entries of a layer that one decode step reads; null where there are no entries.
    read_entries: Option<u64>,
    /// Bytes that the layers read which keep it.
    #[serde(skip)]
    own_read_bytes: Bytes,
    /// What other layers read of it, which keep nothing of the kind.
    other_readers: Vec<OtherReader>,
    read_bytes_per_step: Bytes,
}

#[derive(Debug, Serialize)]
struct OtherReader {
    layers: u64,
    entries: Option<u64>,
    read_bytes_per_step: Bytes,
}

#[derive(Debug, Serialize)]
struct Published<'m> {
    figure: &'m str,
    source: &'m str,
    remark: &'m str,
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let settings = arguments.accounting.settings()?;
    let engine = arguments.accounting.engine()?;
    let (n, batch) = (arguments.contexts.one()?, arguments.batch.count()?);
    let model = Model::load_checked(&arguments.model, arguments.accounting.unknown())?;
    let state = model.state(&settings)?;
    let size = state.size(&model.shown, Some(n), batch, &settings).map_err(|error| model.failure(&error))?;
    let (reserved, beside, warnings) = if engine.kind() == EngineKind::Logical && !settings.names_an_engine()
    {
        (None, None, size.warnings)
    } else {
        let failed = |error| model.failure(&error);
        let sized = size_in_engine(&model.shown, &model.architecture, &engine, Some(n), batch, &settings)
            .map_err(failed)?;
        let beside = if let Some(found) = sized.reservation {
            found
        } else {
            // Only its error is wanted: which setting it lacks.
            let mut query = Query::new(&model.architecture, engine, &settings).map_err(failed)?;
            (query.context, query.batch) = (Some(n), batch);
            reservation(&query).map_err(failed)?
        };
        (Some(sized.report), Some(beside), sized.warnings)
    };
    let report = Report {
        model: &model.shown,
        context: n,
        batch,
        engine: "logical",
        source: model.entry.map_or(&[], |entry| &entry.source),
        confidence: model.entry.map(|entry| entry.confidence.as_str()),
        steps: steps(&state, n, batch).map_err(|error| model.failure(&error))?,
        resident_bytes: size.resident_bytes.unwrap_or_default(),
        slope_bytes_per_token: size.slope_bytes_per_token,
        fixed_bytes: size.fixed_bytes,
        read_bytes_per_step: size.read_bytes_per_step,
        persisted_bytes: size.persisted_bytes,
        transfer_bytes: size.transfer_bytes,
        published: model.entry.map_or(Vec::new(), |entry| entry.published.iter().map(published).collect()),
        warnings,
        reserved,
        reservation: beside,
    };
    if arguments.json {
        return output::json(&report);
    }
    output::figures(&text(&report))?;
    warn(report.warnings.iter().map(|warning| (report.model, warning)));
    Ok(())
}

fn published(figure: &PublishedFigure) -> Published<'_> {
    Published { figure: &figure.figure, source: &figure.source, remark: &figure.remark }
}

fn steps(state: &StateModel, n: Tokens, batch: u64) -> kvscope_sizing::Result<Vec<ComponentStep>> {
    let step = |part: &kvscope_sizing::Part| {
        let component = &part.component;
        Ok(ComponentStep {
            component: component.kind.name(),
            format: component.format,
            growth: component.growth,
            layers: part.layers,
            derivation: component.derivation.clone(),
            entries: (!matches!(component.growth, Growth::Constant { .. }))
                .then(|| component.growth.entries(n)),
            bytes: component.bytes(n)?.times(part.layers)?.times(batch)?,
            reads: component.reads,
            read_entries: component.read_entries(n),
            own_read_bytes: component.read_bytes(n)?.times(part.layers)?.times(batch)?,
            other_readers: other_readers(part, n, batch)?,
            read_bytes_per_step: part.read_bytes(n)?.times(batch)?,
        })
    };
    state.parts().iter().map(step).collect()
}

fn other_readers(
    part: &kvscope_sizing::Part,
    n: Tokens,
    batch: u64,
) -> kvscope_sizing::Result<Vec<OtherReader>> {
    let of = |(read, layers): &(kvscope_sizing::StateComponent, u64)| {
        Ok(OtherReader {
            layers: *layers,
            entries: read.read_entries(n),
            read_bytes_per_step: read.read_bytes(n)?.times(*layers)?.times(batch)?,
        })
    };
    part.other_readers().iter().map(of).collect()
}

fn text(report: &Report<'_>) -> String {
    let mut text =
        format!("{} at {}, batch {}, logical bytes\n", report.model, report.context.counted(), report.batch);
    let add = |text: &mut String, line: String| writeln!(text, "{line}").expect("writing to a string");
    for step in &report.steps {
        let unit = if step.entries.is_some() { "a layer and entry" } else { "a layer" };
        add(&mut text, format!("\n{} ({}, {})", step.component, step.format, step.growth.name()));
        add(&mut text, format!("  {} {unit}", step.derivation.result));
        add(&mut text, format!("    = {}", step.derivation.formula));
        add(&mut text, format!("    = {}", step.derivation.worked()));
        for input in &step.derivation.inputs {
            add(&mut text, format!("    {} = {} from {}", input.symbol, input.value, input.source));
        }
        let entries =
            step.entries.map_or(String::new(), |entries| format!("{} × ", entry_words(step, entries)));
        let batch = if report.batch == 1 { String::new() } else { format!(" × {} requests", report.batch) };
        let layers = counted(step.layers, "layer", "layers");
        add(&mut text, format!("  {entries}{layers}{batch}: {}", step.bytes));
        if let Some(read) = read_words(step) {
            add(&mut text, format!("  a step reads {read} × {layers}{batch}: {}", step.own_read_bytes));
        }
        for other in &step.other_readers {
            let entries =
                other.entries.map_or(String::new(), |n| format!("{} × ", counted(n, "entry", "entries")));
            let layers = counted(other.layers, "layer", "layers");
            let bytes = other.read_bytes_per_step;
            add(
                &mut text,
                format!("  a step reads {entries}{layers} that use an earlier layer's{batch}: {bytes}"),
            );
        }
    }
    let shown = report.resident_bytes.display(UnitSystem::Decimal);
    add(&mut text, format!("\nresident: {} ({shown})", report.resident_bytes));
    let slope = report.slope_bytes_per_token.exact();
    add(&mut text, format!("slope: {slope}, fixed: {}, of one request", report.fixed_bytes));
    for (what, bytes) in [
        ("read by one decode step", report.read_bytes_per_step),
        ("kept by a disk prefix store", report.persisted_bytes),
        ("sent from prefill to decode", report.transfer_bytes),
    ] {
        if let Some(bytes) = bytes {
            add(&mut text, format!("{what}: {bytes}"));
        }
    }
    if let Some(beside) = &report.reservation {
        if let Some(reserved) =
            report.reserved.as_ref().filter(|_| beside.engine.kind() != EngineKind::Logical)
        {
            add(&mut text, format!("\n{}", engine_words(reserved)));
        }
        add(&mut text, format!("\n{}", reserved_text(beside).trim_end()));
    }
    for figure in &report.published {
        add(&mut text, format!("\npublished: {} ({})\n  {}", figure.figure, figure.source, figure.remark));
    }
    if let Some(confidence) = report.confidence {
        add(&mut text, format!("\nconfig: {confidence}"));
    }
    for source in report.source {
        add(&mut text, format!("  {source}"));
    }
    text
}

/// What a step reads, where it may be less than what is kept.
fn read_words(step: &ComponentStep) -> Option<String> {
    let why = match (step.reads, step.growth) {
        (Reads::TopEntries(_), _) => "at most top_k",
        (Reads::Everything, Growth::Chunk { .. }) => "of the current chunk",
        (Reads::Everything, _) => return None,
    };
    Some(format!("{} ({why})", counted(step.read_entries?, "entry", "entries")))
}

fn entry_words(step: &ComponentStep, entries: u64) -> String {
    let entries = counted(entries, "entry", "entries");
    match step.growth {
        Growth::Compressed { ratio, .. } => format!("{entries} (one for {ratio} tokens)"),
        Growth::Window { window, .. } => format!("{entries} (window {window})"),
        Growth::Chunk { chunk, .. } => format!("{entries} (chunk {chunk})"),
        Growth::Linear { .. } | Growth::Constant { .. } => entries,
    }
}
