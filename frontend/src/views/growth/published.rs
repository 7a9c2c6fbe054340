//! What others printed for the same quantity, beside what the config gives.

use kvscope_sizing::{
    Bytes, CatalogueEntry, ComponentKind, PublishedFigure, StateModel, Tokens, UnitSystem, parse_count,
};
use leptos::prelude::*;

use crate::erased::words;
use crate::state::{Page, Shared};

/// Under a version's name: that a published figure exists and is explained below.
pub(super) fn published_note(entry: &'static CatalogueEntry) -> AnyView {
    let notes = entry.published.iter().map(|published| {
        view! { <span class="note">"published elsewhere: " {published.figure.as_str()}</span> }.into_any()
    });
    notes.collect::<Vec<_>>().into_any()
}

/// Published and computed, side by side, and why they differ.
pub(super) fn published(page: Page, entry: &'static CatalogueEntry, state: &Shared<StateModel>) -> AnyView {
    let block = |published: &'static PublishedFigure| {
        let state = state.clone();
        let computed = move || {
            let context = context_in(&published.figure).unwrap_or_else(|| page.context());
            computed(&state, context, units_of(&published.figure))
        };
        view! {
            <dl class="published">
                <dt>"published"</dt>
                <dd>{published.figure.as_str()} " " <span class="note">{published.source.as_str()}</span></dd>
                <dt>"computed"</dt>
                <dd>{words(computed)}</dd>
                <dt>"why"</dt>
                <dd>{published.remark.as_str()}</dd>
            </dl>
        }
        .into_any()
    };
    entry.published.iter().map(block).collect::<Vec<_>>().into_any()
}

/// The units of a published figure, which what stands beside it is read in too.
fn units_of(figure: &str) -> UnitSystem {
    if figure.contains("iB") { UnitSystem::Binary } else { UnitSystem::Decimal }
}

/// `3.07 GB full K/V + 189 MB recurrent state … at 100,000 tokens`, under the settings of the page.
fn computed(state: &StateModel, context: Tokens, units: UnitSystem) -> String {
    let kinds = match state.by_kind(context) {
        Ok(kinds) => kinds,
        Err(error) => return error.to_string(),
    };
    let kept = ComponentKind::ALL.into_iter().zip(kinds).filter(|(_, bytes)| *bytes > Bytes::ZERO);
    let words: Vec<String> =
        kept.map(|(kind, bytes)| format!("{} {}", bytes.display(units), kind.label())).collect();
    format!("{} at {context} tokens", words.join(" + "))
}

/// The context that a published figure names: `… at 100,000 tokens`.
fn context_in(figure: &str) -> Option<Tokens> {
    let (before, _) = figure.split_once(" tokens")?;
    let count = parse_count(before.rsplit(' ').next()?).ok()?;
    Tokens::context(count).ok()
}

#[cfg(test)]
mod tests {
    use kvscope_sizing::{Settings, find_entry};

    use super::*;

    #[test]
    fn units_are_the_publications() {
        assert_eq!(units_of("2.4 GB of K/V at 100,000 tokens"), UnitSystem::Decimal);
        assert_eq!(units_of("5.7 GiB a request"), UnitSystem::Binary);
    }

    #[test]
    fn the_context_of_a_published_figure_is_found() {
        assert_eq!(context_in("2.4 GB of K/V at 100,000 tokens"), Some(Tokens::new(100_000)));
        assert_eq!(context_in("1.2 GB at 128Ki tokens of a request"), Some(Tokens::new(131_072)));
        assert_eq!(context_in("70 KB per token"), None);
    }

    /// 15 layers × 2 × 2 heads × 256 × 2 B × 100,000; 45 × (64 × 128 × 128 × 4 B) and 45 × 12,288 × 3 × 2 B.
    #[test]
    fn qwen_3_5_keeps_more_than_an_article_said() {
        let entry = find_entry("qwen3.5-397b-a17b").unwrap();
        assert!(entry.published.iter().any(|published| published.figure.starts_with("2.4 GB")));
        let state = StateModel::new(&entry.architecture().unwrap(), &Settings::default()).unwrap();
        assert_eq!(
            computed(&state, Tokens::new(100_000), UnitSystem::Decimal),
            "3.07 GB full K/V + 189 MB recurrent state + 3.32 MB conv state at 100,000 tokens"
        );
    }
}
