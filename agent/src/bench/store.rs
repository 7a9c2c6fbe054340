mod turn;
mod writer;

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kvscope_protocol::run::{Ended, Line, LineWarning, ReadRun, RunSummary, read_lines};

use super::BenchError;
pub use turn::Turn;
use turn::UNFINISHED;
pub(crate) use writer::RunWriter;
use writer::{Writing, whole_lines};

/// A file between its making and its locking is no older than this.
const NEW: Duration = Duration::from_secs(2);
/// Who looks whether a run goes on holds its lock for a moment; whoever wants to write tries again for so long.
const MOMENT: Duration = Duration::from_millis(100);

/// A folder of runs, one JSON-lines file each. Files are only appended to, line by line and synced, so a process that
/// is killed loses the line that it was writing.
#[derive(Clone, Debug)]
pub struct Store {
    folder: PathBuf,
    /// The run that this process writes, or wrote last.
    writing: Arc<Mutex<Option<Writing>>>,
    /// What each run's file may take, to test a full disk.
    #[cfg(test)]
    room: Option<u64>,
}

impl Store {
    /// Opens the folder, makes it where it is not there, and removes what a killed process left unfinished.
    pub fn open(folder: impl Into<PathBuf>) -> Result<Self, BenchError> {
        let folder = folder.into();
        fs::create_dir_all(&folder).map_err(|source| BenchError::Store { path: folder.clone(), source })?;
        sweep(&folder);
        Ok(Self {
            folder,
            writing: Arc::default(),
            #[cfg(test)]
            room: None,
        })
    }

    /// The same on a disk that takes so many bytes of each run.
    #[cfg(test)]
    pub(crate) fn with_room(self, room: u64) -> Self {
        Self { room: Some(room), ..self }
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
        let mut read =
            read_lines(&text).map_err(|warning| BenchError::NotARun { name: run.to_owned(), warning })?;
        if read.run.ended == Ended::Interrupted && self.is_running(run) {
            read.run.ended = Ended::Running;
            // The line that is being written at this moment is not damaged.
            let last = text.lines().count();
            read.warnings.retain(|warning| warning.line != last || text.ends_with('\n'));
        }
        Ok(read)
    }

    /// The stored text of one run, as `bench export` writes it.
    pub fn text(&self, run: &str) -> Result<String, BenchError> {
        let path = self.known(run)?;
        let bytes = fs::read(&path).map_err(|source| BenchError::Store { path, source })?;
        // A damaged line may hold any bytes; it is reported as damaged by the reader.
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Removes one run that does not go on.
    pub fn delete(&self, run: &str) -> Result<(), BenchError> {
        let path = self.known(run)?;
        if self.is_running(run) {
            return Err(BenchError::Running(run.to_owned()));
        }
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
        let unfinished = path.with_extension(format!("{}.{UNFINISHED}", std::process::id()));
        let written = File::create(&unfinished).and_then(|mut file| {
            // What is locked is not swept; without locks of the file system a slow import may be, and says so.
            let _ = file.lock();
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            // Unlike renaming, a second name never takes the place of a run that is there.
            fs::hard_link(&unfinished, &path)
        });
        let _ = fs::remove_file(&unfinished);
        match written {
            Ok(()) => Ok(run),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(BenchError::KnownRun(run)),
            Err(source) => Err(BenchError::Store { path, source }),
        }
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
            Ok(file) => {
                let writer = RunWriter::new(run, path, file, 0)?;
                #[cfg(test)]
                writer.set_room(self.room);
                Ok(self.writes(writer))
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                Err(BenchError::KnownRun(run.to_owned()))
            }
            Err(source) => Err(BenchError::Store { path, source }),
        }
    }

    /// Opens the file of a stored run that does not go on, to add to it. What a killed process had begun of a line is cut off.
    pub(crate) fn reopen(&self, run: &str) -> Result<RunWriter, BenchError> {
        let path = self.known(run)?;
        let opened = OpenOptions::new().read(true).append(true).open(&path).and_then(|mut file| {
            let whole = whole_lines(&mut file)?;
            Ok((file, whole))
        });
        match opened {
            Ok((file, whole)) => {
                let writer = RunWriter::new(run, path.clone(), file, whole)?;
                // Only now that no other process writes.
                writer.cut().map_err(|source| BenchError::Store { path, source })?;
                Ok(self.writes(writer))
            }
            Err(source) => Err(BenchError::Store { path, source }),
        }
    }

