use clap::Args;

use crate::bench::Store;
use crate::failure::Failure;
use crate::home;
use crate::serve;

#[derive(Args, Debug)]
pub(super) struct Arguments {
    /// Port on 127.0.0.1; 0 takes a free one
    #[arg(long, default_value_t = 7788)]
    port: u16,
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let store = Store::open(home::runs()?).map_err(Failure::check)?;
    serve::run(arguments.port, store)
}
