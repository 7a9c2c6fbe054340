use super::super::given::time;
use super::super::{
    ChosenLink, Given, HandoverCurve, HandoverPlan, HandoverQuestion, Moving, PrefillTime, Subject,
    bytes_per_second, handover, handover_curve, number,
};
use super::{USUAL_EFFICIENCY, gpu, gpus};
use crate::hardware::{find_link, links};
use crate::settings::Settings;
use crate::{Bytes, Error, Result, Tokens};

/// What `kvscope plan handover` answers over some links; the settings' tensor-parallel ranks are those of the instance.
///
/// # Errors
///
/// An option that cannot be read, or what the plan refuses.
pub fn handover_of(
    subject: &Subject<'_>,
    settings: &Settings,
    contexts: &[Tokens],
    links: &[ChosenLink],
    given: &Given,
    moving: Moving,
) -> Result<HandoverPlan> {
    ask(subject, settings, contexts, links, given, |asked| {
        handover(subject, &HandoverQuestion { moving, ..asked.clone() })
    })
}

/// Seconds over length of what [`handover_of`] answers at each.
///
/// # Errors
///
/// As [`handover_of`].
pub fn handover_curve_of(
    subject: &Subject<'_>,
    settings: &Settings,
    contexts: &[Tokens],
    links: &[ChosenLink],
    given: &Given,
) -> Result<HandoverCurve> {
    ask(subject, settings, contexts, links, given, |asked| handover_curve(subject, asked))
}

fn ask<T>(
    subject: &Subject<'_>,
    settings: &Settings,
    contexts: &[Tokens],
    links: &[ChosenLink],
    given: &Given,
    ask: impl FnOnce(&HandoverQuestion<'_>) -> Result<T>,
) -> Result<T> {
    let name = "prefill_seconds";
    let seconds = given.list(name, ',');
    let seconds: Vec<f64> =
        seconds.into_iter().map(|text| time(name, number(name, text)?)).collect::<Result<_>>()?;
    let prefill = if seconds.is_empty() {
        let percent = given.some_number("efficiency")?.unwrap_or(USUAL_EFFICIENCY);
        PrefillTime::Estimated { percent, types: given.types(subject.architecture)? }
    } else {
        PrefillTime::Given(&seconds)
    };
    ask(&HandoverQuestion {
        contexts,
        settings: &Settings { tp: None, ..settings.clone() },
        gpu: gpu(given)?,
        count: gpus(given, 8)?,
        tp: settings.tp.unwrap_or(1),
        fleet: given.some_count("fleet")?,
        links,
        blocks: given.some_count("blocks")?,
        prefill,
        moving: Moving::Nothing,
    })
}

/// The links that were typed: one of one's own by its rate first, then those by their names.
///
/// # Errors
///
/// An unknown name, or a rate that is none.
pub fn typed_links(given: &Given) -> Result<Vec<ChosenLink>> {
    let mut chosen = Vec::new();
    let micros = |name: &str| time(name, given.some_number(name)?.unwrap_or(0.0) * 1e-6);
    if let Some(text) = given.text("bandwidth") {
        let rate = if ["bps", "bit/s"].iter().any(|unit| text.ends_with(unit)) {
            bytes_per_second("bandwidth", text)?
        } else {
            let bytes = text.trim_end_matches("/s").parse::<Bytes>();
            bytes.map_err(|error| Error::setting("bandwidth", error.what()))?.get() as f64
        };
        chosen.push(ChosenLink {
            link: format!("{text} a second"),
            grade: "given",
            source: "given".to_owned(),
            start_seconds: micros("start_us")?,
            alpha_seconds: micros("alpha_us")?,
            bytes_per_second: rate,
        });
    }
    for id in given.list("link", ',') {
        chosen.push(ChosenLink::nominal(find_link(id)?));
    }
    Ok(chosen)
}

/// Every link between servers or GPUs at its nominal rate, where none is typed.
pub fn network_links() -> impl Iterator<Item = ChosenLink> {
    links().iter().filter(|link| link.class.is_of_network()).map(ChosenLink::nominal)
}
