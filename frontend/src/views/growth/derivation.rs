use kvscope_sizing::{Bytes, Growth, StateComponent, Tokens, group_digits};
use leptos::prelude::*;

/// How a component's bytes come about: the formula of one entry, its inputs with the config fields, and the product.
#[component]
pub(super) fn DerivationView(
    component: StateComponent,
    /// Layers that keep it.
    layers: u64,
    /// Which layers these are.
    places: String,
    /// Context, batch and bytes of the moment.
    now: Signal<Option<(Tokens, u64, Bytes)>>,
) -> impl IntoView {
    let what = match component.growth {
        Growth::Constant { .. } => "a layer",
        _ => "an entry",
    };
    let derivation = component.derivation.clone();
    let worked = format!("= {} = {} B {what}", derivation.worked(), group_digits(derivation.result.get()));
    let inputs = derivation
        .inputs
        .iter()
        .map(|input| {
            view! {
                <tr>
                    <th scope="row"><code>{input.symbol}</code></th>
                    <td>{group_digits(input.value)}</td>
                    <td>{input.source.to_string()}</td>
                </tr>
            }
        })
        .collect_view();
    let product = move || now.get().map(|(context, batch, bytes)| product(&component, layers, context, batch, bytes));
    view! {
        <div class="derivation">
            <p><code>{derivation.formula}</code></p>
            <p><code>{worked}</code></p>
            <table>
                <thead>
                    <tr><th scope="col">"symbol"</th><th scope="col">"value"</th><th scope="col">"from"</th></tr>
                </thead>
                <tbody>{inputs}</tbody>
            </table>
            <p>"Layers " {places} ". " <code>{product}</code></p>
        </div>
    }
}

/// `61 layers × 100,000 entries × 1,152 B = 7,027,200,000 B`
fn product(component: &StateComponent, layers: u64, context: Tokens, batch: u64, bytes: Bytes) -> String {
    let mut factors = vec![format!("{layers} {}", if layers == 1 { "layer" } else { "layers" })];
    if !matches!(component.growth, Growth::Constant { .. }) {
        let entries = component.growth.entries(context);
        factors.push(format!("{} {}", group_digits(entries), if entries == 1 { "entry" } else { "entries" }));
    }
    factors.push(format!("{} B", group_digits(component.growth.entry().get())));
    if batch > 1 {
        factors.push(format!("{} requests", group_digits(batch)));
    }
    format!("{} = {bytes}", factors.join(" × "))
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
        let bytes = part.component.bytes(n).unwrap().times(part.layers).unwrap();
        assert_eq!(
            product(&part.component, part.layers, n, 1, bytes),
            "61 layers × 100,000 entries × 1,152 B = 7,027,200,000 B"
        );
    }
}
