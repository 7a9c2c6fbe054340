//! The change between two versions in ordered steps that add up exactly.

use serde::Serialize;
use serde::ser::SerializeStruct;

use super::cause::Cause;
use super::facts::{FactChange, mixers};
use super::morph::{intermediate, settings_before_format};
use crate::architecture::Architecture;
use crate::settings::Settings;
use crate::size::StateModel;
use crate::{Ratio, Result, Tokens};

/// What one cause adds or takes away when it is applied after those before it.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// The cause.
    pub cause: Cause,
    /// Earlier causes that could not be sized alone, such as a width that a block format does not divide, and are part
    /// of this step.
    pub with: Vec<Cause>,
    /// What changed, in a few words: `92 → 78 layers`.
    pub text: String,
    /// Change of the bytes that one more token adds at the context.
    pub slope: Ratio,
    /// Change of the bytes that do not grow at the context.
    pub fixed: Ratio,
    /// Change of the bytes of one request at the context.
    pub resident: Ratio,
}

/// Slope, fixed part and resident bytes of one architecture at one context.
#[derive(Clone, Copy, Debug)]
struct Figures([Ratio; 3]);

impl Figures {
    fn of(state: &StateModel, n: Tokens) -> Result<Self> {
        Ok(Self([state.slope(Some(n))?.into(), state.fixed(Some(n))?.into(), state.resident(n, 1)?.into()]))
    }

    fn since(self, before: Self) -> Result<Self> {
        let mut change = [Ratio::ZERO; 3];
        for (index, slot) in change.iter_mut().enumerate() {
            *slot = self.0[index].minus(before.0[index])?;
        }
        Ok(Self(change))
    }
}

/// The steps from one version to another at `n` tokens, those without any effect left out.
///
/// The last step ends at the second version itself, so the steps add up to the whole change exactly.
pub(super) fn attribute(
    [from, to]: [&Architecture; 2],
    [first, last]: [&StateModel; 2],
    settings: &Settings,
    n: Tokens,
    facts: &[FactChange],
) -> Result<Vec<Step>> {
    let before_format = settings_before_format(from, to, settings);
    let mut steps = Vec::new();
    let mut reached = Figures::of(first, n)?;
    let mut waiting = Vec::new();
    for cause in Cause::ALL {
        let next = if cause == Cause::Format {
            Ok(Figures::of(last, n)?)
        } else {
            let chosen = if cause < Cause::Mixer { settings } else { &before_format };
            StateModel::new(&intermediate(from, to, cause), chosen).and_then(|state| Figures::of(&state, n))
        };
        let Ok(next) = next else {
            waiting.push(cause);
            continue;
        };
        let change = next.since(reached)?;
        reached = next;
        if change.0.iter().all(|figure| *figure == Ratio::ZERO) {
            continue;
        }
        let [slope, fixed, resident] = change.0;
        let with = std::mem::take(&mut waiting);
        let text = with.iter().chain([&cause]).map(|cause| text(*cause, [from, to], facts));
        let text = text.collect::<Vec<_>>().join(" and ");
        steps.push(Step { cause, with, text, slope, fixed, resident });
    }
    Ok(steps)
}

/// A step in a few words.
fn text(cause: Cause, [from, to]: [&Architecture; 2], facts: &[FactChange]) -> String {
    // How many entries a query reads moves no bytes that are kept.
    let counts = |fact: &&FactChange| fact.cause == cause && fact.of != "model" && fact.fact != "top_k";
    let changed = facts.iter().filter(counts);
    let both = changed.filter_map(|fact| {
        let (before, after) = fact.from.as_ref().zip(fact.to.as_ref())?;
        Some(format!("{} {} → {}", words(fact.fact), before.text(), after.text()))
    });
    let mut both: Vec<String> = both.collect();
    both.dedup();
    match cause {
        Cause::Layers => format!("{} → {} layers", from.layer_count(), to.layer_count()),
        Cause::Mixer => {
            let (before, after) = (mixers(from), mixers(to));
            if before == after { "other layers do what".to_owned() } else { format!("{before} → {after}") }
        }
        Cause::Format => formats(facts),
        _ if both.is_empty() || both.len() > 3 => cause.label().to_owned(),
        _ => both.join(" and "),
    }
}

/// `bf16 → f16`, `DeepSeek-V4 records`, `state in f32`.
fn formats(facts: &[FactChange]) -> String {
    let changed = facts.iter().filter(|fact| fact.cause == Cause::Format).map(|fact| {
        let of = if fact.fact == "recurrent_dtype" { "state in " } else { "" };
        match (&fact.from, &fact.to) {
            (Some(before), Some(after)) => format!("{of}{} → {}", before.text(), after.text()),
            (None, Some(after)) => format!("{of}{}", after.text()),
            (Some(before), None) => format!("no more {of}{}", before.text()),
            (None, None) => String::new(),
        }
    });
    let words = changed.collect::<Vec<_>>().join(" and ");
    if words.is_empty() { Cause::Format.label().to_owned() } else { words }
}

fn words(fact: &str) -> String {
    match fact {
        "kv_heads" => "K/V heads".to_owned(),
        "k_width" => "K width".to_owned(),
        "v_width" => "V width".to_owned(),
        "ratio" => "tokens an entry".to_owned(),
        "layers_that_use_another" => "layers that use another's cache".to_owned(),
        _ => fact.replace('_', " "),
    }
}

/// Exact changes as reduced ratios beside the plain numbers, since a slope may be a fraction.
impl Serialize for Step {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        let mut json = serializer.serialize_struct("Step", 7)?;
        json.serialize_field("cause", &self.cause)?;
        json.serialize_field("with", &self.with)?;
        json.serialize_field("text", &self.text)?;
        json.serialize_field("slope_change", &self.slope)?;
        let whole = |figure: i128| Ratio::new(figure, 1).unwrap_or(Ratio::ZERO);
        let ratio = [whole(self.slope.numerator()), whole(self.slope.denominator())];
        json.serialize_field("slope_change_ratio", &ratio)?;
        json.serialize_field("fixed_change", &self.fixed)?;
        json.serialize_field("resident_change", &self.resident)?;
        json.end()
    }
}
