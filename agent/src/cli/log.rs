use std::fmt::Write as _;

use clap::Args;
use kvscope_sizing::log::{DecodedLog, GivenModel, LogFigure, decode_log};

use super::request::warn;
use crate::failure::Failure;
use crate::input::{label, read_limited};
use crate::model::Model;
use crate::output::{self, Figures};

/// Start-up logs have some thousand lines; a file beyond this is something else.
const LARGEST_LOG: u64 = 64 << 20;
/// Ranks that are named one by one in the table.
const NAMED_RANKS: usize = 4;

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
        model.as_ref().map(|model| GivenModel { label: &model.label, architecture: &model.architecture });
    let decoded = decode_log(&text, given).map_err(|error| Failure::input(format!("{label}: {error}")))?;
    if arguments.json {
        output::json(&decoded)?;
    } else {
        output::figures(&shown(&decoded))?;
        warn(decoded.warnings.iter().map(|warning| (label, warning)));
    }
    if !decoded.has_differences() {
        return Ok(());
    }
    let differing = decoded.figures.iter().filter(|figure| figure.difference.is_some()).count();
    let contradictions = decoded.contradictions.iter().filter(|found| !found.explained).count();
    Err(Failure::check(format!(
        "{label}: {differing} of {} figures differ from what is recomputed, and {contradictions} contradictions have no known reason",
        decoded.figures.len()
    )))
}

/// The text, whatever its encoding: what is not UTF-8 is replaced, and the UTF-16 of a Windows redirection is read.
fn read(file: &str) -> Result<String, Failure> {
    let bytes = read_limited(file, LARGEST_LOG, "give the lines of the start alone")?;
    let wide: Option<fn([u8; 2]) -> u16> = match bytes.get(..2) {
        Some([0xff, 0xfe]) => Some(u16::from_le_bytes),
        Some([0xfe, 0xff]) => Some(u16::from_be_bytes),
        _ => None,
    };
    let Some(join) = wide else { return Ok(String::from_utf8_lossy(&bytes).into_owned()) };
    let units: Vec<u16> = bytes[2..].chunks_exact(2).map(|pair| join([pair[0], pair[1]])).collect();
    Ok(String::from_utf16_lossy(&units))
}

fn shown(decoded: &DecodedLog) -> String {
    let model = match (&decoded.model.named, &decoded.model.recomputed_as) {
        (Some(named), Some(known)) => format!(", model {named}, recomputed as {known}"),
        (Some(named), None) => format!(", model {named}, not recomputed"),
        (None, Some(known)) => format!(", recomputed as {known}"),
        (None, None) => String::new(),
    };
    let mut text = format!("{}{model}\n", decoded.engine);
    if !decoded.read_settings.is_empty() {
        let settings: Vec<String> = decoded
            .read_settings
            .iter()
            .map(|setting| format!("{} {}", setting.name, setting.value))
            .collect();
        writeln!(text, "settings in the log: {}", settings.join(", ")).expect("writing to a string");
    }
    let mut table = Figures::new(5, &["line", "says", "means", "recomputed", "difference"]);
    for figure in &decoded.figures {
        table.row([
            place(figure),
            figure.says.clone(),
            figure.means.clone(),
            figure.recomputed.map_or_else(
                || figure.not_computed.clone().unwrap_or_else(|| "–".to_owned()),
                |range| figure.printed.show(range),
            ),
            match (&figure.difference, figure.recomputed) {
                (Some(difference), _) => difference.clone(),
                (None, Some(_)) => "none".to_owned(),
                (None, None) => "–".to_owned(),
            },
        ]);
    }
    writeln!(text, "\n{}", table.render()).expect("writing to a string");
    for found in &decoded.contradictions {
        writeln!(text, "Contradiction: {}.", found.what).expect("writing to a string");
    }
    let unknown = "The log does not say what the capacity is.";
    text += decoded.capacity.as_deref().unwrap_or(unknown);
    text.push('\n');
    text
}

fn place(figure: &LogFigure) -> String {
    match figure.ranks.len() {
        0 => figure.line.to_string(),
        count if count > NAMED_RANKS => format!("{} ({count} ranks)", figure.line),
        _ => format!("{} ({})", figure.line, figure.ranks.join(", ")),
    }
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
        assert!(differs.unwrap_err().to_string().contains("1 of 2 figures differ"));
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
