use kvscope_charts::figures::Table;
use leptos::prelude::*;

/// A figure's data with all digits.
#[component]
pub(crate) fn DataTable(
    /// What the rows are.
    caption: &'static str,
    table: Table,
) -> impl IntoView {
    let head = table.head.into_iter().map(|name| view! { <th scope="col">{name}</th> }).collect_view();
    let row = |cells: Vec<String>| {
        let cells = cells.into_iter().map(|cell| view! { <td>{cell}</td> }).collect_view();
        view! { <tr>{cells}</tr> }
    };
    view! {
        <div class="scroll" tabindex="0" role="region" aria-label=caption>
            <table class="data">
                <caption>{caption}</caption>
                <thead><tr>{head}</tr></thead>
                <tbody>{table.rows.into_iter().map(row).collect_view()}</tbody>
            </table>
        </div>
    }
}
