use std::fmt::Write as _;

use clap::Args;
use kvscope_sizing::log::{DecodedLog, GivenModel, LARGEST_LOG_BYTES, decode_log, log_text};

use super::request::warn;
use crate::failure::Failure;
use crate::input::{label, read_limited};
use crate::model::Model;
use crate::output::{self, Figures};

#[derive(Args, Debug)]
pub(super) struct Arguments {
    /// A start-up log of vLLM, SGLang or llama.cpp, or - for standard input
    #[arg(value_name = "FILE")]
    file: String,
    /// The model to recompute for, in place of the one that the log names
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    if arguments.file == "-" && arguments.model.as_deref() == Some("-") {
        return Err(Failure::input("model: the log is read from standard input, so the model cannot be"));
    }
    let label = label(&arguments.file);
    let text = read(&arguments.file)?;
    let model = arguments.model.as_deref().map(Model::load).transpose()?;
    let given =
        model.as_ref().map(|model| GivenModel { label: &model.shown, architecture: &model.architecture });
    let decoded = decode_log(&text, given).map_err(|error| Failure::input(format!("{label}: {error}")))?;
    if arguments.json {
        output::json(&decoded)?;
    } else {
        output::figures(&shown(&decoded))?;
        warn(decoded.warnings.iter().map(|warning| (label, warning)));
        if decoded.model.recomputed_as.is_none() && given.is_none() {
            output::warning(&format!("{label}: name the model with --model, and its figures are recomputed"));
        }
    }
    match decoded.differences_words() {
        None => Ok(()),
        Some(words) => Err(Failure::check(format!("{label}: {words}"))),
    }
}

fn read(file: &str) -> Result<String, Failure> {
    Ok(log_text(&read_limited(file, LARGEST_LOG_BYTES, "give the lines of the start alone")?))
}

fn shown(decoded: &DecodedLog) -> String {
    let mut text = decoded.title();
    if let Some(note) = &decoded.note {
        let _ = write!(text, "\nthe file says of itself: {note}");
    }
    let settings = decoded.settings_words();
    if !settings.is_empty() {
        let _ = write!(text, "\nsettings in the log: {settings}");
    }
    let mut table = Figures::new(5, &["line", "says", "means", "recomputed", "recomputed − printed"]);
    for figure in &decoded.figures {
        table.row([
            figure.place(),
            figure.says.clone(),
            figure.means.clone(),
            figure.recomputed_words(),
            figure.difference_words().to_owned(),
        ]);
    }
    let _ = write!(text, "\n\n{}\n", table.render());
    for found in &decoded.contradictions {
        let _ = writeln!(text, "Contradiction: {}.", found.what);
    }
    let _ = writeln!(text, "{}", decoded.capacity_words());
    text
}

#[cfg(test)]
mod tests {
    use std::process::ExitCode;

    use super::*;

    const LINES: &str = "vLLM API server version 0.19.0\nGPU KV cache size: 290,864 tokens\n\
                         Maximum concurrency for 32,768 tokens per request: 33.04x\n";

    fn run_on(bytes: &[u8], model: Option<&str>) -> Result<(), Failure> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("start.log");
        std::fs::write(&path, bytes).unwrap();
        run(&Arguments {
            file: path.to_str().unwrap().to_owned(),
            model: model.map(str::to_owned),
            json: false,
        })
    }

    fn status(result: &Result<(), Failure>) -> ExitCode {
        result.as_ref().err().map_or(ExitCode::SUCCESS, Failure::exit_code)
    }

    #[test]
    fn logs_in_the_utf_16_of_a_windows_redirection_are_read() {
        let mut little = vec![0xff, 0xfe];
        little.extend(LINES.encode_utf16().flat_map(u16::to_le_bytes));
        let mut big = vec![0xfe, 0xff];
        big.extend(LINES.encode_utf16().flat_map(u16::to_be_bytes));
        for bytes in [little, big] {
            assert_eq!(status(&run_on(&bytes, None)), ExitCode::SUCCESS);
        }
    }

    #[test]
    fn what_is_not_utf_8_is_replaced() {
        let bytes = [b"\xff\x80 progress \xe2\x96\n".as_slice(), LINES.as_bytes(), b"\xe2"].concat();
        assert_eq!(status(&run_on(&bytes, Some("qwen3.5-27b"))), ExitCode::SUCCESS);
    }

    #[test]
    fn a_difference_is_status_1_and_a_file_without_a_known_line_2() {
        // 1487 blocks // 4 × 784 tokens are 290,864.
        let wrong = LINES.replace("290,864", "290,080");
        let differs = run_on(wrong.as_bytes(), Some("qwen3.5-27b"));
        assert_eq!(status(&differs), ExitCode::from(1));
        assert!(differs.unwrap_err().to_string().contains("1 of 1 recomputed figure differs"));
        let nothing = run_on(b"\x00\x01\x02 nothing", None);
        assert_eq!(status(&nothing), ExitCode::from(2));
        assert_eq!(status(&run_on(LINES.as_bytes(), Some("no-such-model"))), ExitCode::from(2));
    }

    #[test]
    fn standard_input_holds_one_of_the_two() {
        let both = Arguments { file: "-".to_owned(), model: Some("-".to_owned()), json: false };
        assert_eq!(status(&run(&both)), ExitCode::from(2));
    }
}
