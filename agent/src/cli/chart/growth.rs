use clap::{Args, ValueEnum};
use kvscope_charts::figures::{
    GrowthInput, GrowthScale, Provenance, Series, contexts_around, sample_contexts,
};
use kvscope_charts::headline::{HeadlineInput, Reserved, headline};
use kvscope_charts::label::one_rank;
use kvscope_charts::{Export, Growth, Size};
use kvscope_protocol::AxisScale;
use kvscope_sizing::engine::{
    Engine, EngineKind, Query, ranks, reserved_bytes, reserved_curve, size_in_engine,
};
use kvscope_sizing::{Bytes, Settings, Tokens, Warning};

use super::Written;
use super::shown::{Asked, Shown, inputs, resident_state, told};
use crate::failure::Failure;

/// About as many contexts as the page computes for a figure of this width.
const SAMPLES: usize = 240;

#[derive(Args, Debug)]
pub(super) struct Arguments {
    #[command(flatten)]
    asked: Asked,
    #[command(flatten)]
    written: Written,
    /// How the axes count
    #[arg(long, value_enum, default_value_t = Scale::Log)]
    scale: Scale,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
enum Scale {
    /// Powers on both
    Log,
    /// Equal steps on both
    Linear,
    /// Times the first version at the same context
    Times,
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let Arguments { asked, written, .. } = arguments;
    let format = written.format()?;
    let (engine, settings) = asked.accounting.engine_with_settings()?;
    let at = (asked.contexts.one()?, asked.batch.count()?);
    let versions = asked.versions(&settings)?;
    let domain = contexts_around(at.0);
    let kinks = versions.iter().flat_map(|one| one.state.kinks()).chain([at.0]);
    let contexts = sample_contexts(domain, SAMPLES, &kinks.collect::<Vec<_>>());
    let is_engine = engine.kind() != EngineKind::Logical;
    let ranks = is_engine.then(|| ranks(engine.kind(), &settings));
    let mut series = Vec::new();
    for one in &versions {
        series.push(line(one, &engine, &settings, &contexts, at.1)?);
    }
    let growth = Growth::layout(&GrowthInput {
        contexts: &contexts,
        series: &series,
        domain,
        scale: match arguments.scale {
            Scale::Log => GrowthScale::Log,
            Scale::Linear => GrowthScale::Linear,
            Scale::Times => GrowthScale::TimesFirst,
        },
        units: asked.units(),
        size: Size::new(f64::from(written.width), f64::from(written.width) * 0.46),
        measured: &[],
        limits: &[],
        ranks,
    })
    .map_err(Failure::input)?;
    let cursor = growth.cursor_at(at.0);
    let mut values = Vec::new();
    let mut assumed = Vec::new();
    for one in &versions {
        let (bytes, warnings) = at_cursor(one, &engine, &settings, at)?;
        values.push((one.name.as_str(), bytes));
        assumed.push((one.model.shown.as_str(), warnings));
    }
    let by = engine.to_string();
    let title = headline(&HeadlineInput {
        context: at.0,
        batch: at.1,
        units: asked.units(),
        values: &values,
        reserved: ranks.map(|ranks| Reserved { by: &by, ranks, refused: &[] }),
    });
    let accounting = ranks.map_or_else(
        || "logical bytes".to_owned(),
        |ranks| format!("{}solid: logical bytes, dashed: reserved by {engine}", rank(ranks)),
    );
    let scale = match arguments.scale {
        Scale::Log => AxisScale::Log,
        Scale::Linear | Scale::Times => AxisScale::Linear,
    };
    let link = match arguments.scale {
        // The page's links have no such axis yet.
        Scale::Times => String::new(),
        Scale::Log | Scale::Linear => asked.link(&versions, &engine, &settings, at, scale),
    };
    let export = Export {
        scene: growth.scene().clone().with(growth.overlay(&cursor)),
        title,
        note: format!("{} · {accounting} · computed", resident_state(at.1)),
        assumptions: told(&assumed),
        inputs: inputs(&versions, &engine, &settings, at),
        data: growth.data(),
        table: growth.table(Some(&cursor)),
        origin: written.origin(link)?,
    };
    written.write(&export, format)
}

/// `one rank of 8, `
fn rank(ranks: u64) -> String {
    match one_rank("", ranks) {
        one if one.is_empty() => one,
        one => format!("{one}, "),
    }
}

fn line(
    one: &Shown,
    engine: &Engine,
    settings: &Settings,
    contexts: &[Tokens],
    batch: u64,
) -> Result<Series, Failure> {
    let curve = |engine: Engine| {
        let architecture = &one.model.architecture;
        let query = Query { architecture, engine, context: contexts.first().copied(), batch, settings };
        reserved_curve(&query, contexts).map_err(|error| one.model.failure(&error))
    };
    let is_engine = engine.kind() != EngineKind::Logical;
    // Both lines are of one rank, where several share a model.
    let values = if is_engine && ranks(engine.kind(), settings) > 1 {
        curve(Engine::newest(EngineKind::Logical))?
    } else {
        contexts.iter().map_while(|n| one.state.resident(*n, batch).ok()).collect()
    };
    Ok(Series {
        id: one.id.clone(),
        name: one.name.clone(),
        colour: one.colour,
        provenance: Provenance::Computed,
        values,
        reserved: if is_engine { curve(engine.clone())? } else { Vec::new() },
        allowed: one.model.architecture.max_context().map(|fact| Tokens::new(fact.get())),
    })
}

/// What the title speaks of, reserved bytes where an engine is asked, else logical ones; and what was assumed.
fn at_cursor(
    one: &Shown,
    engine: &Engine,
    settings: &Settings,
    (context, batch): (Tokens, u64),
) -> Result<(Bytes, Vec<Warning>), Failure> {
    if engine.kind() == EngineKind::Logical {
        let bytes = one.state.resident(context, batch).map_err(|error| one.model.failure(&error))?;
        return Ok((bytes, one.warnings(context, batch, settings)?));
    }
    let (label, architecture) = (&one.model.shown, &one.model.architecture);
    let sized = size_in_engine(label, architecture, engine, Some(context), batch, settings)
        .map_err(|error| one.model.failure(&error))?;
    let query = Query { architecture, engine: engine.clone(), context: Some(context), batch, settings };
    let bytes = reserved_bytes(&query).map_err(|error| one.model.failure(&error))?;
    Ok((bytes, sized.warnings))
}
