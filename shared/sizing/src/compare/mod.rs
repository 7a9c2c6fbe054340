//! Two versions side by side: what changed, component by component, and which cause moved how much.

mod attribution;
mod cause;
mod facts;
mod morph;

use serde::Serialize;

use crate::architecture::Architecture;
use crate::settings::Settings;
use crate::size::StateModel;
use crate::state::ComponentKind;
use crate::{Bytes, BytesPerToken, Ratio, Result, Tokens, UnitSystem};

pub use attribution::Step;
pub use cause::Cause;
pub use facts::{FactChange, Stated, Value as FactValue};

/// One of the two versions of a comparison.
#[derive(Clone, Copy, Debug)]
pub struct Version<'v> {
    /// Catalogue id or path.
    pub label: &'v str,
    /// The name in sentences.
    pub name: &'v str,
    /// Its layers.
    pub architecture: &'v Architecture,
}

/// The change from one version to another at one context.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// Label of the first version.
    pub from: String,
    /// Label of the second version.
    pub to: String,
    /// Tokens of the request.
    pub context: Tokens,
    /// Bytes of one request of each.
    pub resident_bytes: [Bytes; 2],
    /// Bytes that one more token adds, of each.
    pub slope_bytes_per_token: [BytesPerToken; 2],
    /// Bytes that do not grow at this context, of each.
    pub fixed_bytes: [Bytes; 2],
    /// Bytes of state that one decode step of one request reads, of each.
    pub read_bytes_per_step: [Bytes; 2],
    /// What is resident by component kind, kinds that neither keeps left out. The rows add up to the totals.
    pub components: Vec<ComponentChange>,
    /// The change by cause, in the order in which the causes are taken. The steps add up to the change of slope, fixed
    /// part and resident bytes exactly.
    pub steps: Vec<Step>,
    /// Facts that differ, with the config fields that state them.
    pub facts: Vec<FactChange>,
    /// The change in one sentence.
    pub sentence: String,
}

/// What one component kind was and became.
#[derive(Clone, Debug, Serialize)]
pub struct ComponentChange {
    /// The kind.
    pub kind: ComponentKind,
    /// Layers that keep it, of each version.
    pub layers: [u64; 2],
    /// Bytes of one request, of each version.
    pub bytes: [Bytes; 2],
    /// Bytes that one more token adds, of each version.
    pub slope_bytes_per_token: [BytesPerToken; 2],
}

/// Compares two versions at a context of `n` tokens, both under the same settings.
///
/// # Errors
///
/// A format that does not fit one of the two shapes, or a figure beyond 64 bits.
pub fn compare(from: Version<'_>, to: Version<'_>, settings: &Settings, n: Tokens) -> Result<Comparison> {
    let versions = [from, to];
    let both = [StateModel::new(from.architecture, settings)?, StateModel::new(to.architecture, settings)?];
    let mut components = Vec::new();
    for kind in ComponentKind::ALL {
        let change = component_change(kind, &both, n)?;
        if change.layers != [0; 2] {
            components.push(change);
        }
    }
    let architectures = versions.map(|version| version.architecture);
    let facts = facts::changes(from.architecture, to.architecture);
    let steps = attribution::attribute(architectures, [&both[0], &both[1]], settings, n, &facts)?;
    let resident_bytes = [both[0].resident(n, 1)?, both[1].resident(n, 1)?];
    let slope_bytes_per_token = [both[0].slope(Some(n))?, both[1].slope(Some(n))?];
    let mut comparison = Comparison {
        from: from.label.to_owned(),
        to: to.label.to_owned(),
        context: n,
        resident_bytes,
        slope_bytes_per_token,
        fixed_bytes: [both[0].fixed(Some(n))?, both[1].fixed(Some(n))?],
        read_bytes_per_step: [both[0].read_per_step(n, 1)?, both[1].read_per_step(n, 1)?],
        components,
        steps,
        facts,
        sentence: String::new(),
    };
    comparison.sentence = sentence(versions.map(|version| version.name), &comparison);
    Ok(comparison)
}

fn component_change(kind: ComponentKind, both: &[StateModel; 2], n: Tokens) -> Result<ComponentChange> {
    let mut change = ComponentChange {
        kind,
        layers: [0; 2],
        bytes: [Bytes::ZERO; 2],
        slope_bytes_per_token: [BytesPerToken::ZERO; 2],
    };
    for (side, state) in both.iter().enumerate() {
        for part in state.parts().iter().filter(|part| part.component.kind == kind) {
            let growth = &part.component.growth;
            change.layers[side] += part.layers;
            change.bytes[side] = change.bytes[side].plus(growth.bytes(n)?.times(part.layers)?)?;
            let slope = growth.slope(Some(n))?.times(part.layers)?;
            change.slope_bytes_per_token[side] = change.slope_bytes_per_token[side].plus(slope)?;
        }
    }
    Ok(change)
}

/// `GLM-4.5 → GLM-5.1: 376,832 → 100,152 B/token (92 → 78 layers −57,344, …); at 100,000 tokens 37.7 GB → 10.0 GB, …`
fn sentence(names: [&str; 2], comparison: &Comparison) -> String {
    let shown = comparison.resident_bytes.map(|bytes| bytes.display(UnitSystem::Decimal));
    let change = match comparison.resident_bytes.map(Bytes::get) {
        [a, b] if a == b => "the same".to_owned(),
        [0, _] | [_, 0] => "one of the two keeps nothing".to_owned(),
        [a, b] if a > b => format!("{} less", times(a as f64 / b as f64)),
        [a, b] => format!("{} more", times(b as f64 / a as f64)),
    };
    let [from, to] = comparison.slope_bytes_per_token.map(|slope| slope.to_string());
    let causes = causes(&comparison.steps);
    // Where a step reads all that is kept, its bytes say nothing new.
    let read = if comparison.read_bytes_per_step == comparison.resident_bytes {
        String::new()
    } else {
        let [from, to] = comparison.read_bytes_per_step.map(|bytes| bytes.display(UnitSystem::Decimal));
        format!("; a decode step reads {from} → {to}")
    };
    format!(
        "{} → {}: {} → {to}{causes}; at {} {} → {}, {change}{read}",
        names[0],
        names[1],
        from.trim_end_matches(" B/token"),
        comparison.context.counted(),
        shown[0],
        shown[1]
    )
}

/// The steps that move the slope; where none does, those that move the fixed part.
fn causes(steps: &[Step]) -> String {
    let list = |figure: &dyn Fn(&Step) -> Ratio| {
        let moved = steps.iter().filter(|step| figure(step) != Ratio::ZERO);
        moved.map(|step| format!("{} {}", step.text, figure(step))).collect::<Vec<_>>().join(", ")
    };
    let slope = list(&|step| step.slope);
    if !slope.is_empty() {
        return format!(" ({slope})");
    }
    let fixed = list(&|step| step.fixed);
    if fixed.is_empty() { String::new() } else { format!(" (fixed bytes: {fixed})") }
}

/// `3.8 times`; a ratio that one decimal would hide is a percentage.
fn times(ratio: f64) -> String {
    if ratio < 1.05 { format!("{:.1} %", (ratio - 1.0) * 100.0) } else { format!("{ratio:.1} times") }
}