    fn writes(&self, writer: RunWriter) -> RunWriter {
        *self.writing.lock().unwrap_or_else(PoisonError::into_inner) = Some(writer.handle());
        writer
    }

    /// Ends the run that this process is writing, in the middle of whatever it does: what was measured is stored, and what
    /// is written to it after that is lost. For a process that ends at once.
    pub fn leave(&self) -> Left {
        let writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        match writing.as_ref() {
            None => Left::Nothing,
            Some(writing) => writing.leave(),
        }
    }

    /// Ends a run whose process was ended because someone asked it to stop; one that has its end stays as it is.
    pub(crate) fn close_cancelled(&self, run: &str) -> Result<(), BenchError> {
        let read = self.show(run)?.run;
        if read.ended != Ended::Interrupted {
            return Ok(());
        }
        let what = "cancelled in the middle of a step; the samples since the last stored figures are lost"
            .to_owned();
        let end = Line::End { ended: Ended::Cancelled, machine: Box::new(read.machine), spent: None };
        self.reopen(run)?.append_all(&[Line::Note { what }, end])
    }

    /// Whether a process adds to the run's file at this moment.
    fn is_running(&self, run: &str) -> bool {
        let file = File::open(self.path(run));
        file.is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
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

/// What became of the run that a process was writing when it had to end.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Left {
    /// None was begun.
    Nothing,
    /// What was measured is stored, and that it was cancelled.
    Stored,
    /// It had its end already.
    Ended,
}

/// Removes unfinished imports of processes that are gone: those hold no lock. One that cannot be removed now is tried again at
/// the next start. A calibration is of whoever has the machine: see [`Store::take_turn`].
fn sweep(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let is_import = path.extension().is_some_and(|extension| extension == UNFINISHED)
            && path.file_stem().is_some_and(|stem| Path::new(stem).extension().is_some());
        let age = entry.metadata().and_then(|data| data.modified()).map(|time| time.elapsed());
        if is_import
            && matches!(age, Ok(Ok(age)) if age > NEW)
            && File::open(&path).is_ok_and(|file| file.try_lock().is_ok())
        {
            let _ = fs::remove_file(path);
        }
    }
}

