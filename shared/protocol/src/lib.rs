//! The types that agent and page exchange.

pub mod job;
pub mod run;
mod view;

pub use view::{
    AxisScale, ClaimsView, EngineSetting, FIRST_VISIT_CONTEXT, FIRST_VISIT_MODELS, LinkNotice, ListView,
    MOST_REQUESTS, ModelColumn, Moved, PlansView, Room, Standing, VersionsView, ViewState,
};
