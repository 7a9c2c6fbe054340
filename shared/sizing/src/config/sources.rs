//! Lists of the layers that own what later ones use: compressed stores, choices of entries, index keys. A layer that uses
//! what no earlier one owns would count as nothing, so such a list is an error.

use super::fields::Fields;
use super::kinds::LayerKind;
use crate::architecture::LayerDraft;
use crate::mixer::Mixer;
use crate::{Error, Result};

const STORES: &str = "kv_source_layer_ids";
const CHOICES: &str = "index_source_layer_ids";

/// Compares DeepSeek-V4.1's lists with the layers. Every compressed layer takes its entries, and its choice among them,
/// from the last listed layer that is not behind it.
///
/// # Errors
///
/// A layer that is not there, is not compressed or stands twice; a compressed layer that no listed one comes before, or
/// whose own has another ratio.
pub(super) fn check_sources(fields: &Fields<'_>, kinds: &[LayerKind]) -> Result<()> {
    let stores = fields.numbers(STORES)?;
    let choices = fields.numbers(CHOICES)?;
    let Some((_, owners)) = &stores else {
        if let Some((path, _)) = choices.filter(|(_, list)| !list.is_empty()) {
            let what =
                format!("given without {STORES}; every layer that can have index keys is taken to own them");
            fields.doubt(path, what);
        }
        return Ok(());
    };
    for (path, sources) in stores.iter().chain(&choices) {
        check_list(path, sources, kinds)?;
    }
    let Some((path, choosers)) = &choices else { return Ok(()) };
    if let Some(owner) = owners.iter().find(|owner| !choosers.contains(owner)) {
        let what = format!(
            "lacks layer {owner}, which owns a store ({STORES}); its index keys are counted all the same"
        );
        fields.doubt(path, what);
    }
    Ok(())
}

fn check_list(path: &str, sources: &[u64], kinds: &[LayerKind]) -> Result<()> {
    let ratio_of = |index: usize| match kinds.get(index) {
        Some(LayerKind::Compressed(ratio)) if *ratio > 0 => Some(*ratio),
        _ => None,
    };
    for (place, source) in sources.iter().enumerate() {
        let bad = |what: String| Err(Error::field(format!("{path}[{place}]"), what));
        let index = usize::try_from(*source).unwrap_or(usize::MAX);
        if index >= kinds.len() {
            return bad(format!("layer {source} is not below the {} layers, counted from 0", kinds.len()));
        }
        if ratio_of(index).is_none() {
            return bad(format!("layer {source} is not compressed, so it owns nothing that others use"));
        }
        if sources[..place].contains(source) {
            return bad(format!("layer {source} stands twice"));
        }
    }
    let compressed = (0..kinds.len()).filter_map(|index| Some((index, ratio_of(index)?)));
    let mut last = None;
    for (index, ratio) in compressed {
        if sources.contains(&(index as u64)) {
            last = Some((index, ratio));
        }
        match last {
            None => {
                let what = format!("layer {index} is compressed, and no listed layer is at or before it");
                return Err(Error::field(path, what));
            }
            Some((source, other)) if other != ratio => {
                let what = format!(
                    "layer {index} has compression ratio {ratio}, but layer {source}, the last listed one before it, \
                     has {other}"
                );
                return Err(Error::field(path, what));
            }
            Some(_) => {}
        }
    }
    Ok(())
}

/// The first layer that uses an earlier layer's index keys where none has any.
pub(crate) fn without_index_owner(layers: &[LayerDraft]) -> Option<usize> {
    let mut owned = false;
    for (index, layer) in layers.iter().enumerate() {
        for mixer in &*layer.mixers {
            match mixer {
                Mixer::Dsa { index: Some(_), .. } => owned = true,
                Mixer::Dsa { index: None, .. } if !owned => return Some(index),
                _ => {}
            }
        }
    }
    None
}
