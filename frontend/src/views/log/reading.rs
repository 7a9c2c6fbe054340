use kvscope_charts::Export;
use kvscope_charts::export::Origin;
use kvscope_charts::figures::Table;
use kvscope_sizing::counted;
use kvscope_sizing::log::{DecodedLog, GivenModel, LogFigure, decode_log};
use leptos::prelude::*;

use super::source::examples;
use crate::erased::nothing;
use crate::state::{Page, find_model};

const HEAD: [&str; 5] = ["line", "says", "means", "recomputed", "recomputed − printed"];

/// What the log says, what is the matter with it, or what could be put there. What it says in short is put into `said`.
pub(super) fn reading(page: Page, said: RwSignal<Option<String>>) -> AnyView {
    let text = page.log.get().unwrap_or_default();
    said.set(None);
    if text.trim().is_empty() {
        return nothing_yet(page);
    }
    match decoded(page, &text) {
        Ok(decoded) => {
            let figures = counted(decoded.figures.len() as u64, "figure", "figures");
            said.set(Some(format!("{}. {figures} about memory.", decoded.capacity_words().trim_end_matches('.'))));
            whole(&decoded)
        }
        Err(sentence) => view! {
            <div class="nothing">
                <h1>"This log cannot be read"</h1>
                <p class="refused" role="alert">{sentence}</p>
                <p>"Lines about memory come when the engine has loaded the weights. Examples: " {examples(page)}</p>
            </div>
        }
        .into_any(),
    }
}

/// What `kvscope log` decodes, for the model that is chosen here.
fn decoded(page: Page, text: &str) -> Result<DecodedLog, String> {
    let model = page.log_model.get();
    let own = page.opened.with(|opened| opened.models.clone());
    let model = model.map(|id| find_model(&id, &own)).transpose()?;
    let given = model.as_ref().map(|model| GivenModel {
        label: if model.entry().is_some() { &model.id } else { &model.name },
        architecture: &model.architecture,
    });
    decode_log(text, given).map_err(|error| error.to_string())
}

/// The lines with what they mean, for the log that is there.
pub(super) fn export(page: Page, origin: Origin) -> Result<Export, String> {
    let text = page.log.get().unwrap_or_default();
    if text.trim().is_empty() {
        return Err("No log is there, so there is nothing to export.".to_owned());
    }
    let decoded = decoded(page, &text)?;
    let row = |figure: &LogFigure| {
        vec![
            figure.place(),
            figure.says.clone(),
            figure.means.clone(),
            figure.recomputed_words(),
            figure.difference_words().to_owned(),
        ]
    };
    let table =
        Table { head: HEAD.map(str::to_owned).to_vec(), rows: decoded.figures.iter().map(row).collect() };
    let contradictions = decoded.contradictions.iter().map(|found| format!("contradiction: {}", found.what));
    let assumptions = contradictions.chain(decoded.warnings.iter().map(ToString::to_string)).collect();
    let settings = decoded.settings_words();
    let inputs =
        if settings.is_empty() { Vec::new() } else { vec![("settings in the log".to_owned(), settings)] };
    let title = decoded.capacity_words().to_owned();
    Ok(Export { assumptions, ..Export::of_table(title, decoded.title(), inputs, table, origin) })
}

fn nothing_yet(page: Page) -> AnyView {
    view! {
        <div class="nothing">
            <h1>"What did the engine say at start, and is it right?"</h1>
            <p>
                "Paste a start-up log, or drop its file. Each line about memory is put into words and computed again from "
                "the model's config; where two lines contradict each other, the one that is the capacity is named."
            </p>
            <p>"An example, composed from published lines, is one click away: " {examples(page)}</p>
        </div>
    }
    .into_any()
}

