//! Nothing on the page is computed outside `shared/`: 200 random states, by their links, held against the command line.

mod in_chromium {
    use std::fmt::Write as _;
    use std::time::Duration;

    use serde_json::{Value, json};

    use kvscope_tests::browser::Browser;
    use kvscope_tests::command_line::kvscope;
    use kvscope_tests::static_host;

    const STATES: usize = 200;

    /// Figures of a row: by the page's name, and by that of `size`.
    const LOGICAL: [(&str, &str); 4] = [
        ("resident_bytes", "resident_bytes"),
        ("slope_bytes_per_token", "slope_bytes_per_token"),
        ("fixed_bytes", "fixed_bytes"),
        ("read_bytes_per_step", "read_bytes_per_step"),
    ];
    const RESERVED: [(&str, &str); 3] = [
        ("reserved_bytes", "resident_bytes"),
        ("reserved_slope_bytes_per_token", "slope_bytes_per_token"),
        ("reserved_fixed_bytes", "fixed_bytes"),
    ];

    /// Numbers that look random and are the same in every run (`SplitMix64`).
    struct Numbers(u64);

    impl Numbers {
        fn below(&mut self, end: u64) -> u64 {
            self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut mixed = self.0;
            mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            (mixed ^ (mixed >> 31)) % end
        }

