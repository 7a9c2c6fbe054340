//! A remote tier: another kvscope process that keeps blocks, over loopback TCP.
//!
//! A request is an operation (1 save, 2 restore), the first byte and the length, as little-endian 64-bit numbers; a save is
//! followed by its bytes and answered by one byte, a restore is answered by its bytes. Saves and restores have a connection
//! each, so that both directions can be busy at once.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use super::{LARGEST_PIECE, Move, Tier, Way};
use crate::bench::Interrupt;

const SAVE: u64 = 1;
const RESTORE: u64 = 2;
/// What the peer keeps is locked in pieces, so that both connections can move at once.
const PIECE: usize = 1 << 20;
/// Restores that are asked for before the first has come.
const AHEAD: usize = 32;

/// A peer, and the process that it is where this one started it.
#[derive(Debug)]
pub(crate) struct Peer {
    saves: TcpStream,
    restores: TcpStream,
    process: Option<Child>,
}

impl Peer {
    /// Starts this program again as a peer that keeps `bytes` bytes. It ends when this process ends.
    pub(crate) fn start(bytes: usize) -> io::Result<Self> {
        let mut process = Command::new(std::env::current_exe()?)
            .args(["bench", "peer", "--bytes", &bytes.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let port = process.stdout.take().map_or(Ok(String::new()), |stdout| {
            let mut line = String::new();
            BufReader::new(stdout).read_line(&mut line).map(|_| line)
        });
        let connected = port.and_then(|line| {
            let port = line.trim().parse().map_err(|_| io::Error::other("the peer did not start"))?;
            Self::connect(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))
        });
        match connected {
            Ok(mut peer) => {
                peer.process = Some(process);
                Ok(peer)
            }
            Err(error) => {
                let _ = process.kill();
                let _ = process.wait();
                Err(error)
            }
        }
    }

    fn connect(address: SocketAddr) -> io::Result<Self> {
        let open = || {
            let stream = TcpStream::connect(address)?;
            stream.set_nodelay(true)?;
            io::Result::Ok(stream)
        };
        Ok(Self { saves: open()?, restores: open()?, process: None })
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        if let Some(process) = &mut self.process {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

impl Tier for Peer {
    fn method(&self) -> String {
        "loopback TCP to a process of this program, a connection each way".to_owned()
    }

    fn transfer(&mut self, moves: &mut [Move<'_>], interrupt: Interrupt<'_>) -> io::Result<()> {
        let (mut saves, mut restores): (Vec<_>, Vec<_>) =
            moves.iter_mut().partition(|one| one.way == Way::Save);
        let (save_to, restore_from) = (&mut self.saves, &mut self.restores);
        let done = match (saves.is_empty(), restores.is_empty()) {
            (_, true) => save(save_to, &mut saves, interrupt),
            (true, false) => restore(restore_from, &mut restores, interrupt),
            (false, false) => thread::scope(|scope| {
                let saving = scope.spawn(|| save(save_to, &mut saves, interrupt));
                let restored = restore(restore_from, &mut restores, interrupt);
                saving
                    .join()
                    .unwrap_or_else(|_| Err(io::Error::other("the saving thread stopped")))
                    .and(restored)
            }),
        };
        done.map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof | io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => {
                io::Error::new(error.kind(), "the peer closed the connection")
            }
            _ => error,
        })
    }
}

fn ask(stream: &mut TcpStream, operation: u64, one: &Move<'_>) -> io::Result<()> {
    let mut request = [0; 24];
    for (place, number) in [operation, one.offset, one.memory.len() as u64].into_iter().enumerate() {
        request[place * 8..][..8].copy_from_slice(&number.to_le_bytes());
    }
    stream.write_all(&request)
}

fn save(stream: &mut TcpStream, moves: &mut [&mut Move<'_>], interrupt: Interrupt<'_>) -> io::Result<()> {
    for one in moves.iter() {
        ask(stream, SAVE, one)?;
        for piece in one.memory.chunks(LARGEST_PIECE) {
            super::go_on(interrupt)?;
            stream.write_all(piece)?;
        }
    }
    // One byte for each block that is in its place; they are few enough to wait in the connection.
    stream.read_exact(&mut vec![0; moves.len()])
}

fn restore(stream: &mut TcpStream, moves: &mut [&mut Move<'_>], interrupt: Interrupt<'_>) -> io::Result<()> {
    for one in moves.iter().take(AHEAD) {
        ask(stream, RESTORE, one)?;
    }
    for index in 0..moves.len() {
        for piece in moves[index].memory.chunks_mut(LARGEST_PIECE) {
            super::go_on(interrupt)?;
            stream.read_exact(piece)?;
        }
        if let Some(next) = moves.get(index + AHEAD) {
            ask(stream, RESTORE, next)?;
        }
    }
    Ok(())
}

/// Keeps `bytes` bytes for whoever connects to the loopback port that `announce` gets, until `until` ends: a peer that was
/// started through a pipe so ends with the process that started it.
pub fn serve(bytes: usize, announce: impl FnOnce(u16), mut until: impl Read) -> io::Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    announce(listener.local_addr()?.port());
    let pieces: Vec<Mutex<Vec<u8>>> =
        (0..bytes.div_ceil(PIECE)).map(|_| Mutex::new(vec![0; PIECE])).collect();
    let pieces = Arc::new(pieces);
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let pieces = Arc::clone(&pieces);
            // A connection that breaks is told to the other end by its closing.
            thread::spawn(move || answer(stream, &pieces));
        }
    });
    let mut rest = [0; 64];
    while until.read(&mut rest)? > 0 {}
    Ok(())
}

fn answer(mut stream: TcpStream, pieces: &[Mutex<Vec<u8>>]) -> io::Result<()> {
    stream.set_nodelay(true)?;
    loop {
        let mut request = [0; 24];
        stream.read_exact(&mut request)?;
        let number = |place: usize| {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(&request[place * 8..][..8]);
            usize::try_from(u64::from_le_bytes(bytes)).map_err(io::Error::other)
        };
        let (operation, mut place, mut left) = (number(0)? as u64, number(1)?, number(2)?);
        while left > 0 {
            let piece = pieces.get(place / PIECE).ok_or(io::ErrorKind::InvalidInput)?;
            let mut piece = piece.lock().unwrap_or_else(PoisonError::into_inner);
            let begin = place % PIECE;
            let part = left.min(PIECE - begin);
            match operation {
                SAVE => stream.read_exact(&mut piece[begin..begin + part])?,
                RESTORE => stream.write_all(&piece[begin..begin + part])?,
                _ => return Err(io::ErrorKind::InvalidInput.into()),
            }
            place += part;
            left -= part;
        }
        if operation == SAVE {
            stream.write_all(&[1])?;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;
    use crate::bench::tiers::{Expected, Memory, PAGE};

    /// A peer on a thread of this process, and what ends it.
    fn peer(bytes: usize) -> (Peer, io::PipeWriter) {
        let (until, end) = io::pipe().unwrap();
        let (announce, port) = mpsc::channel();
        thread::spawn(move || serve(bytes, |port| announce.send(port).unwrap(), until));
        let port = port.recv().unwrap();
        (Peer::connect(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).unwrap(), end)
    }

    #[test]
    fn blocks_come_back_from_a_peer_in_every_direction() {
        let (mut peer, _end) = peer(4 << 20);
        let mut memory = Memory::random(1024, 3).unwrap();
        let mut expected = Expected::nothing(1024);
        // Blocks of two pages, more than are asked for ahead: save all, restore all, then every other one each way.
        let ways: [fn(usize) -> Way; 3] =
            [|_| Way::Save, |_| Way::Restore, |index| if index % 2 == 0 { Way::Save } else { Way::Restore }];
        for (round, way) in ways.into_iter().enumerate() {
            let order: Vec<usize> = (0..512).map(|place| (place * 5 + round) % 512).collect();
            let mut moves: Vec<Move<'_>> = memory
                .blocks(2 * PAGE, &order)
                .into_iter()
                .enumerate()
                .map(|(index, memory)| Move { memory, offset: (index * 2 * PAGE) as u64, way: way(index) })
                .collect();
            expected.before(&mut moves);
            peer.transfer(&mut moves, Interrupt::never()).unwrap();
            expected.check(&moves).unwrap();
        }
    }

    #[test]
    fn a_peer_that_closes_is_told() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let mut peer = Peer::connect(listener.local_addr().unwrap()).unwrap();
        drop((listener.accept().unwrap(), listener.accept().unwrap()));
        let mut memory = Memory::random(1, 3).unwrap();
        let memory = memory.bytes_mut();
        let restore = Move { memory, offset: 0, way: Way::Restore };
        let error = peer.transfer(&mut [restore], Interrupt::never()).unwrap_err();
        assert_eq!(error.to_string(), "the peer closed the connection");
    }
}
