//! Layers that run several times with the same weights: which, how often, and what the later passes keep.

use std::ops::Range;

use super::fields::Fields;
use crate::architecture::{LayerDraft, Loops};
use crate::fact::{Fact, Source};
use crate::mixer::Mixer;
use crate::state::counted;
use crate::warning::Warning;
use crate::{Error, Result};

/// Times that layers run, as classes name it: Nanbeige, Ouro, `IQuest`'s loop coder, Dory, Inkling's loop.
const PASSES: [&str; 5] = ["num_loops", "total_ut_steps", "loop_num", "n_recurrent_loops", "loop_num_passes"];

/// What the passes after the first keep.
enum Later {
    /// All that the first keeps, for themselves.
    Same,
    /// Nothing: they read the first one's, for this reason.
    Nothing(String),
    /// The last tokens alone, and they read the first pass's cache beside (vLLM 0.33, `models/iquest_loopcoder`).
    Window(Fact),
}

/// Adds the later passes behind the model's layers.
pub(super) fn repeat(
    fields: &Fields<'_>,
    drafts: &mut Vec<LayerDraft>,
    warnings: &mut Vec<Warning>,
) -> Result<Option<Loops>> {
    let Some((loops, passes)) = read(fields, drafts.len())? else { return Ok(None) };
    let all = loops.passes.get().saturating_mul(loops.range.len() as u64);
    if all > super::layers::MOST_LAYERS {
        let what = format!("{} passes of {} layers", loops.passes.get(), loops.range.len());
        return Err(Error::field(
            passes.place,
            format!("{what} are more than {}", super::layers::MOST_LAYERS),
        ));
    }
    let later = later_passes(fields)?;
    if let Later::Window(window) = &later {
        refuse_other_than_heads(fields, window, &drafts[loops.range.clone()])?;
    }
    let again = |draft: &LayerDraft| match &later {
        Later::Same => draft.clone(),
        Later::Nothing(reason) => LayerDraft { borrows: Some(reason.clone()), mixers: draft.mixers.clone() },
        Later::Window(window) => LayerDraft {
            mixers: draft.mixers.iter().map(|mixer| windowed(mixer, window)).collect(),
            borrows: draft.borrows.clone(),
        },
    };
    loops.repeat(drafts, again);
    let kept = match &later {
        Later::Same => "each has a cache of its own".to_owned(),
        Later::Nothing(reason) => format!("they read the first one's cache ({reason})"),
        Later::Window(window) => format!(
            "each keeps the last {window} tokens and reads the first one's cache too, which reads and operations here \
             count once",
            window = window.get()
        ),
    };
    let words = passes.explained(&loops.words(&kept));
    warnings.push(Warning::new(passes.place, words));
    Ok(Some(loops))
}

/// How often layers run, and the field that says so.
struct Passes {
    count: Fact,
    place: String,
}

impl Passes {
    fn stated(fields: &Fields<'_>, count: Fact) -> Self {
        Self { place: fields.place_of(&count), count }
    }

    /// `words` behind what the count comes from, where that is more than its field.
    fn explained(&self, words: &str) -> String {
        match self.count.source() {
            Source::Field { .. } => words.to_owned(),
            Source::Default { rule, .. } => format!("absent: {rule}; {words}"),
            other => format!("{other}; {words}"),
        }
    }
}

fn read(fields: &Fields<'_>, own_layers: usize) -> Result<Option<(Loops, Passes)>> {
    let split = fields.flag("enable_double_loop_split")?.filter(|(_, on)| *on);
    if let (None, Some((path, true))) = (&split, fields.flag("loop_share_kv")?) {
        let what =
            "true, and its class takes that with enable_double_loop_split alone; leave it out, or set both";
        return Err(Error::field(path, what));
    }
    let found = match split {
        Some((path, _)) => Some(middle(fields, path, own_layers)?),
        None => match passes(fields)? {
            Some(passes) => Some((passes, part(fields, own_layers)?)),
            None => None,
        },
    };
    let Some((passes, range)) = found.filter(|(passes, _)| passes.count.get() > 1) else { return Ok(None) };
    Ok(Some((Loops { passes: passes.count.clone(), range, own_layers }, passes)))
}

fn passes(fields: &Fields<'_>) -> Result<Option<Passes>> {
    let nested = fields.object("loop_config")?.map(|nested| nested.count("num_passes")).transpose()?;
    if let Some(stated) = nested.flatten() {
        return Ok(Some(Passes::stated(fields, stated)));
    }
    if let Some(weighted) = weighted(fields)? {
        return Ok(Some(weighted));
    }
    match fields.count_any(&PASSES)? {
        Some(stated) => Ok(Some(Passes::stated(fields, stated))),
        None => stacks(fields),
    }
}

