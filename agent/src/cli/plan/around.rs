use crate::bench::Store;
use crate::failure::Failure;
use crate::home;
use crate::input::Files;

/// What a plan may read beside its arguments.
#[derive(Clone, Debug)]
pub(crate) struct Around<'a> {
    /// Where files come from.
    pub(crate) files: Files<'a>,
    /// Stored runs; none where no folder of runs is there.
    pub(crate) runs: Option<Store>,
    /// Requests of a made trace are no more than this.
    pub(crate) most_made_requests: u64,
}

impl Around<'_> {
    /// What the command line may read.
    pub(in crate::cli) fn of_process() -> Result<Self, Failure> {
        let folder = home::runs()?;
        let runs = folder.is_dir().then(|| Store::open(folder).map_err(Failure::check)).transpose()?;
        Ok(Self { files: Files::OfSystem, runs, most_made_requests: 1 << 26 })
    }
}
