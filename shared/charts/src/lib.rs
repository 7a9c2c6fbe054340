//! Every figure of kvscope: plain data → layout → [`Scene`] (a display list) → painters.
//!
//! The crate runs in WASM and natively, does no I/O and reads no clock; equal input gives an equal scene and a byte-equal
//! SVG. It takes finished numbers (exact [`Bytes`](kvscope_sizing::Bytes), seconds) and computes none of its own;
//! `figures::layer_strip` asks `sizing` for them.
//!
//! # From data to screen
//!
//! 1. [`palette::assign_colours`] gives models their colours from their families.
//! 2. [`figures::sample_contexts`] says at which contexts to compute; the caller computes exact values there.
//! 3. [`Growth::layout`], [`Latency::layout`], [`Residuals::layout`] or [`Layers::layout`] makes a figure. It holds the base
//!    [`Scene`] (`scene()`), which changes with data, size and scale only, a `table()` and, as the scene's description,
//!    one sentence for those who do not see it.
//! 4. On pointer moves `hit(point)` finds the nearest sample by binary search, and `overlay(&cursor)` makes a small
//!    scene with the cursor line, the dots and the values beside the names. Paint it on a second canvas.
//! 5. [`paint::drawing::paint`] paints a scene through any `plotters` backend, [`paint::svg::svg`] writes it as SVG.
//!    [`export`] writes a figure with all that was asked as picture, data and tables, [`versions`] makes those of versions; [`titled`] puts the finding
//!    ([`headline()`]) above its scene.
//!
//! ```
//! use kvscope_charts::figures::{Cursor, GrowthInput, GrowthScale, Provenance, Series, sample_contexts};
//! use kvscope_charts::palette::assign_colours;
//! use kvscope_charts::{Growth, Size, Theme, paint};
//! use kvscope_sizing::{ByteKind, Bytes, Tokens, UnitSystem};
//!
//! let domain = (Tokens::new(1024), Tokens::new(1 << 20));
//! let contexts = sample_contexts(domain, 400, &[Tokens::new(100_000)]);
//! let values = contexts.iter().map(|n| Bytes::new(n.get() * 70_272)).collect();
//! let series = [Series {
//!     id: "kimi-k2.6".into(),
//!     name: "Kimi-K2.6".into(),
//!     colour: assign_colours(&["Kimi"])[0],
//!     provenance: Provenance::Computed,
//!     values,
//!     ..Series::default()
//! }];
//! let growth = Growth::layout(&GrowthInput {
//!     contexts: &contexts,
//!     series: &series,
//!     domain,
//!     scale: GrowthScale::Log,
//!     units: UnitSystem::Decimal,
//!     bytes: ByteKind::Resident,
//!     size: Size::new(900.0, 420.0),
//!     measured: &[],
//!     limits: &[],
//!     ranks: None,
//! })?;
//! let cursor = growth.cursor_at(Tokens::new(100_000));
//! let figure = growth.scene().clone().with(growth.overlay(&cursor));
//! let file = paint::svg::svg(&figure, &Theme::light(), "");
//! assert!(file.contains("7.03 GB"));
//! # Ok::<(), kvscope_charts::FigureError>(())
//! ```
//!
//! # Looks
//!
//! Colours are roles ([`Ink`]) until a [`Theme`] resolves them. Provenance has a look that nothing else has: computed is
//! solid, reserved by an engine dashed, fitted dotted, measured a hollow ring with its interval. Text widths come from a
//! table of the embedded font ([`font`], [`text`]).

mod colour;
pub mod export;
pub mod figures;
pub mod font;
pub mod headline;
pub mod label;
pub mod paint;
pub mod palette;
pub mod runs;
pub mod scale;
pub mod scene;
pub mod text;
mod theme;
mod titled;
pub mod versions;

pub use colour::Colour;
pub use export::Export;
pub use figures::{FigureError, Growth, Latency, Layers, Residuals, Waterfall};
pub use headline::headline;
pub use scene::{Ink, Point, Rect, Scene, Size};
pub use theme::Theme;
pub use titled::{Heading, titled};
