//! Chromium and its driver: found, or installed where that can work.

use std::path::PathBuf;
use std::process::Command;

use crate::error::{Error, Result};
use crate::output;
use crate::process;

const BROWSERS: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];
const DRIVER: &str = "chromedriver";
const DEBIAN_PACKAGES: &str = "chromium chromium-driver";
const REMEDY: &str = "apt-get install chromium chromium-driver";

/// A browser and the program that drives it.
#[derive(Debug)]
pub(crate) struct Browser {
    browser: PathBuf,
    driver: PathBuf,
}

impl Browser {
    /// Tells a command where the two programs are.
    pub(crate) fn name_in(&self, command: &mut Command) {
        command.env("KVSCOPE_CHROMIUM", &self.browser).env("KVSCOPE_CHROMEDRIVER", &self.driver);
    }
}

pub(crate) fn find_or_install() -> Result<Browser> {
    if let Some(browser) = find() {
        return Ok(browser);
    }
    output::progress("installing Chromium and its driver");
    process::install_debian_packages(DEBIAN_PACKAGES);
    find().ok_or(Error::NoBrowser { remedy: REMEDY })
}

fn find() -> Option<Browser> {
    let browser = BROWSERS.iter().find_map(|name| process::find_program(name))?;
    Some(Browser { browser, driver: process::find_program(DRIVER)? })
}
