//! Two versions compared in a real browser, held against the command line.

mod in_chromium {
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

    fn json(arguments: &[&str]) -> Value {
        let finished = kvscope(arguments);
        assert_eq!(finished.status, Some(0), "{}", finished.stderr);
        serde_json::from_str(&finished.stdout).expect("JSON")
    }

    async fn wait_for(page: &Page, script: &str, wanted: &Value) {
        let mut got = Value::Null;
        for _ in 0..300 {
            got = page.run(script, Vec::new()).await;
            if got == *wanted {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("{script} gives {got}, not {wanted}");
    }

    async fn numbers(page: &Page, script: &str) -> Vec<f64> {
        let cells = page.run(script, Vec::new()).await;
        cells.as_array().expect("cells").iter().map(|cell| cell.as_f64().expect("a number")).collect()
    }

    const HEADLINE: &str = "return document.querySelector('h1').innerText";

    #[tokio::test]
    async fn the_change_between_two_versions_is_the_command_lines_and_adds_up() {
        let browser = Browser::start().await;
        let pairs = [
            ("glm-4.5", "glm-5.1"),
            ("deepseek-v3.2", "deepseek-v4-pro"),
            ("qwen3-235b-a22b", "qwen3.5-397b-a17b"),
        ];
        for (from, to) in pairs {
            let compared = json(&["compare", from, to, "--context", "99991", "--json"]);
            let page = open(&browser, &format!("v=1&r=versions&f={from}&t={to}&n=99991")).await;
            wait_for(&page, HEADLINE, &compared["sentence"]).await;
            for (measure, change) in
                [("slope", "slope_change"), ("fixed", "fixed_change"), ("resident", "resident_change")]
            {
                let script = "const [measure] = arguments;
                    [...document.querySelectorAll('.choice button')].find(b => b.innerText === measure).click();
                    const table = [...document.querySelectorAll('.choice button')].find(b => b.innerText === 'table');
                    if (table.getAttribute('aria-pressed') !== 'true') table.click();";
                page.run(script, vec![measure.into()]).await;
                page.wait_until_there(".data caption").await;
                let steps = compared["steps"].as_array().expect("steps");
                let moving: Vec<f64> = steps
                    .iter()
                    .map(|step| step[change].as_f64().expect("a number"))
                    .filter(|c| *c != 0.0)
                    .collect();
                let cells = "const plain = text => Number(text.replaceAll(',', '').replace('−', '-'));
                    const rows = [...document.querySelector('section .data tbody').rows];
                    return rows.slice(1, -1).map(row => plain(row.cells[1].innerText));";
                let mut shown = Vec::new();
                for _ in 0..300 {
                    shown = numbers(&page, cells).await;
                    if shown == moving {
                        break;
                    }
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
                assert_eq!(shown, moving, "{from} to {to}: {measure}");
                let reached = "const plain = text => Number(text.replaceAll(',', '').replace('−', '-'));
                    const rows = [...document.querySelector('section .data tbody').rows];
                    return rows.map(row => plain(row.cells[2].innerText));";
                let reached = numbers(&page, reached).await;
                let (first, last) = (reached[0], reached[reached.len() - 1]);
                // Fractions of tokens have a power of two below: floating point adds them exactly.
                let rest = first + moving.iter().sum::<f64>() - last;
                assert!(rest.abs() < 1e-6, "{from} to {to}: {measure} is off by {rest}");
            }
        }
    }

    #[tokio::test]
    async fn a_version_of_the_family_becomes_an_end_and_back_undoes_it() {
        let browser = Browser::start().await;
        let page = open(&browser, "v=1&r=versions&f=glm-4.5&t=glm-5.1").await;
        let before = page.text("h1").await;
        let rows = page.run("return document.querySelectorAll('[data-version]').length", Vec::new()).await;
        let family = json(&["models", "glm", "--json"]);
        let family = family.as_array().expect("rows").iter().filter(|row| row["family"] == "GLM").count();
        assert_eq!(rows.as_u64(), Some(family as u64));
        page.run("document.querySelector('[aria-label=\"to GLM-4.6\"]').click()", Vec::new()).await;
        let compared = json(&["compare", "glm-4.5", "glm-4.6", "--json"]);
        wait_for(&page, HEADLINE, &compared["sentence"]).await;
        assert!(page.address().await.contains("t=glm-4.6"), "{}", page.address().await);
        page.run("history.back()", Vec::new()).await;
        wait_for(&page, HEADLINE, &Value::from(before)).await;
    }

    #[tokio::test]
    async fn an_unknown_version_says_so_and_the_rest_works() {
        let browser = Browser::start().await;
        let page = open(&browser, "v=1&r=versions&f=zzzzzzzzzz&t=glm-5.1").await;
        let said = page.text("h1").await;
        assert!(said.contains("zzzzzzzzzz") && said.contains("not in the catalogue"), "{said}");
        page.choose("select[aria-label=\"Compare from\"]", "glm-5").await;
        let compared = json(&["compare", "glm-5", "glm-5.1", "--json"]);
        wait_for(&page, HEADLINE, &compared["sentence"]).await;
    }
}
