//! The search and the list of all versions in a real browser, held against the command line.

mod in_chromium {
    use std::time::Duration;

    use fantoccini::key::Key;
    use serde_json::{Value, json};

    use kvscope_tests::browser::Browser;
    use kvscope_tests::command_line::{kvscope, size};
    use kvscope_tests::page::Page;
    use kvscope_tests::static_host;

    const INPUT: &str = "dialog.search input";
    const NAMES: &str = "return [...document.querySelectorAll('[data-row]')].map(row => row.dataset.row)";

    async fn open(browser: &Browser, query: &str) -> Page {
        let address = static_host::start().await;
        browser.open(&format!("{}/?{query}", address.trim_end_matches('/'))).await
    }

    fn catalogue() -> Vec<Value> {
        let finished = kvscope(["models", "--json"]);
        assert_eq!(finished.status, Some(0), "{}", finished.stderr);
        let rows: Value = serde_json::from_str(&finished.stdout).expect("JSON");
        rows.as_array().expect("rows").clone()
    }

    async fn wait_for(page: &Page, script: &str, wanted: Value) {
        let mut got = Value::Null;
        for _ in 0..300 {
            got = page.run(script, Vec::new()).await;
            if got == wanted {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("{script} gives {got}, not {wanted}");
    }

    /// By keyboard alone: opened by both keys, moved by arrows, followed by Enter, left by Escape with the focus back.
    #[tokio::test]
    async fn the_search_leads_to_versions_forms_fields_and_views() {
        let browser = Browser::start().await;
        let page = open(&browser, "v=1&m=glm-5.1").await;
        let is_open = "return document.querySelector('dialog.search').open";
        page.press("main .figure[tabindex]", "/").await;
        wait_for(&page, is_open, true.into()).await;
        let views = "return document.querySelectorAll('[role=option]').length
            === document.querySelectorAll('nav a').length";
        wait_for(&page, views, true.into()).await;
        page.press(INPUT, &String::from(char::from(Key::Escape))).await;
        wait_for(&page, is_open, false.into()).await;
        let focus = "return document.activeElement.matches('main .figure')";
        wait_for(&page, focus, true.into()).await;

        // In a box that takes text, a slash is a slash.
        page.press("input[aria-label=\"Context in tokens\"]", "/").await;
        wait_for(&page, is_open, false.into()).await;
        let ctrl_k = String::from(char::from(Key::Control)) + "k" + &String::from(char::from(Key::Null));
        page.press("input[aria-label=\"Context in tokens\"]", &ctrl_k).await;
        wait_for(&page, is_open, true.into()).await;
        page.press(INPUT, "kimi k2.6").await;
        let first = "return document.querySelector('[role=option][aria-selected=true] span').innerText";
        wait_for(&page, first, "Kimi-K2.6".into()).await;
        let named = "const input = document.querySelector('dialog.search input');
            return document.getElementById(input.getAttribute('aria-activedescendant')).getAttribute('aria-selected')";
        wait_for(&page, named, "true".into()).await;
        page.press(INPUT, &String::from(char::from(Key::Enter))).await;
        wait_for(&page, is_open, false.into()).await;
        let drawn = "return [...document.querySelectorAll('[data-model]')].map(row => row.dataset.model)";
        wait_for(&page, drawn, json!(["glm-5.1", "kimi-k2.6"])).await;

        page.run("document.querySelector('button.find').click()", Vec::new()).await;
        page.press(INPUT, "zzzz").await;
        let said = "return document.querySelector('dialog.search .hint').innerText.startsWith('Nothing')";
        wait_for(&page, said, true.into()).await;
        let all = String::from(char::from(Key::Control)) + "a" + &String::from(char::from(Key::Null));
        page.press(INPUT, &(all.clone() + "gated delta")).await;
        wait_for(&page, first, "gated DeltaNet".into()).await;
        page.press(INPUT, &String::from(char::from(Key::Enter))).await;
        let with_form: Vec<String> = catalogue()
            .iter()
            .filter(|row| row["mixers"].to_string().contains("gated DeltaNet"))
            .map(|row| row["model"].as_str().expect("an id").to_owned())
            .collect();
        assert!(!with_form.is_empty());
        let sorted = "return [...document.querySelectorAll('[data-row]')].map(row => row.dataset.row).sort()";
        wait_for(&page, sorted, json!(with_form)).await;
        assert!(page.address().await.contains("r=models"), "{}", page.address().await);
    }

    #[tokio::test]
    async fn the_list_has_the_command_lines_figures_and_sorts_by_every_column() {
        let browser = Browser::start().await;
        let page = open(&browser, "v=1&r=models&m=").await;
        let known = catalogue();
        let cells = "return [...document.querySelectorAll('[data-row]')].map(row =>
            [row.dataset.row, ...['slope', 'fixed', '100K', '1M', 'longest'].map(name =>
                row.querySelector(`[data-figure=\"${name}\"]`).dataset.value)])";
        let rows = page.run(cells, Vec::new()).await;
        let rows = rows.as_array().expect("rows");
        assert_eq!(rows.len(), known.len());
        let ids: Vec<String> =
            known.iter().map(|row| row["model"].as_str().expect("an id").to_owned()).collect();
        let sized = size(ids.iter().map(String::as_str).chain(["--context", "100000,1000000"]));
        for (place, version) in known.iter().enumerate() {
            let id = &version["model"];
            let row = rows.iter().find(|row| row[0] == *id).unwrap_or_else(|| panic!("no {id}"));
            let number = |cell: usize| row[cell].as_str().expect("text").parse::<f64>().ok();
            assert_eq!(number(1), version["slope_bytes_per_token"].as_f64(), "{id}");
            assert_eq!(number(2), version["fixed_bytes"].as_f64(), "{id}");
            for at in [0, 1] {
                let sized = &sized[2 * place + at];
                assert_eq!(sized["model"], *id);
                assert_eq!(number(3 + at), sized["resident_bytes"].as_f64(), "{id}");
            }
            assert_eq!(number(5), version["max_context"].as_f64(), "{id}");
        }

        for name in ["slope", "fixed", "100K", "1M", "longest"] {
            for order in ["ascending", "descending"] {
                page.run(
                    "document.querySelector(`[data-sort=\"${arguments[0]}\"]`).click()",
                    vec![name.into()],
                )
                .await;
                let sort = format!(
                    "return document.querySelector('[data-sort=\"{name}\"]').parentElement.getAttribute('aria-sort')"
                );
                wait_for(&page, &sort, order.into()).await;
                let values = format!(
                    "return [...document.querySelectorAll('[data-figure=\"{name}\"]')].map(cell => cell.dataset.value)"
                );
                let values = page.run(&values, Vec::new()).await;
                let values: Vec<Option<f64>> = values
                    .as_array()
                    .expect("cells")
                    .iter()
                    .map(|cell| cell.as_str().and_then(|cell| cell.parse().ok()))
                    .collect();
                let figures: Vec<f64> = values.iter().copied().flatten().collect();
                assert!(values[figures.len()..].iter().all(Option::is_none), "what has no figure is last");
                let in_order = |pair: &[f64]| {
                    if order == "ascending" { pair[0] <= pair[1] } else { pair[0] >= pair[1] }
                };
                assert!(figures.windows(2).all(in_order), "{name} {order}");
            }
        }
        assert!(page.address().await.contains("so=-longest"), "{}", page.address().await);
        page.run("history.back()", Vec::new()).await;
        let sort =
            "return document.querySelector('[data-sort=longest]').parentElement.getAttribute('aria-sort')";
        wait_for(&page, sort, "ascending".into()).await;
    }

    #[tokio::test]
    async fn two_ticked_versions_can_be_drawn_and_compared() {
        let browser = Browser::start().await;
        let page = open(&browser, "v=1&r=models&m=&q=glm-4.5%20").await;
        page.press("[aria-label=\"Filter versions\"]", "zzzz").await;
        let empty = "return document.querySelectorAll('[data-row]').length";
        wait_for(&page, empty, 0.into()).await;
        page.run("document.querySelector('.none button').click()", Vec::new()).await;
        wait_for(&page, empty, catalogue().len().into()).await;
        for name in ["GLM-4.5", "GLM-5.1"] {
            page.press(&format!("[aria-label=\"Draw {name}\"]"), " ").await;
        }
        let names = page.run(NAMES, Vec::new()).await;
        assert!(names.as_array().is_some_and(|names| !names.is_empty()));
        let link = "const link = [...document.querySelectorAll('.bar a')].at(-1);
            return link ? link.innerText : ''";
        wait_for(&page, link, "what changed from GLM-4.5 to GLM-5.1".into()).await;
        page.run("[...document.querySelectorAll('.bar a')][0].click()", Vec::new()).await;
        let drawn = "return [...document.querySelectorAll('[data-model]')].map(row => row.dataset.model)";
        wait_for(&page, drawn, json!(["glm-4.5", "glm-5.1"])).await;
    }
}
