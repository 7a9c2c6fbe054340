use leptos::prelude::*;

/// A storage format, or what each model's own config asks for.
#[component]
pub(crate) fn FormatSelect<T>(
    label: &'static str,
    /// Name and format.
    options: Vec<(&'static str, T)>,
    #[prop(into)] chosen: Signal<Option<T>>,
    choose: impl Fn(Option<T>) + 'static,
) -> impl IntoView
where
    T: Copy + PartialEq + Send + Sync + 'static,
{
    const OWN: &str = "as the model asks";
    let names: Vec<&'static str> = options.iter().map(|(name, _)| *name).collect();
    let by_name = options.clone();
    let changed = move |event: leptos::ev::Event| {
        let name = event_target_value(&event);
        choose(by_name.iter().find(|(known, _)| *known == name).map(|(_, format)| *format));
    };
    let current = move || {
        let chosen = chosen.get();
        options.iter().find(|(_, format)| Some(*format) == chosen).map_or(OWN, |(name, _)| *name)
    };
    let current = Signal::derive(current);
    view! {
        <label class="sentence">
            <span>{label}</span>
            <span class="value">
                <select on:change=changed prop:value=move || current.get()>
                    {std::iter::once(OWN)
                        .chain(names)
                        .map(|name| {
                            view! { <option value=name selected=move || current.get() == name>{name}</option> }
                        })
                        .collect_view()}
                </select>
            </span>
        </label>
    }
}
