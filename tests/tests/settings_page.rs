//! Settings of engines, formats and the keyboard on the growth page: in a real browser, held against the command line.

mod in_chromium {
    use fantoccini::key::Key;
    use serde_json::Value;

    use kvscope_tests::browser::Browser;
    use kvscope_tests::command_line::size;
    use kvscope_tests::page::Page;
    use kvscope_tests::{selectors, static_host};

    async fn open(browser: &Browser, query: &str) -> Page {
        let address = static_host::start().await;
        browser.open(&format!("{}/?{query}", address.trim_end_matches('/'))).await
    }

    async fn exact(page: &Page, selector: &str) -> Option<String> {
        let script = "return document.querySelector(arguments[0])?.getAttribute('data-value') ?? null";
        page.run(script, vec![selector.into()]).await.as_str().map(str::to_owned)
    }

    /// Settings that few ask for are in the link and in the panel, and move the figures as on the command line.
    #[tokio::test]
    async fn every_setting_of_the_engine_is_taken_from_a_link_and_from_the_panel() {
        let browser = Browser::start().await;
        let asked = ["gemma-3-27b", "--context", "100000", "--engine", "vllm@0.33"];
        let set =
            ["--set", "gpu=B200", "--set", "async_scheduling=off", "--set", "max_num_batched_tokens=2048"];
        let plain = size(asked);
        let expected = size(asked.into_iter().chain(set));
        assert!(
            plain[0]["resident_bytes"] != expected[0]["resident_bytes"],
            "the settings change the figure"
        );

        let es = "gpu:B200,async_scheduling:off,max_num_batched_tokens:2048";
        let page = open(&browser, &format!("v=1&m=gemma-3-27b&e=vllm@0.33&es={es}")).await;
        page.wait_until_there(selectors::RESERVED_BYTES).await;
        let shown = exact(&page, selectors::RESERVED_BYTES).await;
        assert_eq!(shown, Some(expected[0]["resident_bytes"].to_string()));
        let doubts = page.text("[data-doubts=\"gemma-3-27b\"]").await;
        assert!(!doubts.contains("gpu: not given"), "{doubts}");

        let page = open(&browser, "v=1&m=gemma-3-27b&e=vllm@0.33&es=async_scheduling:off").await;
        page.type_into("input[aria-label=\"GPU\"]", "B200").await;
        page.type_into("input[aria-label=\"tokens of a batch\"]", "2048").await;
        page.wait_until_there(selectors::RESERVED_BYTES).await;
        let end =
            format!("[data-figure=\"reserved_bytes\"][data-value=\"{}\"]", expected[0]["resident_bytes"]);
        page.wait_until_there(&end).await;
        for pair in es.split(',') {
            assert!(page.address().await.contains(pair), "{pair}: {}", page.address().await);
        }
        let rare = "return [...document.querySelectorAll('.rare .sentence')].map(row => row.innerText)";
        page.run("document.querySelector('.rare').open = true", Vec::new()).await;
        let rare = page.run(rare, Vec::new()).await;
        assert!(rare.to_string().contains("gdn prefill backend"), "{rare}");
    }

    #[tokio::test]
    async fn formats_of_k_and_v_are_named_where_they_are_chosen() {
        let browser = Browser::start().await;
        let query = "v=1&m=llama-3.1-8b&e=llama.cpp&es=k_dtype:q8_0,v_dtype:q4_0&n=32768";
        let page = open(&browser, query).await;
        assert!(page.text(".finding .quiet").await.contains("· K q8_0, V q4_0 ·"));
        assert!(page.text("[data-component=\"kv\"] summary").await.contains("K q8_0, V q4_0"));
        // A side's own format goes before that of both.
        let page = open(&browser, &format!("{}&kv=fp8", query.replace("e=llama.cpp&", ""))).await;
        let said = page.text(".finding .quiet").await;
        assert!(said.contains("K q8_0, V q4_0") && !said.contains("fp8"), "{said}");
    }

    #[tokio::test]
    async fn every_bad_pair_of_a_link_is_said() {
        let browser = Browser::start().await;
        let page = open(&browser, "v=1&m=minimax-m2.7&e=vllm&es=tp:0,foo:3,pp:2").await;
        let said = page.text("[role=\"status\"]").await;
        assert!(said.contains("es = \"tp:0\"") && said.contains("es = \"foo:3\""), "{said}");
        let rows = page.text("[data-model=\"minimax-m2.7\"]").await;
        assert!(rows.contains("one rank of 2"), "{rows}");
    }

    /// Enter in the field adds what was found first and never takes a version away; Space and Enter work the boxes.
    #[tokio::test]
    async fn versions_are_added_by_keyboard() {
        let browser = Browser::start().await;
        let page = open(&browser, "v=1&m=minimax-m2.7&n=1000").await;
        page.run("document.querySelector('.add').open = true", Vec::new()).await;
        let field = "input[aria-label=\"Search the catalogue\"]";
        page.type_into(field, "glm-4.5").await;
        page.wait_until_there("[data-model^=\"glm-4.5\"]").await;
        page.type_into(field, "minimax-m2.7").await;
        let models = async || -> Vec<Value> {
            let script =
                "return [...document.querySelectorAll('[data-model]')].map(row => row.dataset.model)";
            page.run(script, Vec::new()).await.as_array().expect("ids").clone()
        };
        assert_eq!(models().await.len(), 2, "Enter takes nothing away: {:?}", models().await);

        let first_box = ".catalogue input";
        page.press(first_box, " ").await;
        assert_eq!(models().await.len(), 1, "Space takes the version away");
        page.press(first_box, &String::from(char::from(Key::Enter))).await;
        assert_eq!(models().await.len(), 2, "Enter brings it back");
    }
}
