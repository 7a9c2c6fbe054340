//! Which programs are built of the shim and the kernels, and how.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::faults::{FAULTS, Watch};

/// Builds every program into cargo's output folder.
pub(crate) fn all() {
    let folder = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo names the folder for output"));
    let kernels = Path::new(&std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo names the crate's folder"))
        .join("../../agent/kernels");
    let texts = read_kernels(&kernels);
    let mut programs: Vec<Program> = [Watch::Nothing, Watch::Memory, Watch::Races]
        .map(|watch| Program { name: watch.program().to_owned(), watch, kernels: texts.clone() })
        .into();
    for fault in FAULTS {
        let (stem, text) =
            texts.iter().find(|(stem, _)| stem == fault.kernel).expect("a fault names a kernel's file");
        assert_eq!(
            text.matches(fault.text).count(),
            1,
            "{}: its text is to be found once in {stem}.cu",
            fault.name
        );
        let changed = text.replace(fault.text, fault.becomes);
        programs.push(Program {
            name: fault.name.to_owned(),
            watch: fault.watch,
            kernels: vec![(stem.clone(), changed)],
        });
    }
    let builder = Builder { folder, kernels };
    let jobs = programs.iter().flat_map(|program| builder.objects(program)).collect::<Vec<_>>();
    in_parallel(&jobs, |job| run(builder.compiler(job.watch).args(&job.arguments)));
    in_parallel(&programs, |program| builder.link(program));
    // Their names and their use are Linux's.
    if cfg!(target_os = "linux") {
        builder.link_libraries();
    }
    let sound = builder.folder.join(Watch::Nothing.program());
    let list = Command::new(sound).arg("--kernels").output().expect("the program was just built");
    fs::write(builder.folder.join("kernels"), list.stdout).expect("cargo's output folder can be written");
}

/// A runner of jobs.
struct Program {
    name: String,
    watch: Watch,
    /// Names and texts.
    kernels: Vec<(String, String)>,
}

impl Program {
    /// Whether it has the kernels as they are.
    fn is_sound(&self) -> bool {
        self.name == self.watch.program()
    }
}

/// One call of the compiler.
struct Object {
    watch: Watch,
    arguments: Vec<String>,
}

struct Builder {
    folder: PathBuf,
    kernels: PathBuf,
}

impl Builder {
    /// Everything of a program that is compiled by itself; a fault shares the shim of the program that watches the same.
    fn objects(&self, program: &Program) -> Vec<Object> {
        let mut objects = Vec::new();
        if program.is_sound() {
            for part in SHIM {
                let source = Path::new("shim").join(format!("{part}.cpp"));
                objects.push(object(
                    program.watch,
                    &source,
                    &self.shim_object(program.watch, part),
                    &["-O2", POSITION[0]],
                ));
            }
        }
        for (stem, text) in &program.kernels {
            let source = self.folder.join(format!("{}-{stem}.cpp", program.name));
            let wrapped = format!(
                "#include \"gpu.h\"\n#include \"common.cuh\"\nnamespace kernels_{stem} {{\n#line 1 \"{stem}.cu\"\n{text}\n}}\n"
            );
            fs::write(&source, wrapped).expect("cargo's output folder can be written");
            let mut flags = sanitizers(program.watch).to_vec();
            // A fault runs once over a small case.
            flags.push(if program.is_sound() { "-O1" } else { "-O0" });
            flags.extend(POSITION);
            objects.push(object(program.watch, &source, &source.with_extension("o"), &flags));
        }
        objects
    }

    fn shim_object(&self, watch: Watch, part: &str) -> PathBuf {
        self.folder.join(format!("shim-{}-{part}.o", watch.program()))
    }

    fn link(&self, program: &Program) {
        let mut command = self.compiler(program.watch);
        command.args(sanitizers(program.watch)).arg("-o").arg(self.folder.join(&program.name));
        command.args(SHIM.map(|part| self.shim_object(program.watch, part)));
        for (stem, _) in &program.kernels {
            command.arg(self.folder.join(format!("{}-{stem}.o", program.name)));
        }
        run(&mut command);
    }

    /// The libraries that stand for NVIDIA's: the driver runs the sound kernels.
    fn link_libraries(&self) {
        let folder = self.folder.join("nvidia");
        fs::create_dir_all(&folder).expect("cargo's output folder can be written");
        let library = |name: &str, sources: &[&str], objects: &[PathBuf]| {
            let mut command = self.compiler(Watch::Nothing);
            command.args(["-O1", "-shared", "-fvisibility=default", POSITION[0]]);
            command.arg(format!("-Wl,-soname,{name}")).arg("-o").arg(folder.join(name));
            run(command.args(sources).args(objects));
        };
        let mut objects = vec![self.shim_object(Watch::Nothing, "fibers")];
        let sound = Watch::Nothing.program();
        objects.extend(self.stems().iter().map(|stem| self.folder.join(format!("{sound}-{stem}.o"))));
        library("libcuda.so.1", &["shim/driver.cpp"], &objects);
        library("libnvrtc.so.13", &["shim/nvrtc.cpp"], &[]);
        library("libnvidia-ml.so.1", &["-xc", "-std=c11", "shim/nvml.c"], &[]);
    }

    fn stems(&self) -> Vec<String> {
        read_kernels(&self.kernels).into_iter().map(|(stem, _)| stem).collect()
    }

    /// Line tables, so that a report names lines. The shim itself is never watched: it is what watches.
    fn compiler(&self, watch: Watch) -> Command {
        let mut command = Command::new(std::env::var_os("CXX").unwrap_or_else(|| "c++".into()));
        command.args([
            "-std=c++17",
            "-fno-strict-aliasing",
            "-Wall",
            "-Wextra",
            "-Wno-unknown-pragmas",
            "-g1",
            "-Ishim",
        ]);
        command.arg(format!("-I{}", self.kernels.display()));
        if watch == Watch::Races {
            command.arg("-DEMULATION_RACES");
        }
        command
    }
}

fn object(watch: Watch, source: &Path, object: &Path, flags: &[&str]) -> Object {
    let mut arguments: Vec<String> = ["-c", "-o"].map(str::to_owned).into();
    arguments.extend([object, source].map(|path| path.to_string_lossy().into_owned()));
    arguments.extend(flags.iter().map(|flag| (*flag).to_owned()));
    Object { watch, arguments }
}

/// What the compiler is asked to watch; only a kernel's own text is.
fn sanitizers(watch: Watch) -> &'static [&'static str] {
    match watch {
        Watch::Nothing => &[],
        Watch::Memory => &["-fsanitize=address,undefined", "-fno-sanitize-recover=all"],
        Watch::Races => &["-fsanitize=thread"],
    }
}

/// For libraries and programs alike.
const POSITION: [&str; 1] = ["-fPIC"];

/// Parts of the shim.
const SHIM: [&str; 2] = ["fibers", "runner"];

fn read_kernels(folder: &Path) -> Vec<(String, String)> {
    let mut texts: Vec<(String, String)> = fs::read_dir(folder)
        .expect("the agent's kernels are beside the tests")
        .filter_map(|entry| {
            let path = entry.expect("a folder can be listed").path();
            let stem = path.file_stem()?.to_str()?.to_owned();
            (path.extension()? == "cu").then(|| (stem, fs::read_to_string(&path).expect("a kernel is text")))
        })
        .collect();
    texts.sort();
    texts
}

fn run(command: &mut Command) {
    let status = command.status().unwrap_or_else(|error| {
        panic!(
            "{}: {error}; install g++ or clang++, or name a C++ compiler in CXX",
            command.get_program().display()
        )
    });
    assert!(status.success(), "{command:?} failed ({status})");
}

fn in_parallel<T: Sync>(items: &[T], work: impl Fn(&T) + Sync) {
    let next = AtomicUsize::new(0);
    let workers = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
                    work(item);
                }
            });
        }
    });
}
