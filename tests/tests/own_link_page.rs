//! A config of one's own in a link, in a real browser.

mod in_chromium {
    use kvscope_tests::browser::Browser;
    use kvscope_tests::page::{Page, Shown};
    use kvscope_tests::{selectors, static_host};
    use serde_json::{Value, json};

    const READ_ADDRESS: &str = "const done = arguments[0];
        const look = () => location.hash.startsWith('#own=') ? done(location.href) : setTimeout(look, 20);
        look();";
    const COPY: &str = "const done = arguments[0];
        navigator.clipboard.writeText = text => { window.copied = text; return Promise.resolve(); };
        document.querySelector('button.copies').click();
        const said = document.querySelector('button.copies + [role=status]');
        const look = () => said.innerText ? done([window.copied, said.innerText]) : setTimeout(look, 20);
        look();";

    fn config() -> Value {
        json!({"model_type": "llama", "num_hidden_layers": 3, "num_attention_heads": 8, "num_key_value_heads": 2,
            "hidden_size": 512, "head_dim": 64, "max_position_embeddings": 4096, "torch_dtype": "bfloat16"})
    }

    async fn paste(page: &Page, config: &Value, number: u64) {
        let script = "document.querySelector(arguments[0]).closest('details').open = true;
            const area = document.querySelector(arguments[0]);
            area.value = arguments[1];
            area.parentElement.querySelector('button').click();";
        page.run(script, vec![selectors::PASTED_CONFIG.into(), config.to_string().into()]).await;
        page.wait_until_there(&format!("[data-model=\"own-{number}\"]")).await;
    }

    #[tokio::test]
    async fn an_own_config_opens_from_its_link_alone_and_stays_behind_the_number_sign() {
        let address = static_host::start().await;
        let browser = Browser::start().await;
        let page = browser.open(&format!("{address}?v=1&m=&n=1000")).await;
        paste(&page, &config(), 1).await;
        let link = page.run_until_called(READ_ADDRESS).await;
        let link = link.as_str().expect("an address").to_owned();
        let (query, own) = link.split_once("#own=").expect("the config");
        assert!(query.contains("m=own-1") && !own.is_empty() && own.len() < 400, "{link}");
        let copied = page.run_until_called(COPY).await;
        assert_eq!(copied, json!([link, "copied"]));
        // 3 layers of K and V with 2 heads of 64 values in BF16.
        let wanted = [Shown { model: "own-1".to_owned(), resident_bytes: 1000 * 3 * 2 * 2 * 64 * 2 }];
        assert_eq!(page.shown().await, wanted);

        let other = Browser::start().await;
        let page = other.open(&link).await;
        page.wait_until_there("[data-model=\"own-1\"] [data-figure=\"resident_bytes\"]").await;
        assert_eq!(page.shown().await, wanted);
        // What follows keeps it: another context, a reload, a second config beside the first.
        page.type_context("2000").await;
        page.wait_for_context(|context| context == 2000).await;
        page.reload().await;
        page.wait_until_there("[data-model=\"own-1\"] [data-figure=\"resident_bytes\"]").await;
        paste(
            &page,
            &json!({"model_type": "llama", "num_hidden_layers": 1, "num_attention_heads": 8, "head_dim": 64}),
            2,
        )
        .await;
        assert_eq!(page.shown().await.len(), 2);
    }

    #[tokio::test]
    async fn what_a_link_cannot_carry_is_said_and_a_damaged_one_opens_the_rest() {
        let address = static_host::start().await;
        let browser = Browser::start().await;
        let page = browser.open(&format!("{address}?v=1&m=glm-5.1&n=1000")).await;
        let mut large = config();
        // Numbers without a pattern, which do not compress.
        let mut state = 1_u64;
        let noise: Vec<u64> = (0..4000)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                state
            })
            .collect();
        large["noise"] = json!(noise);
        paste(&page, &large, 1).await;
        let copied = page.run_until_called(COPY).await;
        let said = copied[1].as_str().expect("a sentence");
        assert!(said.starts_with("copied without llama") && said.contains("send its file along"), "{said}");

        let page = browser.open(&format!("{address}?v=1&m=glm-5.1,own-1&n=1000#own=q1bKzc9J")).await;
        let said = page.text(".said[role=\"status\"]").await;
        assert!(said.contains("config in the link cannot be read"), "{said}");
        assert_eq!(page.shown().await.len(), 1, "the rest opens");
    }
}
