use kvscope_sizing::engine::{
    Engine, EngineKind, Query, logical_curve, ranks, reserved_bytes, reserved_curve, size_in_engine,
};
use kvscope_sizing::plan::{Gpus, left};
use kvscope_sizing::{ByteKind, Bytes, Error, Result, Tokens, Warning};

use super::{Asked, Version, bytes_of, level, words};
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

/// What is drawn of the versions.
#[derive(Clone, Copy, Debug, Default)]
pub struct GrownOf<'a> {
    /// Which bytes; an engine's stand beside resident ones alone.
    pub bytes: ByteKind,
    /// The axes.
    pub scale: GrowthScale,
    /// Levels of all versions, which resident bytes are compared with.
    pub limits: &'a [Limit],
    /// What leaves a level of its own for each version beside its weights.
    pub gpus: Option<Gpus>,
}

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
    of: &GrownOf<'_>,
    origin: Origin,
) -> std::result::Result<Grown<'a>, FigureError> {
    let versions: &'a [Version<'a>] = asked.versions;
    let logical = Engine::newest(EngineKind::Logical);
    let is_resident = of.bytes == ByteKind::Resident;
    let engine = if is_resident { asked.engine } else { &logical };
    let by_engine = engine.kind() != EngineKind::Logical;
    let shared = of
        .gpus
        .filter(|_| by_engine)
        .map(|gpus| Gpus::shared(gpus.gpu, gpus.count, engine.kind(), asked.settings));
    let asked = &Asked { engine, settings: shared.as_ref().unwrap_or(asked.settings), ..*asked };
    let context = asked.context;
    let domain = contexts_around(context);
    let kinks = versions.iter().flat_map(|version| version.state.kinks()).chain([context]);
    let contexts = sample_contexts(domain, SAMPLES, &kinks.collect::<Vec<_>>());
    let ranks = by_engine.then(|| ranks(asked.engine.kind(), asked.settings));
    let gpus = of.gpus.filter(|_| is_resident);
    let mut limits = if is_resident { of.limits.to_vec() } else { Vec::new() };
    let all = |limit: &Limit| ("level".to_owned(), format!("{}: {}", limit.label, limit.bytes));
    let mut levels: Vec<(String, String)> = limits.iter().map(all).collect();
    let mut refused = Vec::new();
    let (mut series, mut values, mut assumed) = (Vec::new(), Vec::new(), Vec::new());
    for (place, version) in versions.iter().enumerate() {
        let drawn = line(asked, of.bytes, version, &contexts);
        match drawn.and_then(|line| Ok((line, at_cursor(asked, of.bytes, version)?))) {
            Ok((line, (bytes, mut warnings))) => {
                if let Some(gpus) = gpus {
                    match left_by(asked, version, gpus) {
                        Ok(limit) => {
                            levels.extend(limit.iter().map(|limit| told(version, limit)));
                            limits.extend(limit);
                        }
                        Err(why) => warnings.push(Warning::new("gpu", why)),
                    }
                }
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
        scale: of.scale,
        units: asked.units,
        bytes: of.bytes,
        size: Size::new(asked.width, asked.width * SHAPE),
        measured: &[],
        limits: &limits,
        ranks,
    })?;
    let cursor = growth.cursor_at(context);
    let by = asked.engine.to_string();
    let names: Vec<&str> = refused.iter().map(|(place, _)| versions[*place].name).collect();
    let title = headline(&HeadlineInput {
        context,
        batch: asked.batch,
        units: asked.units,
        bytes: of.bytes,
        values: &values,
        reserved: ranks.map(|ranks| Reserved { by: &by, ranks, refused: &names }),
    });
    let accounting = ranks.map_or_else(
        || "logical bytes".to_owned(),
        |ranks| format!("{}solid: logical bytes, dashed: reserved by {by}", rank(ranks)),
    );
    let mut assumptions = words(&assumed);
    let left_out = |(place, why): &(usize, Error)| format!("{} left out: {why}", versions[*place].label);
    assumptions.extend(refused.iter().map(left_out));
    let mut inputs = asked.inputs();
    if !is_resident {
        inputs.push(("bytes".to_owned(), of.bytes.name().to_owned()));
    }
    inputs.extend(gpus.map(|gpus| ("gpu".to_owned(), gpus.to_string())));
    inputs.extend(levels);
    let export = Export {
        scene: growth.scene().clone().with(growth.overlay(&cursor)),
        title,
        note: format!("{} · {accounting} · computed", bytes_of(of.bytes, asked.batch)),
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
    let (architecture, settings) = (version.subject.architecture, asked.settings);
    Query { architecture, engine: asked.engine.clone(), context, batch: asked.batch, settings }
}

/// What the GPUs leave for a version; none where its curve reaches no level.
///
/// # Errors
///
/// Why nothing is left or known.
fn left_by(
    asked: &Asked<'_>,
    version: &Version<'_>,
    gpus: Gpus,
) -> std::result::Result<Option<Limit>, String> {
    let left = left(&version.subject, version.state, &query(asked, version, None), gpus)
        .map_err(|error| error.to_string())?;
    match &left.memory.does_not_fit {
        Some(why) => Err(why.clone()),
        None => Ok(level((version.name, version.colour), gpus, &left, asked.units)),
    }
}

/// A version's level among what was asked: `level of llama-3.1-8b`: `2,900,000,000 B, reached at 22,000 tokens`.
fn told(version: &Version<'_>, limit: &Limit) -> (String, String) {
    let reached = limit.crossings.first().map(|(_, n)| format!(", reached at {n} tokens"));
    (format!("level of {}", version.label), format!("{}{}", limit.bytes, reached.unwrap_or_default()))
}

fn line(asked: &Asked<'_>, bytes: ByteKind, version: &Version<'_>, contexts: &[Tokens]) -> Result<Series> {
    let query = query(asked, version, contexts.first().copied());
    let is_logical = asked.engine.kind() == EngineKind::Logical;
    let values = match bytes {
        ByteKind::Resident => logical_curve(&query, version.state, contexts)?,
        of => contexts.iter().map_while(|n| version.state.bytes_of(of, *n, asked.batch).ok()).collect(),
    };
    Ok(Series {
        id: version.id.to_owned(),
        name: version.name.to_owned(),
        colour: version.colour,
        provenance: Provenance::Computed,
        values,
        reserved: if is_logical { Vec::new() } else { reserved_curve(&query, contexts)? },
        allowed: version.subject.architecture.max_context().map(|fact| Tokens::new(fact.get())),
    })
}

/// What the title speaks of, reserved bytes where an engine is asked, else logical ones; and what was assumed.
fn at_cursor(asked: &Asked<'_>, bytes: ByteKind, version: &Version<'_>) -> Result<(Bytes, Vec<Warning>)> {
    let Asked { context, batch, settings, .. } = *asked;
    let engine: &Engine = asked.engine;
    if engine.kind() == EngineKind::Logical {
        let size = version.state.size(version.label, Some(context), batch, settings)?;
        return Ok((version.state.bytes_of(bytes, context, batch)?, size.warnings));
    }
    let architecture = version.subject.architecture;
    let sized = size_in_engine(version.label, architecture, engine, Some(context), batch, settings)?;
    Ok((reserved_bytes(&query(asked, version, Some(context)))?, sized.warnings))
}
