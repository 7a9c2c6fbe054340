//! Measures the page in headless Chromium at two device pixels per CSS pixel and prints one JSON object:
//! `sweep_ms` and `redraw_ms`, which the page measures itself, and `first_chart_ms`, from navigation to first chart.
#![allow(clippy::print_stdout, reason = "this program's result")]

use std::time::Duration;

use kvscope_tests::browser::{Browser, PixelRatio};
use kvscope_tests::static_host;

#[tokio::main]
async fn main() {
    let address = static_host::start().await;
    let browser = Browser::start_at(PixelRatio(2.0)).await;
    let page = browser.open(&address).await;
    page.allow_scripts(Duration::from_mins(2)).await;
    let script = "const done = arguments[arguments.length - 1];
        if (typeof window.kvscope_bench !== 'function') { done(null); return; }
        Promise.resolve(window.kvscope_bench())
          .then(result => done(typeof result === 'string' ? JSON.parse(result) : result))
          .catch(error => done({ error: String(error) }));";
    let result = page.run_until_called(script).await;
    println!("{result}");
}
