use std::sync::Arc;

use kvscope_sizing::{Growth, Input, StateComponent, Tokens, group_digits};
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
        product(&component, layers, context, batch).unwrap_or_else(|error| error.to_string())
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

/// `61 layers × 100,000 entries × 1,152 B = 7,027,200,000 B`
fn product(
    component: &StateComponent,
    layers: u64,
    context: Tokens,
    batch: u64,
) -> kvscope_sizing::Result<String> {
    let bytes = component.bytes(context)?.times(layers)?.times(batch)?;
    let mut factors = vec![format!("{layers} {}", if layers == 1 { "layer" } else { "layers" })];
    if !matches!(component.growth, Growth::Constant { .. }) {
        let entries = component.growth.entries(context);
        factors.push(format!("{} {}", group_digits(entries), if entries == 1 { "entry" } else { "entries" }));
    }
    factors.push(format!("{} B", group_digits(component.growth.entry().get())));
    if batch > 1 {
        factors.push(format!("{} requests", group_digits(batch)));
    }
    Ok(format!("{} = {bytes}", factors.join(" × ")))
}

#[cfg(test)]
mod tests {
    use kvscope_sizing::{Settings, StateModel, find_entry};

    use super::*;

    #[test]
    fn the_product_is_the_figure() {
        let entry = find_entry("deepseek-v3.2").unwrap();
        let state = StateModel::new(&entry.architecture().unwrap(), &Settings::default()).unwrap();
        let (part, n) = (&state.parts()[0], Tokens::new(100_000));
        assert_eq!(
            product(&part.component, part.layers, n, 1).unwrap(),
            "61 layers × 100,000 entries × 1,152 B = 7,027,200,000 B"
        );
    }
}
