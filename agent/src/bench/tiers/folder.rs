use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

/// The file that a folder's process holds locked while it lives; the system lets go of it also after a kill.
const LOCK: &str = "lock";

/// This process's folder for the files of tiers. It is removed with all files when it is dropped; what a killed process
/// left is removed when the next one opens a folder at the same place.
#[derive(Debug)]
pub(crate) struct TierFolder {
    path: PathBuf,
    _lock: File,
}

impl TierFolder {
    /// Makes a folder below `home`, named by this process, after removing those whose process is gone.
    pub(crate) fn open(home: &Path) -> io::Result<Self> {
        fs::create_dir_all(home)?;
        // One process at a time removes and makes folders, so that none is removed between its making and its locking.
        let turn = File::create(home.join(LOCK))?;
        turn.lock()?;
        remove_stale(home)?;
        for number in 0_u32.. {
            let path = home.join(format!("{}-{number}", std::process::id()));
            match fs::create_dir(&path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                made => made?,
            }
            let lock = File::create(path.join(LOCK))?;
            lock.lock()?;
            return Ok(Self { path, _lock: lock });
        }
        Err(io::Error::other("too many folders of this process"))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for TierFolder {
    fn drop(&mut self) {
        // A folder that cannot be removed now is stale at the next start.
        let _ = fs::remove_dir_all(&self.path);
    }
}

fn remove_stale(home: &Path) -> io::Result<()> {
    for entry in fs::read_dir(home)? {
        let path = entry?.path();
        if !path.is_dir() {
            continue;
        }
        let is_held = match File::open(path.join(LOCK)) {
            Ok(lock) => matches!(lock.try_lock(), Err(TryLockError::WouldBlock)),
            Err(_) => false,
        };
        if !is_held {
            // What cannot be removed now is tried again at the next start.
            let _ = fs::remove_dir_all(&path);
        }
    }
    Ok(())
}

/// Removes the folders of this process below `home`, though they are in use: for a process that ends at once.
pub fn remove_own(home: &Path) {
    let own = format!("{}-", std::process::id());
    for entry in fs::read_dir(home).into_iter().flatten().flatten() {
        if entry.file_name().to_str().is_some_and(|name| name.starts_with(&own)) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_killed_process_left_is_removed_and_what_a_living_one_uses_stays() {
        let home = tempfile::tempdir().unwrap();
        let living = TierFolder::open(home.path()).unwrap();
        fs::write(living.path().join("state"), "in use").unwrap();
        // A kill leaves the files and lets go of the lock.
        let killed = home.path().join("4194304-0");
        fs::create_dir(&killed).unwrap();
        fs::write(killed.join(LOCK), "").unwrap();
        fs::write(killed.join("state"), "left").unwrap();
        // One that was killed before it made its lock.
        let unlocked = home.path().join("4194304-1");
        fs::create_dir(&unlocked).unwrap();

        let next = TierFolder::open(home.path()).unwrap();
        assert!(!killed.exists() && !unlocked.exists());
        assert!(living.path().join("state").exists());
        let path = next.path().to_owned();
        drop(next);
        assert!(!path.exists() && living.path().exists());
        let other = home.path().join("4194304-2");
        fs::create_dir(&other).unwrap();
        remove_own(home.path());
        assert!(!living.path().exists() && other.exists());
    }
}
