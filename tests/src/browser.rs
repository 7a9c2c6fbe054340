//! Headless Chromium, driven through chromedriver on a free port.

use std::env;
use std::process::Command;
use std::time::Duration;

use fantoccini::{Client, ClientBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use serde_json::json;
use tempfile::TempDir;

use crate::child::Running;
use crate::page::Page;

/// A browser of its own for one test. It ends, and its profile goes, with the value.
#[derive(Debug)]
pub struct Browser {
    client: Client,
    _driver: Running,
    _profile: TempDir,
}

/// Device pixels per CSS pixel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PixelRatio(pub f64);

impl Browser {
    /// Starts a browser at one device pixel per CSS pixel.
    pub async fn start() -> Self {
        Self::start_at(PixelRatio(1.0)).await
    }

    /// Starts a browser at some pixel ratio.
    pub async fn start_at(ratio: PixelRatio) -> Self {
        let profile = tempfile::tempdir().expect("a temporary folder");
        let mut driver = Command::new(program("KVSCOPE_CHROMEDRIVER", "chromedriver"));
        driver.arg("--port=0");
        let (driver, port) = Running::start(&mut driver, Duration::from_secs(30), port_in);

        let options = json!({
            "binary": program("KVSCOPE_CHROMIUM", "chromium"),
            "args": [
                "--headless",
                // Tests may run as root, where Chromium's sandbox refuses to start.
                "--no-sandbox",
                "--disable-dev-shm-usage",
                "--disable-gpu",
                "--no-first-run",
                // Nothing but the page under test is loaded.
                "--disable-background-networking",
                "--disable-component-update",
                "--disable-default-apps",
                "--disable-sync",
                "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
                "--window-size=1280,900",
                format!("--force-device-scale-factor={}", ratio.0),
                format!("--user-data-dir={}", profile.path().display()),
            ],
        });
        let mut capabilities = serde_json::Map::new();
        capabilities.insert("goog:chromeOptions".to_owned(), options);
        let client = ClientBuilder::new(HttpConnector::new())
            .capabilities(capabilities)
            .connect(&format!("http://127.0.0.1:{port}"))
            .await
            .expect("chromedriver starts Chromium");
        Self { client, _driver: driver, _profile: profile }
    }

    /// Opens an address and waits until its first chart is drawn.
    pub async fn open(&self, address: &str) -> Page {
        self.client.goto(address).await.expect("the address opens");
        Page::when_ready(self.client.clone()).await
    }

    /// Ends the browser in order. Without it, the driver's end takes the browser along only on some systems.
    pub async fn close(self) {
        self.client.clone().close().await.expect("the session ends");
    }
}

fn program(variable: &str, name: &str) -> String {
    env::var(variable).unwrap_or_else(|_| name.to_owned())
}

/// chromedriver names the port that it found in its greeting.
fn port_in(line: &str) -> Option<u16> {
    line.split("on port ").nth(1)?.trim_end_matches('.').parse().ok()
}
