//! Figures and tables of runs, claims and logs as files: from the command line, and from the page in a real browser.
#![allow(clippy::unwrap_used, reason = "a panic is a test's report")]

use std::fs;
use std::path::{Path, PathBuf};

use kvscope_tests::command_line::{command_at, kvscope};
use serde_json::{Value, json};

const RUN: &str = "20261130T120000Z-00ab";

/// A run of two steps: 0.1 s predicted and 0.125 s measured, and one whose result was wrong.
fn run_file(folder: &Path) -> PathBuf {
    let header = json!({"line": "header", "run": RUN, "schema": 1, "backend": "cpu", "started": "2026-11-30T12:00:00Z",
        "plan": {"budget_seconds": 1.0, "forms": ["gqa"], "seed": 1}, "machine": {"cpu": "a processor"},
        "calibration": null});
    let case = |number: u64, context: u64, median: f64, status: &str| {
        json!({"line": "case", "case": number, "form": "gqa", "model": "minimax-m2.7", "context": context, "batch": 1,
            "cache": "cold", "layers_measured": 62, "layers_total": 62,
            "predicted": {"bytes": context * 253_952, "page_padding_bytes": 0, "seconds": 0.1, "grade": "calibrated",
                "bound": null},
            "measured": {"asked_bytes": context * 253_952, "resident_bytes": null, "huge_page_bytes": null,
                "seconds": {"median": median, "p05": median, "p95": median, "n": 10, "cv": 0.01}},
            "read_bytes": null, "flops": null, "bandwidth_share": null, "bound_share": null, "correct": null,
            "largest_relative_error": null, "status": status})
    };
    let lines = [header, case(0, 4096, 0.125, "ok"), case(1, 8192, 0.2, "failed: wrong result")];
    let path = folder.join(format!("{RUN}.jsonl"));
    fs::write(&path, lines.map(|line| line.to_string() + "\n").concat()).unwrap();
    path
}

/// 0.125 s of 0.1 s are 1.25×; a wrong result has no time.
#[test]
fn a_runs_figures_are_files_whether_it_is_stored_or_a_file() {
    let home = tempfile::tempdir().unwrap();
    let run = run_file(home.path());
    let chart = |figure: &str, of: &str, ending: &str| {
        let file = home.path().join(format!("{figure}.{ending}"));
        let mut command = command_at(home.path());
        command.args(["chart", figure, of, "--day", "2026-11-30", "-o", file.to_str().unwrap()]);
        let finished = command.output().unwrap();
        assert!(finished.status.success(), "{}", String::from_utf8_lossy(&finished.stderr));
        fs::read_to_string(file).unwrap()
    };
    let imported = command_at(home.path()).args(["bench", "import", run.to_str().unwrap()]).output().unwrap();
    assert!(imported.status.success(), "{}", String::from_utf8_lossy(&imported.stderr));
    for (of, link) in
        [(run.to_str().unwrap(), Value::Null), (RUN, format!("?v=1&r=measure&run={RUN}").into())]
    {
        let residuals: Value = serde_json::from_str(&chart("residuals", of, "json")).unwrap();
        assert_eq!(residuals["rows"].as_array().unwrap().len(), 1, "{residuals}");
        assert_eq!(residuals["rows"][0]["measured_over_predicted"], 1.25);
        assert_eq!((&residuals["link"], &residuals["inputs"]["run"]), (&link, &RUN.into()));
        let latency: Value = serde_json::from_str(&chart("latency", of, "json")).unwrap();
        let median =
            latency["rows"].as_array().unwrap().iter().find(|row| row["figure"] == "median").unwrap();
        assert_eq!((&median["seconds"], &median["context_tokens"]), (&json!(0.125), &json!(4096)));
        assert!(chart("latency", of, "svg").starts_with("<svg"));
    }
    let finished = kvscope(["chart", "latency", "no-such-run", "-o", "a.svg"]);
    assert_eq!((finished.status, finished.stderr.lines().count()), (Some(2), 1), "{}", finished.stderr);
}

mod in_chromium {
    use kvscope_tests::browser::Browser;
    use kvscope_tests::downloads::{export, open};
    use kvscope_tests::page::Page;
    use kvscope_tests::selectors;

    use super::*;

    async fn text(page: &Page, stem: &str, way: &str, ending: &str) -> String {
        export(page, stem, way, ending).await.as_str().expect("text").to_owned()
    }

    #[tokio::test]
    async fn a_runs_figures_and_tables_are_the_command_lines() {
        let folder = tempfile::tempdir().unwrap();
        let run = run_file(folder.path());
        let browser = Browser::start().await;
        let page = open(&browser, "v=1&m=").await;
        page.choose_config(&run).await;
        page.wait_until_there("canvas[data-figure=\"residuals\"]").await;
        for figure in ["latency", "residuals"] {
            let file = folder.path().join("wanted.csv");
            let finished = kvscope(["chart", figure, run.to_str().unwrap(), "-o", file.to_str().unwrap()]);
            assert_eq!(finished.status, Some(0), "{}", finished.stderr);
            assert_eq!(
                text(&page, figure, "CSV", "csv").await,
                fs::read_to_string(file).unwrap(),
                "{figure}"
            );
            assert!(text(&page, figure, "SVG", "svg").await.starts_with("<svg"));
        }
        // 4,096 × 253,952 B.
        assert!(text(&page, "memory", "CSV", "csv").await.contains(",predicted,4096,1040187392\n"));
        let cases = text(&page, "cases", "Markdown", "md").await;
        assert!(cases.contains("wrong result") && cases.contains("-20 %"), "{cases}");
    }

    #[tokio::test]
    async fn claims_and_logs_are_tables_to_take_away() {
        let browser = Browser::start().await;
        let page = open(&browser, "v=1&r=claims&cv=differs").await;
        let csv = text(&page, "claims", "CSV", "csv").await;
        let finished = kvscope(["claims", "--json"]);
        let known: Value = serde_json::from_str(&finished.stdout).unwrap();
        let differ =
            |row: &&Value| row["verdict"].as_str().is_some_and(|verdict| verdict.starts_with("differs"));
        let known = known.as_array().unwrap().iter().filter(differ).count();
        let listed = csv.matches(",differs: ").count() + csv.matches(",\"differs: ").count();
        assert!(listed > 3 && listed <= known, "{listed} of {known}: {csv}");

        let page = open(&browser, "v=1&r=log").await;
        page.run("document.querySelector('[data-example=\"vLLM\"]').click()", Vec::new()).await;
        page.wait_until_there("[data-topic]").await;
        let markdown = text(&page, "log", "Markdown", "md").await;
        assert!(markdown.starts_with(&format!("### {}", page.text("h1").await)), "{markdown}");
        let rows = page.run("return document.querySelectorAll('[data-topic]').length", Vec::new()).await;
        let lines = markdown.lines().filter(|line| line.starts_with('|')).count();
        assert_eq!(Some(lines as u64), rows.as_u64().map(|rows| rows + 2), "{markdown}");
        assert!(!page.has(selectors::REFUSAL).await);
    }
}
