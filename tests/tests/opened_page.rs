//! What a reader opens, and what the page says where nothing can be drawn, in a real browser.

mod in_chromium {
    use kvscope_tests::browser::Browser;
    use kvscope_tests::page::Page;
    use kvscope_tests::{gguf, selectors, static_host};

    async fn open(browser: &Browser, query: &str) -> Page {
        let address = static_host::start().await;
        browser.open(&format!("{}/?{query}", address.trim_end_matches('/'))).await
    }

    #[tokio::test]
    async fn of_several_files_each_that_is_refused_is_named_and_the_others_are_read() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("broken.json"), "{\"model_type\": ").expect("written");
        std::fs::write(at("whole.gguf"), gguf::dense(&[])).expect("written");
        let cut = gguf::dense(&[]);
        std::fs::write(at("cut.gguf"), &cut[..cut.len() - 3]).expect("written");
        let browser = Browser::start().await;
        let page = open(&browser, "v=1&m=&n=1000").await;
        page.choose_configs(&[&at("broken.json"), &at("whole.gguf"), &at("cut.gguf")]).await;
        page.wait_until_there("[data-model=\"own-1\"]").await;
        page.wait_until_there("[role=\"alert\"] :nth-child(2)").await;
        let refusals = page.text(selectors::REFUSAL).await;
        let mut names: Vec<&str> =
            refusals.lines().filter_map(|line| Some(line.split_once(": ")?.0)).collect();
        names.sort_unstable();
        assert_eq!(names, ["broken.json", "cut.gguf"], "{refusals}");
        // What is drawn was read from GGUF metadata alone.
        let note = page.text(".finding .quiet").await;
        assert!(note.ends_with("computed from GGUF metadata"), "{note}");

        page.choose_configs(&[&at("whole.gguf")]).await;
        page.wait_until_there("[data-model=\"own-2\"]").await;
        assert!(!page.has(selectors::REFUSAL).await, "what was said of former files is gone");
    }

    #[tokio::test]
    async fn no_axis_is_made_up_where_there_is_no_curve() {
        let browser = Browser::start().await;
        let page = open(&browser, "v=1&m=minimax-m2.7&n=1000").await;
        let height = "return document.querySelector(arguments[0]).height";
        let drawn = page.run(height, vec![selectors::CHART.into()]).await;
        assert!(drawn.as_u64() > Some(100), "{drawn}");
        page.choose(selectors::ENGINE, "vllm").await;
        page.wait_until_there(selectors::RESERVED_BYTES).await;
        page.type_into("input[aria-label=\"tensor ranks\"]", "3").await;
        // 8 K/V heads over 3 ranks: neither accounting has a figure of one rank.
        page.wait_until_there(selectors::ENGINE_REFUSAL).await;
        let said = page.text(".figure .empty").await;
        assert!(said.starts_with("No curve"), "{said}");
        assert_eq!(page.run(height, vec![selectors::CHART.into()]).await.as_u64(), Some(0));

        page.type_into("input[aria-label=\"tensor ranks\"]", "2").await;
        page.wait_until_there(selectors::RESERVED_BYTES).await;
        let again = page.run(height, vec![selectors::CHART.into()]).await;
        assert_eq!(again, drawn, "the figure comes back");
    }
}
