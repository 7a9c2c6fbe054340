//! The page in a real browser, its figures held against the command line's.

mod in_chromium {
    use fantoccini::key::Key;

    use kvscope_tests::agent::Agent;
    use kvscope_tests::browser::Browser;
    use kvscope_tests::command_line::resident_bytes;
    use kvscope_tests::page::Page;
    use kvscope_tests::{selectors, static_host};

    #[tokio::test]
    async fn slider_and_number_box_move_figures_that_equal_the_command_lines() {
        let agent = Agent::start();
        let browser = Browser::start().await;
        let page = browser.open(agent.address()).await;
        let start = page.context().await;
        expect_command_lines_figures(&page, start).await;

        page.press_on_slider(Key::Left, 7).await;
        let moved = page.wait_for_context(|context| context < start).await;
        expect_command_lines_figures(&page, moved).await;

        page.type_context("64Ki").await;
        page.wait_for_context(|context| context == 65_536).await;
        expect_command_lines_figures(&page, 65_536).await;

        // Not a multiple of any window, block or compression ratio.
        page.type_context("99991").await;
        page.wait_for_context(|context| context == 99_991).await;
        expect_command_lines_figures(&page, 99_991).await;
        assert!(!page.has(selectors::WITHOUT_AGENT).await, "an agent serves this page");
    }

    #[tokio::test]
    async fn the_address_alone_brings_the_same_view_back() {
        let agent = Agent::start();
        let browser = Browser::start().await;
        let page = browser.open(agent.address()).await;
        let fresh = page.address().await;
        page.type_context("12345").await;
        page.wait_for_context(|context| context == 12_345).await;
        let before = page.shown().await;
        // The address follows a moment later, so that a moved slider does not write it at every step.
        tokio::time::timeout(std::time::Duration::from_secs(10), async {
            while !page.address().await.contains("12345") {
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            }
        })
        .await
        .unwrap_or_else(|_| panic!("the context does not come into the address, which was {fresh}"));

        page.reload().await;
        assert_eq!(page.context().await, 12_345);
        assert_eq!(page.shown().await, before);
        let link = page.address().await;

        let other_browser = Browser::start().await;
        let page = other_browser.open(&link).await;
        assert_eq!(page.context().await, 12_345);
        assert_eq!(page.shown().await, before);
    }

    #[tokio::test]
    async fn a_static_host_shows_the_same_figures_and_names_what_needs_an_agent() {
        let address = static_host::start().await;
        let browser = Browser::start().await;
        let page = browser.open(&address).await;
        let notice = page.text(selectors::WITHOUT_AGENT).await;
        assert!(notice.to_lowercase().contains("agent"), "the notice says only {notice:?}");
        let context = page.context().await;
        expect_command_lines_figures(&page, context).await;
    }

    #[tokio::test]
    async fn a_refused_config_leaves_the_chart_as_it_was_and_says_the_command_lines_sentence() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let config = folder.path().join("config.json");
        let text = r#"{"model_type": "qwen3", "num_hidden_layers": 2, "hidden_size": 1024, "num_attention_heads": 8,
            "num_key_value_heads": 8, "head_dim": 128, "torch_dtype": "bfloat16",
            "layer_types": ["full_attention", "spooky_attention"]}"#;
        std::fs::write(&config, text).expect("written");
        let refused = kvscope_tests::command_line::kvscope([
            "size".as_ref(),
            config.as_os_str(),
            "--context".as_ref(),
            "1000".as_ref(),
        ]);
        assert_eq!(refused.status, Some(2), "the command line refuses it: {}", refused.stdout);

        let address = static_host::start().await;
        let browser = Browser::start().await;
        let page = browser.open(&address).await;
        let (chart, shown) = (page.chart().await, page.shown().await);
        page.choose_config(&config).await;
        let refusal = page.text(selectors::REFUSAL).await;
        // The command line knows the whole path, the page the file's name alone.
        let sentence = |text: &str| {
            let (_, sentence) = text.split_once("config.json").expect("the file is named");
            sentence.trim().to_owned()
        };
        assert!(refusal.contains("spooky_attention"), "{refusal}");
        assert_eq!(sentence(&refusal), sentence(&refused.stderr));
        assert_eq!(page.shown().await, shown);
        assert!(page.chart().await == chart, "the chart changed");
    }

    async fn expect_command_lines_figures(page: &Page, context: u64) {
        let shown = page.shown().await;
        assert!(shown.len() >= 2, "the page compares versions, it shows {shown:?}");
        for version in shown {
            let expected = resident_bytes(&version.model, context);
            assert_eq!(version.resident_bytes, expected, "{} at {context} tokens", version.model);
        }
    }
}
