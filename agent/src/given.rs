//! Settings, as the command line and the API are given them.

use kvscope_sizing::Settings;

use crate::failure::Failure;

/// Reads names and values as they were typed. A name may stand once.
pub(crate) fn settings<'t>(pairs: impl IntoIterator<Item = (&'t str, &'t str)>) -> Result<Settings, Failure> {
    let mut settings = Settings::default();
    let mut given: Vec<&str> = Vec::new();
    for (name, value) in pairs {
        if given.contains(&name) {
            return Err(twice(name));
        }
        given.push(name);
        settings.set(name, value)?;
    }
    Ok(settings)
}

/// The refusal of a name that stands twice.
pub(crate) fn twice(name: &str) -> Failure {
    Failure::input(format!("{name}: given twice; leave one of them out"))
}
