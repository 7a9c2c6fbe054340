//! What fits a memory, and what a link could not say: the growth view in a real browser, held against the command line.

mod in_chromium {
    use serde_json::Value;

    use kvscope_tests::browser::Browser;
    use kvscope_tests::command_line::kvscope;
    use kvscope_tests::page::Page;
    use kvscope_tests::{selectors, static_host};

    async fn open(browser: &Browser, query: &str) -> Page {
        let address = static_host::start().await;
        browser.open(&format!("{}/?{query}", address.trim_end_matches('/'))).await
    }

    /// Id, longest context and most requests of every version, as the page's attributes have them.
    async fn fits(page: &Page) -> Vec<(String, Option<u64>, Option<u64>)> {
        page.wait_until_there(selectors::FITS).await;
        let script = "return [...document.querySelectorAll(arguments[0])].map(row =>
            ['data-fits', 'data-tokens', 'data-requests'].map(name => row.getAttribute(name)));";
        let rows = page.run(script, vec![selectors::FITS.into()]).await;
        let count = |text: &Value| text.as_str().map(|text| text.parse().expect("a plain integer"));
        let row = |row: &Value| (row[0].as_str().expect("an id").to_owned(), count(&row[1]), count(&row[2]));
        rows.as_array().expect("rows").iter().map(row).collect()
    }

    fn fit(model: &str, options: &[&str]) -> Value {
        let asked = ["fit", model, "--context", "100000", "--json"];
        let answer = kvscope(asked.iter().chain(options));
        assert_eq!(answer.status, Some(0), "{}", answer.stderr);
        let rows: Value = serde_json::from_str(&answer.stdout).expect("fit prints JSON");
        rows[0].clone()
    }

    /// MiniMax-M2.7 keeps 253,952 B a token and nothing else: 60 GiB hold ⌊64,424,509,440 ÷ 253,952⌋ = 253,687 tokens, and
    /// two requests of 100,000.
    #[tokio::test]
    async fn memory_gives_what_fits_says_where_curves_reach_it_and_a_link_brings_it_back() {
        let browser = Browser::start().await;
        let page = open(&browser, "v=1&m=minimax-m2.7,gemma-3-27b").await;
        let chart = page.chart().await;
        assert!(!page.has(selectors::FITS).await, "nothing fits where no memory is given");
        page.type_into(selectors::MEMORY, "60 GiB").await;
        let shown = fits(&page).await;
        assert_eq!(shown[0], ("minimax-m2.7".to_owned(), Some(253_687), Some(2)));
        assert!(page.chart().await != chart, "the level is drawn");
        assert!(page.address().await.contains("mem=60GiB"), "{}", page.address().await);

        for (query, options) in [
            ("", vec![]),
            ("&e=vllm", vec!["--engine", "vllm"]),
            ("&e=sglang&es=tp:2&b=3", vec!["--engine", "sglang", "--tp", "2", "--batch", "3"]),
            (
                "&e=llama.cpp&es=k_dtype:q8_0,v_dtype:q4_0",
                vec!["--engine", "llama.cpp", "--set", "k_dtype=q8_0", "--set", "v_dtype=q4_0"],
            ),
            ("&es=k_dtype:q8_0", vec!["--set", "k_dtype=q8_0"]),
        ] {
            let page = open(&browser, &format!("v=1&m=minimax-m2.7,gemma-3-27b&mem=60GiB{query}")).await;
            for (model, tokens, requests) in fits(&page).await {
                let options: Vec<&str> = ["--memory", "60GiB"].into_iter().chain(options.clone()).collect();
                let answer = fit(&model, &options);
                assert_eq!(tokens, answer["largest_context"].as_u64(), "{model} under {query:?}");
                let batch = answer["batches"][0]["largest_batch"].as_u64();
                assert_eq!(requests, batch, "{model} under {query:?}");
            }
        }
    }

    #[tokio::test]
    async fn memory_without_a_unit_is_refused_in_the_command_lines_words() {
        let browser = Browser::start().await;
        let page = open(&browser, "v=1&m=minimax-m2.7").await;
        page.type_into(selectors::MEMORY, "80").await;
        let refusal = page.text(selectors::REFUSAL).await;
        let refused = kvscope(["fit", "minimax-m2.7", "--memory", "80"]);
        assert_eq!(refused.status, Some(2));
        assert!(refused.stderr.contains(refusal.trim()), "{refusal:?} and {:?}", refused.stderr);
    }

    #[tokio::test]
    async fn the_headline_has_reserved_bytes_and_an_unknown_version_of_a_link_is_said() {
        let browser = Browser::start().await;
        let page = open(&browser, "v=1&m=minimax-m2.7,kimi-k2.5-nope&e=vllm&n=100001").await;
        // 6,251 blocks of 16 tokens × 253,952 B are 25.4 GB.
        let headline = page.text("h1").await;
        assert_eq!(headline, "At 100,001 tokens vllm reserves 25.4 GB for one request of MiniMax-M2.7.",);
        let said = page.text("[role=\"status\"]").await;
        assert!(said.contains("\"kimi-k2.5-nope\" is not in the catalogue"), "{said}");
    }
}
