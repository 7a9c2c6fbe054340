use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, OFlags, fallocate, fstatfs, fstatvfs};

use super::memory::{Memory, PAGE};
use super::pool::{self, PositionPool};
use super::ring::{self, Ring};
use super::{Move, Tier, TierFolder, Way};
use crate::bench::Interrupt;

/// File systems that keep files in memory and take requests for direct I/O as if they were (Linux 6.6 and later).
const IN_MEMORY: [(i64, &str); 2] = [(0x0102_1994, "tmpfs"), (0x8584_58f6, "ramfs")];

/// What a file is read and written through.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Through {
    /// Direct I/O: the device and nothing else.
    Device,
    /// The page cache, which is memory: it says nothing of the device.
    PageCache,
}

/// A file that is removed when it is dropped.
#[derive(Debug)]
pub(crate) struct FileTier {
    path: PathBuf,
    file: File,
    by: By,
}

#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "one value a tier lives at a time")]
enum By {
    Ring(Ring),
    /// With the reason why it is no ring.
    Pool(PositionPool, String),
    OneThread,
}

impl FileTier {
    /// A file of `pages` pages in `folder`. An error where the disk is too small for it, and for [`Through::Device`] where
    /// the file system has no direct I/O.
    pub(crate) fn create(folder: &TierFolder, pages: usize, through: Through) -> io::Result<Self> {
        Self::create_with(folder, pages, through, Ring::new)
    }

    fn create_with(
        folder: &TierFolder,
        pages: usize,
        through: Through,
        ring: impl FnOnce() -> io::Result<Ring>,
    ) -> io::Result<Self> {
        let (name, flags) = match through {
            Through::Device => ("direct", OFlags::DIRECT),
            Through::PageCache => ("cached", OFlags::empty()),
        };
        let path = folder.path().join(name);
        let flags = i32::try_from(flags.bits()).map_err(io::Error::other)?;
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .custom_flags(flags)
            .open(&path)
            .map_err(|error| no_direct(through, error))?;
        // From here on the file is removed whatever happens.
        let mut tier = Self { path, file, by: By::OneThread };
        if through == Through::Device {
            tier.refuse_memory()?;
        }
        reserve(&tier.file, pages as u64 * PAGE as u64)?;
        if through == Through::Device {
            tier.by = tier.choose(ring)?;
        }
        Ok(tier)
    }

    fn refuse_memory(&self) -> io::Result<()> {
        #[allow(clippy::useless_conversion, reason = "the field is narrower on other systems")]
        let kind = i64::try_from(fstatfs(&self.file)?.f_type).unwrap_or(0);
        match IN_MEMORY.iter().find(|(number, _)| *number == kind) {
            Some((_, name)) => Err(io::Error::new(
                io::ErrorKind::Unsupported,
                format!("{name} keeps files in memory and has no direct I/O; choose a folder on a disk"),
            )),
            None => Ok(()),
        }
    }

    /// The ring where the system allows one and it works on this file, else the pool with the reason.
    fn choose(&self, ring: impl FnOnce() -> io::Result<Ring>) -> io::Result<By> {
        let mut page = Memory::random(1, 0)?;
        let mut probe = |ring: &mut Ring| {
            let memory = page.bytes_mut();
            let save = Move { memory, offset: 0, way: Way::Save };
            ring.transfer(&self.file, &mut [save], Interrupt::never())
        };
        match ring().and_then(|mut ring| probe(&mut ring).map(|()| ring)) {
            Ok(ring) => Ok(By::Ring(ring)),
            Err(error) => {
                let by = PositionPool::new()?;
                let memory = page.bytes_mut();
                let save = Move { memory, offset: 0, way: Way::Save };
                by.transfer(&self.file, &mut [save], Interrupt::never())
                    .map_err(|error| no_direct(Through::Device, error))?;
                Ok(By::Pool(by, error.to_string()))
            }
        }
    }
}

impl Tier for FileTier {
    fn method(&self) -> String {
        match &self.by {
            By::Ring(_) => format!("io_uring, {} requests under way", ring::DEPTH),
            By::Pool(_, why) => {
                format!("{} threads with pread and pwrite, since io_uring was refused: {why}", pool::DEPTH)
            }
            By::OneThread => {
                "one thread with pread and pwrite through the page cache, which is memory".to_owned()
            }
        }
    }

