//! Which layers have a sliding window, or chunks, where no list says it.

use serde_json::Value;

use super::{Kinds, LayerKind, checked_indices, kind_of_name, unknown_kind};
use crate::config::class_defaults;
use crate::config::fields::{Fields, WINDOWS, whole_number};
use crate::config::layers::MOST_LAYERS;
use crate::config::shapes::must_fit;
use crate::fact::{Fact, Source};
use crate::warning::Warning;
use crate::{Error, Result};

/// Windows by pattern, from a layer on, or on every layer; full attention without a window.
pub(super) fn sliding(fields: &Fields<'_>, total: usize, warnings: &mut Vec<Warning>) -> Result<Kinds> {
    let all =
        |field: &str, kind: LayerKind| Ok(Kinds { field: fields.path_of(field), layers: vec![kind; total] });
    if !has_window(fields)? {
        warn_of_no_window(fields, warnings)?;
        return all("num_hidden_layers", LayerKind::Full);
    }
    if let Some((path, false)) = fields.flag("use_sliding_window")? {
        return Ok(Kinds { field: path, layers: vec![LayerKind::Full; total] });
    }
    let by = |field: &str, is_full: &dyn Fn(u64) -> bool| {
        let kind = |index| if is_full(index) { LayerKind::Full } else { LayerKind::Sliding };
        Ok(Kinds { field: fields.path_of(field), layers: (0..total as u64).map(kind).collect() })
    };
    // Baichuan-M1, and Inkling's checkpoints.
    for key in ["sliding_window_layers", "local_layer_ids"] {
        if let Some(windowed) = checked_indices(fields, key, total)? {
            return by(key, &|index| !windowed.contains(&index));
        }
    }
    if class_defaults::windows_by_list_alone(fields.model_type()) {
        return all("num_hidden_layers", LayerKind::Full);
    }
    if let Some((path, Value::String(pattern))) = fields.find("sliding_window_pattern") {
        return lettered_pattern(&path, pattern, total);
    }
    if class_defaults::is_modernbert_decoder(fields.model_type())
        && let Some(period) = fields.count("global_attn_every_n_layers")?
    {
        return by("global_attn_every_n_layers", &|index| index.is_multiple_of(period.get()));
    }
    if class_defaults::windows_without_rope(fields.model_type())
        && let Some(kinds) = by_rope(fields, total, [LayerKind::Sliding, LayerKind::Full])?
    {
        return Ok(kinds);
    }
    if class_defaults::pattern_after_dense(fields.model_type())
        && let Some(period) = fields.count("sliding_window_pattern")?
    {
        let dense = fields.count("first_k_dense_replace")?.map_or(0, |dense| dense.get());
        let of_dense = fields.count("prefix_dense_sliding_window_pattern")?.map_or(1, |period| period.get());
        return by("sliding_window_pattern", &|index| match index.checked_sub(dense) {
            Some(behind) => (behind + 1).is_multiple_of(period.get()),
            None => (index + 1).is_multiple_of(of_dense),
        });
    }
    for key in ["sliding_window_pattern", "global_attn_every_n_layers"] {
        if let Some(period) = fields.count(key)? {
            return by(key, &|index| (index + 1).is_multiple_of(period.get()));
        }
    }
    if let Some(rule) = class_defaults::max_window_layers(fields.model_type())
        && let Some(limit) = first_with_window(fields)?
    {
        return by("max_window_layers", &|index| rule.is_full(index, limit.get()));
    }
    if let Some(rule) = class_defaults::full_layer(fields.model_type()) {
        return by("model_type", &|index| rule.is_full(index, total as u64));
    }
    if !class_defaults::windows_every_layer(fields.model_type()) {
        fields.doubt(
            fields.path_of("sliding_window"),
            "no field says which layers have the window; all are taken to have it, as engines do".to_owned(),
        );
    }
    all("sliding_window", LayerKind::Sliding)
}

/// Chunked layers with full ones between them (Llama 4). A chunk size without a rule for the full layers is unused
/// (MiMo-V2 carries one).
pub(super) fn chunked(fields: &Fields<'_>, total: usize) -> Result<Option<Kinds>> {
    if fields.count("attention_chunk_size")?.is_none() {
        return Ok(None);
    }
    by_rope(fields, total, [LayerKind::Full, LayerKind::Chunked])
}