/// Nanbeige's weights of the losses after each pass but the last, which choose how many there are before `num_loops` does
/// (`_get_num_loops` of its `modeling_nanbeige.py`).
fn weighted(fields: &Fields<'_>) -> Result<Option<Passes>> {
    let Some((place, weights)) = fields.list("loop_loss_weights")?.filter(|(_, list)| !list.is_empty())
    else {
        return Ok(None);
    };
    let entries = weights.len() as u64;
    let passes = entries.saturating_add(1);
    let rule = format!("{} and one pass more", counted(entries, "entry", "entries"));
    if let Some(other) = fields.number("num_loops")?.filter(|other| other.get() != passes) {
        let what = format!(
            "{}, but {place} has {} and asks for {passes} passes; those are taken",
            other.get(),
            counted(entries, "entry", "entries")
        );
        fields.doubt(fields.place_of(&other), what);
    }
    Ok(Some(Passes { count: Fact::derived(passes, rule), place }))
}

/// `HrmTextConfig` counts one stack's layers where it does not say so, and runs the lower stack `L_cycles` times and the
/// upper one once in each of `H_cycles`.
fn stacks(fields: &Fields<'_>) -> Result<Option<Passes>> {
    if fields.has("num_layers_per_stack") {
        for key in ["H_cycles", "L_cycles"] {
            fields.find(key);
        }
        return Ok(None);
    }
    let (Some(upper), Some(lower)) = (fields.count("H_cycles")?, fields.count("L_cycles")?) else {
        return Ok(None);
    };
    let passes = upper.get().saturating_mul(lower.get().saturating_add(1));
    let rule = format!("{} cycles of {} + 1 passes", upper.get(), lower.get());
    Ok(Some(Passes { count: Fact::derived(passes, rule), place: fields.place_of(&upper) }))
}

/// Nanbeige's split, which neither `num_loops` nor the weights of losses change: the middle layers, half of all where
/// nothing is said, run until as many layers ran as in two whole passes (`_get_double_loop_split_layer_order`). Their count
/// has to divide that of all (`_hyper_connection_validation`). `loop_middle_repeats` is of classes derived from it.
fn middle(fields: &Fields<'_>, place: String, own_layers: usize) -> Result<(Passes, Range<usize>)> {
    for key in ["num_loops", "loop_loss_weights"] {
        fields.find(key);
    }
    let stated = fields.number("loop_middle_layers")?;
    let middle = stated.as_ref().map_or(Ok(own_layers / 2), |stated| usize::try_from(stated.get()));
    let middle = middle.ok().filter(|middle| *middle > 0 && own_layers.is_multiple_of(*middle));
    let Some(middle) = middle.filter(|_| stated.is_some() || own_layers.is_multiple_of(2)) else {
        return Err(match stated {
            Some(stated) => Error::field(
                fields.place_of(&stated),
                format!("{}, which does not divide the {own_layers} layers", stated.get()),
            ),
            None => Error::field(
                place,
                format!("true, and {own_layers} layers have no half; give loop_middle_layers"),
            ),
        });
    };
    let first = (own_layers - middle) / 2;
    let count = match fields.count("loop_middle_repeats")? {
        Some(stated) => stated,
        None => Fact::derived(
            ((own_layers + middle) / middle) as u64,
            format!("({own_layers} + {middle}) / {middle} passes of the middle"),
        ),
    };
    Ok((Passes { count, place }, first..first + middle))
}

/// The layers that run again where not all do.
fn part(fields: &Fields<'_>, own_layers: usize) -> Result<Range<usize>> {
    if let Some(range) = between_indices(fields, own_layers)? {
        return Ok(range);
    }
    Ok(between_ends(fields, own_layers)?.unwrap_or(0..own_layers))
}

/// Inkling's loop: from one index to before another. What the checkpoints' `loop_config` leaves out, the fields of the
/// class say (transformers 5.24, `models/inkling2_loop`).
fn between_indices(fields: &Fields<'_>, own_layers: usize) -> Result<Option<Range<usize>>> {
    let nested = fields.object("loop_config")?;
    let one = |key: &str, own: &str| -> Result<Option<Fact>> {
        let stated = nested.as_ref().map_or(Ok(None), |nested| nested.number(key))?;
        Ok(match stated.or(fields.count(own)?) {
            Some(index) => Some(index),
            None => fields.number(own)?,
        })
    };
    let missing = |key: &str, own: &str, other: &Fact| {
        let path = nested.as_ref().map_or_else(|| fields.path_of(own), |nested| nested.path_of(key));
        let what = format!("missing, and {} needs it to say which layers run again", fields.place_of(other));
        Err(Error::field(path, what))
    };
    let (start, end) =
        match (one("core_start", "loop_layer_index_start")?, one("core_end", "loop_layer_index_end")?) {
            (Some(start), Some(end)) => (start, end),
            (None, None) => return Ok(None),
            (Some(start), None) => return missing("core_end", "loop_layer_index_end", &start),
            (None, Some(end)) => return missing("core_start", "loop_layer_index_start", &end),
        };
    let index = |fact: &Fact| usize::try_from(fact.get()).ok().filter(|index| *index <= own_layers);
    match (index(&start), index(&end)) {
        (Some(first), Some(behind)) if first < behind => Ok(Some(first..behind)),
        (_, None) => {
            Err(Error::field(fields.place_of(&end), format!("layer {} of {own_layers} layers", end.get())))
        }
        _ => {
            let what = format!("{}, behind which no layer comes before {}", start.get(), end.get());
            Err(Error::field(fields.place_of(&start), what))
        }
    }
}

