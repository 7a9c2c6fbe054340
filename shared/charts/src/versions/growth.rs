use kvscope_sizing::engine::{
    Engine, EngineKind, Query, logical_curve, ranks, reserved_bytes, reserved_curve, size_in_engine,
};
use kvscope_sizing::{Bytes, Error, Result, Tokens, Warning};

use super::{Asked, Version, words};
use crate::export::Origin;
use crate::figures::{
    FigureError, GrowthInput, GrowthScale, Limit, Provenance, Series, contexts_around, sample_contexts,
};
use crate::headline::{HeadlineInput, Reserved, headline};
use crate::label::one_rank;
use crate::{Export, Growth, Size};

/// About as many contexts as the page computes for a figure of the usual width.
const SAMPLES: usize = 240;
/// Height of a figure for each pixel of its width.
const SHAPE: f64 = 0.46;

/// A growth figure as it is exported.
#[derive(Debug)]
pub struct Grown<'a> {
    /// The figure with the versions that have one.
    pub export: Export,
    /// What was assumed, by the version's label.
    pub assumed: Vec<(&'a str, Vec<Warning>)>,
    /// Versions without a figure, and why, by their places.
    pub refused: Vec<(usize, Error)>,
}

/// State over context, a line a version, around the context that is asked for.
///
/// # Errors
///
/// No room. A version that an engine refuses is in `refused`, and among the assumptions of the export.
pub fn growth<'a>(
    asked: &Asked<'a>,
    scale: GrowthScale,
    limits: &[Limit],
    origin: Origin,
) -> std::result::Result<Grown<'a>, FigureError> {
    let context = asked.context;
    let domain = contexts_around(context);
    let kinks = asked.versions.iter().flat_map(|version| version.state.kinks()).chain([context]);
    let contexts = sample_contexts(domain, SAMPLES, &kinks.collect::<Vec<_>>());
    let by_engine = asked.engine.kind() != EngineKind::Logical;
    let ranks = by_engine.then(|| ranks(asked.engine.kind(), asked.settings));
    let mut refused = Vec::new();
    let (mut series, mut values, mut assumed) = (Vec::new(), Vec::new(), Vec::new());
    for (place, version) in asked.versions.iter().enumerate() {
        match line(asked, version, &contexts).and_then(|line| Ok((line, at_cursor(asked, version)?))) {
            Ok((line, (bytes, warnings))) => {
                series.push(line);
                values.push((version.name, bytes));
                assumed.push((version.label, warnings));
            }
            Err(why) => refused.push((place, why)),
        }
    }
    let growth = Growth::layout(&GrowthInput {
        contexts: &contexts,
        series: &series,
        domain,
        scale,
        units: asked.units,
        size: Size::new(asked.width, asked.width * SHAPE),
        measured: &[],
        limits,
        ranks,
    })?;
    let cursor = growth.cursor_at(context);
    let by = asked.engine.to_string();
    let names: Vec<&str> = refused.iter().map(|(place, _)| asked.versions[*place].name).collect();
    let title = headline(&HeadlineInput {
        context,
        batch: asked.batch,
        units: asked.units,
        values: &values,
        reserved: ranks.map(|ranks| Reserved { by: &by, ranks, refused: &names }),
    });
    let accounting = ranks.map_or_else(
        || "logical bytes".to_owned(),
        |ranks| format!("{}solid: logical bytes, dashed: reserved by {by}", rank(ranks)),
    );
    let mut assumptions = words(&assumed);
    let left_out =
        |(place, why): &(usize, Error)| format!("{} left out: {why}", asked.versions[*place].label);
    assumptions.extend(refused.iter().map(left_out));
    let mut inputs = asked.inputs();
    inputs
        .extend(limits.iter().map(|limit| ("level".to_owned(), format!("{}: {}", limit.label, limit.bytes))));
    let export = Export {
        scene: growth.scene().clone().with(growth.overlay(&cursor)),
        title,
        note: format!("{} · {accounting} · computed", asked.resident_state()),
        assumptions,
        inputs,
        data: growth.data(),
        table: growth.table(Some(&cursor)),
        origin,
    };
    Ok(Grown { export, assumed, refused })
}

/// `one rank of 8, `
fn rank(ranks: u64) -> String {
    match one_rank("", ranks) {
        one if one.is_empty() => one,
        one => format!("{one}, "),
    }
}

fn query<'a>(asked: &Asked<'a>, version: &Version<'a>, context: Option<Tokens>) -> Query<'a> {
    let (architecture, settings) = (version.architecture, asked.settings);
    Query { architecture, engine: asked.engine.clone(), context, batch: asked.batch, settings }
}

fn line(asked: &Asked<'_>, version: &Version<'_>, contexts: &[Tokens]) -> Result<Series> {
    let query = query(asked, version, contexts.first().copied());
    let is_logical = asked.engine.kind() == EngineKind::Logical;
    Ok(Series {
        id: version.id.to_owned(),
        name: version.name.to_owned(),
        colour: version.colour,
        provenance: Provenance::Computed,
        values: logical_curve(&query, version.state, contexts)?,
        reserved: if is_logical { Vec::new() } else { reserved_curve(&query, contexts)? },
        allowed: version.architecture.max_context().map(|fact| Tokens::new(fact.get())),
    })
}

/// What the title speaks of, reserved bytes where an engine is asked, else logical ones; and what was assumed.
fn at_cursor(asked: &Asked<'_>, version: &Version<'_>) -> Result<(Bytes, Vec<Warning>)> {
    let Asked { context, batch, settings, .. } = *asked;
    let engine: &Engine = asked.engine;
    if engine.kind() == EngineKind::Logical {
        let size = version.state.size(version.label, Some(context), batch, settings)?;
        return Ok((version.state.resident(context, batch)?, size.warnings));
    }
    let sized = size_in_engine(version.label, version.architecture, engine, Some(context), batch, settings)?;
    Ok((reserved_bytes(&query(asked, version, Some(context)))?, sized.warnings))
}
