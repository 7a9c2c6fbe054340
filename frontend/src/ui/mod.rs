//! Controls, one a file: native elements with a label left and a value right.

mod choice;
mod context_control;
pub(crate) mod context_steps;
mod copy_link;
mod data_table;
pub(crate) mod export_menu;
mod figure_bar;
mod fold;
mod follow;
mod format_select;
mod model_picker;
mod own_config;
mod text_box;
mod units_choice;

pub(crate) use choice::Choice;
pub(crate) use context_control::ContextControl;
pub(crate) use copy_link::copy_link;
pub(crate) use data_table::DataTable;
pub(crate) use export_menu::{Holds, export_menu};
pub(crate) use figure_bar::figure_bar;
pub(crate) use fold::Fold;
pub(crate) use follow::follow;
pub(crate) use format_select::FormatSelect;
pub(crate) use model_picker::ModelPicker;
pub(crate) use own_config::{OwnConfig, open_file};
pub(crate) use text_box::TextBox;
pub(crate) use units_choice::units_choice;
