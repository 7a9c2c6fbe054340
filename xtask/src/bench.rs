//! The speed table: what was measured here, beside the aim. Nothing fails for being slow.

use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use crate::check;
use crate::error::{Error, Result};
use crate::output;
use crate::process;
use crate::serve;
use crate::site;
use crate::workspace::Workspace;

/// Benchmarks in `shared/sizing`, by name, with what each row says and its aim.
const NATIVE: [(&str, &str, &str); 5] = [
    ("sweep_40_versions_512_contexts", "40 versions × 512 contexts, native, one core, median", "under 1 ms"),
    ("slowest_config", "config to architecture, the slowest of the catalogue", "under 200 µs"),
    ("slowest_size", "one version at one context with breakdown and derivation, the slowest", "under 2 µs"),
    ("slowest_engine_report", "a whole engine report, the slowest version and engine", "under 20 µs"),
    ("simulate_a_million_requests", "a million requests replayed, Belady's rule beside them", "under 3 s"),
];
const PROCESS_RUNS: usize = 20;

/// One row of the table.
struct Row {
    what: String,
    aim: &'static str,
    /// Or why there is no figure.
    measured: Result<String>,
}

pub(crate) fn bench(workspace: &Workspace) -> Result<ExitCode> {
    let site = site::build(workspace)?;
    let speed = page_speed(workspace).unwrap_or_else(|error| {
        output::error(&error);
        PageSpeed(serde_json::Value::Null)
    });
    let row = |what: &str, aim, measured| Row { what: what.to_owned(), aim, measured };
    let mut rows = native(workspace);
    rows.extend([
        row("40 versions × 512 contexts, WASM in headless Chromium", "under 4 ms", speed.figure("sweep_ms")),
        row("redraw of 40 curves at 2×, headless Chromium", "under 8 ms", speed.figure("redraw_ms")),
    ]);
    rows.extend(speed.plans());
    rows.extend([
        row("`kvscope size` as a process, median of 20 runs", "under 10 ms", process_time(workspace)),
        row("first chart on loopback, headless Chromium", "under 1000 ms", speed.figure("first_chart_ms")),
        row("the whole site in brotli", "under 400000 B", Ok(format!("{} B", site.total_bytes()))),
    ]);
    output::line(&table(&rows));
    let complete = rows.iter().all(|row| row.measured.is_ok());
    Ok(if complete { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The medians that divan prints.
fn native(workspace: &Workspace) -> Vec<Row> {
    output::progress("sizing, native (release)");
    let mut bench = workspace.cargo();
    bench.args(["bench", "--quiet", "--package", "kvscope-sizing", "--bench", "sizing"]);
    let text = process::capture(&mut bench);
    let missing = |detail: String| Error::Unexpected { command: process::shown(&bench), detail };
    let measured = |name: &str| match &text {
        Ok(text) => median_in(text, name).ok_or_else(|| missing(format!("no row for {name}"))),
        Err(error) => Err(missing(error.to_string())),
    };
    NATIVE.map(|(name, what, aim)| Row { what: what.to_owned(), aim, measured: measured(name) }).into()
}

/// The third column of divan's row for a benchmark (fastest, slowest, median, mean), or of the row below it, which
/// names the case.
fn median_in(text: &str, name: &str) -> Option<String> {
    let median = |row: &str| {
        let cell = row.split('│').map(str::trim).nth_back(3)?;
        (!cell.is_empty() && !cell.contains("median")).then(|| cell.to_owned())
    };
    let mut rows = text.lines().skip_while(|line| !line.contains(name));
    let own = rows.next()?;
    if let Some(median) = median(own) {
        return Some(median);
    }
    let below = rows.next().filter(|row| row.contains('╰') || row.contains('├'))?;
    let case = below.trim_start_matches(['│', ' ', '╰', '├', '─']).split("  ").next()?;
    Some(format!("{} ({case})", median(below)?))
}

/// From starting the release binary to its end, with its output dropped.
fn process_time(workspace: &Workspace) -> Result<String> {
    output::progress("the command line (release)");
    serve::build_agent(workspace)?;
    let mut times = Vec::with_capacity(PROCESS_RUNS);
    // The first run brings the binary into memory and does not count.
    for run in 0..=PROCESS_RUNS {
        let mut size = Command::new(workspace.agent("release"));
        size.args(["size", "deepseek-v3.2", "--context", "100000", "--json"]).stdout(Stdio::null());
        let start = Instant::now();
        process::run(&mut size)?;
        if run > 0 {
            times.push(start.elapsed());
        }
    }
    Ok(milliseconds(median(times)))
}

/// What the page says of itself, in `{"sweep_ms", "redraw_ms", "first_chart_ms", "plans"}`.
struct PageSpeed(serde_json::Value);

fn page_speed(workspace: &Workspace) -> Result<PageSpeed> {
    output::progress("the page in Chromium");
    let browser = check::find_or_install()?;
    let mut program = workspace.cargo();
    program.args(["run", "--quiet", "--package", "kvscope-tests", "--example", "page_speed"]);
    program.env("KVSCOPE_SITE", workspace.site());
    browser.name_in(&mut program);
    let text = process::capture(&mut program)?;
    serde_json::from_str(text.trim())
        .map(PageSpeed)
        .map_err(|error| PageSpeed::unexpected(&error.to_string()))
}

impl PageSpeed {
    fn figure(&self, name: &str) -> Result<String> {
        match self.0[name].as_f64() {
            Some(figure) => Ok(format!("{figure:.2} ms")),
            None => Err(Self::unexpected(&format!("no {name} in {}", self.0))),
        }
    }

    /// A plan's answer without drawing, for the version that takes longest: with its lines over context, after a move of the
    /// context, and with ±10 % of each input.
    fn plans(&self) -> Vec<Row> {
        let plans = self.0["plans"].as_array().map_or(&[][..], Vec::as_slice);
        let slowest = plans.iter().filter(|plan| plan["of"] == "slowest");
        let row = |plan: &serde_json::Value| {
            let name = plan["plan"].as_str().unwrap_or_default();
            let all = ["anew_ms", "moved_ms", "inputs_ms"].map(|of| plan[of].as_f64());
            let measured = match all {
                [Some(anew), Some(moved), Some(inputs)] => {
                    let model = plan["model"].as_str().unwrap_or_default();
                    Ok(format!("{anew:.1} ms, moved {moved:.1} ms, ±10 % {inputs:.1} ms ({model})"))
                }
                _ => Err(Self::unexpected(&format!("no times in {plan}"))),
            };
            let aim = if name == "simulate" { "none: 10,000 requests" } else { "each under 5 ms" };
            Row { what: format!("plan {name}, WASM, the slowest version"), aim, measured }
        };
        slowest.map(row).collect()
    }

    fn unexpected(detail: &str) -> Error {
        Error::Unexpected { command: "window.kvscope_bench()".to_owned(), detail: detail.to_owned() }
    }
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    let middle = times.len() / 2;
    if times.len() % 2 == 1 { times[middle] } else { (times[middle - 1] + times[middle]) / 2 }
}

fn milliseconds(time: Duration) -> String {
    format!("{:.2} ms", time.as_secs_f64() * 1e3)
}

fn table(rows: &[Row]) -> String {
    let width = |texts: &dyn Fn(&Row) -> usize| rows.iter().map(texts).max().unwrap_or(0);
    let what = width(&|row| row.what.chars().count());
    let aim = width(&|row| row.aim.chars().count());
    let lines = rows.iter().map(|row| {
        let measured = match &row.measured {
            Ok(figure) => figure.clone(),
            Err(error) => format!("not measured: {error}"),
        };
        format!("{:what$}  {:aim$}  {measured}", row.what, row.aim)
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_divans_row_is_its_third_column() {
        let text = "sizing                  fastest       │ slowest       │ median        │ mean          │ samples │ iters\n\
                    ├─ read_config                        │               │               │               │         │\n\
                    │  ╰─ llama-3.1-8b      12.1 µs       │ 40.2 µs       │ 12.9 µs       │ 13.4 µs       │ 100     │ 100\n\
                    ╰─ sweep                912.4 µs      │ 1.203 ms      │ 921.7 µs      │ 934.1 µs      │ 100     │ 100\n";
        assert_eq!(median_in(text, "sweep").as_deref(), Some("921.7 µs"));
        assert_eq!(median_in(text, "read_config").as_deref(), Some("12.9 µs (llama-3.1-8b)"));
        assert_eq!(median_in(text, "absent"), None);
    }

    #[test]
    fn a_plan_without_times_is_not_measured() {
        let plan = |inputs: serde_json::Value| {
            serde_json::json!({
                "plan": "offload", "of": "slowest", "model": "glm-5", "anew_ms": 1.25, "moved_ms": 0.5, "inputs_ms": inputs,
            })
        };
        let usual = serde_json::json!({ "of": "usual" });
        let plans = serde_json::json!({ "plans": [usual, plan(7.into()), plan(serde_json::Value::Null)] });
        let rows = PageSpeed(plans).plans();
        assert_eq!(rows.len(), 2, "the slowest alone");
        assert_eq!(rows[0].measured.as_ref().unwrap(), "1.2 ms, moved 0.5 ms, ±10 % 7.0 ms (glm-5)");
        assert!(rows[1].measured.is_err());
    }

    #[test]
    fn the_median_of_an_even_count_lies_between_the_middle_two() {
        let times = [40, 10, 20, 30].map(Duration::from_millis).to_vec();
        assert_eq!(median(times), Duration::from_millis(25));
        assert_eq!(median(vec![Duration::from_millis(7)]), Duration::from_millis(7));
    }
}
