//! Plans in a real browser, held against `kvscope plan … --json`.

mod in_chromium {
    use std::fmt::Write as _;
    use std::time::Duration;

    use serde_json::Value;

    use kvscope_tests::browser::Browser;
    use kvscope_tests::command_line::kvscope;
    use kvscope_tests::page::Page;
    use kvscope_tests::static_host;

    async fn open(browser: &Browser, query: &str) -> Page {
        let address = static_host::start().await;
        browser.open(&format!("{}/?{query}", address.trim_end_matches('/'))).await
    }

    /// One state of the room, as a link and as a command line.
    struct State {
        plan: &'static str,
        query: String,
        arguments: Vec<String>,
    }

    /// Numbers that are the same in every run.
    struct Dice(u64);

    impl Dice {
        fn below(&mut self, count: usize) -> usize {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            usize::try_from(self.0 >> 33).expect("31 bits") % count
        }

        fn of<T: Copy>(&mut self, list: &[T]) -> T {
            list[self.below(list.len())]
        }
    }

    const MODELS: [&str; 8] = [
        "minimax-m2.7",
        "deepseek-v3.2",
        "deepseek-v4-pro",
        "qwen3.5-397b-a17b",
        "glm-5.1",
        "qwen3-8b",
        "gemma-3-27b",
        "kimi-k2.6",
    ];
    const CONTEXTS: [u64; 5] = [1000, 4097, 8192, 30_000, 32_768];

    fn state(plan: &'static str, dice: &mut Dice) -> State {
        let (model, context) = (dice.of(&MODELS), dice.of(&CONTEXTS));
        let mut given: Vec<(&str, &str)> = Vec::new();
        let mut shared: Vec<(&str, &str)> = Vec::new();
        let (gpu, count) = (dice.of(&["h200", "b200", "mi300x"]), dice.of(&["8", "16"]));
        match plan {
            "capacity" => {
                given.extend([("gpu", gpu), ("count", count), ("weight_dtype", dice.of(&["fp8", "fp4"]))]);
                given.push(("price", dice.of(&["2", "3.5"])));
                if dice.below(2) == 0 {
                    shared.push(("engine", "vllm"));
                }
            }
            "prefix" => given.extend([
                ("first", dice.of(&["20000", "9999"])),
                ("shared", dice.of(&["552", "9000", "4096"])),
                ("every", dice.of(&["4096", "1000"])),
            ]),
            "handover" => {
                given.extend([("gpu", gpu), ("count", count), ("tp", dice.of(&["1", "8"]))]);
                given.push(("efficiency", dice.of(&["40", "55"])));
            }
            "offload" => {
                given.extend([("gpu", gpu), ("count", count)]);
                given.push(("tier", dice.of(&["host=50GB/s,15us", "nvme=26GB/s,20us,1ms"])));
            }
            "label" => given.extend([("gpu", gpu), ("count", count)]),
            "cost" => given.extend([("weight_dtype", "fp8"), ("flop_weights", "fp8")]),
            _ => given.extend([("bandwidth", dice.of(&["10Gbps", "25Gbps", "200GB/s"])), ("slo", "60s")]),
        }
        if dice.below(2) == 0 {
            shared.push(("kv_dtype", "fp8"));
        }
        let mut arguments = vec!["plan".to_owned(), plan.to_owned(), model.to_owned(), "--json".to_owned()];
        let options = given.iter().chain(&shared).map(|(name, value)| {
            let name = name.replace('_', "-");
            format!("--{name}={value}")
        });
        arguments.extend(options);
        let mut query = format!("v=1&r=plans&p={plan}&m={model}");
        if plan != "prefix" {
            arguments.push(format!("--context={context}"));
            let _ = write!(query, "&n={context}");
        }
        for (name, value) in shared {
            let _ = write!(query, "&{}={value}", if name == "engine" { "e" } else { "kv" });
        }
        let escaped = |value: &str| value.replace('=', "%253D").replace('/', "%252F").replace(',', "%252C");
        let pairs: Vec<String> =
            given.iter().map(|(name, value)| format!("{name}:{}", escaped(value))).collect();
        let _ = write!(query, "&ps={}", pairs.join(","));
        State { plan, query, arguments }
    }

