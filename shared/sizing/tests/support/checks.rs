//! What must hold for any input of the two readers. The fuzz targets and the bounded replay both call it.

use kvscope_sizing::{
    Architecture, GgufRead, Settings, StateModel, Tokens, Unknown, read_config_text, read_gguf,
};

/// A text that is read or refused with one line.
#[allow(dead_code, reason = "each fuzz target checks one reader")]
pub(crate) fn config(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let loose = read_config_text(text, Unknown::Warn);
    let strict = read_config_text(text, Unknown::Refuse);
    assert!(loose.is_ok() || strict.is_err(), "strict reading accepts what plain reading refuses");
    judge(loose);
    judge(strict);
}

/// Bytes that are read or refused with one line, whole or from a prefix of a longer file.
#[allow(dead_code, reason = "each fuzz target checks one reader")]
pub(crate) fn gguf(data: &[u8]) {
    let whole = read_gguf(data, Some(data.len() as u64), Unknown::Warn);
    assert!(!matches!(whole, Ok(GgufRead::NeedsPrefix { .. })), "a whole file has no more bytes to ask for");
    let open = read_gguf(data, None, Unknown::Refuse);
    if let Ok(GgufRead::NeedsPrefix { bytes }) = open {
        assert!(bytes > data.len() as u64, "asks for {bytes} bytes and has {}", data.len());
    }
    for read in [whole, open] {
        match read {
            Ok(GgufRead::Architecture(architecture)) => judge(Ok(*architecture)),
            Ok(GgufRead::NeedsPrefix { .. }) => {}
            Err(error) => judge(Err(error)),
        }
    }
}

fn judge(read: Result<Architecture, kvscope_sizing::Error>) {
    let architecture = match read {
        Ok(architecture) => architecture,
        Err(error) => {
            let line = error.to_string();
            assert!(!line.is_empty() && !line.contains(char::is_control), "{line:?} is not one line");
            return;
        }
    };
    for warning in architecture.warnings() {
        let line = warning.to_string();
        assert!(!line.contains(char::is_control), "{line:?} is not one line");
    }
    let Ok(state) = StateModel::new(&architecture, &Settings::default()) else { return };
    for n in [0, 1, 100_000, 1 << 40] {
        let n = Tokens::new(n);
        let (bytes, read) = (state.resident(n, 2), state.read_per_step(n, 2));
        // Several layers may read what one keeps.
        let is_shared = state.parts().iter().any(|part| !part.other_readers().is_empty());
        if let (Ok(bytes), Ok(read), false) = (bytes, read, is_shared) {
            assert!(read <= bytes, "a step reads {read} of {bytes}");
        }
    }
    let _ = (state.slope(None), state.fixed(None), state.kinks());
}
