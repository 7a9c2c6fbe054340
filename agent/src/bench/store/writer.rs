use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use kvscope_protocol::run::{Ended, Line, Machine};
use serde_json::Value;

use super::{Left, lock};
use crate::bench::BenchError;

/// The file of a run that is going on. It is locked, and the system lets go of it also after a kill: that tells a run that
/// goes on from one that was interrupted.
#[derive(Debug)]
pub(crate) struct RunWriter {
    open: Arc<Mutex<Open>>,
}

#[derive(Debug)]
struct Open {
    path: PathBuf,
    file: File,
    /// Bytes of whole lines.
    length: u64,
    /// Lines that are written where the process has to end before it writes newer ones of the same.
    kept: BTreeMap<(&'static str, u64), Line>,
    machine: Machine,
    has_end: bool,
    /// What the file may take, to test a full disk.
    #[cfg(test)]
    room: Option<u64>,
}

impl RunWriter {
    pub(super) fn new(run: &str, path: PathBuf, file: File, length: u64) -> Result<Self, BenchError> {
        match lock(&file) {
            Ok(true) => {
                let open = Open {
                    path,
                    file,
                    length,
                    kept: BTreeMap::new(),
                    machine: Machine::default(),
                    has_end: false,
                    #[cfg(test)]
                    room: None,
                };
                Ok(Self { open: Arc::new(Mutex::new(open)) })
            }
            Ok(false) => Err(BenchError::Running(run.to_owned())),
            Err(source) => Err(BenchError::Store { path, source }),
        }
    }

    /// Cuts off what is no whole line.
    pub(super) fn cut(&self) -> io::Result<()> {
        let open = self.open();
        open.file.set_len(open.length)
    }

    pub(super) fn handle(&self) -> Writing {
        Writing(Arc::downgrade(&self.open))
    }

    /// Appends one line; it is on the disk when this returns.
    pub(crate) fn append(&mut self, line: &Line) -> Result<(), BenchError> {
        self.append_all(std::slice::from_ref(line))
    }

    /// Appends lines in one piece. Where the disk takes only a part, the file stays as it was.
    pub(crate) fn append_all(&mut self, lines: &[Line]) -> Result<(), BenchError> {
        self.open().append_all(lines)
    }

    /// Says what the machine is where the file goes on and its header was written before.
    pub(crate) fn is_of(&self, machine: &Machine) {
        self.open().machine = machine.clone();
    }

    /// Keeps a case or a transfer as it is now; it is written if this process has to end before a newer one is.
    pub(crate) fn keep(&mut self, line: Line) {
        if let Some(key) = key(&line) {
            self.open().kept.insert(key, line);
        }
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(test)]
    pub(super) fn set_room(&self, room: Option<u64>) {
        self.open().room = room;
    }

    #[cfg(test)]
    pub(super) fn length(&self) -> u64 {
        self.open().length
    }
}

/// The run that a process writes, for whoever has to end it from another thread.
#[derive(Debug)]
pub(super) struct Writing(Weak<Mutex<Open>>);

impl Writing {
    pub(super) fn leave(&self) -> Left {
        let Some(open) = self.0.upgrade() else { return Left::Ended };
        let mut open = open.lock().unwrap_or_else(PoisonError::into_inner);
        if open.has_end {
            return Left::Ended;
        }
        let mut lines: Vec<Line> = std::mem::take(&mut open.kept).into_values().collect();
        let what = "cancelled in the middle of a step; what was measured before it is stored".to_owned();
        let machine = Box::new(open.machine.clone());
        lines.extend([Line::Note { what }, Line::End { ended: Ended::Cancelled, machine, spent: None }]);
        // A disk that takes no more leaves the run as interrupted, which it is.
        let _ = open.append_all(&lines);
        open.has_end = true;
        Left::Stored
    }
}

impl Open {
    fn append_all(&mut self, lines: &[Line]) -> Result<(), BenchError> {
        self.write(lines).map_err(|source| {
            // Half of a line would damage the next one.
            let _ = self.file.set_len(self.length);
            BenchError::Store { path: self.path.clone(), source }
        })
    }

    fn write(&mut self, lines: &[Line]) -> io::Result<()> {
        if self.has_end {
            return Err(io::Error::other("the run has ended"));
        }
        let mut text = Vec::new();
        for line in lines {
            serde_json::to_writer(&mut text, line)?;
            text.push(b'\n');
        }
        #[cfg(test)]
        if self.room.is_some_and(|room| self.length + text.len() as u64 > room) {
            self.file.write_all(&text[..text.len() / 2])?;
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.file.write_all(&text)?;
        self.file.sync_data()?;
        self.length += text.len() as u64;
        for line in lines {
            match line {
                Line::Header(header) => self.machine = header.machine.clone(),
                Line::End { .. } => self.has_end = true,
                line => drop(key(line).and_then(|key| self.kept.remove(&key))),
            }
        }
        Ok(())
    }
}

/// What a later line of the same replaces.
fn key(line: &Line) -> Option<(&'static str, u64)> {
    match line {
        Line::Case(case) => Some(("case", u64::from(case.case))),
        Line::Transfer(transfer) => Some(("transfer", transfer.get("transfer").and_then(Value::as_u64)?)),
        _ => None,
    }
}

/// Bytes up to the end of the last whole line.
pub(super) fn whole_lines(file: &mut File) -> io::Result<u64> {
    const PIECE: u64 = 64 << 10;
    let mut end = file.metadata()?.len();
    let mut piece = Vec::new();
    while end > 0 {
        let start = end.saturating_sub(PIECE);
        file.seek(SeekFrom::Start(start))?;
        piece.clear();
        (&mut *file).take(end - start).read_to_end(&mut piece)?;
        if let Some(place) = piece.iter().rposition(|byte| *byte == b'\n') {
            return Ok(start + place as u64 + 1);
        }
        end = start;
    }
    Ok(0)
}
