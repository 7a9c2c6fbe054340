//! Reads whole files and pipes, but never more than a limit: `/dev/zero` is a file too.

use std::fs::File;
use std::io::{self, Read};

use crate::failure::Failure;

/// The bytes of `file` (`-` is standard input), at most `limit` of them; `hint` says what else to give.
pub(crate) fn read_limited(file: &str, limit: u64, hint: &str) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    let whole = if file == "-" {
        io::stdin().lock().take(limit + 1).read_to_end(&mut bytes)
    } else {
        File::open(file).and_then(|file| file.take(limit + 1).read_to_end(&mut bytes))
    };
    let label = label(file);
    whole.map_err(|error| Failure::input(format!("{label}: {}", reason(&error))))?;
    if bytes.len() as u64 > limit {
        return Err(Failure::input(format!("{label}: more than {} MiB; {hint}", limit >> 20)));
    }
    Ok(bytes)
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
}
