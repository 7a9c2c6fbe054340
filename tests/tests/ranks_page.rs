//! Several ranks, refusals, derivations and pools on the growth page: in a real browser, held against the command line.

mod in_chromium {
    use serde_json::Value;

    use kvscope_tests::browser::Browser;
    use kvscope_tests::command_line::{kvscope, size};
    use kvscope_tests::page::Page;
    use kvscope_tests::{selectors, static_host};

    /// Ten K/V heads that eight ranks cannot share, eight that they can, and two that they hold four times.
    const ON_EIGHT: &str = "v=1&m=phi-4-14b,glm-4.5,qwen3.5-397b-a17b&e=vllm@0.33&es=tp:8";

    async fn open(browser: &Browser, query: &str) -> Page {
        let address = static_host::start().await;
        browser.open(&format!("{}/?{query}", address.trim_end_matches('/'))).await
    }

    /// A figure of a version, as its attribute has it.
    async fn figure(page: &Page, model: &str, name: &str) -> Option<String> {
        let script = "return document.querySelector(arguments[0])?.getAttribute('data-value') ?? null";
        let selector = format!("[data-model=\"{model}\"] [data-figure=\"{name}\"]");
        page.run(script, vec![selector.into()]).await.as_str().map(str::to_owned)
    }

    async fn texts(page: &Page, selector: &str) -> Vec<String> {
        let script = "return [...document.querySelectorAll(arguments[0])].map(one => one.textContent.trim())";
        let texts = page.run(script, vec![selector.into()]).await;
        texts
            .as_array()
            .expect("texts")
            .iter()
            .map(|text| text.as_str().expect("a text").to_owned())
            .collect()
    }

    /// GLM-4.5: 92 layers × 2 × 8 heads × 128 × 2 B = 376,832 B a token, an eighth of it on a rank of eight. Qwen3.5: one of
    /// two heads, 15 layers × 2 × 256 × 2 B = 15,360 B; its states an eighth of 188,743,680 + 3,317,760 B.
    #[tokio::test]
    async fn a_ranks_reserved_bytes_stand_beside_a_ranks_logical_ones_and_say_so() {
        let browser = Browser::start().await;
        let page = open(&browser, ON_EIGHT).await;
        page.wait_until_there(selectors::RESERVED_BYTES).await;
        let of = async |model: &str, name: &str| figure(&page, model, name).await.expect("a figure");
        assert_eq!(of("glm-4.5", "resident_bytes").await, "37683200000");
        assert_eq!(of("glm-4.5", "rank_bytes").await, "4710400000");
        assert_eq!(of("glm-4.5", "rank_slope_bytes_per_token").await, "47104");
        assert_eq!(of("qwen3.5-397b-a17b", "rank_slope_bytes_per_token").await, "15360");
        assert_eq!(of("qwen3.5-397b-a17b", "rank_fixed_bytes").await, "24007680");
        let rows = texts(&page, "[data-model=\"glm-4.5\"] th[scope=\"row\"]").await;
        assert_eq!(rows, ["logical, whole model", "logical, one rank of 8", "reserved, one rank of 8"]);

        let headline = page.text("h1").await;
        let said =
            "At 100,000 tokens vllm@0.33 reserves 4.71 GB on one rank of 8 for one request of GLM-4.5 and ";
        assert!(headline.starts_with(said), "{headline}");
        assert!(headline.ends_with(" It refuses Phi-4-14B."), "the refused version is named: {headline}");
        assert!(headline.chars().count() < 200, "{headline}");
        let script = "const canvas = document.querySelector(arguments[0]);
            const box = canvas.getBoundingClientRect();
            canvas.parentElement.lastElementChild.dispatchEvent(new PointerEvent('pointermove',
              {bubbles: true, clientX: box.left + 200, clientY: box.top + 120}));";
        page.run(script, vec![selectors::CHART.into()]).await;
        let tip = page.text(".tip").await;
        assert!(tip.contains("one rank of 8") && !tip.contains("Phi"), "{tip}");
    }

    #[tokio::test]
    async fn an_engines_slope_and_fixed_part_equal_the_command_lines() {
        let browser = Browser::start().await;
        for (query, options) in [
            (ON_EIGHT, vec!["--engine", "vllm@0.33", "--tp", "8"]),
            ("v=1&m=glm-4.5,qwen3.5-397b-a17b&e=sglang", vec!["--engine", "sglang"]),
        ] {
            let page = open(&browser, query).await;
            page.wait_until_there(selectors::RESERVED_BYTES).await;
            for model in ["glm-4.5", "qwen3.5-397b-a17b"] {
                let asked = [model, "--context", "100000"];
                let answer = size(asked.into_iter().chain(options.iter().copied()));
                for (name, field) in [
                    ("reserved_slope_bytes_per_token", "slope_bytes_per_token"),
                    ("reserved_fixed_bytes", "fixed_bytes"),
                ] {
                    let shown = figure(&page, model, name).await;
                    assert_eq!(shown, Some(answer[0][field].to_string()), "{model}: {name} under {query}");
                }
            }
        }
    }

    #[tokio::test]
    async fn reserved_parts_open_the_command_lines_arithmetic() {
        let browser = Browser::start().await;
        let page = open(&browser, "v=1&m=minimax-m2.7&n=99991&b=2&e=vllm").await;
        page.wait_until_there(".parts details").await;
        let opened = texts(&page, ".parts details .derivation").await;
        let asked =
            ["explain", "minimax-m2.7", "--context", "99991", "--batch", "2", "--engine", "vllm", "--json"];
        let explained: Value = serde_json::from_str(&kvscope(asked).stdout).expect("explain prints JSON");
        let beside = &explained["reservation"];
        let worked = beside["parts"][0]["worked"].as_str().expect("the part has its arithmetic");
        // 99,991 tokens take 6,250 blocks of 16; 62 layers × 2 × 8 heads × 128 × 2 B.
        assert_eq!(worked, "100,000 tokens × 62 layers × 4,096 B × 2 requests");
        assert!(opened[0].contains(&format!("reserved as {worked} = 50,790,400,000 B")), "{opened:?}");
        let together = beside["worked"].as_str().expect("the sum has its arithmetic");
        let (blocks, of_block) = together.split_once("; ").expect("a block has its own");
        assert!(opened[1].contains(blocks) && opened[1].ends_with(of_block), "{opened:?}");
    }

