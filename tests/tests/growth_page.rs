//! The growth view in a real browser: what an engine reserves, what was assumed, and models of one's own, held against the
//! command line.

mod in_chromium {
    use std::path::Path;

    use serde_json::Value;

    use kvscope_tests::browser::Browser;
    use kvscope_tests::command_line::{kvscope, size};
    use kvscope_tests::gguf;
    use kvscope_tests::page::Page;
    use kvscope_tests::{selectors, static_host};

    /// Two models that vLLM rounds and pads, one with windows, one with states, at a length that no block divides.
    const VIEW: &str = "v=1&m=minimax-m2.7,gemma-3-27b,qwen3.5-397b-a17b&n=99991&b=3";

    async fn open(browser: &Browser, query: &str) -> Page {
        let address = static_host::start().await;
        browser.open(&format!("{}/?{query}", address.trim_end_matches('/'))).await
    }

    /// What the page says of every version: its id and a figure.
    async fn figures(page: &Page, figure: &str) -> Vec<(String, Option<u64>)> {
        let script = "const [figure] = arguments;
            return [...document.querySelectorAll('[data-model]')].map(row => [
              row.getAttribute('data-model'),
              row.querySelector(`[data-figure=\"${figure}\"]`)?.getAttribute('data-value') ?? null]);";
        let rows = page.run(script, vec![figure.into()]).await;
        let read = |row: &Value| {
            let id = row[0].as_str().expect("a version has an id").to_owned();
            (id, row[1].as_str().map(|text| text.parse().expect("a plain integer")))
        };
        rows.as_array().expect("the script gives rows").iter().map(read).collect()
    }

    #[tokio::test]
    async fn reserved_figures_equal_the_command_lines_and_a_link_brings_them_back() {
        let browser = Browser::start().await;
        let page = open(&browser, VIEW).await;
        let logical_chart = page.chart().await;
        assert!(!page.has(selectors::RESERVED_BYTES).await, "without an engine nothing is reserved");
        page.choose(selectors::ENGINE, "vllm").await;
        page.wait_until_there(selectors::RESERVED_BYTES).await;
        assert!(page.chart().await != logical_chart, "the chart shows the engine's curves");
        let link = page.address().await;
        assert!(link.contains("e=vllm"), "{link}");

        for (query, options) in [
            ("e=vllm", vec!["--engine", "vllm"]),
            (
                "e=vllm@0.30&es=tp:8,block_size:32",
                vec!["--engine", "vllm@0.30", "--tp", "8", "--set", "block_size=32"],
            ),
            ("e=sglang&es=tp:2", vec!["--engine", "sglang", "--tp", "2"]),
            ("e=trtllm", vec!["--engine", "trtllm"]),
        ] {
            let page = open(&browser, &format!("{VIEW}&{query}")).await;
            let shown = figures(&page, "reserved_bytes").await;
            assert_eq!(shown.len(), 3);
            for (model, reserved) in shown {
                let asked = [model.as_str(), "--context", "99991", "--batch", "3"];
                let answer = size(asked.into_iter().chain(options.iter().copied()));
                assert_eq!(reserved, answer[0]["resident_bytes"].as_u64(), "{model} under {query}");
            }
        }
    }

