//! Which layers own index keys that others use.

use serde_json::Value;

use super::must_fit;
use crate::config::fields::Fields;
use crate::{Error, Result};

const PATTERN: &str = "index_topk_pattern";

/// `indexer_types`: `full` layers own index keys, `shared` ones use an earlier layer's. Without it a pattern or a frequency
/// says the same, or the class does (transformers 5.19, `configuration_glm_moe_dsa.py`; vLLM 0.33, `models/hy_v4` and
/// `models/deepseek_v2.py`). None where every layer owns its keys.
pub(super) fn of_index_keys(fields: &Fields<'_>, total: usize) -> Result<Option<Vec<bool>>> {
    if let Some(listed) = listed(fields, "indexer_types", total)? {
        return Ok(Some(listed));
    }
    // `HYV4Config.__post_init__` fills the list before any other rule is asked: the first, and every fourth from the second on.
    if fields.model_type() == Some("hy_v4") {
        return Ok(Some((0..total).map(|layer| layer == 0 || (layer - 1).is_multiple_of(4)).collect()));
    }
    if fields.find(PATTERN).is_some_and(|(_, value)| value.is_array()) {
        return listed(fields, PATTERN, total);
    }
    if let Some((path, letters)) = fields.text(PATTERN)? {
        return of_letters(&path, letters, total).map(Some);
    }
    by_rule(fields, total)
}

/// Where it stands that a layer uses an earlier one's keys.
pub(in crate::config) fn owner_place(fields: &Fields<'_>, index: usize) -> String {
    let listed = ["indexer_types", PATTERN].into_iter().find(|key| fields.peek(key).is_some());
    listed.map_or_else(
        || fields.path_of("index_skip_topk_offset"),
        |key| format!("{}[{index}]", fields.path_of(key)),
    )
}

/// A word or a letter a layer.
fn listed(fields: &Fields<'_>, key: &str, total: usize) -> Result<Option<Vec<bool>>> {
    let Some((path, list)) = fields.list(key)? else { return Ok(None) };
    must_fit(fields, &path, list.len(), total)?;
    let owns = |(index, value): (usize, &Value)| match value.as_str() {
        Some("full" | "F") => Ok(true),
        Some("shared" | "S") => Ok(false),
        _ => Err(Error::field(
            format!("{path}[{index}]"),
            format!("{value} is neither \"full\" nor \"shared\""),
        )),
    };
    list[..total].iter().enumerate().map(owns).collect::<Result<_>>().map(Some)
}

/// A letter a layer, `S` for a layer that uses an earlier one's keys; layers behind the last letter own theirs.
fn of_letters(path: &str, letters: &str, total: usize) -> Result<Vec<bool>> {
    if let Some(at) = letters.find(|letter| !matches!(letter, 'F' | 'S')) {
        return Err(Error::field(format!("{path}[{at}]"), "neither F (full) nor S (shared)"));
    }
    Ok((0..total).map(|layer| letters.as_bytes().get(layer) != Some(&b'S')).collect())
}

fn by_rule(fields: &Fields<'_>, total: usize) -> Result<Option<Vec<bool>>> {
    if let Some(every) = fields.count("index_topk_freq")?.filter(|every| every.get() > 1) {
        let offset = fields.number("index_skip_topk_offset")?.map_or(2, |offset| offset.get());
        let owns = |layer: u64| (layer + 1).saturating_sub(offset).is_multiple_of(every.get());
        return Ok(Some((0..total as u64).map(owns).collect()));
    }
    Ok(None)
}