    /// 99,991 tokens of GLM-4.5 on eight ranks: 47,104 B a token on each, and 9 tokens more to the end of the last block.
    #[tokio::test]
    async fn what_ranks_divide_has_a_row_of_its_own_beside_the_padding() {
        let browser = Browser::start().await;
        let page = open(&browser, "v=1&m=glm-4.5&n=99991&e=vllm@0.33&es=tp:8").await;
        page.wait_until_there("[data-padding]").await;
        let script = "return [...document.querySelectorAll('[data-padding]')].map(row => [
            row.getAttribute('data-padding'), row.querySelector('td').getAttribute('data-value')]);";
        let rows = page.run(script, Vec::new()).await;
        let divided = (99_991_u64 * 376_832 / 8 * 7).to_string();
        let padded = (9_u64 * 47_104).to_string();
        let expected = [["division over ranks", divided.as_str()], ["last blocks", padded.as_str()]];
        assert_eq!(rows, serde_json::json!(expected));
    }

    #[tokio::test]
    async fn the_table_says_refused_where_an_engine_refuses() {
        let browser = Browser::start().await;
        let page = open(&browser, "v=1&m=phi-4-14b,glm-4.5&e=vllm&es=pp:3,tp:4").await;
        page.run(
            "[...document.querySelectorAll('.bar button')].find(one => one.textContent == 'table').click()",
            vec![],
        )
        .await;
        page.wait_until_there("table.data").await;
        let head = texts(&page, "table.data th").await;
        let place = head.iter().position(|name| name.starts_with("Phi-4-14B reserved, one rank of 12"));
        let place =
            place.unwrap_or_else(|| panic!("a refused version has a column of reserved bytes: {head:?}"));
        let cell = format!("table.data tr:first-child td:nth-child({})", place + 1);
        assert_eq!(texts(&page, &cell).await, ["refused"]);
        assert!(
            head.iter().all(|name| name.contains("one rank of 12") || name.starts_with("context")),
            "{head:?}"
        );
    }

    #[tokio::test]
    async fn a_versions_name_stays_while_its_figures_scroll() {
        let browser = Browser::start().await;
        let page = open(&browser, ON_EIGHT).await;
        let script = "const scroll = document.querySelector('.comparison .scroll');
            scroll.style.width = '320px';
            scroll.scrollLeft = 10000;
            const left = of => document.querySelector(of).getBoundingClientRect().left;
            return [scroll.scrollLeft, left('[data-model] [scope=\"rowgroup\"]') - left('.comparison .scroll')];";
        let places = page.run(script, Vec::new()).await;
        let number = |place: usize| places[place].as_f64().expect("a number");
        assert!(number(0) > 100.0, "the table is wider than its frame: {places}");
        assert!(number(1).abs() < 1.0, "the name has left the frame: {places}");
    }

    /// What vLLM prints of its pool, for the memory that the page was given.
    #[tokio::test]
    async fn an_engines_pool_and_log_lines_follow_from_memory() {
        let browser = Browser::start().await;
        let page = open(&browser, "v=1&m=minimax-m2.7&e=vllm&mem=60GiB").await;
        page.wait_until_there(".told [data-quantity=\"num_blocks\"]").await;
        let asked =
            ["minimax-m2.7", "--context", "100000", "--engine", "vllm", "--set", "available_kv_bytes=60GiB"];
        let answer = size(asked);
        let report = &answer[0]["engine_report"];
        for name in ["num_blocks", "max_concurrency"] {
            let script = "return document.querySelector(arguments[0])?.getAttribute('data-value')";
            let shown = page.run(script, vec![format!("[data-quantity=\"{name}\"]").into()]).await;
            assert_eq!(shown.as_str(), Some(report[name].to_string().as_str()), "{name}");
        }
        // The figure that the engine bounds says by what.
        let longest = page.text(".told [data-quantity=\"estimated_max_model_len\"]").await;
        assert!(longest.contains(", at most max_model_len 204,800: "), "{longest}");
        // ⌊64,424,509,440 ÷ (16 × 253,952)⌋
        assert_eq!(report["num_blocks"], 15_855);
        let lines = texts(&page, ".told code").await;
        assert_eq!(Value::from(lines), report["log_lines"]);
    }

    #[tokio::test]
    async fn an_empty_choice_and_an_unknown_version_are_said_truly() {
        let browser = Browser::start().await;
        let page = open(&browser, "v=1&m=&e=vllm@0.99").await;
        assert_eq!(page.text("h1").await, "No model is chosen.");
        assert_eq!(texts(&page, ".empty").await, ["Choose a version to see its curve."]);
        let page = open(&browser, "v=1&m=nosuchmodel").await;
        assert!(page.text("h1").await.contains("\"nosuchmodel\" is not in the catalogue"));
        let page = open(&browser, "v=1&m=nosuchmodel&e=vllm").await;
        let rows = texts(&page, "[data-model=\"nosuchmodel\"] th[scope=\"row\"]").await;
        assert_eq!(rows, ["logical", "reserved"]);
        let why = "No curve: none of the versions has a figure. Each says why below.";
        assert_eq!(texts(&page, ".empty").await, [why]);
    }
}
