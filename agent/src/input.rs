//! Reads whole files and pipes, but never more than a limit: `/dev/zero` is a file too.

use std::fs::File;
use std::io::{self, Read};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::failure::Failure;

/// Where the files that a question names are read from.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Files<'b> {
    /// The file system, where `-` is standard input.
    OfSystem,
    /// What came with a request: `-` is its body, and it can name no file of this machine.
    OfRequest(&'b [u8]),
}

impl Files<'_> {
    /// The text of `file`, at most `limit` bytes; bytes that are not UTF-8 are replaced. `hint` says what else to give.
    pub(crate) fn read_text(self, file: &str, limit: u64, hint: &str) -> Result<String, Failure> {
        let Self::OfRequest(body) = self else { return read_text(file, limit, hint) };
        self.check(file)?;
        if body.len() as u64 > limit {
            return Err(too_long(self.label(file), limit, hint));
        }
        Ok(String::from_utf8_lossy(body).into_owned())
    }

    /// Refuses a file that cannot be named.
    pub(crate) fn check(self, file: &str) -> Result<(), Failure> {
        match self {
            Self::OfRequest(_) if file != "-" => Err(Failure::input(format!(
                "{file}: a request names no file of this machine; send what it holds as the body, and - as its name"
            ))),
            _ => Ok(()),
        }
    }

    /// What messages call the file.
    pub(crate) fn label(self, file: &str) -> &str {
        match self {
            Self::OfRequest(_) if file == "-" => "the request's body",
            _ => label(file),
        }
    }
}

/// Standard input, which a command can read once.
pub(crate) fn standard_input() -> Result<io::StdinLock<'static>, Failure> {
    static TAKEN: AtomicBool = AtomicBool::new(false);
    if TAKEN.swap(true, Ordering::Relaxed) {
        return Err(Failure::input("-: standard input can stand once; give the others as files"));
    }
    Ok(io::stdin().lock())
}

/// The bytes of `file` (`-` is standard input), at most `limit` of them; `hint` says what else to give.
pub(crate) fn read_limited(file: &str, limit: u64, hint: &str) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    let whole = if file == "-" {
        standard_input()?.take(limit + 1).read_to_end(&mut bytes)
    } else {
        File::open(file).and_then(|file| file.take(limit + 1).read_to_end(&mut bytes))
    };
    let label = label(file);
    whole.map_err(|error| Failure::input(format!("{label}: {}", reason(&error))))?;
    if bytes.len() as u64 > limit {
        return Err(too_long(label, limit, hint));
    }
    Ok(bytes)
}

fn too_long(label: &str, limit: u64, hint: &str) -> Failure {
    Failure::input(format!("{label}: more than {} MiB; {hint}", limit >> 20))
}

/// The same as text; bytes that are not UTF-8 are replaced.
pub(crate) fn read_text(file: &str, limit: u64, hint: &str) -> Result<String, Failure> {
    let bytes = read_limited(file, limit, hint)?;
    Ok(String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
}

/// What messages call the file.
pub(crate) fn label(file: &str) -> &str {
    if file == "-" { "standard input" } else { file }
}

/// The system's reason without its error number.
pub(crate) fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_reads_its_body_alone() {
        let files = Files::OfRequest(b"12\n");
        assert_eq!(files.read_text("-", 10, "").unwrap(), "12\n");
        let error = files.read_text("/etc/hostname", 10, "").unwrap_err().to_string();
        assert!(error.starts_with("/etc/hostname: a request names no file"), "{error}");
        let error = Files::OfRequest(&[b'1'; 11]).read_text("-", 10, "send less").unwrap_err().to_string();
        assert_eq!(error, "the request's body: more than 0 MiB; send less");
    }

    #[test]
    fn what_is_larger_than_the_limit_is_refused_and_not_read_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sparse");
        File::create(&path).unwrap().set_len(3 << 30).unwrap();
        let path = path.to_str().unwrap();
        let error = read_limited(path, 1 << 20, "split the file").unwrap_err().to_string();
        assert!(error.ends_with("more than 1 MiB; split the file"), "{error}");
        let error = read_limited("no/such/file", 1 << 20, "").unwrap_err().to_string();
        assert_eq!(error, "no/such/file: No such file or directory");
    }

    /// A pipe is read to its end once; a second reader would find nothing.
    #[test]
    fn standard_input_can_stand_once() {
        assert!(standard_input().is_ok());
        let error = standard_input().unwrap_err().to_string();
        assert_eq!(error, "-: standard input can stand once; give the others as files");
    }
}
