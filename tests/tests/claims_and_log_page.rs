//! The rooms for claims and for logs in a real browser, held against the command line's words.

mod in_chromium {
    use serde_json::{Value, json};

    use kvscope_tests::browser::Browser;
    use kvscope_tests::command_line::kvscope;
    use kvscope_tests::page::Page;
    use kvscope_tests::{selectors, static_host};

    const LOG_BOX: &str = "textarea[aria-labelledby=\"log-text\"]";
    const LOG_ROWS: &str = "table.lines tbody tr";

    async fn open(browser: &Browser, query: &str) -> Page {
        let address = static_host::start().await;
        browser.open(&format!("{address}?{query}")).await
    }

    async fn click(page: &Page, selector: &str) {
        page.wait_until_there(selector).await;
        page.run("document.querySelector(arguments[0]).click()", vec![selector.into()]).await;
    }

    /// The cells of every row of a table, in its order.
    async fn cells(page: &Page, rows: &str) -> Vec<Vec<String>> {
        let script = "return [...document.querySelectorAll(arguments[0])].map(
            row => [...row.querySelectorAll('td')].map(cell => cell.textContent.trim()));";
        serde_json::from_value(page.run(script, vec![rows.into()]).await).expect("texts")
    }

    /// Whether a script's value comes to be what is wanted.
    async fn until(page: &Page, script: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        for _ in 0..200 {
            let value = page.run(script, Vec::new()).await;
            if wanted(&value) {
                return value;
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
        panic!("{script} stays at {}", page.run(script, Vec::new()).await);
    }

    async fn room(page: &Page, name: &str) {
        let script =
            "[...document.querySelectorAll('nav a')].find(a => a.textContent == arguments[0]).click()";
        page.run(script, vec![name.into()]).await;
    }

    async fn paste(page: &Page, text: &str) {
        page.wait_until_there(LOG_BOX).await;
        let script = "const box = document.querySelector(arguments[0]); box.value = arguments[1];
            box.dispatchEvent(new Event('input', {bubbles: true}));";
        page.run(script, vec![LOG_BOX.into(), text.into()]).await;
    }

    const LEFT_TO_THE_COMMAND_LINE: &str = "not computed: needs a plan, which the command line computes";

    #[tokio::test]
    async fn every_claim_has_the_command_lines_figures_verdict_and_source() {
        let browser = Browser::start().await;
        let page = open(&browser, "v=1&r=claims").await;
        let script = "return [...document.querySelectorAll('[data-claim]')].map(row => ({
            id: row.dataset.claim,
            cells: [...row.querySelectorAll('td')].map(cell => cell.textContent),
            verdict: row.querySelector('.verdict-words').textContent,
            source: row.querySelector('.note').textContent,
            links: [...row.querySelectorAll('.note a')].map(link => link.href)}))";
        let shown = page.run(script, Vec::new()).await;
        let shown = shown.as_array().expect("rows");
        let printed: Value = serde_json::from_str(&kvscope(["claims", "--json"]).stdout).expect("JSON");
        let printed = printed.as_array().expect("rows");
        assert_eq!(shown.len(), printed.len());
        let table = kvscope(["claims"]).stdout;
        let mut left = Vec::new();
        for row in printed {
            let id = row["id"].as_str().expect("an id");
            let on_page = shown.iter().find(|shown| shown["id"] == id).unwrap_or_else(|| panic!("no {id}"));
            // The page leaves plans to the command line, and says so.
            if on_page["verdict"] == LEFT_TO_THE_COMMAND_LINE {
                assert!(!row["verdict"].as_str().expect("words").starts_with("not computed"), "{id}");
                left.push(id);
                continue;
            }
            assert_eq!(on_page["verdict"], row["verdict"], "{id}");
            let source = row["source"].as_str().expect("a source");
            assert!(
                on_page["source"].as_str().expect("words").starts_with(source),
                "{id}: {}",
                on_page["source"]
            );
            // `id published computed difference unit verdict`, as the command line's table has it.
            let line = table.lines().find(|line| line.split_whitespace().next() == Some(id)).expect("a line");
            let unit = row["unit"].as_str().expect("a unit");
            let words = on_page["cells"]
                .as_array()
                .expect("cells")
                .iter()
                .map(|cell| cell.as_str().expect("words").trim_end_matches(unit).trim_end().to_owned());
            let words: Vec<String> = words.collect();
            let columns: Vec<&str> = line.split_whitespace().skip(1).take(3).collect();
            assert_eq!(words, columns, "{id}");
        }
        let linked = shown.iter().filter(|row| {
            row["links"].as_array().is_some_and(|links| {
                links
                    .iter()
                    .any(|link| link.as_str().is_some_and(|link| link.starts_with("https://arxiv.org/abs/")))
            })
        });
        assert!(linked.count() >= 10, "papers can be followed");
        let heading = page.text("h1").await;
        assert!(left.contains(&"zero-windows-v4-pro"), "{left:?}");
        let differ = printed.iter().filter(|row| {
            let is_shown = row["id"].as_str().is_some_and(|id| !left.contains(&id));
            is_shown && row["verdict"].as_str().is_some_and(|v| v.starts_with("differs"))
        });
        assert!(heading.contains(&format!("{} find another figure", differ.count())), "{heading}");
        let first = page
            .run("return document.querySelector('section[data-verdict]').dataset.verdict", Vec::new())
            .await;
        assert_eq!(first, "differs", "what is wrong comes first");
    }

    #[tokio::test]
    async fn filters_are_in_the_link_and_an_empty_choice_can_be_left() {
        let browser = Browser::start().await;
        let page = open(&browser, "v=1&r=claims").await;
        let pick = "[...document.querySelectorAll('.filters button')].find(b => b.textContent.startsWith(arguments[0])).click()";
        page.run(pick, vec!["differs".into()]).await;
        let verdicts = "return [...new Set([...document.querySelectorAll('[data-verdict]')].map(s => s.dataset.verdict))]";
        until(&page, verdicts, |value| *value == json!(["differs"])).await;
        page.run(pick, vec!["DeepSeek-V4 report".into()]).await;
        let ids = "return [...document.querySelectorAll('[data-claim]')].map(row => row.dataset.claim)";
        until(&page, ids, |value| *value == json!(["v5-v4-pro-with-index"])).await;
        let link = page.address().await;
        assert!(link.contains("cv=differs") && link.contains("cs=deepseek-v4"), "{link}");
        page.reload().await;
        until(&page, ids, |value| *value == json!(["v5-v4-pro-with-index"])).await;
        page.run("history.back()", Vec::new()).await;
        until(&page, ids, |value| value.as_array().is_some_and(|ids| ids.len() > 1)).await;

        let page = open(&browser, "v=1&r=claims&cv=not-computed&cs=vllm-blog-deepseek-v4").await;
        assert!(page.text(".empty").await.starts_with("No claim of this source has this verdict."));
        click(&page, ".empty button").await;
        until(&page, ids, |value| value.as_array().is_some_and(|ids| ids.len() > 50)).await;
    }

    #[tokio::test]
    async fn a_row_opens_the_command_lines_working_and_leads_to_its_models() {
        let browser = Browser::start().await;
        let page = open(&browser, "v=1&r=claims").await;
        let id = "v4-ratio";
        click(&page, &format!("[data-claim=\"{id}\"] .statement")).await;
        page.wait_until_there(".working").await;
        let script = "return [...document.querySelectorAll('.working li')].map(
            step => step.querySelector(':scope > .what').textContent + step.querySelector(':scope > code').textContent)";
        let steps = page.run(script, Vec::new()).await;
        let printed = kvscope(["claims", id]);
        assert_eq!(printed.status, Some(0), "{}", printed.stderr);
        let lines: Vec<&str> = printed.stdout.lines().skip(3).map(str::trim).collect();
        assert_eq!(steps, json!(lines));
        assert!(page.address().await.contains(&format!("c={id}")));

        let grow = format!("[data-claim=\"{id}\"] .note a:last-child");
        click(&page, &grow).await;
        page.wait_until_there(selectors::CHART).await;
        let models: Vec<String> = page.shown().await.into_iter().map(|shown| shown.model).collect();
        assert_eq!(models, ["deepseek-v3.2", "deepseek-v4-pro"]);
        assert_eq!(page.context().await, 1 << 20);
        assert!(page.address().await.contains("kv=bf16"), "{}", page.address().await);
    }

    #[tokio::test]
    async fn every_example_log_says_what_the_command_line_says_and_is_sent_nowhere() {
        let browser = Browser::start().await;
        let page = open(&browser, "v=1&r=log").await;
        let requests = "return performance.getEntriesByType('resource').length";
        let before = page.run(requests, Vec::new()).await;
        let folder = tempfile::tempdir().expect("a temporary folder");
        for engine in ["vLLM", "SGLang", "llama.cpp"] {
            click(&page, &format!("[data-example=\"{engine}\"]")).await;
            let lower = format!(
                "return (document.querySelector('.log .quiet')?.textContent ?? '').startsWith({:?})",
                engine.to_lowercase()
            );
            until(&page, &lower, |value| *value == json!(true)).await;
            let text =
                page.run("return document.querySelector(arguments[0]).value", vec![LOG_BOX.into()]).await;
            let file = folder.path().join("start.log");
            std::fs::write(&file, text.as_str().expect("a text")).expect("written");
            let printed = kvscope(["log".as_ref(), file.as_os_str()]);
            assert_eq!(printed.status, Some(0), "{}", printed.stderr);
            let decoded = kvscope(["log".as_ref(), file.as_os_str(), "--json".as_ref()]);
            let decoded: Value = serde_json::from_str(&decoded.stdout).expect("JSON");

            assert_eq!(
                page.text(".log .quiet").await,
                printed.stdout.lines().next().expect("a line"),
                "{engine}"
            );
            assert_eq!(page.text("h1").await, printed.stdout.lines().last().expect("a line"), "{engine}");
            let rows = cells(&page, LOG_ROWS).await;
            let figures = decoded["figures"].as_array().expect("figures");
            assert_eq!(rows.len(), figures.len(), "{engine}");
            for (row, figure) in rows.iter().zip(figures) {
                assert_eq!(json!([row[1], row[2]]), json!([figure["says"], figure["means"]]));
                let line =
                    printed.stdout.lines().find(|line| line.contains(&row[1]) && line.contains(&row[2]));
                let line = line.unwrap_or_else(|| panic!("no line for {row:?}"));
                let end = format!("{} {}", row[3], row[4]);
                let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
                assert!(words(line).ends_with(&words(&end)), "{end} is not the end of {line}");
            }
        }
        assert_eq!(page.run(requests, Vec::new()).await, before, "a pasted log causes no request");
    }

    #[tokio::test]
    async fn the_contradictory_line_is_named_and_typed_text_stays_while_rooms_change() {
        let browser = Browser::start().await;
        let page = open(&browser, "v=1&r=log").await;
        assert!(page.text("h1").await.ends_with('?'), "an empty room asks");
        click(&page, "[data-example=\"vLLM\"]").await;
        let contradiction = page.text("[aria-label=\"Contradictions\"]").await;
        assert!(contradiction.contains("the concurrency line is the capacity"), "{contradiction}");
        assert!(page.text("h1").await.starts_with("The capacity is 33.04 requests of 32,768 tokens"));
        let box_text = format!("return document.querySelector('{LOG_BOX}')?.value ?? ''");
        let text = page.run(&box_text, Vec::new()).await;

        room(&page, "Growth").await;
        page.wait_until_there(selectors::CHART).await;
        room(&page, "Log").await;
        page.wait_until_there(LOG_ROWS).await;
        assert_eq!(page.run(&box_text, Vec::new()).await, text);
        assert!(!page.address().await.contains("vLLM"), "{}", page.address().await);
    }

    #[tokio::test]
    async fn an_unknown_model_asks_for_its_config_and_a_wrong_figure_is_told() {
        let browser = Browser::start().await;
        let page = open(&browser, "v=1&r=log").await;
        click(&page, "[data-example=\"vLLM\"]").await;
        page.wait_until_there(LOG_ROWS).await;
        let text = page.run("return document.querySelector(arguments[0]).value", vec![LOG_BOX.into()]).await;
        let text = text.as_str().expect("a text").replace("Qwen/Qwen3.5-27B", "our/own-model");
        paste(&page, &text).await;
        assert!(page.text(".ask").await.contains("\"our/own-model\" is not recomputed"));

        let known: Value = serde_json::from_str(&kvscope(["describe", "qwen3.5-27b"]).stdout).expect("JSON");
        assert!(known.is_object());
        page.choose("select[aria-label=\"Model to recompute for\"]", "qwen3.5-27b").await;
        until(&page, "return document.querySelector('.ask') === null", |value| *value == json!(true)).await;
        assert!(page.text(".log .quiet").await.ends_with("recomputed as qwen3.5-27b"));

        paste(&page, &text.replace("290,864", "290,080")).await;
        let told = page.text(".log .refused").await;
        assert!(told.starts_with("1 of "), "{told}");

        let folder = tempfile::tempdir().expect("a temporary folder");
        let config = folder.path().join("config.json");
        let dense = r#"{"model_type": "qwen3", "num_hidden_layers": 2, "hidden_size": 1024, "num_attention_heads": 8,
            "num_key_value_heads": 8, "head_dim": 128, "torch_dtype": "bfloat16"}"#;
        std::fs::write(&config, dense).expect("written");
        page.choose_file("input[aria-label=\"Open the model's config\"]", &config).await;
        let title = "return document.querySelector('.log .quiet').textContent";
        until(&page, title, |value| value.as_str().is_some_and(|title| title.contains("config.json"))).await;
    }

    #[tokio::test]
    async fn a_text_without_a_known_line_gets_the_command_lines_sentence_and_can_be_cleared() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let file = folder.path().join("start.log");
        std::fs::write(&file, "nothing of note\n").expect("written");
        let printed = kvscope(["log".as_ref(), file.as_os_str()]);
        assert_eq!(printed.status, Some(2));

        let browser = Browser::start().await;
        let page = open(&browser, "v=1&r=log").await;
        paste(&page, "nothing of note\n").await;
        let told = page.text("main .refused").await;
        assert!(printed.stderr.trim_end().ends_with(&told), "{told} is not in {}", printed.stderr);
        page.run(
            "[...document.querySelectorAll('.source button')].find(b => b.textContent == 'clear').click()",
            Vec::new(),
        )
        .await;
        until(&page, "return document.querySelector('main .refused') === null", |value| {
            *value == json!(true)
        })
        .await;

        page.choose_file("input[aria-label=\"Open a log\"]", &file).await;
        assert_eq!(page.text("main .refused").await, told);
    }
}
