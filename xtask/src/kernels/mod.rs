//! Images of every GPU kernel for every target, built without a GPU, and what each kernel takes of a chip.

mod nvrtc;

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use kvscope_kernels::{Compiled, Nvrtc, SOURCES, Source, TARGETS, Target, Usage, usages};

use crate::error::{Error, Result};
use crate::output;
use crate::workspace::Workspace;

/// How often everything is compiled.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Builds {
    /// What is not there yet.
    Missing,
    /// All of it twice, and both must have equal bytes.
    Two,
}

/// The images of a build.
#[derive(Debug)]
pub(crate) struct Kernels {
    folder: PathBuf,
    /// Of every target but PTX, which has no registers.
    usages: Vec<(Target, Vec<Usage>)>,
    bytes: u64,
}

/// The folder of images, which the agent's feature `embed-kernels` puts into the binary.
pub(crate) fn images(workspace: &Workspace) -> PathBuf {
    workspace.target().join("kernels")
}

/// Compiles every file for every target into the build folder, as many at once as there are cores.
pub(crate) fn build(workspace: &Workspace, builds: Builds) -> Result<Kernels> {
    let nvrtc = nvrtc::find_or_install(workspace)?;
    // Apart, since release builds carry the folder of images.
    let (folder, logs) = (images(workspace), workspace.own_folder().join("kernel-logs"));
    let jobs: Vec<(Target, &Source)> =
        TARGETS.into_iter().flat_map(|target| SOURCES.iter().map(move |source| (target, source))).collect();
    let done = in_parallel(&jobs, |(target, source)| {
        let place = Place::of([&folder, &logs], *target, source, &nvrtc);
        match builds {
            Builds::Missing => place.read().map_or_else(|| place.compile(&nvrtc), Ok),
            Builds::Two => {
                let (first, second) = (place.compile(&nvrtc)?, nvrtc.compile(source, *target)?);
                if first.image == second.image {
                    return Ok(first);
                }
                Err(Error::Unequal { kernels: source.name.to_owned(), target: target.name() })
            }
        }
    })?;
    let mut kernels = Kernels { folder, usages: Vec::new(), bytes: 0 };
    for ((target, source), compiled) in jobs.iter().zip(done) {
        kernels.bytes += compiled.image.len() as u64;
        if target.is_portable() {
            continue;
        }
        let found = usages(&compiled.log);
        if found.is_empty() {
            let (kernels, version) = (source.name.to_owned(), nvrtc.version());
            return Err(kvscope_kernels::Error::Log { kernels, target: target.name(), version }.into());
        }
        match kernels.usages.last_mut().filter(|(last, _)| last == target) {
            Some((_, usages)) => usages.extend(found),
            None => kernels.usages.push((*target, found)),
        }
    }
    Ok(kernels)
}

impl Kernels {
    /// A row a kernel: shared memory, then the registers for each target, with stack and spills where there are any.
    pub(crate) fn table(&self) -> String {
        let targets: Vec<&str> = self.usages.iter().map(|(target, _)| target.name()).collect();
        let mut text = format!("{:<36} {:>8} {}\n", "kernel", "shared B", columns(&targets));
        let Some((_, first)) = self.usages.first() else { return text };
        for (row, usage) in first.iter().enumerate() {
            let cells: Vec<String> = self.usages.iter().map(|(_, usages)| cell(&usages[row])).collect();
            let line = columns(&cells.iter().map(String::as_str).collect::<Vec<_>>());
            writeln!(text, "{:<36} {:>8} {line}", usage.kernel, usage.shared_bytes)
                .expect("writing to a string");
        }
        let megabytes = self.bytes as f64 / 1e6;
        let count = first.len();
        let folder = self.folder.display();
        let bytes = format!("{megabytes:.1} MB in {folder}");
        write!(text, "{count} kernels for {} targets and PTX: {bytes}", targets.len())
            .expect("writing to a string");
        text
    }

    /// Fails where registers go to memory.
    pub(crate) fn check_spills(&self) -> Result<()> {
        let spilled: Vec<String> = self
            .usages
            .iter()
            .flat_map(|(target, usages)| usages.iter().map(move |usage| (target, usage)))
            .filter(|(_, usage)| usage.spill_bytes() > 0)
            .map(|(target, usage)| {
                format!("{} on {}: {} B", usage.kernel, target.name(), usage.spill_bytes())
            })
            .collect();
        if spilled.is_empty() { Ok(()) } else { Err(Error::Spills { spilled: spilled.join(", ") }) }
    }
}

