use std::sync::Arc;

use kvscope_charts::runs::{RunTable, transfer_tables as tables, transfers_export};
use kvscope_protocol::run::Run;
use leptos::prelude::*;

use crate::state::{Page, Shared};
use crate::ui::{DataTable, Holds, export_menu};

/// The tables of a run's transfers; nothing where it has none.
pub(super) fn transfer_tables(page: Page, run: &Shared<Run>) -> AnyView {
    tables(run).into_iter().map(|table| section(page, run.clone(), table)).collect::<Vec<_>>().into_any()
}

fn section(page: Page, run: Shared<Run>, table: RunTable) -> AnyView {
    let remarks: Vec<AnyView> =
        table.remarks.iter().map(|words| view! { <p class="quiet">{words.clone()}</p> }.into_any()).collect();
    let (shown, caption) = (table.table.clone(), table.caption);
    let (title, stem) = (table.title, table.stem);
    view! {
        <section class="cases">
            <div class="heading">
                <h2>{title}</h2>
                {export_menu(page, stem, Holds::Table, Arc::new(move |origin| Ok(transfers_export(&run, &table, origin))))}
            </div>
            <DataTable caption=caption table=shown/>
            {remarks}
        </section>
    }
    .into_any()
}
