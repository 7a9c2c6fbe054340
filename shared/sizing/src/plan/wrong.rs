//! What a scheduler would admit that sized a model by a formula that is not its own.

use serde::Serialize;

use super::Subject;
use crate::engine::{Engine, EngineKind, Quantity, Query, answer};
use crate::mixer::Mixer;
use crate::settings::{MlaStorage, NaiveFormula, Settings};
use crate::size::StateModel;
use crate::{Bytes, Error, Result, Tokens, find_entry};

/// One wrong formula and what follows from it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WrongFormula {
    /// What the model is taken for.
    pub taken_for: String,
    /// Bytes of one request by it.
    pub bytes_per_request: Bytes,
    /// Those over the right ones.
    pub factor: f64,
    /// Requests that it admits.
    pub admits: u64,
    /// Bytes of state that stay unused because it admits too few.
    pub wasted_bytes: Bytes,
    /// Bytes that the admitted requests need beyond what there is.
    pub overcommitted_bytes: Bytes,
}

/// The formulas that can be applied to the model, at one length, against `room` bytes in which `right` bytes are a request.
pub(super) fn wrong_formulas(
    subject: &Subject<'_>,
    settings: &Settings,
    n: Tokens,
    right: Bytes,
    room: Bytes,
) -> Result<Vec<WrongFormula>> {
    let mut all = Vec::new();
    for (taken_for, bytes) in taken_for(subject, settings, n)? {
        // What comes within a hundredth is what the engine itself keeps, whole pages apart.
        let is_right = bytes.get().abs_diff(right.get()) <= right.get() / 100;
        if bytes == Bytes::ZERO || right == Bytes::ZERO || is_right {
            continue;
        }
        let admits = room.get() / bytes.get();
        let needed = u128::from(admits) * u128::from(right.get());
        let beyond =
            |more: u128, less: u128| Bytes::new(u64::try_from(more.saturating_sub(less)).unwrap_or(u64::MAX));
        let fitting = u128::from(room.get() / right.get()) * u128::from(right.get());
        all.push(WrongFormula {
            taken_for,
            bytes_per_request: bytes,
            factor: bytes.get() as f64 / right.get() as f64,
            admits,
            wasted_bytes: beyond(fitting, needed),
            overcommitted_bytes: beyond(needed, room.get().into()),
        });
    }
    Ok(all)
}

fn taken_for(subject: &Subject<'_>, settings: &Settings, n: Tokens) -> Result<Vec<(String, Bytes)>> {
    let architecture = subject.architecture;
    let sized = |settings: &Settings| StateModel::new(architecture, settings)?.resident(n, 1);
    let mut all = Vec::new();
    let has = |is: fn(&Mixer) -> bool| architecture.mixers().any(is);
    if has(|mixer| matches!(mixer, Mixer::Mla(_) | Mixer::Dsa { .. })) {
        if let Some(bytes) = heads_without_rope(subject, settings, n)? {
            all.push(("MHA with keys as wide as values".to_owned(), bytes));
        }
        let expanded = Settings { mla_storage: Some(MlaStorage::Expanded), ..settings.clone() };
        if let Ok(bytes) = sized(&expanded) {
            all.push(("MHA with the real keys, as an engine without latents keeps it".to_owned(), bytes));
        }
    }
    for (words, formula) in [
        ("full attention in every layer", NaiveFormula::AllLayersFull),
        ("full attention in every window", NaiveFormula::WindowsFull),
        ("MHA, K and V for every query head", NaiveFormula::MhaHeads),
    ] {
        let naive = Settings { naive: Some(formula), ..settings.clone() };
        let mut query = Query::new(architecture, Engine::newest(EngineKind::Logical), &naive)?;
        query.context = Some(n);
        // An error says that the model lacks what this formula reads.
        if let Ok(factor) = answer(&query, Quantity::OverestimateFactor) {
            let own = sized(settings)?;
            let bytes = Bytes::new(crate::cost::whole(own.get() as f64 * factor.as_f64())?);
            // The model's own formula is not wrong, and where windows alone are not full two are one.
            if bytes != own && !all.iter().any(|(_, known)| *known == bytes) {
                all.push((words.to_owned(), bytes));
            }
        }
    }
    let previous = subject.entry.and_then(|entry| entry.previous.as_deref());
    if let Some(previous) = previous {
        let before = find_entry(previous)?;
        let bytes = StateModel::new(&before.architecture()?, settings).and_then(|state| state.resident(n, 1));
        if let Ok(bytes) = bytes {
            all.push((format!("its previous version, {}", before.name), bytes));
        }
    }
    Ok(all)
}

/// K and V of every head, each as wide as V: the baseline behind "57 times".
fn heads_without_rope(subject: &Subject<'_>, settings: &Settings, n: Tokens) -> Result<Option<Bytes>> {
    let formats = subject.architecture.formats(settings);
    let value_bytes = formats.k().format.row(1, 64)?.get() / 64;
    let mut total = Bytes::ZERO;
    for class in subject.architecture.classes() {
        for mixer in &class.mixers {
            let (Mixer::Mla(latent) | Mixer::Dsa { latent, .. }) = mixer else { return Ok(None) };
            let (Some(heads), Some(width)) = (&latent.query_heads, &latent.v_width) else { return Ok(None) };
            let values =
                heads.get().checked_mul(2 * width.get()).ok_or_else(|| Error::overflow("K and V"))?;
            let one = Bytes::new(values).times(value_bytes)?.times(n.get())?;
            total = total.plus(one.times(class.layers.len() as u64)?)?;
        }
    }
    Ok(Some(total))
}
