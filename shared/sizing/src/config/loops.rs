//! Layers that run several times with the same weights: which, how often, and what the later passes keep.

use super::fields::Fields;
use crate::architecture::{LayerDraft, Loops};
use crate::fact::Fact;
use crate::mixer::Mixer;
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
    let Some(loops) = read(fields, drafts.len())? else { return Ok(None) };
    let source = loops.passes.source().to_string();
    let all = loops.passes.get().saturating_mul(loops.range.len() as u64);
    if all > super::layers::MOST_LAYERS {
        let what = format!("{} passes of {} layers", loops.passes.get(), loops.range.len());
        return Err(Error::field(source, format!("{what} are more than {}", super::layers::MOST_LAYERS)));
    }
    let later = later_passes(fields)?;
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
    warnings.push(Warning::new(source, loops.words(&kept)));
    Ok(Some(loops))
}

fn read(fields: &Fields<'_>, own_layers: usize) -> Result<Option<Loops>> {
    let loop_config = fields.object("loop_config")?;
    let nested = |key: &str| loop_config.as_ref().map_or(Ok(None), |nested| nested.number(key));
    let stated = match nested("num_passes")? {
        Some(passes) => Some(passes),
        None => fields.count_any(&PASSES)?,
    };
    let Some(passes) = stated.or(stacks(fields)?) else { return Ok(None) };
    let range = match (nested("core_start")?, nested("core_end")?) {
        (Some(start), Some(end)) => Some((start, end)),
        _ => part(fields, own_layers)?,
    };
    let (start, end) = match range {
        Some((start, end)) => (index(&start, own_layers)?, index(&end, own_layers)?),
        None => (0, own_layers),
    };
    if start >= end {
        let what = format!("{} of {own_layers} layers run again", end.saturating_sub(start));
        return Err(Error::field(passes.source().to_string(), what));
    }
    let passes = middle_passes(fields, passes, own_layers, start..end)?;
    let loops = Loops { passes, range: start..end, own_layers };
    Ok(Some(loops).filter(|loops| loops.passes.get() > 1))
}

/// `HrmTextConfig` counts one stack's layers where it does not say so, and runs the lower stack `L_cycles` times and the
/// upper one once in each of `H_cycles`.
fn stacks(fields: &Fields<'_>) -> Result<Option<Fact>> {
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
    Ok(Some(Fact::derived(passes, format!("{} × ({} + 1)", upper.source(), lower.source()))))
}

/// The first layer that runs again and the one behind the last, where not all do.
fn part(fields: &Fields<'_>, own_layers: usize) -> Result<Option<(Fact, Fact)>> {
    if let (Some(start), Some(end)) =
        (fields.count("loop_layer_index_start")?, fields.count("loop_layer_index_end")?)
    {
        return Ok(Some((start, end)));
    }
    // Nanbeige's split: the middle half, or as many layers as are stated.
    if fields.flag("enable_double_loop_split")?.is_some_and(|(_, on)| on) {
        let total = own_layers as u64;
        let middle = fields.count("loop_middle_layers")?.map_or(total / 2, |fact| fact.get());
        let first = total.saturating_sub(middle) / 2;
        let rule = "the middle layers (enable_double_loop_split)";
        return Ok(Some((Fact::derived(first, rule), Fact::derived(first.saturating_add(middle), rule))));
    }
    let (Some(before), Some(behind)) =
        (count_from_0(fields, "n_input_layers")?, count_from_0(fields, "n_output_layers")?)
    else {
        return Ok(None);
    };
    let end = match fields.count("n_recurrent_layers")? {
        Some(inner) => Fact::derived(
            before.get().saturating_add(inner.get()),
            format!("{} + {}", before.source(), inner.source()),
        ),
        None => Fact::derived(
            (own_layers as u64).saturating_sub(behind.get()),
            format!("{own_layers} − {}", behind.source()),
        ),
    };
    Ok(Some((before, end)))
}

/// A count where 0 has a meaning of its own; a class's default counts where it is absent.
fn count_from_0(fields: &Fields<'_>, key: &str) -> Result<Option<Fact>> {
    match fields.number(key)? {
        Some(stated) => Ok(Some(stated)),
        None => fields.count(key),
    }
}

fn index(fact: &Fact, own_layers: usize) -> Result<usize> {
    usize::try_from(fact.get()).ok().filter(|index| *index <= own_layers).ok_or_else(|| {
        let what = format!("layer {} of {own_layers} layers", fact.get());
        Error::field(fact.source().to_string(), what)
    })
}

/// Nanbeige's split keeps the depth of two whole passes where nothing else is said.
fn middle_passes(
    fields: &Fields<'_>,
    passes: Fact,
    own_layers: usize,
    range: std::ops::Range<usize>,
) -> Result<Fact> {
    if !fields.flag("enable_double_loop_split")?.is_some_and(|(_, on)| on) {
        return Ok(passes);
    }
    if let Some(stated) = fields.count("loop_middle_repeats")? {
        return Ok(stated);
    }
    let middle = range.len();
    let rule = format!("({own_layers} + {middle}) / {middle} (enable_double_loop_split)");
    Ok(Fact::derived(((own_layers + middle) / middle.max(1)) as u64, rule))
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

fn windowed(mixer: &Mixer, window: &Fact) -> Mixer {
    match mixer {
        Mixer::Full(heads) | Mixer::Sliding { heads, .. } => {
            Mixer::Sliding { heads: heads.clone(), window: window.clone() }
        }
        other => other.clone(),
    }
}