/// Dory's loop: between the layers that run once before and behind it (`DoryConfig`, transformers 5.24).
fn between_ends(fields: &Fields<'_>, own_layers: usize) -> Result<Option<Range<usize>>> {
    let before = count_from_0(fields, "n_input_layers")?;
    let behind = count_from_0(fields, "n_output_layers")?;
    let inner = fields.count("n_recurrent_layers")?;
    let missing = |key: &str, other: &Fact| {
        let what = format!("missing, and {} needs it to say which layers run again", fields.place_of(other));
        Err(Error::field(fields.path_of(key), what))
    };
    let before = match (before, inner.as_ref().or(behind.as_ref())) {
        (Some(before), _) => before,
        (None, Some(other)) => return missing("n_input_layers", other),
        (None, None) => return Ok(None),
    };
    let total = own_layers as u64;
    let place = fields.place_of(&before);
    let inner = match (inner, &behind) {
        (Some(inner), Some(behind)) => {
            let all = [before.get(), inner.get(), behind.get()].into_iter().fold(0, u64::saturating_add);
            if all != total {
                let what = format!(
                    "{} input, {} repeated and {} output layers are not the {total} of the model",
                    before.get(),
                    inner.get(),
                    behind.get()
                );
                return Err(Error::field(place, what));
            }
            inner.get()
        }
        (Some(inner), None) => inner.get(),
        (None, Some(behind)) => {
            let ends = before.get().saturating_add(behind.get());
            if ends >= total {
                let what = format!(
                    "{} input and {} output layers leave none of {total} layers to run again",
                    before.get(),
                    behind.get()
                );
                return Err(Error::field(place, what));
            }
            total - ends
        }
        (None, None) => return missing("n_output_layers", &before),
    };
    let end = before.get().saturating_add(inner);
    match (usize::try_from(before.get()), usize::try_from(end)) {
        (Ok(first), Ok(end)) if end <= own_layers => Ok(Some(first..end)),
        _ => Err(Error::field(
            place,
            format!("{} input and {inner} repeated layers are more than {total}", before.get()),
        )),
    }
}

/// A count where 0 has a meaning of its own; a class's default counts where it is absent.
fn count_from_0(fields: &Fields<'_>, key: &str) -> Result<Option<Fact>> {
    match fields.number(key)? {
        Some(stated) => Ok(Some(stated)),
        None => fields.count(key),
    }
}

fn later_passes(fields: &Fields<'_>) -> Result<Later> {
    if let Some((path, true)) = fields.flag("loop_share_kv")? {
        return Ok(Later::Nothing(format!("{path} = true")));
    }
    if let Some((path, mode)) = fields.text("recurrent_kv_cache_mode")? {
        return match mode {
            "per_loop" => Ok(Later::Same),
            "last_loop" => Ok(Later::Nothing(format!("{path} = last_loop"))),
            other => Err(Error::field(path, format!("unknown mode {other:?}; known: per_loop, last_loop"))),
        };
    }
    Ok(fields.count("loop_window_size")?.map_or(Later::Same, Later::Window))
}

/// What a window of later passes means for layers without plain heads, no class says.
fn refuse_other_than_heads(fields: &Fields<'_>, window: &Fact, drafts: &[LayerDraft]) -> Result<()> {
    let is_windowed = |mixer: &Mixer| matches!(mixer, Mixer::Full(_) | Mixer::Sliding { .. });
    match drafts.iter().flat_map(|draft| draft.mixers.iter()).find(|mixer| !is_windowed(mixer)) {
        None => Ok(()),
        Some(other) => Err(Error::field(
            fields.place_of(window),
            format!(
                "{}, and what a window means for later passes of {} layers is not known; leave it out",
                window.get(),
                other.name()
            ),
        )),
    }
}

fn windowed(mixer: &Mixer, window: &Fact) -> Mixer {
    match mixer {
        Mixer::Full(heads) | Mixer::Sliding { heads, .. } => {
            Mixer::Sliding { heads: heads.clone(), window: window.clone() }
        }
        other => other.clone(),
    }
}
