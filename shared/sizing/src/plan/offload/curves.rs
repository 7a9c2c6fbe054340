use super::{CopyLayout, OffloadQuestion, computed_seconds, layout};
use crate::describe::describe;
use crate::{Result, Tokens};

/// Seconds of both ways over context.
#[derive(Clone, Debug, PartialEq)]
pub struct RestoreCurves {
    /// The lengths.
    pub contexts: Vec<Tokens>,
    /// Of computing the prompt again.
    pub recompute_seconds: Vec<f64>,
    /// Of restoring it, a tier and layout each; none where the model keeps nothing.
    pub restores: Vec<RestoreCurve>,
}

/// Seconds of restoring from one tier in one layout.
#[derive(Clone, Debug, PartialEq)]
pub struct RestoreCurve {
    /// The tier.
    pub tier: String,
    /// How the state lies there.
    pub layout: CopyLayout,
    /// At each length.
    pub seconds: Vec<f64>,
}

/// The seconds of [`super::offload`] at many lengths; a layout that takes as long as the one before it is left out.
///
/// # Errors
///
/// As [`super::offload`].
pub fn restore_curves(question: &OffloadQuestion<'_>, contexts: &[Tokens]) -> Result<RestoreCurves> {
    let described = describe(question.model, question.architecture, question.settings)?;
    let mut restores: Vec<RestoreCurve> = Vec::new();
    for tier in question.tiers {
        tier.check()?;
        let layouts = layout::Layouts::of(&described, tier.ranks)?;
        for layout in CopyLayout::ALL {
            let mut seconds = Vec::with_capacity(contexts.len());
            for n in contexts {
                let copies = layouts.at(*n, layout)?;
                if copies.pieces > 0 {
                    seconds.push(tier.seconds(copies));
                }
            }
            let known = restores.iter().any(|known| known.tier == tier.name && known.seconds == seconds);
            if !known && !seconds.is_empty() {
                restores.push(RestoreCurve { tier: tier.name.clone(), layout, seconds });
            }
        }
    }
    let computed = contexts.iter().map(|n| computed_seconds(question, n.get()));
    Ok(RestoreCurves {
        contexts: contexts.to_vec(),
        recompute_seconds: computed.collect::<Result<_>>()?,
        restores,
    })
}
