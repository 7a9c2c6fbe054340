//! What is said below the table: what bounds a figure, and what the memory has that is no request's.

use std::fmt::Write as _;

use kvscope_sizing::engine::{Bound, EngineKind};
use kvscope_sizing::{Bytes, counted};

use super::{BatchAt, Fit};

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
    for at in &fit.batches {
        lines.extend(bound(fit, at));
        lines.extend(while_decoding(at));
    }
    lines
}

fn bound(fit: &Fit, at: &BatchAt) -> Option<String> {
    let most = at.largest_batch.filter(|_| at.bounded_by == Some(Bound::AdmittedRequests))?;
    let what = match fit.engine.kind() {
        EngineKind::LlamaCpp => "more sequences are not started (LLAMA_MAX_SEQ)".to_owned(),
        _ if fit.launch.is_some() => {
            "the launch admits no more; max_running_requests and state_slots set how many".to_owned()
        }
        _ => "the launch admits no more; max_running_requests sets how many".to_owned(),
    };
    let requests = counted(most, "request", "requests");
    Some(format!("{requests} of {}: not bounded by the memory; {what}", at.context.short()))
}

fn while_decoding(at: &BatchAt) -> Option<String> {
    let (requests, each): (u64, Bytes) = at.decoding_batch.zip(at.decoding_bytes_each)?;
    let most = at.largest_batch?;
    (requests > most).then(|| {
        format!(
            "{} of {} are counted with room for what is in flight, as the engine prints its concurrency; while they decode \
             the memory has blocks for {requests}, {each} each, and admission goes by free blocks at run time",
            counted(most, "request", "requests"),
            at.context.short()
        )
    })
}
