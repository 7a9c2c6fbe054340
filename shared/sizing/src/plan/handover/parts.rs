//! What a payload consists of, and what ranks hold of it.

use super::{HandoverPart, HandoverQuestion, Subject};
use crate::describe::{RanksHold, TensorParallel, ranks};
use crate::{Bytes, Result, Tokens};

/// Components of equal kind and format, with what ranks hold of them.
pub(super) fn parts(
    subject: &Subject<'_>,
    question: &HandoverQuestion<'_>,
    n: Tokens,
) -> Result<Vec<HandoverPart>> {
    let formats = subject.architecture.formats(question.settings);
    let mut parts: Vec<HandoverPart> = Vec::new();
    for class in subject.architecture.classes().iter().filter(|class| class.borrows.is_none()) {
        let layers = class.layers.len() as u64;
        for mixer in &class.mixers {
            for component in mixer.components(&formats)? {
                let bytes = component.transfer_bytes(n)?.times(layers)?;
                let held = held_by(question.tp, &ranks(mixer, &component), bytes)?;
                let same =
                    |part: &&mut HandoverPart| (part.kind, part.format) == (component.kind, component.format);
                match parts.iter_mut().find(same) {
                    Some(part) => {
                        part.layers += layers;
                        part.bytes = part.bytes.plus(bytes)?;
                        part.held_by_ranks_bytes = part.held_by_ranks_bytes.plus(held)?;
                    }
                    None => parts.push(HandoverPart {
                        kind: component.kind,
                        format: component.format,
                        layers,
                        bytes,
                        held_by_ranks_bytes: held,
                    }),
                }
            }
        }
    }
    crate::sort_short(&mut parts, |a, b| a.kind > b.kind);
    Ok(parts)
}

/// What `tp` ranks hold together of `bytes`: all of it each, or a share each, with as many copies as ranks have to share a
/// head.
fn held_by(tp: u64, division: &TensorParallel, bytes: Bytes) -> Result<Bytes> {
    match (division.ranks_hold, division.parts) {
        (RanksHold::Same, _) => bytes.times(tp),
        (RanksHold::Shards, Some(parts)) if tp > parts => bytes.times(tp.div_ceil(parts.max(1))),
        (RanksHold::Shards, _) => Ok(bytes),
    }
}
