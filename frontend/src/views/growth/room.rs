//! What fits the memory that was given: the longest context and the most requests of each version, in words.

use kvscope_sizing::plan::Left;
use kvscope_sizing::{LargestContext, Tokens, counted};
use leptos::prelude::*;

use super::beside::rank;
use super::curves::{BesideWeights, Curves};
use crate::erased::nothing;
use crate::state::{Chosen, Page};

/// A line a version for the memory that was given, and one for what GPUs leave beside weights.
pub(super) fn room(page: Page, curves: &Curves) -> AnyView {
    let left = curves.beside_weights.as_ref().map_or_else(nothing, |left| beside_weights(page, left));
    view! { {in_memory(page, curves)}{left} }.into_any()
}

fn beside_weights(page: Page, left: &BesideWeights) -> AnyView {
    let units = page.view(|view| view.units);
    let line = |(chosen, left): &(Chosen, Result<Left, String>)| {
        let (words, tokens) = match left {
            Err(why) => (why.clone(), None),
            Ok(Left { memory, longest, .. }) => match (&memory.does_not_fit, memory.state_bytes) {
                (None, Some(room)) => {
                    let (words, tokens) = length(chosen, *longest);
                    (format!("{} left, {words}", room.display(units)), tokens)
                }
                (why, _) => (why.clone().unwrap_or_default(), None),
            },
        };
        fit(chosen, words, tokens, None)
    };
    let lines: Vec<AnyView> = left.left.iter().map(line).collect();
    let (gpus, batch) = (left.gpus, counted(page.batch(), "request", "requests"));
    let words = format!(
        "{gpus}: what each leaves beside weights, activations, graphs and what stays free, and the longest context of {batch}"
    );
    view! {
        <p class="fits quiet">{words}</p>
        <ul class="fits">{lines}</ul>
    }
    .into_any()
}

/// A line of the list.
fn fit(chosen: &Chosen, words: String, tokens: Option<Tokens>, requests: Option<u64>) -> AnyView {
    view! {
        <li
            data-fits=chosen.id.clone()
            data-tokens=tokens.map(|tokens| tokens.get().to_string())
            data-requests=requests.map(|most| most.to_string())
        >
            <b>{chosen.name.clone()}</b>": "{words}"."
        </li>
    }
    .into_any()
}

fn in_memory(page: Page, curves: &Curves) -> AnyView {
    let Some(room) = &curves.room else { return nothing() };
    let set = page.chosen();
    let place = match &set.engine {
        Some((engine, _)) => format!("{}, by {engine}", rank(page, ", ")),
        None => ", logical bytes".to_owned(),
    };
    let line = |(chosen, longest): &(Chosen, Result<LargestContext, String>)| {
        let (words, tokens) = match longest {
            Ok(longest) => length(chosen, *longest),
            Err(why) => (why.clone(), None),
        };
        let requests = set.most_requests(chosen, page.context(), room.memory).and_then(Result::ok);
        let asked = requests.map_or(String::new(), |most| format!("; {}", requests_of(most, page.context())));
        fit(chosen, words + &asked, tokens, requests.flatten())
    };
    let lines: Vec<AnyView> = room.longest.iter().map(line).collect();
    let batch = counted(page.batch(), "request", "requests");
    view! {
        <p class="fits quiet">{format!("What {} hold{place}: the longest context of {batch}, and requests of the context that is set", room.memory.as_given())}</p>
        <ul class="fits">{lines}</ul>
    }
    .into_any()
}

/// The longest context in words, and in tokens where memory bounds it.
fn length(chosen: &Chosen, longest: LargestContext) -> (String, Option<Tokens>) {
    let allowed = chosen.model.as_ref().and_then(|model| model.max_context());
    match longest {
        LargestContext::Nothing => ("not even what one request always holds".to_owned(), None),
        LargestContext::Limit { .. } => ("any context".to_owned(), None),
        LargestContext::Budget { tokens } => {
            let beyond = allowed.filter(|allowed| *allowed < tokens);
            let note = beyond
                .map_or(String::new(), |allowed| format!(", where the config allows {}", allowed.short()));
            (format!("{tokens} tokens{note}"), Some(tokens))
        }
    }
}

fn requests_of(most: Option<u64>, context: Tokens) -> String {
    match most {
        None => format!("any number of requests of {context} tokens"),
        Some(0) => format!("no request of {context} tokens"),
        Some(most) => format!("{} of {context} tokens", counted(most, "request", "requests")),
    }
}
