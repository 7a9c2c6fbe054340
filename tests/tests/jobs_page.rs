//! A run that is started, watched and cancelled on the page, and the same run in another tab.

mod in_chromium {
    use std::time::Duration;

    use kvscope_tests::agent::Agent;
    use kvscope_tests::browser::Browser;
    use kvscope_tests::page::Page;

    const START: &str = "[data-action=\"start\"]";
    const CANCEL: &str = "[data-action=\"cancel\"]";
    const STATE: &str = "[data-job=\"state\"]";

    async fn click(page: &Page, selector: &str) {
        page.run("document.querySelector(arguments[0]).click()", vec![selector.into()]).await;
    }

    async fn until(page: &Page, script: &str, arguments: &[&str]) {
        for _ in 0..600 {
            let arguments = arguments.iter().map(|text| (*text).into()).collect();
            if page.run(script, arguments).await == true {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!(
            "{script} does not become true: {}",
            page.run("return document.body.innerText", Vec::new()).await
        );
    }

    /// Whether an element is shown, and its text holds something.
    const SHOWN: &str = "const found = document.querySelector(arguments[0]);
        return !!found && found.offsetParent !== null && found.textContent.includes(arguments[1]);";

    #[tokio::test]
    async fn a_run_is_started_watched_in_two_tabs_and_cancelled() {
        let agent = Agent::start();
        let browser = Browser::start().await;
        let address = format!("{}?v=1&r=measure", agent.address());
        let page = browser.open(&address).await;
        until(&page, SHOWN, &[START, "Start"]).await;
        let other = Browser::start().await;
        let second = other.open(&address).await;
        until(&second, SHOWN, &[START, "Start"]).await;
        click(&page, START).await;
        until(&page, SHOWN, &[CANCEL, "Cancel"]).await;
        until(&page, SHOWN, &[STATE, " s left"]).await;
        // The other tab learns of it by itself.
        until(&second, SHOWN, &[STATE, " s left"]).await;
        until(&page, "return +document.querySelector('.job progress').getAttribute('value') > 0", &[]).await;

        // One that comes later is told what there is.
        let third = other.open(&address).await;
        until(&third, SHOWN, &[STATE, " s left"]).await;

        click(&page, CANCEL).await;
        until(&page, SHOWN, &[START, "Start"]).await;
        until(&third, SHOWN, &[START, "Start"]).await;
    }

    #[tokio::test]
    async fn an_agent_that_goes_away_is_told_and_what_cannot_be_run_is_refused_in_a_sentence() {
        let agent = Agent::start();
        let browser = Browser::start().await;
        let page = browser.open(&format!("{}?v=1&r=measure", agent.address())).await;
        until(&page, SHOWN, &[START, "Start"]).await;
        page.run("document.getElementById('job-forms').value = 'gpa'", Vec::new()).await;
        click(&page, START).await;
        until(&page, SHOWN, &[".job [role=\"alert\"]", "gpa"]).await;

        page.run("document.getElementById('job-forms').value = 'gqa'", Vec::new()).await;
        click(&page, START).await;
        until(&page, SHOWN, &[CANCEL, "Cancel"]).await;
        drop(agent);
        until(&page, SHOWN, &[".job [role=\"alert\"]", "does not answer"]).await;
    }
}
