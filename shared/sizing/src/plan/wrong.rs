//! What a scheduler would admit that sized a model by a formula that is not its own.

use serde::Serialize;

use super::Subject;
use crate::architecture::Architecture;
use crate::engine::{Engine, EngineKind, Quantity, Query, answer, reserved_each};
use crate::mixer::Mixer;
use crate::settings::{MlaStorage, NaiveFormula, Settings};
use crate::{Bytes, Error, Result, Tokens, find_entry};

/// One wrong formula and what follows from it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WrongFormula {
    /// What the model is taken for.
    pub taken_for: String,
    /// Bytes of one request by it, on one GPU.
    pub bytes_per_request: Bytes,
    /// Those over the right ones.
    pub factor: f64,
    /// Requests that it admits, on all GPUs.
    pub admits: u64,
    /// Bytes of state that stay unused on each GPU because it admits too few.
    pub wasted_bytes: Bytes,
    /// Bytes that the admitted requests need on each GPU beyond what there is.
    pub overcommitted_bytes: Bytes,
}

/// What is right for one group of ranks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Right {
    /// Bytes of one request on one rank.
    pub(super) each: Bytes,
    /// Bytes for requests on one rank.
    pub(super) room: Bytes,
    /// Requests that the group holds.
    pub(super) requests: u64,
    /// Such groups.
    pub(super) groups: u64,
}

/// The formulas that can be applied to the model, at one length, each divided by the ranks of `settings`.
pub(super) fn wrong_formulas(
    subject: &Subject<'_>,
    settings: &Settings,
    n: Tokens,
    right: Right,
) -> Result<Vec<WrongFormula>> {
    let mut all = Vec::new();
    let (each, room) = (right.each.get(), right.room.get());
    for (taken_for, bytes) in taken_for(subject, settings, n)? {
        // What comes within a hundredth is what the engine itself keeps, whole pages apart.
        let is_right = bytes.get().abs_diff(each) <= each / 100;
        if bytes == Bytes::ZERO || each == 0 || is_right {
            continue;
        }
        let admits = room / bytes.get();
        let times = |requests: u64| u128::from(requests) * u128::from(each);
        let whole = |bytes: u128| Bytes::new(u64::try_from(bytes).unwrap_or(u64::MAX));
        all.push(WrongFormula {
            taken_for,
            bytes_per_request: bytes,
            factor: bytes.get() as f64 / each as f64,
            admits: admits
                .checked_mul(right.groups)
                .ok_or_else(|| Error::overflow("requests on all GPUs"))?,
            wasted_bytes: whole(times(right.requests.saturating_sub(admits))),
            overcommitted_bytes: whole(times(admits).saturating_sub(room.into())),
        });
    }
    Ok(all)
}

fn taken_for(subject: &Subject<'_>, settings: &Settings, n: Tokens) -> Result<Vec<(String, Bytes)>> {
    let architecture = subject.architecture;
    // How an engine was told to keep latents is no formula's.
    let settings = &Settings { mla_storage: None, ..settings.clone() };
    let sized = |settings: &Settings| on_rank(architecture, settings, n);
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
        let bytes = on_rank(&before.architecture()?, settings, n);
        if let Ok(bytes) = bytes {
            all.push((format!("its previous version, {}", before.name), bytes));
        }
    }
    Ok(all)
}

/// Logical bytes of one request on one rank.
fn on_rank(architecture: &Architecture, settings: &Settings, n: Tokens) -> Result<Bytes> {
    let query = Query::new(architecture, Engine::newest(EngineKind::Logical), settings)?;
    Ok(reserved_each(&query, &[n])?.into_iter().next().unwrap_or_default())
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
            let own = heads.get().div_ceil(settings.tp());
            let values = own.checked_mul(2 * width.get()).ok_or_else(|| Error::overflow("K and V"))?;
            let one = Bytes::new(values).times(value_bytes)?.times(n.get())?;
            total = total.plus(one.times(class.layers.len() as u64)?)?;
        }
    }
    Ok(Some(Bytes::new(total.get().div_ceil(settings.pp()))))
}
