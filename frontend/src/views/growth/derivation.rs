use std::sync::Arc;

use kvscope_sizing::{Growth, Input, StateComponent, group_digits};
use leptos::prelude::*;

use crate::erased::words;
use crate::state::Page;

/// How a component's bytes come about: the formula of one entry, its inputs with the config fields, and the product.
pub(super) fn derivation(page: Page, component: Arc<StateComponent>, layers: u64, places: &str) -> AnyView {
    let what = match component.growth {
        Growth::Constant { .. } => "a layer",
        _ => "an entry",
    };
    let derivation = &component.derivation;
    let worked = format!("= {} = {} B {what}", derivation.worked(), group_digits(derivation.result.get()));
    let input = |input: &Input| {
        view! {
            <tr>
                <th scope="row"><code>{input.symbol}</code></th>
                <td>{group_digits(input.value)}</td>
                <td>{input.source.to_string()}</td>
            </tr>
        }
        .into_any()
    };
    let inputs: Vec<AnyView> = derivation.inputs.iter().map(input).collect();
    let formula = derivation.formula.to_string();
    let product = move || {
        let (context, batch) = (page.context(), page.batch());
        component.product(layers, context, batch).unwrap_or_else(|error| error.to_string())
    };
    view! {
        <div class="derivation">
            <p><code>{formula}</code></p>
            <p><code>{worked}</code></p>
            <table>
                <thead>
                    <tr><th scope="col">"symbol"</th><th scope="col">"value"</th><th scope="col">"from"</th></tr>
                </thead>
                <tbody>{inputs}</tbody>
            </table>
            <p>{format!("Layers {places}.")}</p>
            <p><code>{words(product)}</code></p>
        </div>
    }
    .into_any()
}
