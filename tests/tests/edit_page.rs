//! A config edited on the page: the curve moves, and the link brings the edited config back.

mod in_chromium {
    use serde_json::Value;

    use kvscope_tests::browser::Browser;
    use kvscope_tests::page::Page;
    use kvscope_tests::{selectors, static_host};

    const OWN: &str = "[data-model=\"own-1\"]";

    async fn resident(page: &Page, model: &str) -> Option<u64> {
        let shown = page.shown().await;
        shown.into_iter().find(|shown| shown.model == model).map(|shown| shown.resident_bytes)
    }

    async fn wait_for(page: &Page, wanted: u64) {
        for _ in 0..300 {
            if resident(page, "own-1").await == Some(wanted) {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        panic!("the copy keeps {:?}, not {wanted}", resident(page, "own-1").await);
    }

    /// Llama 3.1 8B: 32 layers × 2 × 8 heads × 128 values × 2 B a token, half of it with 4 heads, a quarter with 64 values.
    #[tokio::test]
    async fn an_edited_field_moves_the_copy_and_stays_in_the_link() {
        let a_token = 32 * 2 * 8 * 128 * 2;
        let browser = Browser::start().await;
        let address = static_host::start().await;
        let page =
            browser.open(&format!("{}/?v=1&m=llama-3.1-8b&n=1000", address.trim_end_matches('/'))).await;
        page.run("document.querySelector('[data-action=\"edit\"]').click()", Vec::new()).await;
        page.wait_until_there(OWN).await;
        wait_for(&page, 1000 * a_token).await;
        let before = page.chart().await;

        page.type_into("input[aria-label=\"num_key_value_heads\"]", "4").await;
        wait_for(&page, 1000 * a_token / 2).await;
        assert!(page.chart().await != before, "the curve moves");
        assert_eq!(resident(&page, "llama-3.1-8b").await, Some(1000 * a_token), "the catalogue's stays");

        page.type_into("input[aria-label=\"num_key_value_heads\"]", "many").await;
        let refusal = page.text(selectors::REFUSAL).await;
        assert!(refusal.starts_with("num_key_value_heads: \"many\" is no number"), "{refusal}");
        assert_eq!(resident(&page, "own-1").await, Some(1000 * a_token / 2));

        // A model without layers is refused in the reader's own words.
        page.type_into("input[aria-label=\"num_hidden_layers\"]", "0").await;
        page.wait_until_there(selectors::REFUSAL).await;
        assert_eq!(resident(&page, "own-1").await, Some(1000 * a_token / 2));

        page.type_into("input[aria-label=\"Another field of the config\"]", "head_dim: 64").await;
        wait_for(&page, 1000 * a_token / 4).await;
        page.wait_until_there("input[aria-label=\"head_dim\"]").await;

        let mut link = String::new();
        for _ in 0..300 {
            let now = page.address().await;
            if now.contains("#own=") && now == link {
                break;
            }
            link = now;
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
        assert!(link.contains("own-1") && link.contains("#own="), "{link}");
        page.run("location.href = 'about:blank'", Vec::new()).await;
        let page = browser.open(&link).await;
        page.wait_until_there(OWN).await;
        wait_for(&page, 1000 * a_token / 4).await;
        let value = page
            .run("return document.querySelector('input[aria-label=\"head_dim\"]').value", Vec::new())
            .await;
        assert_eq!(value, Value::from("64"));
    }
}
