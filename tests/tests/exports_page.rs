//! What the page gives away as files, in a real browser, held byte for byte against the command line's.

mod in_chromium {
    use std::fs;

    use serde_json::Value;

    use kvscope_tests::browser::Browser;
    use kvscope_tests::command_line::{kvscope, size};
    use kvscope_tests::downloads::{export, open};
    use kvscope_tests::page::Page;

    /// The command line's file. The font is in its drawings alone, so it is taken out.
    fn chart(arguments: &[&str], day: &str, ending: &str) -> String {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let file = folder.path().join(format!("a.{ending}"));
        let path = file.to_str().expect("a path in UTF-8");
        let all = [&["chart"], arguments, &["--day", day, "-o", path]].concat();
        let finished = kvscope(&all);
        assert_eq!(finished.status, Some(0), "{all:?}: {}", finished.stderr);
        without_style(&fs::read_to_string(file).expect("a file in UTF-8"))
    }

    fn without_style(text: &str) -> String {
        match (text.find("<style>"), text.find("</style>")) {
            (Some(from), Some(to)) => format!("{}{}", &text[..from], &text[to + "</style>".len()..]),
            _ => text.to_owned(),
        }
    }

    const TEXTS: [(&str, &str); 7] = [
        ("SVG", "svg"),
        ("CSV", "csv"),
        ("JSON", "json"),
        ("Markdown", "md"),
        ("LaTeX", "tex"),
        ("Typst", "typ"),
        ("Vega-Lite", "vl.json"),
    ];

    async fn today(page: &Page) -> String {
        let day = page.run("return new Date().toISOString().slice(0, 10)", Vec::new()).await;
        day.as_str().expect("a day").to_owned()
    }

    #[tokio::test]
    async fn figures_are_the_command_lines_byte_for_byte() {
        let browser = Browser::start().await;
        let views: [(&str, &str, &[&str]); 8] = [
            (
                "v=1&m=kimi-k2.6,deepseek-v4-pro&n=99991",
                "growth",
                &["growth", "kimi-k2.6", "deepseek-v4-pro", "--context", "99991"],
            ),
            (
                "v=1&m=kimi-k2.6,deepseek-v4-pro&n=99991",
                "layers",
                &["layers", "kimi-k2.6", "deepseek-v4-pro", "--context", "99991"],
            ),
            (
                "v=1&m=qwen3.5-397b-a17b,glm-5.1&n=8192&b=3&kv=fp8&e=vllm&es=tp:2&u=gib&y=linear",
                "growth",
                &[
                    "growth",
                    "qwen3.5-397b-a17b",
                    "glm-5.1",
                    "--context",
                    "8192",
                    "--batch",
                    "3",
                    "--kv-dtype",
                    "fp8",
                    "--engine",
                    "vllm",
                    "--tp",
                    "2",
                    "--units",
                    "GiB",
                    "--scale",
                    "linear",
                ],
            ),
            (
                "v=1&m=minimax-m2.7,gemma-3-27b&y=times",
                "growth",
                &["growth", "minimax-m2.7", "gemma-3-27b", "--scale", "times"],
            ),
            (
                "v=1&m=minimax-m2.7,gemma-3-27b&of=persisted",
                "growth",
                &["growth", "minimax-m2.7", "gemma-3-27b", "--bytes", "persisted"],
            ),
            (
                "v=1&m=llama-3.1-70b,gemma-3-27b,kimi-k2&e=vllm&gpu=l40s:4",
                "growth",
                &[
                    "growth",
                    "llama-3.1-70b",
                    "gemma-3-27b",
                    "kimi-k2",
                    "--engine",
                    "vllm",
                    "--gpu",
                    "l40s",
                    "--count",
                    "4",
                ],
            ),
            (
                "v=1&r=versions&n=65536&f=deepseek-v3.2&t=deepseek-v4-pro",
                "change",
                &["diff", "deepseek-v3.2", "deepseek-v4-pro", "--context", "65536"],
            ),
            (
                "v=1&r=versions&f=glm-4.5&t=glm-5.2&w=resident",
                "change",
                &["diff", "glm-4.5", "glm-5.2", "--of", "resident"],
            ),
        ];
        for (query, stem, arguments) in views {
            let page = open(&browser, query).await;
            page.wait_until_there(&format!("[popovertarget=\"export-{stem}\"]")).await;
            let day = today(&page).await;
            let address = page.address().await;
            let (before, _) = address.split_once('?').expect("a query");
            for (way, ending) in TEXTS {
                let text = export(&page, stem, way, ending).await;
                let text = text.as_str().expect("text").to_owned();
                assert_eq!(export(&page, stem, way, ending).await, text, "equal bytes");
                // Typst would take a slash for itself.
                let before = if ending == "typ" { before.replace('/', "\\/") } else { before.to_owned() };
                assert!(text.contains(&before) || ending == "csv", "{stem}.{ending}: no link");
                let wanted = chart(arguments, &day, ending);
                let got = without_style(&text).replace(&before, "");
                if ending == "svg" {
                    // Lines below a drawing are broken by their width, which the whole address changes.
                    let figure = |text: &str| text.split("id=\"footer\"").next().map(str::len);
                    assert!(figure(&got).is_some_and(|length| length > 1000), "{got}");
                    let body = |text: &str| {
                        let from = text.find("id=\"heading\"").expect("a heading");
                        let to = text.find("id=\"footer\"").expect("a footer");
                        text[from..to].to_owned()
                    };
                    assert_eq!(body(&got), body(&wanted), "{query} as {way}");
                } else {
                    assert_eq!(got, wanted, "{query} as {way}");
                }
            }
        }
    }