    fn json(arguments: &[String]) -> Value {
        let finished = kvscope(arguments);
        assert_eq!(finished.status, Some(0), "{arguments:?}: {}", finished.stderr);
        serde_json::from_str(&finished.stdout).expect("JSON")
    }

    /// The rows behind a table of the page.
    fn rows<'a>(plan: &str, title: &str, answer: &'a Value) -> Option<&'a Value> {
        let pointer = match (plan, title) {
            ("capacity", "Requests") | ("handover", "What is sent") => "/at",
            ("capacity", "Most requests by their length") => "/frontier",
            ("capacity", "What a wrong formula would admit") => "/wrong_formulas",
            ("prefix", _) => "/0/rules",
            ("handover", "By component") => "/at/0/components",
            ("handover", "By link") => "/at/0/links",
            ("offload", _) => "/0/rows",
            ("label", _) => "/0/labels",
            ("cost", "decode step") => "/decode/rows",
            ("cost", "prefill") => "/prefill/rows",
            ("compress", "Ways of sending") => "/0/options",
            ("compress", "The fastest by bandwidth") => "/0/by_bandwidth",
            ("compress", "What may be touched") => "/0/components",
            _ => return None,
        };
        answer.pointer(pointer)
    }

    /// Whether a cell shows what JSON has.
    fn agrees(exact: &Value, shown: &str, wanted: &Value) -> bool {
        match (exact.as_str(), wanted) {
            (Some(exact), Value::Number(number)) => {
                let (exact, wanted): (f64, f64) =
                    (exact.parse().expect("a number"), number.as_f64().expect("a number"));
                // The same operations in the same order; logarithms of a mix alone may differ in their last digit.
                (exact - wanted).abs() <= 1e-12 * wanted.abs()
            }
            (None, Value::String(words)) => shown == words,
            (None, Value::Null) => true,
            _ => false,
        }
    }

    #[tokio::test]
    async fn twenty_states_have_the_figures_of_the_command_line() {
        let browser = Browser::start().await;
        let mut dice = Dice(20_261_130);
        let plans = ["capacity", "prefix", "handover", "offload", "label", "cost", "compress"];
        let mut compared = 0;
        for place in 0..20 {
            let state = state(plans[place % plans.len()], &mut dice);
            let answer = json(&state.arguments);
            let page = open(&browser, &state.query).await;
            page.wait_until_there("[data-table]").await;
            let script = "return [...document.querySelectorAll('[data-table]')].map(section => [
                section.dataset.table,
                [...section.querySelectorAll('tbody tr:not(.remark)')].map(row =>
                    [...row.querySelectorAll('[data-figure]')].map(cell =>
                        [cell.dataset.figure, cell.getAttribute('data-value'), cell.innerText]))]);";
            let tables = page.run(script, Vec::new()).await;
            for table in tables.as_array().expect("tables") {
                let title = table[0].as_str().expect("a title");
                let Some(wanted) = rows(state.plan, title, &answer) else { continue };
                let (shown, wanted) = (table[1].as_array().expect("rows"), wanted.as_array().expect("rows"));
                assert_eq!(shown.len(), wanted.len(), "{}: {title}", state.query);
                for (row, wanted) in shown.iter().zip(wanted) {
                    for cell in row.as_array().expect("cells") {
                        let (field, shown) =
                            (cell[0].as_str().expect("a field"), cell[2].as_str().expect("a text"));
                        let wanted = wanted.get(field).unwrap_or(&wanted["hardware"][field]);
                        assert!(
                            agrees(&cell[1], shown, wanted),
                            "{}: {title}: {field}: {cell} is not {wanted}",
                            state.query
                        );
                        compared += 1;
                    }
                }
            }
        }
        assert!(compared > 500, "{compared} cells were compared");
    }

    async fn wait_for(page: &Page, selector: &str, wanted: &str) {
        let mut said = String::new();
        for _ in 0..300 {
            said = page.text(selector).await;
            if said.contains(wanted) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("{selector} says {said:?}, not {wanted:?}");
    }

    #[tokio::test]
    async fn what_is_typed_moves_the_answer_and_the_link() {
        let browser = Browser::start().await;
        let page = open(&browser, "v=1&r=plans&m=deepseek-v3&n=1000").await;
        wait_for(&page, "h1", "does not fit: weights alone need 1.34 TB, 8 GPUs have 1.13 TB").await;
        page.type_into("input[aria-label=\"GPUs\"]", "16").await;
        wait_for(&page, "h1", "16 × H200 SXM hold").await;
        assert!(page.address().await.contains("ps=count:16"), "{}", page.address().await);
        assert!(page.has("canvas[data-figure=\"plan\"]").await);
        // The usual value is left out again.
        page.type_into("input[aria-label=\"GPUs\"]", "8").await;
        wait_for(&page, "h1", "does not fit").await;
        assert!(!page.address().await.contains("ps="), "{}", page.address().await);
        let click =
            "[...document.querySelectorAll('.tabs button')].find(b => b.innerText === 'hand-over').click()";
        page.run(click, Vec::new()).await;
        wait_for(&page, "h1", "hands over").await;
        assert!(page.address().await.contains("p=handover"), "{}", page.address().await);
        page.run("history.back()", Vec::new()).await;
        wait_for(&page, "h1", "does not fit").await;
    }

    /// A value that its plan refuses is answered in the form, and the answer stays; a link with one opens on a sentence.
    #[tokio::test]
    async fn bad_input_is_a_sentence_and_nothing_is_lost() {
        let browser = Browser::start().await;
        for (plan, label, name, typed, words) in [
            ("capacity", "GPUs", "count", "0", "GPUs: "),
            ("capacity", "mix of lengths", "mix", "0,0", "sums to nothing"),
            ("prefix", "shared tokens", "shared", "200K", "cannot be shared"),
            ("handover", "own link", "bandwidth", "0GB/s", "moves nothing"),
            ("offload", "tiers", "tier", "host=0GB/s", "moves nothing"),
            ("offload", "tiers", "tier", "a=1GB/s;a=2GB/s", "given twice"),
            ("compress", "link moves", "bandwidth", "fast", "is no rate"),
            ("label", "GPUs", "count", "0", "0 GPUs hold nothing"),
        ] {
            let query = format!("v=1&r=plans&p={plan}&m=qwen3-8b&n=4096");
            let first = if plan == "prefix" { "&ps=first:10000,shared:9000" } else { "" };
            let page = open(&browser, &format!("{query}{first}")).await;
            page.wait_until_there("[data-table]").await;
            let before = (page.text("h1").await, page.address().await);
            page.type_into(&format!("input[aria-label=\"{label}\"]"), typed).await;
            wait_for(&page, "aside [role=\"alert\"]", words).await;
            assert_eq!((page.text("h1").await, page.address().await), before, "{plan}: {typed}");
            let escaped = typed.replace(',', "%252C").replace('=', "%253D").replace(';', "%253B");
            let page = open(&browser, &format!("{query}&ps={name}:{escaped}")).await;
            wait_for(&page, "h1", words).await;
            assert!(!page.has("[data-table]").await, "{plan}: {typed}");
        }
        // Lengths that no config allows; a cost and a compression have a doubt instead.
        for plan in ["capacity", "handover", "offload", "label"] {
            let page = open(&browser, &format!("v=1&r=plans&p={plan}&m=qwen3-8b&n=10000000")).await;
            wait_for(&page, "h1", "10,000,000 tokens is beyond the").await;
        }
        for plan in ["cost", "compress"] {
            let page = open(&browser, &format!("v=1&r=plans&p={plan}&m=qwen3-8b&n=1000000")).await;
            wait_for(&page, ".doubts", "1,000,000 tokens is beyond the").await;
        }
    }
}
