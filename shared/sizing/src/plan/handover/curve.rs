use super::{HandoverQuestion, Subject, Way};
use crate::{Result, Tokens};

/// Seconds of a prefill and of sending its state over length.
#[derive(Clone, Debug, PartialEq)]
pub struct HandoverCurve {
    /// The lengths.
    pub contexts: Vec<Tokens>,
    /// Of the prefill at each.
    pub prefill_seconds: Vec<f64>,
    /// Of each link by its name.
    pub links: Vec<(String, Vec<f64>)>,
}

/// The seconds of [`super::handover`] at every length of the question.
///
/// # Errors
///
/// As [`super::handover`].
pub fn handover_curve(subject: &Subject<'_>, question: &HandoverQuestion<'_>) -> Result<HandoverCurve> {
    let way = Way::of(subject, question)?;
    let names = question.links.iter().map(|link| (link.link.clone(), Vec::new()));
    let mut curve = HandoverCurve {
        contexts: question.contexts.to_vec(),
        prefill_seconds: Vec::with_capacity(question.contexts.len()),
        links: names.collect(),
    };
    for (place, n) in question.contexts.iter().enumerate() {
        curve.prefill_seconds.push(way.prefill.seconds(place, *n)?);
        let (blocks, payload) = (way.blocks.at(*n), way.state.transferred(*n, 1)?);
        for (link, (_, seconds)) in question.links.iter().zip(&mut curve.links) {
            seconds.push(link.seconds(blocks, payload)?);
        }
    }
    Ok(curve)
}