fn whole(decoded: &DecodedLog) -> AnyView {
    let settings = decoded.settings_words();
    let settings =
        if settings.is_empty() { nothing() } else { quiet(format!("settings in the log: {settings}")) };
    let contradictions: Vec<AnyView> = decoded
        .contradictions
        .iter()
        .map(|found| view! { <li>{format!("Contradiction: {}.", found.what)}</li> }.into_any())
        .collect();
    let contradictions = if contradictions.is_empty() {
        nothing()
    } else {
        view! { <ul class="doubts" aria-label="Contradictions">{contradictions}</ul> }.into_any()
    };
    let differences = match decoded.differences_words() {
        Some(words) => view! { <p class="refused" role="alert">{words} "."</p> }.into_any(),
        None => nothing(),
    };
    view! {
        <h1>{decoded.capacity_words().to_owned()}</h1>
        {quiet(decoded.title())}
        {decoded.note.as_ref().map_or_else(nothing, |note| quiet(format!("the file says of itself: {note}")))}
        {settings}
        {unknown_model(decoded)}
        {contradictions}
        {differences}
        {table(decoded)}
        {warnings(decoded)}
    }
    .into_any()
}

fn quiet(words: String) -> AnyView {
    view! { <p class="quiet">{words}</p> }.into_any()
}

/// Without a model there is nothing to compare with.
fn unknown_model(decoded: &DecodedLog) -> AnyView {
    if decoded.model.recomputed_as.is_some() {
        return nothing();
    }
    let why = match &decoded.model.named {
        Some(name) => format!("The log's model {name:?} is not recomputed."),
        None => "The log names no model.".to_owned(),
    };
    view! {
        <p class="ask">
            {why}
            " Choose one under “Recompute for”, or open its config.json there: then every figure that follows from it is computed again."
        </p>
    }
    .into_any()
}

fn table(decoded: &DecodedLog) -> AnyView {
    let head: Vec<AnyView> = HEAD.map(|name| view! { <th scope="col">{name}</th> }.into_any()).into();
    let rows: Vec<AnyView> = decoded.figures.iter().map(row).collect();
    view! {
        <section>
            <h2 id="log-lines">"Line by line"</h2>
            <table class="lines" aria-labelledby="log-lines">
                <thead><tr>{head}</tr></thead>
                <tbody>{rows}</tbody>
            </table>
        </section>
    }
    .into_any()
}

fn row(figure: &LogFigure) -> AnyView {
    let differs = figure.difference.is_some().then_some("refused");
    view! {
        <tr data-topic=figure.name>
            <td>{figure.place()}</td>
            <td><code>{figure.says.clone()}</code></td>
            <td>{figure.means.clone()}</td>
            <td>{figure.recomputed_words()}</td>
            <td class=differs>{figure.difference_words().to_owned()}</td>
        </tr>
    }
    .into_any()
}

/// Assumptions, in the words of the command line.
fn warnings(decoded: &DecodedLog) -> AnyView {
    let words = decoded.warnings.iter().map(|warning| view! { <li>{warning.to_string()}</li> }.into_any());
    let words: Vec<AnyView> = words.collect();
    if words.is_empty() {
        return nothing();
    }
    view! {
        <section>
            <h2>"What was assumed"</h2>
            <ul class="doubts">{words}</ul>
        </section>
    }
    .into_any()
}

#[cfg(test)]
mod tests {
    use super::super::source::EXAMPLES;
    use super::*;

    #[test]
    fn every_example_is_recomputed_and_agrees() {
        for (engine, text) in EXAMPLES {
            let decoded = decode_log(text, None).unwrap();
            assert!(
                decoded.engine.to_string().starts_with(&engine.to_lowercase()),
                "{engine}: {}",
                decoded.engine
            );
            assert!(decoded.note.as_ref().is_some_and(|note| note.contains("Composed")), "{engine}");
            assert!(decoded.model.recomputed_as.is_some(), "{engine}");
            assert!(decoded.capacity.is_some() && !decoded.has_differences(), "{engine}");
            assert!(decoded.figures.iter().any(|figure| figure.recomputed.is_some()), "{engine}");
        }
    }
}