/// Kinds of the layers without rotary positions and of those with them: by a list with 0 for none, or by an interval.
fn by_rope(fields: &Fields<'_>, total: usize, [without, with]: [LayerKind; 2]) -> Result<Option<Kinds>> {
    let kinds = |has_rope: &mut dyn Iterator<Item = bool>| {
        has_rope.map(|has_rope| if has_rope { with } else { without }).collect()
    };
    if let Some((path, rope)) = fields.numbers("no_rope_layers")?.filter(|(_, list)| !list.is_empty()) {
        must_fit(fields, &path, rope.len(), total)?;
        let layers = kinds(&mut rope[..total].iter().map(|flag| *flag != 0));
        return Ok(Some(Kinds { field: path, layers }));
    }
    let Some(interval) = fields.count("no_rope_layer_interval")? else { return Ok(None) };
    let layers = kinds(&mut (1..=total as u64).map(|place| !place.is_multiple_of(interval.get())));
    Ok(Some(Kinds { field: fields.path_of("no_rope_layer_interval"), layers }))
}

/// A list in place of one window: a window or none for each layer of a period (Mistral's own `params.json`, openPangu; vLLM
/// 0.33, `transformers_utils/configs/mistral.py` and `models/openpangu`).
pub(super) fn listed_windows(
    fields: &Fields<'_>,
    count: Option<&Fact>,
    _: &mut Vec<Warning>,
) -> Result<Option<Kinds>> {
    let Some((path, list)) = window_list(fields) else { return Ok(None) };
    let Some(count) = count else { return Ok(None) };
    let total = usize::try_from(count.get()).expect("layer counts are limited");
    let kinds = entries(&path, list)
        .map(|entry| entry.map(|(_, one)| one.map_or(LayerKind::Full, |_| LayerKind::Sliding)))
        .collect::<Result<Vec<_>>>()?;
    if kinds.is_empty() || !total.is_multiple_of(kinds.len()) {
        let what = format!("{} windows do not divide {total} layers", kinds.len());
        return Err(Error::field(path, what));
    }
    Ok(Some(Kinds { field: path, layers: kinds.iter().copied().cycle().take(total).collect() }))
}

/// GPT-Neo's local layers: a name a layer in `attention_layers`, or names that repeat in `attention_types`
/// (`GPTNeoConfig.expand_attention_types_params`).
pub(super) fn of_gpt_neo(
    fields: &Fields<'_>,
    _: Option<&Fact>,
    _: &mut Vec<Warning>,
) -> Result<Option<Kinds>> {
    if !class_defaults::is_gpt_neo(fields.model_type()) {
        return Ok(None);
    }
    let types = fields.list("attention_types")?;
    let by_types = types.map(|(path, list)| Ok((repeated(&path, list)?, path))).transpose()?;
    let listed = fields.list("attention_layers")?.map(|(path, list)| (list.iter().collect(), path));
    if let (Some((own, path)), Some((other, field))) = (&listed, &by_types)
        && own != other
    {
        fields.doubt(path, format!("other names than {field} repeats; this list is taken"));
    }
    let Some((names, field)): Option<(Vec<&Value>, String)> = listed.or(by_types) else { return Ok(None) };
    let kind = |name: &&Value| {
        let name = name.as_str().unwrap_or_default();
        kind_of_name(name).ok_or_else(|| unknown_kind(&field, name))
    };
    let layers = names.iter().map(kind).collect::<Result<Vec<_>>>()?;
    Ok(Some(Kinds { field, layers }))
}

/// `[[["global", "local"], 12]]`
fn repeated<'a>(path: &str, list: &'a [Value]) -> Result<Vec<&'a Value>> {
    let mut names = Vec::new();
    for (index, part) in list.iter().enumerate() {
        let place = format!("{path}[{index}]");
        let (Some(words), Some(times)) = (part.get(0).and_then(Value::as_array), part.get(1)) else {
            return Err(Error::field(place, "expected a list of names and how often it repeats"));
        };
        let named = whole_number(&place, times)?.saturating_mul(words.len() as u64);
        let Some(named) = usize::try_from(named).ok().filter(|_| named <= MOST_LAYERS) else {
            return Err(Error::field(place, format!("more than {MOST_LAYERS} layers")));
        };
        names.extend(words.iter().cycle().take(named));
    }
    Ok(names)
}

/// The window of sliding layers.
pub(in crate::config) fn window(fields: &Fields<'_>) -> Result<Fact> {
    if class_defaults::is_gpt_neo(fields.model_type()) {
        return fields.require(&["window_size"], "a local layer");
    }
    if let Some(half) = half_of_local(fields)? {
        return Ok(half);
    }
    let Some((path, list)) = window_list(fields) else { return fields.require(&WINDOWS, "a sliding layer") };
    let mut first: Option<(String, u64)> = None;
    for entry in entries(&path, list) {
        let (place, Some(window)) = entry? else { continue };
        match &first {
            Some((before, other)) if *other != window => {
                let what =
                    format!("{window}, but {before} says {other}; layers of several windows are not read");
                return Err(Error::field(place, what));
            }
            Some(_) => {}
            None => first = Some((place, window)),
        }
    }
    match first {
        Some((place, window)) => Ok(Fact::new(window, Source::field(place))),
        None => Err(Error::field(path, "no window in the list, and a sliding layer needs one")),
    }
}