        fn one<'t>(&mut self, of: &[&'t str]) -> &'t str {
            let place = usize::try_from(self.below(of.len() as u64)).expect("below a length");
            of[place]
        }
    }

    /// A state as a link has it, and as the command line is asked for it.
    struct State {
        query: String,
        models: Vec<String>,
        options: Vec<String>,
        has_engine: bool,
    }

    impl State {
        fn random(numbers: &mut Numbers, catalogue: &[&str]) -> Self {
            let mut models: Vec<String> = Vec::new();
            for _ in 0..=numbers.below(3) {
                let id = numbers.one(catalogue).to_owned();
                if !models.contains(&id) {
                    models.push(id);
                }
            }
            let octave = numbers.below(22);
            let context = (1 << octave) + numbers.below(1 << octave);
            let batch = 1 + numbers.below(64);
            let mut query = format!("v=1&m={}&n={context}&b={batch}", models.join(","));
            let mut options = vec![format!("--context={context}"), format!("--batch={batch}")];
            let mut set = |key: &str, option: &str, value: &str| {
                if !value.is_empty() {
                    let _ = write!(query, "&{key}={value}");
                    options.push(format!("--{option}={value}"));
                }
            };
            set("kv", "kv-dtype", numbers.one(&["", "", "bf16", "fp8", "q8_0", "fp8_ds_mla"]));
            set("ix", "index-dtype", numbers.one(&["", "", "fp8", "bf16"]));
            set("st", "state-dtype", numbers.one(&["", "", "f32", "bf16"]));
            let engine = numbers.one(&["", "", "vllm", "vllm@0.30", "sglang", "llama.cpp", "trtllm"]);
            set("e", "engine", engine);
            let ranks = numbers.one(&["1", "2", "4", "8"]);
            if !engine.is_empty() && engine != "llama.cpp" && ranks != "1" {
                let _ = write!(query, "&es=tp:{ranks}");
                options.push(format!("--tp={ranks}"));
            }
            Self { query, models, options, has_engine: !engine.is_empty() }
        }

        /// What `size` says of each model: its row, or none where it refuses it.
        fn sized(&self) -> Vec<Option<Value>> {
            let size = |models: &[String]| -> Option<Vec<Value>> {
                let options = ["size".to_owned()].into_iter().chain(models.iter().cloned());
                let asked = options.chain(self.options.iter().cloned()).chain(["--json".to_owned()]);
                let finished = kvscope(asked);
                match finished.status {
                    Some(0) => serde_json::from_str(&finished.stdout).expect("size prints JSON"),
                    Some(2) => None,
                    other => panic!("{}: {other:?} {}", self.query, finished.stderr),
                }
            };
            if let Some(rows) = size(&self.models) {
                return rows.into_iter().map(Some).collect();
            }
            let one = |id: &String| size(std::slice::from_ref(id))?.pop();
            self.models.iter().map(one).collect()
        }
    }

    /// Goes to every link as "back" and "forward" do, and reads every figure once the page follows.
    const VISIT: &str = "const done = arguments[arguments.length - 1];
        const [queries, names] = JSON;
        // A narrow figure has few points; the figures that are read stand in tables.
        document.head.insertAdjacentHTML('beforeend', '<style>.figure { width: 240px }</style>');
        (async () => {
          const read = [];
          for (const query of queries) {
            history.pushState(null, '', '?' + query);
            dispatchEvent(new PopStateEvent('popstate'));
            for (let turn = 0; turn < 3; turn++) await new Promise(next => setTimeout(next, 0));
            read.push([...document.querySelectorAll('[data-model]')].map(row => [
              row.getAttribute('data-model'),
              names.map(name => row.querySelector(`[data-figure=\"${name}\"]`)?.getAttribute('data-value') ?? null)]));
          }
          return read;
        })().then(done, error => done(String(error)));";

    #[tokio::test]
    async fn two_hundred_states_have_the_command_lines_figures() {
        let listed: Value = serde_json::from_str(&kvscope(["models", "--json"]).stdout).expect("JSON");
        let ids: Vec<&str> = listed
            .as_array()
            .expect("a list")
            .iter()
            .map(|row| row["id"].as_str().or(row["model"].as_str()).expect("an id"))
            .collect();
        let mut numbers = Numbers(2026);
        let states: Vec<State> = (0..STATES).map(|_| State::random(&mut numbers, &ids)).collect();

        // The command line goes over them while the browser does.
        let states = std::sync::Arc::new(states);
        let sizing = |from: usize, to: usize| {
            let states = std::sync::Arc::clone(&states);
            std::thread::spawn(move || states[from..to].iter().map(State::sized).collect::<Vec<_>>())
        };
        let sizing = [sizing(0, STATES / 2), sizing(STATES / 2, STATES)];

        let browser = Browser::start().await;
        let page = browser.open(&static_host::start().await).await;
        let names: Vec<&str> = LOGICAL.iter().chain(&RESERVED).map(|(name, _)| *name).collect();
        let queries: Vec<&str> = states.iter().map(|state| state.query.as_str()).collect();
        page.allow_scripts(Duration::from_mins(1)).await;
        let read = page.run_until_called(&VISIT.replace("JSON", &json!([queries, names]).to_string())).await;
        let read = read.as_array().unwrap_or_else(|| panic!("{read}"));
        assert_eq!(read.len(), STATES);
        let expected = sizing.into_iter().flat_map(|half| half.join().expect("sized"));

        let (mut compared, mut refused) = (0, 0);
        for ((state, sized), shown) in states.iter().zip(expected).zip(read) {
            let query = &state.query;
            let figures: &[(&str, &str)] = if state.has_engine { &RESERVED } else { &LOGICAL };
            for (model, expected) in state.models.iter().zip(&sized) {
                let rows = shown.as_array().expect("rows");
                let row = rows
                    .iter()
                    .find(|row| row[0] == **model)
                    .unwrap_or_else(|| panic!("{query}: no {model}"));
                for (name, of_size) in figures {
                    let place = names.iter().position(|known| known == name).expect("a name");
                    let shown = row[1][place].as_str().map(|text| text.parse::<f64>().expect("a number"));
                    let wanted = expected.as_ref().and_then(|row| row[of_size].as_f64());
                    assert_eq!(shown, wanted, "{model} {name} of ?{query}");
                    compared += usize::from(wanted.is_some());
                    refused += usize::from(wanted.is_none());
                }
            }
        }
        assert!(compared > 700 && refused > 0, "{compared} compared, {refused} refused");
    }
}