    fn transfer(&mut self, moves: &mut [Move<'_>], interrupt: Interrupt<'_>) -> io::Result<()> {
        match &mut self.by {
            By::Ring(ring) => ring.transfer(&self.file, moves, interrupt),
            By::Pool(pool, _) => pool.transfer(&self.file, moves, interrupt),
            By::OneThread => super::pieces(moves).try_for_each(|mut piece| {
                super::go_on(interrupt)?;
                pool::move_one(&self.file, &mut piece)
            }),
        }
    }
}

impl Drop for FileTier {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

fn no_direct(through: Through, error: io::Error) -> io::Error {
    match (through, error.kind()) {
        (Through::Device, io::ErrorKind::InvalidInput) => io::Error::new(
            io::ErrorKind::Unsupported,
            "the file system has no direct I/O; choose a folder on another one",
        ),
        _ => error,
    }
}

/// Bytes that an unprivileged process can still write at `path`.
pub(crate) fn free_bytes(path: &Path) -> io::Result<u64> {
    let system = fstatvfs(&File::open(path)?)?;
    Ok(system.f_bavail.saturating_mul(system.f_frsize))
}

/// Takes the room of the whole file now, so that a full disk is known before anything is measured.
fn reserve(file: &File, bytes: u64) -> io::Result<()> {
    match fallocate(file, FallocateFlags::empty(), 0, bytes) {
        Err(error) if error == rustix::io::Errno::OPNOTSUPP => file.set_len(bytes),
        reserved => reserved.map_err(io::Error::from),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::tiers::Expected;

    /// Saves 64 pages of random bytes in blocks of `block` pages and brings them back to other places.
    fn round_trip(tier: &mut dyn Tier, block: usize) {
        let mut memory = Memory::random(64, 3).unwrap();
        let mut expected = Expected::nothing(64);
        let count = 64 / block;
        for (way, shift) in [(Way::Save, 0), (Way::Restore, 5)] {
            let order: Vec<usize> = (0..count).map(|place| (place * 7 + shift) % count).collect();
            let mut moves: Vec<Move<'_>> = memory
                .blocks(block * PAGE, &order)
                .into_iter()
                .zip(0_u64..)
                .map(|(memory, place)| Move { memory, offset: place * (block * PAGE) as u64, way })
                .collect();
            assert_eq!(moves.len(), count);
            expected.before(&mut moves);
            tier.transfer(&mut moves, Interrupt::never()).unwrap();
            expected.check(&moves).unwrap();
        }
    }

    #[test]
    fn every_way_brings_back_what_was_saved_and_removes_its_file() {
        let home = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let folder = TierFolder::open(home.path()).unwrap();
        let forbidden = || Err(io::Error::from_raw_os_error(1));
        let mut names = Vec::new();
        for block in [1, 4] {
            let mut tier = FileTier::create(&folder, 64, Through::Device).unwrap();
            round_trip(&mut tier, block);
            drop(tier);
            let mut tier = FileTier::create_with(&folder, 64, Through::Device, forbidden).unwrap();
            round_trip(&mut tier, block);
            names.push(tier.method());
            drop(tier);
            round_trip(&mut FileTier::create(&folder, 64, Through::PageCache).unwrap(), block);
        }
        assert!(names[0].contains("since io_uring was refused: Operation not permitted"), "{}", names[0]);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "the lock alone is left");
    }

    #[test]
    fn files_in_memory_are_no_device_and_a_full_disk_is_known_at_once() {
        let Ok(home) = tempfile::tempdir_in("/dev/shm") else { return };
        let folder = TierFolder::open(home.path()).unwrap();
        let error = FileTier::create(&folder, 1, Through::Device).unwrap_err();
        assert!(error.to_string().starts_with("tmpfs keeps files in memory"), "{error}");
        // 4 EiB are more than any machine's memory.
        let error = FileTier::create(&folder, 1 << 50, Through::PageCache).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull, "{error}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "the lock alone is left");
    }

    /// By hand: a block of 2 MiB goes in four pieces, of which none is moved once someone has asked to stop.
    #[test]
    fn a_request_to_stop_is_seen_within_a_block() {
        let home = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let folder = TierFolder::open(home.path()).unwrap();
        let asked = std::sync::atomic::AtomicBool::new(true);
        let mut memory = Memory::random(512, 3).unwrap();
        let pool = || {
            let refused = || Err(io::Error::from_raw_os_error(1));
            FileTier::create_with(&folder, 512, Through::Device, refused)
        };
        let tiers: [&dyn Fn() -> io::Result<FileTier>; 3] =
            [&|| FileTier::create(&folder, 512, Through::Device), &pool, &|| {
                FileTier::create(&folder, 512, Through::PageCache)
            }];
        for open in tiers {
            let mut tier = open().unwrap();
            let save = Move { memory: memory.bytes_mut(), offset: 0, way: Way::Save };
            let stopped = tier.transfer(&mut [save], Interrupt { cancel: &asked });
            assert_eq!(stopped.unwrap_err().kind(), io::ErrorKind::Interrupted);
            // The first page is what the tier was tried with.
            let kept = std::fs::read(&tier.path).unwrap();
            assert!(kept[PAGE..].iter().all(|byte| *byte == 0), "{}", tier.method());
        }
    }

    #[test]
    fn a_disk_that_fills_up_in_the_middle_fails_the_transfer() {
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let mut memory = Memory::random(2, 1).unwrap();
        for by in [
            By::OneThread,
            By::Ring(Ring::new().unwrap()),
            By::Pool(PositionPool::new().unwrap(), String::new()),
        ] {
            let file = full.try_clone().unwrap();
            let mut tier = FileTier { path: PathBuf::from("/nowhere/to/remove"), file, by };
            let blocks = memory.blocks(PAGE, &[0, 1]);
            let mut moves: Vec<Move<'_>> =
                blocks.into_iter().map(|memory| Move { memory, offset: 0, way: Way::Save }).collect();
            assert_eq!(
                tier.transfer(&mut moves, Interrupt::never()).unwrap_err().kind(),
                io::ErrorKind::StorageFull
            );
        }
    }
}
