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
            "simulate" => given.extend([
                ("synthetic", dice.of(&["300", "1000"])),
                ("tiers", dice.of(&["gpu=40GB", "gpu=20GB;host=200GB"])),
                ("prefetch", dice.of(&["0", "12"])),
            ]),
            _ => given.extend([("bandwidth", dice.of(&["10Gbps", "25Gbps", "200GB/s"])), ("slo", "60s")]),
        }
        if dice.below(2) == 0 {
            shared.push(("kv_dtype", "fp8"));
        }
        let mut arguments = vec!["plan".to_owned(), plan.to_owned(), model.to_owned(), "--json".to_owned()];
        for (name, value) in given.iter().chain(&shared) {
            // The page has all tiers in one line.
            match *name {
                "tiers" => arguments.extend(value.split(';').map(|tier| format!("--tier={tier}"))),
                name => arguments.push(format!("--{}={value}", name.replace('_', "-"))),
            }
        }
        let mut query = format!("v=1&r=plans&p={plan}&m={model}");
        if !["prefix", "simulate"].contains(&plan) {
            arguments.push(format!("--context={context}"));
            let _ = write!(query, "&n={context}");
        }
        for (name, value) in shared {
            let _ = write!(query, "&{}={value}", if name == "engine" { "e" } else { "kv" });
        }
        let escaped = |value: &str| {
            value.replace('=', "%253D").replace('/', "%252F").replace(',', "%252C").replace(';', "%253B")
        };
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
            ("simulate", "By what is kept") => "/0/kinds",
            ("simulate", "Tier by tier") => "/0/tiers",
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
    async fn every_plan_has_the_figures_of_the_command_line() {
        let browser = Browser::start().await;
        let mut dice = Dice(20_261_130);
        let plans = ["capacity", "prefix", "handover", "offload", "label", "cost", "compress", "simulate"];
        let mut compared = 0;
        for place in 0..24 {
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

    /// What a tenth of each input does, in each plan behind one click; and a figure that can be taken away of all that has lines.
    #[tokio::test]
    async fn every_plan_moves_its_inputs_and_is_drawn() {
        let browser = Browser::start().await;
        for plan in ["capacity", "prefix", "handover", "offload", "label", "cost", "compress", "simulate"] {
            let page = open(&browser, &format!("v=1&r=plans&p={plan}&m=qwen3-8b&n=8192")).await;
            page.wait_until_there("[data-table]").await;
            assert!(!page.has(".moved table").await, "{plan}: nothing is moved before it is asked");
            page.run("document.querySelector('.moved button').click()", Vec::new()).await;
            page.wait_until_there(".moved tbody tr").await;
            assert!(page.text(".moved").await.contains("To "), "{plan}");
            let height = "return document.querySelector('canvas[data-figure=\"plan\"]').height";
            let drawn = page.run(height, Vec::new()).await.as_u64();
            assert!(drawn > Some(100), "{plan}: {drawn:?}");
            assert!(page.has("[data-export=\"SVG\"]").await, "{plan}");
        }
    }

    /// The figure's values beside the names are those of the plan, also where the context moves along lines that were drawn before.
    #[tokio::test]
    async fn a_figure_is_read_where_the_context_is() {
        let browser = Browser::start().await;
        let page = open(&browser, "v=1&r=plans&p=cost&m=qwen3-8b&n=8192").await;
        page.wait_until_there("[data-table]").await;
        let read = |n: u64| {
            let cost =
                json(&["plan", "cost", "qwen3-8b", "--json", &format!("--context={n}")].map(str::to_owned));
            cost["decode"]["state_read_bytes"].as_u64().expect("bytes")
        };
        page.run(
            "[...document.querySelectorAll('.drawn button')].find(b => b.innerText === 'table').click()",
            Vec::new(),
        )
        .await;
        for (n, words) in [(8192, "8,192"), (20_011, "20,011"), (30_000, "30,000")] {
            page.type_context(&n.to_string()).await;
            let row = format!(
                "return [...document.querySelectorAll('.drawn tbody tr')].map(r => r.innerText).find(t => t.startsWith('{words}'))"
            );
            let mut found = Value::Null;
            for _ in 0..100 {
                found = page.run(&row, Vec::new()).await;
                if found.is_string() {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            let found = found.as_str().unwrap_or_default().to_owned();
            assert!(found.ends_with(&read(n).to_string()), "{n}: {found}");
        }
    }

    /// Three blocks in turn and room for two: least recently used finds none of six, who knows the future two.
    #[tokio::test]
    async fn a_trace_that_is_opened_is_replayed() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("cycle.jsonl");
        let mut text = String::new();
        for (second, block) in [7, 8, 9, 7, 8, 9].into_iter().enumerate() {
            let line = serde_json::json!({
                "timestamp": second * 1000, "input_length": 513, "output_length": 1, "hash_ids": [block],
            });
            let _ = writeln!(text, "{line}");
        }
        std::fs::write(&path, text).expect("written");
        let browser = Browser::start().await;
        let page = open(&browser, "v=1&r=plans&p=simulate&m=qwen3-8b&ps=tiers:gpu%253D2blocks").await;
        wait_for(&page, "h1", "10,000 requests").await;
        page.choose_file("input[aria-label=\"Open a trace\"]", &path).await;
        wait_for(&page, "h1", "6 requests of Qwen3-8B take over 0.0 % of their blocks, 33.3 % at best.")
            .await;
        wait_for(&page, ".finding .quiet", "cycle.jsonl: 6 requests in 5 s").await;
        page.run("document.querySelector('aside .note button').click()", Vec::new()).await;
        wait_for(&page, "h1", "10,000 requests").await;
        std::fs::write(&path, "{\"hash_ids\": []}\n").expect("written");
        page.choose_file("input[aria-label=\"Open a trace\"]", &path).await;
        wait_for(&page, "[role=\"alert\"]", "cycle.jsonl: trace: line 1: timestamp: missing").await;
    }

    /// With an agent its measured tiers are taken where none is typed, and the page says whose they are.
    #[tokio::test]
    async fn what_the_agent_s_runs_measured_is_used_and_named() {
        let browser = Browser::start().await;
        let agent = kvscope_tests::agent::Agent::start();
        let page = browser.open(agent.address()).await;
        page.wait_until_there("[data-agent=\"present\"]").await;
        let measured = |tier: &str| {
            serde_json::json!({
                "run": "20261130-1",
                "tier": tier,
                "pattern": "fragments",
                "source": "fitted to 4 transfers of run 20261130-1: memory",
                "start_seconds": 1e-4,
                "alpha_seconds": 2e-6,
                "beta_bytes_per_second": 5e9,
            })
        };
        let known = serde_json::json!({
            "measured": [measured("dram"), measured("peer")],
            "warnings": [{"field": "measured", "message": "run 20261130-2 is left out: no header"}],
        });
        let script = "const real = window.fetch; const known = arguments[0]; window.fetch = (to, ...rest) =>
            String(to).includes('plan/hardware') ? Promise.resolve(new Response(known)) : real(to, ...rest);
            [...document.querySelectorAll('nav a')].find(door => door.innerText === 'Plans').click()";
        page.run(script, vec![known.to_string().into()]).await;
        for (tab, name) in [("offload", "dram, fragments"), ("hand-over", "peer, fragments")] {
            let click = format!(
                "[...document.querySelectorAll('.tabs button')].find(b => b.innerText === '{tab}').click()"
            );
            page.run(&click, Vec::new()).await;
            wait_for(&page, "main", &format!("{name}: fitted to 4 transfers of run 20261130-1")).await;
            wait_for(&page, ".doubts", "run 20261130-2 is left out").await;
        }
    }
}