/// Where an image and its log are kept, named by everything that they depend on.
struct Place<'a> {
    source: &'a Source,
    target: Target,
    image: PathBuf,
    log: PathBuf,
}

impl<'a> Place<'a> {
    fn of([folder, logs]: [&Path; 2], target: Target, source: &'a Source, nvrtc: &Nvrtc) -> Self {
        let name = source.image_name(target, &nvrtc.version());
        let log = logs.join(target.name()).join(format!("{name}.log"));
        Self { source, target, image: folder.join(target.name()).join(name), log }
    }

    fn read(&self) -> Option<Compiled> {
        Some(Compiled { image: fs::read(&self.image).ok()?, log: fs::read_to_string(&self.log).ok()? })
    }

    fn compile(&self, nvrtc: &Nvrtc) -> Result<Compiled> {
        let compiled = nvrtc.compile(self.source, self.target)?;
        for file in [&self.image, &self.log] {
            let folder = file.parent().expect("each lies in its target's folder");
            fs::create_dir_all(folder).map_err(Error::file(folder))?;
            self.remove_older(folder);
        }
        fs::write(&self.log, &compiled.log).map_err(Error::file(&self.log))?;
        // Last, so that an image is never there without its log.
        fs::write(&self.image, &compiled.image).map_err(Error::file(&self.image))?;
        Ok(compiled)
    }

    /// Images of this file's earlier texts.
    fn remove_older(&self, folder: &Path) {
        let begin = format!("{}-", self.source.name);
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with(&begin) {
                let _ = fs::remove_file(entry.path());
            }
        }
    }
}

fn columns(cells: &[&str]) -> String {
    cells.iter().map(|cell| format!("{cell:>10}")).collect::<Vec<_>>().join(" ")
}

fn cell(usage: &Usage) -> String {
    if usage.stack_bytes == 0 && usage.spill_bytes() == 0 {
        return usage.registers.to_string();
    }
    format!("{}+{}/{}", usage.registers, usage.stack_bytes, usage.spill_bytes())
}

/// Does all jobs, in their order in the result, and says now and then how far it is.
fn in_parallel<T: Sync, R: Send>(jobs: &[T], work: impl Fn(&T) -> Result<R> + Sync) -> Result<Vec<R>> {
    let next = AtomicUsize::new(0);
    let results: Vec<Mutex<Option<Result<R>>>> = jobs.iter().map(|_| Mutex::new(None)).collect();
    let workers = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some(job) = jobs.get(number) else { break };
                    if number > 0 && number.is_multiple_of(SOURCES.len()) {
                        output::progress(&format!("{number} of {} images", jobs.len()));
                    }
                    *results[number].lock().expect("no worker panics while it holds a result") =
                        Some(work(job));
                }
            });
        }
    });
    let take = |result: Mutex<Option<Result<R>>>| {
        result.into_inner().expect("no worker panics while it holds a result").expect("every job is done")
    };
    results.into_iter().map(take).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(kernel: &str, spill: u32) -> Usage {
        Usage { kernel: kernel.to_owned(), registers: 90, spill_store_bytes: spill, ..Usage::default() }
    }

    #[test]
    fn a_spill_is_named_with_its_kernel_and_target() {
        let target: Target = "sm_90a".parse().unwrap();
        let kernels = |spill| Kernels {
            folder: PathBuf::from("kernels"),
            usages: vec![(target, vec![usage("combine", 0), usage("gqa", spill)])],
            bytes: 2_000_000,
        };
        assert!(kernels(0).check_spills().is_ok());
        let error = kernels(8).check_spills().unwrap_err().to_string();
        assert!(error.contains("gqa on sm_90a: 8 B") && !error.contains("combine"), "{error}");
        let table = kernels(8).table();
        assert!(
            table.contains("90+0/8") && table.contains("2 kernels for 1 targets and PTX: 2.0 MB"),
            "{table}"
        );
    }

    #[test]
    fn results_keep_the_order_of_their_jobs_and_an_error_is_not_lost() {
        let jobs: Vec<u32> = (0..40).collect();
        assert_eq!(in_parallel(&jobs, |job| Ok(job * 2)).unwrap()[39], 78);
        let failing = in_parallel(&jobs, |job| {
            if *job == 7 { Err(Error::Spills { spilled: "seven".to_owned() }) } else { Ok(()) }
        });
        assert!(failing.unwrap_err().to_string().contains("seven"));
    }
}
