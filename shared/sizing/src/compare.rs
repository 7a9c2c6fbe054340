//! Two versions side by side: what changed, component by component.

use serde::Serialize;

use crate::size::StateModel;
use crate::state::ComponentKind;
use crate::{Bytes, BytesPerToken, Result, Tokens, UnitSystem};

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
    /// The same by component kind, kinds that neither keeps left out. The rows add up to the totals.
    pub components: Vec<ComponentChange>,
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

/// Compares two versions at a context of `n` tokens.
///
/// # Errors
///
/// A figure beyond 64 bits.
pub fn compare(from: (&str, &StateModel), to: (&str, &StateModel), n: Tokens) -> Result<Comparison> {
    let both = [from.1, to.1];
    let mut components = Vec::new();
    for kind in ComponentKind::ALL {
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
        if change.layers != [0; 2] {
            components.push(change);
        }
    }
    let resident_bytes = [both[0].resident(n, 1)?, both[1].resident(n, 1)?];
    let slope_bytes_per_token = [both[0].slope(Some(n))?, both[1].slope(Some(n))?];
    let sentence = sentence([from.0, to.0], n, resident_bytes, slope_bytes_per_token);
    Ok(Comparison {
        from: from.0.to_owned(),
        to: to.0.to_owned(),
        context: n,
        resident_bytes,
        slope_bytes_per_token,
        fixed_bytes: [both[0].fixed(Some(n))?, both[1].fixed(Some(n))?],
        components,
        sentence,
    })
}

fn sentence(names: [&str; 2], n: Tokens, bytes: [Bytes; 2], slope: [BytesPerToken; 2]) -> String {
    let shown = bytes.map(|bytes| bytes.display(UnitSystem::Decimal));
    let change = match bytes.map(Bytes::get) {
        [a, b] if a == b => "the same".to_owned(),
        [0, _] | [_, 0] => "one of the two keeps nothing".to_owned(),
        [a, b] if a > b => format!("{} less", times(a as f64 / b as f64)),
        [a, b] => format!("{} more", times(b as f64 / a as f64)),
    };
    format!(
        "{} → {}: {} → {}; at {n} tokens {} → {}, {change}",
        names[0], names[1], slope[0], slope[1], shown[0], shown[1]
    )
}

/// `3.8 times`; a ratio that one decimal would hide is a percentage.
fn times(ratio: f64) -> String {
    if ratio < 1.05 { format!("{:.1} %", (ratio - 1.0) * 100.0) } else { format!("{ratio:.1} times") }
}
