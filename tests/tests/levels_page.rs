//! Which bytes the growth view draws, and what GPUs leave beside weights, in a real browser held against the command line.

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

    fn capacity(model: &str, gpu: &str, count: &str) -> Value {
        let asked =
            ["plan", "capacity", model, "--context", "1000", "--gpu", gpu, "--count", count, "--json"];
        let answer = kvscope(asked);
        assert_eq!(answer.status, Some(0), "{}", answer.stderr);
        serde_json::from_str(&answer.stdout).expect("JSON")
    }

    /// What `chart growth` writes, as JSON.
    fn chart(options: &[&str]) -> Value {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let file = folder.path().join("growth.json");
        let path = file.to_string_lossy();
        let arguments = [&["chart", "growth", "-o", &path], options].concat();
        let answer = kvscope(arguments);
        assert_eq!(answer.status, Some(0), "{}", answer.stderr);
        serde_json::from_slice(&std::fs::read(file).expect("written")).expect("JSON")
    }

    async fn row(page: &Page, model: &str, attribute: &str) -> Value {
        let script =
            "return document.querySelector(`[data-fits=\"${arguments[0]}\"]`).getAttribute(arguments[1])";
        page.run(script, vec![model.into(), attribute.into()]).await
    }

    /// A 24 GB card holds Llama 3.1 8B with less context than its config allows, and no part of Kimi K2.
    #[tokio::test]
    async fn gpus_leave_a_level_for_each_version_where_plans_say_it_is_full() {
        let browser = Browser::start().await;
        let page = open(&browser, "v=1&m=llama-3.1-8b,kimi-k2&n=20000").await;
        let chart_before = page.chart().await;
        page.choose("select[aria-label=\"GPU\"]", "rtx-4090").await;
        page.wait_until_there(selectors::FITS).await;
        assert!(page.chart().await != chart_before, "the level is drawn");
        assert!(page.address().await.contains("gpu=rtx-4090:1"), "{}", page.address().await);
        let refusal = page.text("[data-fits=\"kimi-k2\"]").await;
        assert!(refusal.contains("weights alone need"), "{refusal}");

        for count in ["1", "2"] {
            page.type_into("input[aria-label=\"GPUs that share each request\"]", count).await;
            page.wait_until_there(selectors::FITS).await;
            let tokens = row(&page, "llama-3.1-8b", "data-tokens").await;
            let tokens = tokens.as_str().expect("the memory bounds it").to_owned();
            let answer = capacity("llama-3.1-8b", "rtx-4090", count);
            // Plans end at what the config allows, which two cards hold more than.
            let is_limit = answer["largest_context_is_limit"] == true;
            assert_eq!(is_limit, count == "2");
            let largest = answer["largest_context"].as_u64();
            assert!(is_limit || tokens.parse().ok() == largest, "{tokens} and {answer}");
            let drawn = chart(&["llama-3.1-8b", "--gpu", "rtx-4090", "--count", count]);
            let level = drawn["inputs"]["level of llama-3.1-8b"].as_str().expect("a level").replace(',', "");
            assert!(level.ends_with(&format!(" reached at {tokens} tokens")), "{level}");
            let query = drawn["link"].as_str().expect("a link").to_owned();
            assert!(query.contains(&format!("gpu=rtx-4090:{count}")), "{query}");
        }
    }

    /// Beside an engine all GPUs share a request, so that curves are of one of them.
    #[tokio::test]
    async fn a_link_brings_gpus_back_beside_an_engine() {
        let browser = Browser::start().await;
        let page = open(&browser, "v=1&m=gemma-3-27b&e=vllm&gpu=l40s:4").await;
        page.wait_until_there(selectors::FITS).await;
        let tokens = row(&page, "gemma-3-27b", "data-tokens").await;
        let drawn = chart(&["gemma-3-27b", "--engine", "vllm", "--gpu", "l40s", "--count", "4"]);
        let level = drawn["inputs"]["level of gemma-3-27b"].as_str().expect("a level").replace(',', "");
        assert!(
            level.ends_with(&format!(" reached at {} tokens", tokens.as_str().expect("tokens"))),
            "{level}"
        );
        assert_eq!(page.text("h1").await, drawn["title"].as_str().expect("a title"));
        assert!(page.text("h1").await.contains("on one rank of 4"));
    }

    #[tokio::test]
    async fn other_bytes_have_the_command_lines_figures_and_links() {
        let browser = Browser::start().await;
        let page = open(&browser, "v=1&m=deepseek-v3.2,gemma-3-27b&n=98765&b=2").await;
        let mut pictures = vec![page.chart().await];
        for kind in ["read", "persisted", "transferred"] {
            let script = "[...document.querySelectorAll('.choice button')].find(b => b.innerText === arguments[0]).click()";
            page.run(script, vec![kind.into()]).await;
            page.wait_until_there(&format!(".choice button[aria-pressed=\"true\"][data-option=\"{kind}\"]"))
                .await;
            let asked =
                ["deepseek-v3.2", "gemma-3-27b", "--context", "98765", "--batch", "2", "--bytes", kind];
            let drawn = chart(&asked);
            assert_eq!(page.text("h1").await, drawn["title"].as_str().expect("a title"));
            assert!(page.address().await.contains(&format!("of={kind}")), "{}", page.address().await);
            assert!(drawn["link"].as_str().expect("a link").contains(&format!("of={kind}")));
            let picture = page.chart().await;
            // Of these two versions, what is kept on disk and what is sent are the resident bytes.
            assert_eq!(kind != "read", pictures.contains(&picture), "{kind} is drawn");
            pictures.push(picture);
        }
    }

    #[test]
    fn what_has_no_figure_is_refused_in_one_line() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let file = folder.path().join("growth.svg");
        let file = file.to_string_lossy();
        for (options, words) in [
            (vec!["--bytes", "read", "--engine", "vllm"], "bytes: engines and GPUs hold resident bytes"),
            (vec!["--bytes", "read", "--gpu", "h200"], "bytes: engines and GPUs hold resident bytes"),
            (vec!["--gpu", "h300"], "gpu: \"h300\" is not known"),
            (vec!["--gpu", "h200", "--count", "0"], "count: 0 is outside 1 to 1024"),
        ] {
            let finished = kvscope([vec!["chart", "growth", "kimi-k2", "-o", &file], options].concat());
            assert_eq!(finished.status, Some(2), "{}", finished.stdout);
            assert!(finished.stderr.contains(words), "{}", finished.stderr);
            assert_eq!(finished.stderr.lines().count(), 1, "{}", finished.stderr);
        }
    }
}