    #[tokio::test]
    async fn a_picture_is_twice_as_sharp_and_both_can_be_copied() {
        let browser = Browser::start().await;
        let page = open(&browser, "v=1&m=kimi-k2.6&n=99991").await;
        // A PNG says its width and height in bytes 16 to 23; 900 pixels and margins of 24 at twice the density.
        let picture = export(&page, "growth", "PNG", "png").await;
        let bytes: Vec<u8> = serde_json::from_value(picture).expect("bytes");
        assert_eq!(&bytes[1..4], b"PNG");
        let number = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        assert_eq!(number(16), 2 * (900 + 48));
        assert!(number(20) > 800, "{}", number(20));

        let press = "const [way] = arguments;
            window.copied = null;
            document.querySelector('[popovertarget=\"export-growth\"]').click();
            document.querySelector(`#export-growth [data-export=\"${way}\"]`).click();";
        for (way, begins) in [("copy picture", "image/png"), ("copy table", "context (tokens)\t")] {
            page.run(press, vec![way.into()]).await;
            let copied = page
                .run_until_called(
                    "const done = arguments[0];
                    const look = () => window.copied ? done(window.copied) : setTimeout(look, 20);
                    look();",
                )
                .await;
            let copied = copied.as_str().expect("text").to_owned();
            assert!(copied.starts_with(begins), "{way}: {copied}");
            if way == "copy table" {
                let row = format!("99991\t{}\n", 99_991 * 70_272_u64);
                assert!(copied.contains(&row), "{copied}");
            }
        }
        let open = "return document.querySelector('#export-growth').matches(':popover-open')";
        assert_eq!(page.run(open, Vec::new()).await, false);
    }

    #[tokio::test]
    async fn tables_have_every_digit_of_the_command_line() {
        let browser = Browser::start().await;
        let page = open(&browser, "v=1&m=kimi-k2.6,qwen3.5-397b-a17b&n=99991&e=vllm&es=tp:2").await;
        let text = export(&page, "side-by-side", "JSON", "json").await;
        let document: Value = serde_json::from_str(text.as_str().expect("text")).expect("JSON");
        let asked = ["kimi-k2.6", "qwen3.5-397b-a17b", "--context", "99991"];
        let logical = size(asked);
        let reserved = size(asked.iter().chain(&["--engine", "vllm", "--tp", "2"]));
        let rows = document["rows"].as_array().expect("rows");
        for (name, place) in [("Kimi-K2.6", 0), ("Qwen3.5-397B-A17B", 1)] {
            let of = |accounting: &str| {
                let is_of = |row: &&Value| row["version"] == name && row["accounting"] == accounting;
                rows.iter().find(is_of).unwrap_or_else(|| panic!("no {accounting} of {name} in {document}"))
            };
            let whole = of("logical, whole model");
            assert_eq!(whole["resident_bytes"], logical[place]["resident_bytes"], "{name}");
            assert_eq!(whole["read_a_step_bytes"], logical[place]["read_bytes_per_step"], "{name}");
            assert_eq!(
                of("reserved, one rank of 2")["resident_bytes"],
                reserved[place]["resident_bytes"],
                "{name}"
            );
        }
        let csv = export(&page, "components", "CSV", "csv").await;
        // 61 layers of 576 values in BF16.
        let line = format!("MLA latent,61,bf16,linear,{},70272", 99_991 * 70_272_u64);
        assert!(csv.as_str().expect("text").lines().any(|known| known == line), "{csv} lacks {line}");

        let page = open(&browser, "v=1&r=models&so=-slope").await;
        let csv = export(&page, "versions", "CSV", "csv").await;
        let known: Value = serde_json::from_str(&kvscope(["models", "--json"]).stdout).expect("JSON");
        let lines = csv.as_str().expect("text").lines().count();
        assert_eq!(lines, 1 + known.as_array().expect("rows").len());

        let page = open(&browser, "v=1&r=versions&f=glm-4.5&t=glm-5.1").await;
        for (stem, words) in
            [("facts", "full attention: kv heads"), ("kept", "together"), ("family", "GLM-5.2")]
        {
            let text = export(&page, stem, "Markdown", "md").await;
            let text = text.as_str().expect("text");
            assert!(text.contains(words), "{stem}: {text}");
            assert!(text.lines().filter(|line| line.starts_with('|')).count() > 3, "{stem}: {text}");
        }
    }

    #[tokio::test]
    async fn nothing_to_export_is_said() {
        let browser = Browser::start().await;
        let page = open(&browser, "v=1&m=").await;
        let press = "document.querySelector('[popovertarget=\"export-growth\"]').click();
            document.querySelector('#export-growth [data-export=\"CSV\"]').click();
            return document.querySelector('.bar .export [role=status]').innerText";
        let said = page.run(press, Vec::new()).await;
        let said = if said == "" {
            tokio::time::sleep(std::time::Duration::from_millis(500)).await;
            page.run("return document.querySelector('.bar .export [role=status]').innerText", Vec::new())
                .await
        } else {
            said
        };
        assert_eq!(said, "No version has a figure, so there is nothing to export.");
    }
}
