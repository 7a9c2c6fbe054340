use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use kvscope_protocol::run::{Line, LineWarning, ReadRun, RunSummary, read_lines};

use super::BenchError;

/// A folder of runs, one JSON-lines file each. Files are only appended to, line by line and synced, so a process that
/// is killed loses the line that it was writing.
#[derive(Clone, Debug)]
pub struct Store {
    folder: PathBuf,
}

impl Store {
    /// Opens the folder and makes it where it is not there.
    pub fn open(folder: impl Into<PathBuf>) -> Result<Self, BenchError> {
        let folder = folder.into();
        fs::create_dir_all(&folder).map_err(|source| BenchError::Store { path: folder.clone(), source })?;
        Ok(Self { folder })
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// All runs, the newest first.
    pub fn list(&self) -> Result<Vec<RunSummary>, BenchError> {
        let failed = |source| BenchError::Store { path: self.folder.clone(), source };
        let mut runs = Vec::new();
        for entry in fs::read_dir(&self.folder).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            let name = path.file_stem().and_then(|stem| stem.to_str());
            let Some(name) = name.filter(|name| is_run_name(name)) else { continue };
            if path.extension().is_none_or(|extension| extension != "jsonl") {
                continue;
            }
            runs.push(summarise(name, self.show(name)));
        }
        runs.sort_by(|a, b| b.run.cmp(&a.run));
        Ok(runs)
    }

    /// One run, with what could not be read of it.
    pub fn show(&self, run: &str) -> Result<ReadRun, BenchError> {
        let text = self.text(run)?;
        read_lines(&text).map_err(|warning| BenchError::NotARun { name: run.to_owned(), warning })
    }

    /// The stored text of one run, as `bench export` writes it.
    pub fn text(&self, run: &str) -> Result<String, BenchError> {
        let path = self.known(run)?;
        let bytes = fs::read(&path).map_err(|source| BenchError::Store { path, source })?;
        // A damaged line may hold any bytes; it is reported as damaged by the reader.
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Removes one run.
    pub fn delete(&self, run: &str) -> Result<(), BenchError> {
        let path = self.known(run)?;
        fs::remove_file(&path).map_err(|source| BenchError::Store { path, source })
    }

    /// Takes in a run from another machine; returns its name. Damaged lines are kept as they are.
    pub fn import(&self, name: &str, text: &str) -> Result<String, BenchError> {
        let not_a_run = |warning| BenchError::NotARun { name: name.to_owned(), warning };
        let run = read_lines(text).map_err(not_a_run)?.run.run;
        if !is_run_name(&run) {
            let what = format!("the run's name {run:?} is not letters, digits and hyphens");
            return Err(not_a_run(LineWarning { line: 1, what }));
        }
        let path = self.path(&run);
        if path.exists() {
            return Err(BenchError::KnownRun(run));
        }
        let unfinished = path.with_extension("part");
        let written = File::create(&unfinished).and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            fs::rename(&unfinished, &path)
        });
        if let Err(source) = written {
            let _ = fs::remove_file(&unfinished);
            return Err(BenchError::Store { path, source });
        }
        Ok(run)
    }

    /// Starts the file of a new run.
    pub(crate) fn create(&self, run: &str) -> Result<RunWriter, BenchError> {
        let path = self.path(run);
        let file = OpenOptions::new()
            .append(true)
            .create_new(true)
            .open(&path)
            .and_then(|file| sync_folder(&self.folder).map(|()| file));
        match file {
            Ok(file) => Ok(RunWriter { path, file }),
            Err(source) => Err(BenchError::Store { path, source }),
        }
    }

    /// Where the calibration of a backend is kept; the list of runs passes over it.
    pub(crate) fn calibration_path(&self, backend: &str) -> PathBuf {
        self.folder.join(format!("calibration-{backend}.json"))
    }

    fn path(&self, run: &str) -> PathBuf {
        self.folder.join(format!("{run}.jsonl"))
    }

    fn known(&self, run: &str) -> Result<PathBuf, BenchError> {
        let path = self.path(run);
        if is_run_name(run) && path.is_file() {
            Ok(path)
        } else {
            Err(BenchError::UnknownRun(run.to_owned()))
        }
    }
}

/// The file of a run that is going on.
#[derive(Debug)]
pub(crate) struct RunWriter {
    path: PathBuf,
    file: File,
}

impl RunWriter {
    /// Appends one line; it is on the disk when this returns.
    pub(crate) fn append(&mut self, line: &Line) -> Result<(), BenchError> {
        let write = || -> io::Result<()> {
            let mut text = serde_json::to_vec(line)?;
            text.push(b'\n');
            self.file.write_all(&text)?;
            self.file.sync_data()
        };
        let mut write = write;
        write().map_err(|source| BenchError::Store { path: self.path.clone(), source })
    }
}

