//! What is said below the table: what bounds a figure, and what the memory has that is no request's.

use std::fmt::Write as _;

use kvscope_sizing::counted;

use super::Fit;

/// A line a remark, after an empty one; nothing where there is none.
pub(super) fn text(fits: &[Fit]) -> String {
    let mut text = String::new();
    for fit in fits {
        for line in lines(fit) {
            if text.is_empty() {
                text.push('\n');
            }
            let _ = writeln!(text, "{}: {line}", fit.model);
        }
    }
    text
}

fn lines(fit: &Fit) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some((bytes, why)) = fit.once_bytes.zip(fit.once_why) {
        lines.push(format!("{bytes} of the memory are {why}"));
    }
    if let Some(launch) = &fit.launch {
        let tokens = launch.cache_tokens.map_or(String::new(), |tokens| format!(", {}", tokens.counted()));
        let most = launch.max_running_requests.map_or(String::new(), |most| {
            format!("; it admits {} at once", counted(most, "request", "requests"))
        });
        lines.push(format!(
            "a launch with this memory gives {}{tokens} to caches, and the rest to {} and one more{most}",
            launch.cache_bytes,
            counted(launch.state_slots, "state slot", "state slots"),
        ));
    }
    if let Some(tokens) = fit.largest_context_with_fewest_requests {
        let requests = fit.batch;
        lines.push(format!(
            "the launch makes pools for more requests than these; with --set max_running_requests={requests} {} fit",
            tokens.counted()
        ));
    }
    lines.extend(fit.batches.iter().flat_map(|at| at.remarks.clone()));
    lines
}
