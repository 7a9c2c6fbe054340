use kvscope_charts::figures::Table;
use leptos::prelude::*;

/// A figure's data with all digits.
#[component]
pub(crate) fn DataTable(
    /// What the rows are.
    caption: &'static str,
    table: Table,
) -> impl IntoView {
    let head: Vec<AnyView> =
        table.head.into_iter().map(|name| view! { <th scope="col">{name}</th> }.into_any()).collect();
    let row = |cells: Vec<String>| {
        let cells: Vec<AnyView> =
            cells.into_iter().map(|cell| view! { <td>{cell}</td> }.into_any()).collect();
        view! { <tr>{cells}</tr> }.into_any()
    };
    let rows: Vec<AnyView> = table.rows.into_iter().map(row).collect();
    view! {
        <div class="scroll" tabindex="0" role="region" aria-label=caption>
            <table class="data">
                <caption>{caption}</caption>
                <thead><tr>{head}</tr></thead>
                <tbody>{rows}</tbody>
            </table>
        </div>
    }
    .into_any()
}