/// Whether a name can be a file's name everywhere and leads out of no folder.
fn is_run_name(name: &str) -> bool {
    (1..=64).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

/// Makes a new file's name survive a loss of power, where the system lets a folder be synced.
fn sync_folder(folder: &Path) -> io::Result<()> {
    if cfg!(unix) { File::open(folder)?.sync_all() } else { Ok(()) }
}

fn summarise(name: &str, read: Result<ReadRun, BenchError>) -> RunSummary {
    match read {
        Ok(ReadRun { run, warnings }) => RunSummary {
            run: name.to_owned(),
            started: Some(run.started),
            backend: Some(run.backend),
            ended: Some(run.ended),
            measured: run.cases.iter().filter(|case| case.measured.is_some()).count(),
            cases: run.cases.len(),
            warnings,
        },
        Err(error) => RunSummary {
            run: name.to_owned(),
            started: None,
            backend: None,
            ended: None,
            cases: 0,
            measured: 0,
            warnings: vec![match error {
                BenchError::NotARun { warning, .. } => warning,
                other => LineWarning { line: 1, what: other.to_string() },
            }],
        },
    }
}

#[cfg(test)]
mod tests {
    use kvscope_protocol::run::{Ended, Header, Machine, PlanRecord, RUN_SCHEMA};

    use super::*;

    fn header(run: &str) -> Line {
        Line::Header(Box::new(Header {
            run: run.to_owned(),
            schema: RUN_SCHEMA,
            backend: "cpu".to_owned(),
            started: "2026-11-29T15:00:00Z".to_owned(),
            plan: PlanRecord {
                budget_seconds: 30.0,
                forms: vec!["gqa".to_owned()],
                seed: 1,
                fit_half: Vec::new(),
            },
            machine: Machine::default(),
            calibration: None,
        }))
    }

    fn end() -> Line {
        Line::End { ended: Ended::Complete, machine: Box::default() }
    }

    #[test]
    fn lines_are_there_as_soon_as_they_are_appended() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path().join("runs")).unwrap();
        let mut writer = store.create("20261129T150000Z-00ab").unwrap();
        writer.append(&header("20261129T150000Z-00ab")).unwrap();
        assert_eq!(store.list().unwrap()[0].ended, Some(Ended::Interrupted));
        writer.append(&end()).unwrap();
        assert_eq!(store.show("20261129T150000Z-00ab").unwrap().run.ended, Ended::Complete);
        assert!(matches!(store.create("20261129T150000Z-00ab"), Err(BenchError::Store { .. })));
    }

    #[test]
    fn a_run_goes_to_another_store_and_is_deleted() {
        let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (here, there) = (Store::open(here.path()).unwrap(), Store::open(there.path()).unwrap());
        here.create("a-1").unwrap().append(&header("a-1")).unwrap();
        let text = here.text("a-1").unwrap();
        assert_eq!(there.import("a-1.jsonl", &text).unwrap(), "a-1");
        assert!(matches!(there.import("a-1.jsonl", &text), Err(BenchError::KnownRun(_))));
        assert_eq!(there.text("a-1").unwrap(), text);
        there.delete("a-1").unwrap();
        assert!(there.list().unwrap().is_empty());
        assert!(matches!(there.delete("a-1"), Err(BenchError::UnknownRun(_))));
    }

    #[test]
    fn damage_is_named_and_the_rest_listed() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        store.create("a-1").unwrap().append(&header("a-1")).unwrap();
        let path = folder.path().join("a-1.jsonl");
        let mut bytes = fs::read(&path).unwrap();
        bytes.extend_from_slice(&[0xFF, 0x00, b'{']);
        fs::write(&path, bytes).unwrap();
        fs::write(folder.path().join("b-2.jsonl"), "nothing").unwrap();
        fs::write(folder.path().join("notes.txt"), "nothing").unwrap();
        let list = store.list().unwrap();
        assert_eq!(list.len(), 2);
        assert_eq!((list[0].run.as_str(), list[0].started.as_ref()), ("b-2", None));
        assert_eq!(list[1].warnings[0].line, 2);
    }

    #[test]
    fn names_lead_out_of_no_folder() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        for name in ["../a", "", "a/b", "a.b", "con\0"] {
            assert!(matches!(store.show(name), Err(BenchError::UnknownRun(_))), "{name:?}");
        }
        let text = serde_json::to_string(&header("../../evil")).unwrap();
        assert!(matches!(store.import("x", &text), Err(BenchError::NotARun { .. })));
    }
}
