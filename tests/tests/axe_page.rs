//! An accessibility engine finds nothing on any view, in light and in dark.

mod in_chromium {
    use std::time::Duration;

    use kvscope_tests::browser::Browser;
    use kvscope_tests::page::Page;
    use kvscope_tests::static_host;

    const ENGINE: &str = include_str!("../vendor/axe-core/axe.min.js");

    /// Every view, and what is pressed there before it is looked at.
    const VIEWS: [(&str, &str); 15] = [
        ("v=1&m=deepseek-v3.2,gemma-3-27b,kimi-k2.5-nope&n=200000", ""),
        ("v=1&m=gemma-3-27b,qwen3.5-397b-a17b&e=vllm&es=tp:3&mem=60GiB&gpu=h200:8", "details summary"),
        ("v=1&m=", "button.find"),
        ("v=1&r=versions&f=glm-4.5&t=glm-5.1", ""),
        ("v=1&r=models", ""),
        ("v=1&r=plans&m=deepseek-v3.2", ""),
        ("v=1&r=plans&m=deepseek-v3.2&p=prefix", ""),
        ("v=1&r=plans&m=deepseek-v3.2&p=handover", ""),
        ("v=1&r=plans&m=deepseek-v3.2&p=offload", ""),
        ("v=1&r=plans&m=deepseek-v3.2&p=label", ""),
        ("v=1&r=plans&m=deepseek-v3.2&p=cost", ""),
        ("v=1&r=plans&m=deepseek-v3.2&p=compress", ""),
        ("v=1&r=claims&c=article-spread", ""),
        ("v=1&r=log", "[data-example]"),
        ("v=1&r=measure", ""),
    ];

    /// What the engine finds, a line each: the rule, what it says, and where.
    async fn found(page: &Page, run_only: &str) -> Vec<String> {
        let script = format!(
            "const done = arguments[arguments.length - 1];
            axe.run(document, {{resultTypes: ['violations'] {run_only}}}).then(
              result => done(result.violations.flatMap(rule => rule.nodes.map(
                node => `${{rule.id}} (${{rule.help}}): ${{node.html.slice(0, 160)}} ${{node.any.map(any => any.message)}}`))),
              error => done([String(error)]));"
        );
        let lines = page.run_until_called(&script).await;
        let lines = lines.as_array().expect("lines").iter();
        lines.map(|line| line.as_str().expect("text").to_owned()).collect()
    }

    #[tokio::test]
    async fn no_view_has_a_violation_in_light_or_dark() {
        let browser = Browser::start().await;
        let address = static_host::start().await;
        let address = address.trim_end_matches('/');
        let mut all = Vec::new();
        for (query, pressed) in VIEWS {
            let page = browser.open(&format!("{address}/?{query}")).await;
            page.allow_scripts(Duration::from_mins(1)).await;
            if !pressed.is_empty() {
                page.run(
                    "document.querySelectorAll(arguments[0]).forEach(e => e.click())",
                    vec![pressed.into()],
                )
                .await;
            }
            page.run(ENGINE, Vec::new()).await;
            // Colours alone differ between the themes.
            for (theme, only) in [("light", ""), ("dark", ", runOnly: ['color-contrast']")] {
                let script = "document.documentElement.setAttribute('data-theme', arguments[0])";
                page.run(script, vec![theme.into()]).await;
                let found = found(&page, only).await;
                all.extend(found.into_iter().map(|line| format!("?{query} {theme}: {line}")));
            }
        }
        assert!(all.is_empty(), "{} violations:\n{}", all.len(), all.join("\n"));
    }
}
