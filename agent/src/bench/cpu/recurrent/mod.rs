//! Recurrent forms: one decode step over a state of fixed size, which is read and written as a whole.
//!
//! A module a form says its formula, shapes, bytes and FLOPs: `gdn` and `kda` (over `delta`), `mamba1`, `mamba2`,
//! `lightning`, and `conv`, the short convolution alone or before the others. `form` is what all recurrences do, `reference`
//! the same in f64. `layer` says what a layer keeps, `state` holds it, `step` runs a layer on all workers: each owns
//! channels and heads, filled them first, and waits once between convolution and recurrence.
//! `kernel` makes all that of a shape, `case` is what a run measures and checks.

mod case;
mod conv;
mod delta;
mod element;
mod form;
mod gdn;
mod kda;
mod kernel;
mod layer;
mod lightning;
mod mamba1;
mod mamba2;
mod reference;
mod shared;
mod state;
mod step;

#[cfg(test)]
mod tests;

pub(super) use kernel::RecurrentKernel;
