//! Settings, as the command line and the API are given them.

use kvscope_sizing::Settings;

use crate::failure::Failure;

/// Reads names and values as they were typed. A name may stand once.
pub(crate) fn settings<'t>(pairs: impl IntoIterator<Item = (&'t str, &'t str)>) -> Result<Settings, Failure> {
    let mut settings = Settings::default();
    let mut given: Vec<&str> = Vec::new();
    for (name, value) in pairs {
        named(name, value)?;
        if given.contains(&name) {
            return Err(twice(name));
        }
        given.push(name);
        settings.set(name, value)?;
    }
    Ok(settings)
}

/// Refuses a value without a name.
pub(crate) fn named(name: &str, value: &str) -> Result<(), Failure> {
    if name.is_empty() {
        return Err(Failure::input(format!(
            "set: \"={value}\" has no name in front of the =; give NAME=VALUE"
        )));
    }
    Ok(())
}

/// The values of `names` in a query that may have nothing else, each at most once.
pub(crate) fn options<'t, const N: usize>(
    names: [&str; N],
    pairs: &'t [(String, String)],
) -> Result<[Option<&'t str>; N], Failure> {
    let mut found = [None; N];
    for (name, value) in pairs {
        let Some(at) = names.iter().position(|known| known == name) else {
            let known = names.join(" and ");
            return Err(Failure::input(format!("{name:?}: unknown parameter; give {known} alone")));
        };
        if found[at].replace(value.as_str()).is_some() {
            return Err(twice(name));
        }
    }
    Ok(found)
}

/// The refusal of a name that stands twice.
pub(crate) fn twice(name: &str) -> Failure {
    Failure::input(format!("{name}: given twice; leave one of them out"))
}
