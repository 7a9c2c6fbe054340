//! What a machine has for measuring on a GPU, found without asking more of it than to load a library.

mod driver;

pub(crate) use driver::{Device, Driver};
