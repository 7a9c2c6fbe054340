//! Which layers are compressed, and by how much: DeepSeek-V4's own list of ratios, and the names that transformers gives them.

use super::{Kinds, LayerKind, listed_length, too_short, unknown_kind};
use crate::config::class_defaults;
use crate::config::fields::{Fields, listed, wrong_type};
use crate::fact::Fact;
use crate::warning::Warning;
use crate::{Error, Result};

const SPARSE: &str = "compressed_sparse_attention";
const HEAVY: &str = "heavily_compressed_attention";

/// Where transformers states the ratio of a kind, the older name for it, and the ratio where neither is there
/// (`DeepseekV4Config` of transformers 5.19).
const RATES: [(&str, &str, u64); 2] = [(SPARSE, "compress_rate_csa", 4), (HEAVY, "compress_rate_hca", 128)];

/// `compress_ratios`: one ratio a layer, then zeros for draft layers (DeepSeek-V4).
pub(super) fn ratios(
    fields: &Fields<'_>,
    count: Option<&Fact>,
    warnings: &mut Vec<Warning>,
) -> Result<Option<Kinds>> {
    let Some((path, ratios)) = fields.numbers("compress_ratios")? else { return Ok(None) };
    let Some(count) = count else { return Ok(None) };
    let total = usize::try_from(count.get()).expect("layer counts are limited");
    if ratios.len() < total {
        return Err(too_short(&path, ratios.len(), count));
    }
    let (own, drafts) = ratios.split_at(total);
    if fields.has("num_nextn_predict_layers") {
        listed_length(fields, &path, ratios.len(), Some(count), warnings)?;
    }
    if drafts.iter().any(|ratio| *ratio != 0) {
        return Err(Error::field(
            &path,
            format!(
                "{} ({}), and the surplus is not draft layers",
                listed(ratios.len(), total),
                count.source()
            ),
        ));
    }
    if !drafts.is_empty() && !fields.has("num_nextn_predict_layers") {
        warnings.push(Warning::new(
            &path,
            format!(
                "{total} layers; what is listed beyond them ({}) is draft layers and left out",
                drafts.len()
            ),
        ));
    }
    Ok(Some(Kinds { field: path, layers: own.iter().map(|ratio| LayerKind::Compressed(*ratio)).collect() }))
}

/// `layer_types` of the class whose windows are a branch of compressed attention; without a list the class has its own order.
pub(super) fn named(
    fields: &Fields<'_>,
    count: Option<&Fact>,
    warnings: &mut Vec<Warning>,
) -> Result<Option<Kinds>> {
    if !class_defaults::compresses_by_names(fields.model_type()) {
        return Ok(None);
    }
    let mut ratios = [0; 2];
    let rates = fields.object("compress_rates")?;
    for (slot, (name, older, default)) in ratios.iter_mut().zip(RATES) {
        let stated = rates.as_ref().map(|rates| rates.count(name)).transpose()?.flatten();
        let stated = fields.count(older)?.or(stated);
        *slot = stated.map_or(default, |rate| rate.get());
    }
    let [sparse, heavy] = ratios;
    let Some((path, list)) = fields.list("layer_types")? else {
        let Some(count) = count else { return Ok(None) };
        let field = fields.path_of("layer_types");
        let what = "absent, as is compress_ratios; the order of its class is taken: two heavily compressed layers, then these and \
                    sparse ones in turn";
        warnings.push(Warning::new(&field, what));
        let is_sparse = |index: u64| index > 2 && !index.is_multiple_of(2);
        let layers = (0..count.get()).map(|index| if is_sparse(index) { sparse } else { heavy });
        return Ok(Some(Kinds { field, layers: layers.map(LayerKind::Compressed).collect() }));
    };
    let length = listed_length(fields, &path, list.len(), count, warnings)?;
    let layers = list[..length].iter().enumerate().map(|(index, value)| {
        let place = format!("{path}[{index}]");
        let name = value.as_str().ok_or_else(|| wrong_type(&place, "a layer kind", value))?;
        Ok(LayerKind::Compressed(match name {
            SPARSE => sparse,
            HEAVY => heavy,
            "sliding_attention" => 0,
            other => return Err(unknown_kind(&place, other)),
        }))
    });
    let layers = layers.collect::<Result<_>>()?;
    Ok(Some(Kinds { field: path, layers }))
}