    #[tokio::test]
    async fn padding_is_named_as_the_command_line_names_it() {
        let browser = Browser::start().await;
        let page = open(&browser, &format!("{VIEW}&e=vllm&l=qwen3.5-397b-a17b")).await;
        let script = "return [...document.querySelectorAll('[data-padding]')].map(row => [
            row.getAttribute('data-padding'), row.querySelector('td').getAttribute('data-value'),
            row.querySelector('td:last-child').innerText]);";
        let shown = page.run(script, Vec::new()).await;
        let asked = [
            "explain",
            "qwen3.5-397b-a17b",
            "--context",
            "99991",
            "--batch",
            "3",
            "--engine",
            "vllm",
            "--json",
        ];
        let explained: Value = serde_json::from_str(&kvscope(asked).stdout).expect("explain prints JSON");
        let beside = &explained["reservation"];
        let padding = beside["padding"].as_array().expect("the padding is a list");
        assert!(padding.len() > 2, "a hybrid in vLLM has padding of several kinds: {padding:?}");
        for (row, expected) in shown.as_array().expect("rows").iter().zip(padding) {
            assert_eq!(row[0], expected["what"]);
            assert_eq!(row[1].as_str(), Some(expected["bytes"].to_string().as_str()));
            assert_eq!(row[2], expected["why"]);
        }
        let [(_, _), (_, _), (_, reserved)] = &figures(&page, "reserved_bytes").await[..] else {
            panic!("three versions are shown")
        };
        assert_eq!(*reserved, beside["reserved_bytes"].as_u64());
    }

    /// 8 K/V heads over 3 ranks: vLLM refuses, and the page says so in the command line's sentence.
    #[tokio::test]
    async fn a_model_that_the_engine_refuses_says_why() {
        let browser = Browser::start().await;
        let page = open(&browser, "v=1&m=minimax-m2.7&n=1000&e=vllm&es=tp:3").await;
        let refusal = page.text(selectors::ENGINE_REFUSAL).await;
        let refused = kvscope(["size", "minimax-m2.7", "--context", "1000", "--engine", "vllm", "--tp", "3"]);
        assert_eq!(refused.status, Some(2), "{}", refused.stdout);
        let (_, sentence) = refused.stderr.split_once("minimax-m2.7: ").expect("the model is named");
        assert!(refusal.contains(sentence.trim()), "{refusal:?} and {sentence:?}");
        assert_eq!(figures(&page, "resident_bytes").await[0].1, Some(253_952_000));
    }

    #[tokio::test]
    async fn every_versions_assumptions_stand_beside_it() {
        let browser = Browser::start().await;
        let models = ["deepseek-v3.2", "qwen3.5-397b-a17b", "minimax-m2.7"];
        let page = open(&browser, &format!("v=1&m={}&n=2Mi&l=minimax-m2.7", models.join(","))).await;
        let mut told = 0;
        for model in models {
            let rows = size([model, "--context", "2Mi"]);
            let warnings = rows[0]["warnings"].as_array().expect("a list of warnings");
            for warning in warnings {
                let text = page.text(&format!("[data-doubts=\"{model}\"]")).await;
                let (field, message) =
                    (warning["field"].as_str().unwrap(), warning["message"].as_str().unwrap());
                assert!(text.contains(&format!("{field}: {message}")), "{model}: {text:?} lacks {message:?}");
                told += 1;
            }
        }
        assert!(told >= 3, "each is beyond its config's context");
    }

    #[tokio::test]
    async fn a_gguf_file_is_read_by_its_start_alone() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("weights.gguf");
        std::fs::write(&path, gguf::dense(&[])).expect("written");
        // Sparse: a reader that went through it would not end in a test's time.
        let file = std::fs::File::options().write(true).open(&path).expect("opened");
        file.set_len(100 << 30).expect("made longer");
        let browser = Browser::start().await;
        let page = open(&browser, "v=1&m=&n=1000").await;
        page.choose_config(&path).await;
        page.wait_until_there("[data-model=\"own-1\"]").await;
        // Two layers of eight heads with 128 values, K and V, two bytes each.
        assert_eq!(
            figures(&page, "resident_bytes").await,
            [("own-1".to_owned(), Some(1000 * 2 * 8 * 128 * 2 * 2))]
        );
        assert!(!page.has(selectors::REFUSAL).await);
        same_as_the_command_line(&page, &path).await;
    }

    async fn same_as_the_command_line(page: &Page, path: &Path) {
        let answer = size([path.as_os_str(), "--context".as_ref(), "1000".as_ref()]);
        assert_eq!(figures(page, "resident_bytes").await[0].1, answer[0]["resident_bytes"].as_u64());
    }

    #[tokio::test]
    async fn a_broken_gguf_file_is_refused_in_the_command_lines_words_and_of_split_files_the_first_is_read() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let at = |name: &str| folder.path().join(name);
        let whole = gguf::dense(&[]);
        std::fs::write(at("cut.gguf"), &whole[..whole.len() - 3]).expect("written");
        std::fs::write(at("m-00001-of-00002.gguf"), gguf::dense(&[("split.no", 0), ("split.count", 2)]))
            .expect("written");
        std::fs::write(at("m-00002-of-00002.gguf"), gguf::dense(&[("split.no", 1), ("split.count", 2)]))
            .expect("written");
        let refused = kvscope(["size".as_ref(), at("cut.gguf").as_os_str()]);
        let (_, sentence) = refused.stderr.split_once("cut.gguf: ").expect("the file is named");
        assert!(
            sentence.contains("byte") && sentence.contains("llama.attention.head_count_kv"),
            "{sentence}"
        );

        let browser = Browser::start().await;
        let page = open(&browser, "v=1&m=&n=1000").await;
        page.choose_config(&at("cut.gguf")).await;
        let refusal = page.text(selectors::REFUSAL).await;
        assert_eq!(refusal.trim(), format!("cut.gguf: {}", sentence.trim()));

        page.choose_configs(&[&at("m-00001-of-00002.gguf"), &at("m-00002-of-00002.gguf")]).await;
        page.wait_until_there("[data-model=\"own-1\"]").await;
        assert!(!page.has(selectors::REFUSAL).await, "the second part is no model of its own");
        assert_eq!(figures(&page, "resident_bytes").await.len(), 1);
    }

    #[tokio::test]
    async fn several_pastes_have_names_of_their_own() {
        let browser = Browser::start().await;
        let page = open(&browser, "v=1&m=&n=1000").await;
        let config =
            r#"{"model_type": "llama", "num_hidden_layers": 2, "num_attention_heads": 8, "head_dim": 64}"#;
        let script = "document.querySelector(arguments[0]).closest('details').open = true;
            const area = document.querySelector(arguments[0]);
            area.value = arguments[1];
            area.parentElement.querySelector('button').click();";
        for number in 1..=3 {
            page.run(script, vec![selectors::PASTED_CONFIG.into(), config.into()]).await;
            page.wait_until_there(&format!("[data-model=\"own-{number}\"]")).await;
        }
        let names = "return [...document.querySelectorAll('[data-model] .name')].map(name => name.innerText)";
        let names = page.run(names, Vec::new()).await;
        let mut names: Vec<&str> =
            names.as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), 3, "{names:?}");
    }

    #[tokio::test]
    async fn the_pointer_says_that_headline_and_tables_stay() {
        let browser = Browser::start().await;
        let page = open(&browser, &format!("{VIEW}&e=vllm")).await;
        let headline = page.text("h1").await;
        let script = "const canvas = document.querySelector(arguments[0]);
            const box = canvas.getBoundingClientRect();
            canvas.parentElement.lastElementChild.dispatchEvent(new PointerEvent('pointermove',
              {bubbles: true, clientX: box.left + 200, clientY: box.top + 120}));";
        page.run(script, vec![selectors::CHART.into()]).await;
        let tip = page.text(".tip").await;
        assert!(tip.contains("headline and tables stay at 99,991") && tip.contains("reserved"), "{tip}");
        assert_eq!(page.text("h1").await, headline);
    }
}