/// `ModernBERT`'s decoders look back over half of what its encoders see on both sides, which the field counts (transformers 5.19,
/// `ModernBertDecoderConfig`).
fn half_of_local(fields: &Fields<'_>) -> Result<Option<Fact>> {
    if !class_defaults::is_modernbert_decoder(fields.model_type()) {
        return Ok(None);
    }
    let local = fields.count("local_attention")?;
    Ok(local.map(|local| Fact::derived(local.get() / 2, format!("{} / 2", local.source()))))
}

/// The windows of a list with their paths; none where an entry says that there is none.
fn entries<'a>(path: &'a str, list: &'a [Value]) -> impl Iterator<Item = Result<(String, Option<u64>)>> + 'a {
    list.iter().enumerate().map(move |(index, entry)| {
        let place = format!("{path}[{index}]");
        let window = if is_none(entry) { None } else { Some(whole_number(&place, entry)?) };
        Ok((place, window))
    })
}

fn window_list<'a>(fields: &Fields<'a>) -> Option<(String, &'a [Value])> {
    let is_list = |name: &str| fields.find(name).filter(|(_, value)| value.is_array());
    let (path, value) = WINDOWS.iter().find_map(|name| is_list(name))?;
    Some((path, value.as_array()?.as_slice()))
}

/// The first layer with a window; 0 is the model's first.
pub(in crate::config) fn first_with_window(fields: &Fields<'_>) -> Result<Option<Fact>> {
    match fields.number("max_window_layers")? {
        Some(stated) => Ok(Some(stated)),
        None => fields.count("max_window_layers"),
    }
}

/// A window of null, zero or below means none.
fn is_none(window: &Value) -> bool {
    window.is_null() || window.as_f64().is_some_and(|window| window <= 0.0)
}

fn has_window(fields: &Fields<'_>) -> Result<bool> {
    let mut stated = WINDOWS.iter().filter_map(|name| fields.find(name)).peekable();
    if stated.peek().is_some() && stated.all(|(_, value)| is_none(value)) {
        return Ok(false);
    }
    Ok(fields.count_any(&WINDOWS)?.is_some() || half_of_local(fields)?.is_some())
}

/// Fields that speak of windows in a config without one, and a class whose window is not taken.
fn warn_of_no_window(fields: &Fields<'_>, warnings: &mut Vec<Warning>) -> Result<()> {
    let window = fields.path_of(WINDOWS[0]);
    let is_stated = fields.is_null(WINDOWS[0]) || WINDOWS.iter().any(|name| fields.has(name));
    if !is_stated {
        if let Some(default) = class_defaults::window_not_taken(fields.model_type()) {
            let what = format!(
                "absent; every token is taken to be kept, while the class's default is a window of {default}; say null \
                 or the window"
            );
            warnings.push(Warning::new(window, what));
        }
        return Ok(());
    }
    let pattern = "sliding_window_pattern";
    let has_letters = matches!(fields.find(pattern), Some((_, Value::String(_))));
    let is_by_class = !fields.has(pattern);
    if is_by_class && class_defaults::pattern_goes_with_window(fields.model_type()) {
        return Ok(());
    }
    // Without a window no class looks at its pattern.
    if fields.is_null(pattern) {
        return Ok(());
    }
    if has_letters || fields.count(pattern)?.is_some() {
        let path = fields.path_of(pattern);
        fields.doubt(
            window,
            format!("none, but {path} gives layers a window; every token is taken to be kept"),
        );
    }
    Ok(())
}

/// `LLLG`: L local, G global, repeated over the layers (EXAONE 4).
fn lettered_pattern(path: &str, pattern: &str, total: usize) -> Result<Kinds> {
    let kinds = pattern
        .chars()
        .map(|letter| match letter {
            'L' => Ok(LayerKind::Sliding),
            'G' => Ok(LayerKind::Full),
            other => Err(unknown_kind(path, &other.to_string())),
        })
        .collect::<Result<Vec<_>>>()?;
    if kinds.is_empty() {
        return Err(Error::field(path, "an empty pattern"));
    }
    Ok(Kinds { field: path.to_owned(), layers: kinds.iter().copied().cycle().take(total).collect() })
}