/// Locks a file, though someone may be looking at the same moment whether it is locked; false where another process has it.
fn lock(file: &File) -> io::Result<bool> {
    let begun = std::time::Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(true),
            Err(TryLockError::Error(error)) => return Err(error),
            Err(TryLockError::WouldBlock) if begun.elapsed() > MOMENT => return Ok(false),
            Err(TryLockError::WouldBlock) => std::thread::sleep(MOMENT / 20),
        }
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
            transfers_measured: run.transfers.iter().filter(|one| !one["measured"].is_null()).count(),
            transfers: run.transfers.len(),
            warnings,
        },
        Err(error) => RunSummary {
            run: name.to_owned(),
            started: None,
            backend: None,
            ended: None,
            cases: 0,
            measured: 0,
            transfers: 0,
            transfers_measured: 0,
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
            version: None,
            plan: PlanRecord {
                budget_seconds: 30.0,
                forms: vec!["gqa".to_owned()],
                seed: 1,
                ..PlanRecord::default()
            },
            machine: Machine::default(),
            calibration: None,
        }))
    }

    fn end() -> Line {
        Line::End { ended: Ended::Complete, machine: Box::default(), spent: None }
    }

    #[test]
    fn lines_are_there_as_soon_as_they_are_appended() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path().join("runs")).unwrap();
        let mut writer = store.create("20261129T150000Z-00ab").unwrap();
        writer.append(&header("20261129T150000Z-00ab")).unwrap();
        assert_eq!(store.list().unwrap()[0].ended, Some(Ended::Running));
        assert!(matches!(store.delete("20261129T150000Z-00ab"), Err(BenchError::Running(_))));
        writer.append(&end()).unwrap();
        assert_eq!(store.show("20261129T150000Z-00ab").unwrap().run.ended, Ended::Complete);
        assert!(matches!(store.create("20261129T150000Z-00ab"), Err(BenchError::KnownRun(_))));
        assert!(matches!(store.reopen("20261129T150000Z-00ab"), Err(BenchError::Running(_))));
    }

    #[test]
    fn what_a_kill_left_of_a_line_is_cut_off_and_the_run_goes_on() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        store.create("a-1").unwrap().append(&header("a-1")).unwrap();
        assert_eq!(store.list().unwrap()[0].ended, Some(Ended::Interrupted));
        let whole = store.text("a-1").unwrap();
        fs::write(folder.path().join("a-1.jsonl"), format!("{whole}{{\"line\":\"case\",\"ca")).unwrap();
        assert_eq!(store.show("a-1").unwrap().warnings[0].line, 2);
        store.reopen("a-1").unwrap().append(&end()).unwrap();
        let read = store.show("a-1").unwrap();
        assert_eq!((read.warnings.len(), read.run.ended), (0, Ended::Complete));
        assert!(store.text("a-1").unwrap().starts_with(&whole));
    }

    #[test]
    fn a_full_disk_leaves_whole_lines_and_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        let mut writer = store.create("a-1").unwrap();
        writer.append(&header("a-1")).unwrap();
        writer.set_room(Some(writer.length() + 10));
        let error = writer.append(&end()).unwrap_err().to_string();
        assert!(error.contains("a-1.jsonl: ") && error.contains("storage"), "{error}");
        writer.set_room(None);
        writer.append(&end()).unwrap();
        assert_eq!(store.show("a-1").unwrap().warnings, []);
    }

    #[test]
    fn what_an_import_left_unfinished_is_swept_and_one_that_goes_on_stays() {
        let folder = tempfile::tempdir().unwrap();
        let unfinished = ["a-1.7.part", "b-2.8.part", "c-3.9.part"].map(|name| folder.path().join(name));
        let [killed, goes_on, new] = unfinished.clone().map(|path| File::create(path).unwrap());
        for (file, age) in [(&killed, 2 * NEW), (&goes_on, 2 * NEW), (&new, Duration::ZERO)] {
            file.set_modified(std::time::SystemTime::now() - age).unwrap();
        }
        goes_on.lock().unwrap();
        Store::open(folder.path()).unwrap();
        assert_eq!(unfinished.map(|path| path.exists()), [false, true, true]);
    }

    /// The machine's steps end with what was measured: a process that is ended in the middle of one stores that much.
    #[test]
    fn a_process_that_has_to_end_at_once_stores_what_it_has() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        assert_eq!(store.leave(), Left::Nothing);
        let mut writer = store.create("a-1").unwrap();
        writer.append(&header("a-1")).unwrap();
        let transfer = |number: u32, status: &str| {
            Line::Transfer(Box::new(
                serde_json::json!({"transfer": number, "tier": "dram", "status": status}),
            ))
        };
        writer.append(&transfer(0, "ok")).unwrap();
        writer.keep(transfer(1, "partial: 1 samples"));
        writer.keep(transfer(1, "partial: 2 samples"));
        writer.keep(transfer(2, "partial: 5 samples"));
        writer.append(&transfer(2, "ok")).unwrap();
        assert_eq!(store.leave(), Left::Stored);
        assert!(writer.append(&end()).is_err(), "it has its end");
        let read = store.show("a-1").unwrap();
        assert_eq!((read.warnings.len(), read.run.ended), (0, Ended::Cancelled));
        let states: Vec<&str> =
            read.run.transfers.iter().map(|one| one["status"].as_str().unwrap()).collect();
        assert_eq!(states, ["ok", "ok", "partial: 2 samples"]);
        assert_eq!(store.leave(), Left::Ended);
        drop(writer);
        assert_eq!(store.leave(), Left::Ended);
        store.reopen("a-1").unwrap().append(&end()).unwrap();
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
