//! The direction of imports: sizing ← protocol ← charts ← page and agent; protocol knows sizing alone.

use crate::workspace::Workspace;

/// Each crate and the crates of this project that it may know.
const MAY_KNOW: [(&str, &[&str]); 10] = [
    ("kvscope-sizing", &[]),
    ("kvscope-charts", &["kvscope-protocol", "kvscope-sizing"]),
    ("kvscope-protocol", &["kvscope-sizing"]),
    ("kvscope-frontend", &["kvscope-charts", "kvscope-protocol", "kvscope-sizing"]),
    ("kvscope-kernels", &[]),
    ("kvscope-reference", &[]),
    (
        "kvscope",
        &["kvscope-charts", "kvscope-kernels", "kvscope-protocol", "kvscope-reference", "kvscope-sizing"],
    ),
    ("kvscope-emulation", &["kvscope-reference"]),
    (
        "kvscope-tests",
        &["kvscope", "kvscope-charts", "kvscope-emulation", "kvscope-protocol", "kvscope-sizing"],
    ),
    ("xtask", &["kvscope-charts", "kvscope-kernels"]),
];

pub(crate) fn wrong_ways(workspace: &Workspace) -> Vec<String> {
    let packages = workspace.packages().iter();
    packages.flat_map(|package| offences(&package.name, &package.depends_on)).collect()
}

fn offences(name: &str, depends_on: &[String]) -> Vec<String> {
    let Some((_, may_know)) = MAY_KNOW.iter().find(|(known, _)| *known == name) else {
        return vec![format!("{name} is new: say in xtask/src/rules/imports.rs what it may know")];
    };
    let wrong = depends_on.iter().filter(|dependency| !may_know.contains(&dependency.as_str()));
    wrong.map(|dependency| format!("{name} must not know {dependency}")).collect()
}

#[cfg(test)]
mod tests {
    use super::offences;

    #[test]
    fn what_points_upwards_is_an_offence() {
        assert!(offences("kvscope-charts", &["kvscope-sizing".to_owned()]).is_empty());
        assert_eq!(
            offences("kvscope-sizing", &["kvscope-charts".to_owned()]),
            ["kvscope-sizing must not know kvscope-charts"]
        );
        assert_eq!(offences("kvscope-protocol", &["kvscope-charts".to_owned()]).len(), 1);
        assert_eq!(offences("kvscope-new", &[]).len(), 1);
    }
}
