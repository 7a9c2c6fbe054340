//! Headless Chromium, driven through chromedriver on a free port.

use std::env;
use std::io::{Read, Write};
use std::net::TcpStream;
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
    port: u16,
    _driver: Running,
    _profile: TempDir,
}

/// Device pixels per CSS pixel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PixelRatio(pub f64);

/// What the page is asked to look like.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Look {
    /// How fine its screen is.
    pub ratio: PixelRatio,
    /// What the system prefers.
    pub theme: Theme,
}

/// Light or dark.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Theme {
    /// Dark on light.
    Light,
    /// Light on dark.
    Dark,
}

impl Theme {
    /// `light` or `dark`.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Light => "light",
            Self::Dark => "dark",
        }
    }

    /// Blink's number of it.
    const fn preferred(self) -> u8 {
        match self {
            Self::Dark => 0,
            Self::Light => 1,
        }
    }
}

impl Browser {
    /// Starts a browser in light, at one device pixel per CSS pixel.
    pub async fn start() -> Self {
        Self::start_with(Look { ratio: PixelRatio(1.0), theme: Theme::Light }).await
    }

    /// Starts a browser.
    pub async fn start_with(look: Look) -> Self {
        let profile = tempfile::tempdir().expect("a temporary folder");
        let driver = env::var("KVSCOPE_CHROMEDRIVER").unwrap_or_else(|_| "chromedriver".to_owned());
        let mut driver = Command::new(driver);
        driver.arg("--port=0");
        let (driver, port) = Running::start(&mut driver, Duration::from_secs(30), port_in);

        let mut options = json!({
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
                format!("--force-device-scale-factor={}", look.ratio.0),
                format!("--blink-settings=preferredColorScheme={}", look.theme.preferred()),
                format!("--user-data-dir={}", profile.path().display()),
            ],
        });
        // Left to itself, the driver looks in the usual places.
        if let Ok(browser) = env::var("KVSCOPE_CHROMIUM") {
            options["binary"] = browser.into();
        }
        let mut capabilities = serde_json::Map::new();
        capabilities.insert("goog:chromeOptions".to_owned(), options);
        let client = ClientBuilder::new(HttpConnector::new())
            .capabilities(capabilities)
            .connect(&format!("http://127.0.0.1:{port}"))
            .await
            .expect("chromedriver starts Chromium");
        Self { client, port, _driver: driver, _profile: profile }
    }

    /// Opens an address and waits until its first chart is drawn.
    pub async fn open(&self, address: &str) -> Page {
        self.client.goto(address).await.expect("the address opens");
        Page::when_ready(self.client.clone()).await
    }
}

impl Drop for Browser {
    /// Asks the driver to end the browser with itself; a driver that is killed leaves its browser behind.
    fn drop(&mut self) {
        let Ok(mut driver) = TcpStream::connect(("127.0.0.1", self.port)) else { return };
        let _ = driver.set_read_timeout(Some(Duration::from_secs(10)));
        let _ = write!(
            driver,
            "GET /shutdown HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nConnection: close\r\n\r\n",
            self.port
        );
        // The answer comes after the browser has gone.
        let _ = driver.read(&mut [0; 256]);
    }
}

/// chromedriver repeats the port that it was asked for, 0, before it names the one that it found.
fn port_in(line: &str) -> Option<u16> {
    line.split("on port ").nth(1)?.trim_end_matches('.').parse().ok().filter(|port| *port != 0)
}
