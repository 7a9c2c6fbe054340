use std::fs::{self, File};
use std::io::{self, Read, Seek, Write};
use std::time::SystemTime;

use super::{Store, lock};
use crate::bench::BenchError;

/// What a file is called while it is written.
pub(super) const UNFINISHED: &str = "part";
/// The file that whoever measures holds locked; the system lets go of it also after a kill.
const TURN: &str = "measuring.lock";
/// Who holds it is told in fewer bytes.
const LONGEST_HOLDER: u64 = 500;

/// The right to measure on this machine, until it is dropped.
#[derive(Debug)]
pub struct Turn {
    _file: File,
}

impl Store {
    /// Takes the machine for `who` (`kvscope bench run`): two measurements at once would disturb each other. An error says
    /// who has it. What a killed process left unfinished of a calibration is removed.
    pub fn take_turn(&self, who: &str) -> Result<Turn, BenchError> {
        let path = self.folder.join(TURN);
        let failed = |source| BenchError::Store { path: path.clone(), source };
        let mut file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(failed)?;
        match lock(&file) {
            Ok(true) => {}
            Ok(false) => {
                let mut holder = String::new();
                // A holder that cannot be read holds it all the same.
                let _ = (&mut file).take(LONGEST_HOLDER).read_to_string(&mut holder);
                let holder = holder.lines().next().unwrap_or("another process").to_owned();
                return Err(BenchError::Busy(holder));
            }
            // A file system without locks keeps nobody apart, and is no reason to measure nothing.
            Err(error) if error.kind() == io::ErrorKind::Unsupported => {}
            Err(source) => return Err(failed(source)),
        }
        let since = humantime::format_rfc3339_seconds(SystemTime::now());
        let holder = format!("process {}, {who}, since {since}\n", std::process::id());
        // For people alone: a full disk changes nothing of who holds it.
        let _ = file.set_len(0).and_then(|()| file.rewind()).and_then(|()| file.write_all(holder.as_bytes()));
        for entry in fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let is_calibration = name.to_str().is_some_and(|name| {
                name.starts_with("calibration-") && name.ends_with(&format!(".{UNFINISHED}"))
            });
            if is_calibration {
                let _ = fs::remove_file(entry.path());
            }
        }
        Ok(Turn { _file: file })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_measures_at_a_time_and_the_other_is_told_who() {
        let folder = tempfile::tempdir().unwrap();
        let (one, other) = (Store::open(folder.path()).unwrap(), Store::open(folder.path()).unwrap());
        // What a kill leaves: the file without its lock, and half of a calibration.
        fs::write(folder.path().join(TURN), "process 1, kvscope bench run, since 2026-11-29T15:00:00Z\n")
            .unwrap();
        let half = folder.path().join("calibration-cpu.part");
        fs::write(&half, "{").unwrap();
        let turn = one.take_turn("kvscope bench run").unwrap();
        assert!(!half.exists());
        let said = other.take_turn("kvscope serve").unwrap_err().to_string();
        let words = format!("process {}, kvscope bench run, since 20", std::process::id());
        assert!(said.contains(&words) && said.contains("wait for its end, or stop it"), "{said}");
        assert!(one.list().unwrap().is_empty(), "it is no run");
        drop(turn);
        other.take_turn("kvscope serve").unwrap();
    }
}
