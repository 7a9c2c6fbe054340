//! Painters: from a [`Scene`](crate::Scene) to a screen or a file. They decide nothing; all layout is in the scene.

pub mod drawing;
pub mod svg;

/// Width of hatch lines in CSS pixels.
const HATCH_WIDTH: f64 = 1.2;
