//! What stands over the values beside names: at which context they are read, and which accounting they are of.

use super::{Form, ROW, Spec, TOP};
use crate::label;
use crate::scene::{Anchor, Dash, Group, Ink, Node, Point, Stroke, Text};
use crate::text::{self, size};

/// Gap between two columns of values.
pub(super) const GAP: f64 = 14.0;
/// Width of the head of reserved values: a sample of the line, and the word.
pub(super) const RESERVED_WIDTH: f64 = 68.0;
/// Height of one line of heads.
const LINE: f64 = 15.0;
/// Length of the sample of a line.
const SAMPLE: f64 = 14.0;

/// Where heads stand; nothing where there are no names.
#[derive(Clone, Debug, Default)]
pub(super) struct Heads {
    /// Which rank the values are of, before their context.
    rank: String,
    /// Where the context stands, and which part of the text.
    context: Option<(Point, Anchor)>,
    /// The right edge of reserved values.
    pub(super) reserved: Option<f64>,
}

/// Pixels over the plot: room for the heads where names stand beside it.
pub(super) fn top(spec: &Spec<'_>) -> f64 {
    let lines = match (spec.is_wide() && !spec.curves.is_empty(), spec.has_reserved()) {
        (false, _) => 0.0,
        (true, true) => 2.0,
        (true, false) => 1.0,
    };
    TOP + lines * LINE
}

/// Rows of the heads over a list under the figure.
pub(super) fn below_rows(form: &Form) -> f64 {
    if form.ranks > 1 { 2.0 } else { 1.0 }
}

impl Heads {
    /// Heads over the values beside line ends, whose first column ends at `right`, and what is painted of them.
    pub(super) fn beside(form: &Form, right: f64) -> (Self, Vec<Node>) {
        let bottom = form.plot.top - 8.0;
        let last = right + form.values_width - form.value_width;
        let rank = label::one_rank("", form.ranks);
        if !form.has_reserved() {
            return (
                Self { rank, context: Some((Point::new(right, bottom), Anchor::End)), reserved: None },
                Vec::new(),
            );
        }
        let nodes = columns(bottom, right, last);
        let context = Some((Point::new(last, bottom - LINE), Anchor::End));
        (Self { rank, context, reserved: Some(last) }, nodes)
    }

    /// Heads in the first rows of a list under the figure, from `top` down, whose values end at `right`.
    pub(super) fn below(form: &Form, top: f64, right: f64) -> (Self, Vec<Node>) {
        let baseline = top + below_rows(form) * ROW - 6.0;
        let context = Some((Point::new(0.0, baseline), Anchor::Start));
        let mut nodes = Vec::new();
        if form.ranks > 1 {
            let place = Point::new(0.0, baseline - ROW);
            nodes.push(Text::new(place, label::one_rank("", form.ranks), size::NOTE, Ink::Muted).into());
        }
        let mut heads = Self { context, ..Self::default() };
        if form.has_reserved() {
            heads.reserved = Some(right);
            nodes.extend(columns(baseline, right - form.values_width + form.value_width, right));
        }
        (heads, nodes)
    }

    /// Names the context of the values.
    pub(super) fn name(&self, context: &str, group: &mut Group) {
        if let Some((at, anchor)) = self.context {
            let lead = if self.rank.is_empty() { String::new() } else { format!("{}, ", self.rank) };
            let words = format!("{lead}at {context}");
            group.push(Text::new(at, words, size::NOTE, Ink::Muted).anchored(anchor));
        }
    }
}

/// The two words over two columns that end at `first` and `last`, the second behind a sample of its dashes.
fn columns(baseline: f64, first: f64, last: f64) -> Vec<Node> {
    let word = |right: f64, word: &str| {
        Text::new(Point::new(right, baseline), word, size::NOTE, Ink::Muted).anchored(Anchor::End)
    };
    let reserved = word(last, "reserved");
    let middle = baseline - text::cap_height(size::NOTE) / 2.0;
    let end = reserved.bounds().left - 4.0;
    let sample = Node::Line {
        from: Point::new(end - SAMPLE, middle),
        to: Point::new(end, middle),
        stroke: Stroke { ink: Ink::Muted, width: 1.5, dash: Dash::Reserved },
    };
    vec![word(first, "logical").into(), sample, reserved.into()]
}
