//! The page as a user handles it: controls moved, figures read.

use std::time::Duration;

use fantoccini::elements::Element;
use fantoccini::key::Key;
use fantoccini::{Client, Locator};
use serde_json::Value;

use crate::selectors;

/// How long the page may take to show what a test expects.
const PATIENCE: Duration = Duration::from_secs(30);

/// An opened page.
#[derive(Debug)]
pub struct Page {
    client: Client,
}

/// A version on the page and the exact bytes that it is shown with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// Its catalogue id.
    pub model: String,
    /// Bytes that one request holds at the context.
    pub resident_bytes: u64,
}

impl Page {
    pub(crate) async fn when_ready(client: Client) -> Self {
        let page = Self { client };
        page.wait_for(selectors::READY).await;
        page
    }

    /// Moves the slider by arrow keys: to the right by `steps`, or to the left.
    pub async fn press_on_slider(&self, key: Key, steps: usize) {
        let slider = self.wait_for(selectors::CONTEXT_SLIDER).await;
        let keys = String::from(char::from(key)).repeat(steps);
        slider.send_keys(&keys).await.expect("the slider takes keys");
    }

    /// Types a context into the number box and confirms it.
    pub async fn type_context(&self, text: &str) {
        self.type_into(selectors::CONTEXT_BOX, text).await;
    }

    /// Types into a box in place of what it holds, and confirms it.
    pub async fn type_into(&self, selector: &str, text: &str) {
        let input = self.wait_for(selector).await;
        let all = String::from(char::from(Key::Control)) + "a" + &String::from(char::from(Key::Null));
        input.send_keys(&all).await.expect("the box takes keys");
        input.send_keys(text).await.expect("the box takes keys");
        input.send_keys(&String::from(char::from(Key::Enter))).await.expect("the box takes keys");
    }

    /// Presses keys in an element, which has the focus then.
    pub async fn press(&self, selector: &str, keys: &str) {
        self.wait_for(selector).await.send_keys(keys).await.expect("the element takes keys");
    }

    /// The context that the page computes with, in tokens.
    pub async fn context(&self) -> u64 {
        exact(&self.wait_for(selectors::CONTEXT_BOX).await).await
    }

    /// Waits until the page computes with a context that the test names in its own words.
    pub async fn wait_for_context(&self, wanted: impl Fn(u64) -> bool) -> u64 {
        let end = tokio::time::Instant::now() + PATIENCE;
        loop {
            let context = self.context().await;
            if wanted(context) {
                return context;
            }
            assert!(tokio::time::Instant::now() < end, "the context stays at {context}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Every shown version with its figure, in the page's order.
    pub async fn shown(&self) -> Vec<Shown> {
        // One script, so that all figures are of one moment.
        let script = "const [model, id, figure, exact] = arguments;
            return [...document.querySelectorAll(model)].flatMap(row => {
              const cell = row.querySelector(figure);
              return cell ? [[row.getAttribute(id), cell.getAttribute(exact)]] : [];
            });";
        let arguments = [selectors::MODEL, selectors::MODEL_ID, selectors::RESIDENT_BYTES, selectors::EXACT];
        let rows = self.run(script, arguments.map(Value::from).to_vec()).await;
        let rows = rows.as_array().expect("the script gives rows");
        rows.iter()
            .map(|row| {
                let text = row[1].as_str().unwrap_or_else(|| panic!("{row} has no exact value"));
                Shown {
                    model: row[0].as_str().expect("a version has an id").to_owned(),
                    resident_bytes: text
                        .parse()
                        .unwrap_or_else(|_| panic!("{text:?} is not a plain integer")),
                }
            })
            .collect()
    }

    /// The visible text of an element that must come to be.
    pub async fn text(&self, selector: &str) -> String {
        self.wait_for(selector).await.text().await.expect("the element is still there")
    }

    /// Whether an element is on the page now.
    pub async fn has(&self, selector: &str) -> bool {
        !self.client.find_all(Locator::Css(selector)).await.expect("the page answers").is_empty()
    }

    /// Gives a file to the page as its user would through the file dialog.
    pub async fn choose_config(&self, path: &std::path::Path) {
        let input = self.wait_for(selectors::CONFIG_FILE).await;
        input.send_keys(&path.to_string_lossy()).await.expect("the file input takes a path");
    }

    /// Gives a file to an input.
    pub async fn choose_file(&self, selector: &str, path: &std::path::Path) {
        let input = self.wait_for(selector).await;
        input.send_keys(&path.to_string_lossy()).await.expect("the file input takes a path");
    }

    /// Gives several files at once.
    pub async fn choose_configs(&self, paths: &[&std::path::Path]) {
        let input = self.wait_for(selectors::CONFIG_FILE).await;
        let paths: Vec<_> = paths.iter().map(|path| path.to_string_lossy()).collect();
        input.send_keys(&paths.join("\n")).await.expect("the file input takes paths");
    }

    /// Chooses an option of a list by its value.
    pub async fn choose(&self, selector: &str, value: &str) {
        let list = self.wait_for(selector).await;
        list.select_by_value(value).await.expect("the list has the value");
    }

    /// Waits until an element is on the page.
    pub async fn wait_until_there(&self, selector: &str) {
        self.wait_for(selector).await;
    }

    /// The picture on the main chart's canvas, as the browser encodes it.
    pub async fn chart(&self) -> String {
        let script = "return document.querySelector(arguments[0]).toDataURL()";
        let picture = self.run(script, vec![selectors::CHART.into()]).await;
        picture.as_str().expect("a canvas encodes to text").to_owned()
    }

    /// The address as it stands in the browser.
    pub async fn address(&self) -> String {
        self.client.current_url().await.expect("the page has an address").to_string()
    }

    /// Loads the page again and waits for its first chart.
    pub async fn reload(&self) {
        self.client.refresh().await.expect("the page loads again");
        self.wait_for(selectors::READY).await;
    }

    /// Runs a script in the page and gives what it returns.
    pub async fn run(&self, script: &str, arguments: Vec<Value>) -> Value {
        self.client.execute(script, arguments).await.expect("the script runs")
    }

    /// Runs a script that ends by calling its last argument.
    pub async fn run_until_called(&self, script: &str) -> Value {
        self.client.execute_async(script, Vec::new()).await.expect("the script ends")
    }

    /// Gives the page so many CSS pixels, whatever stands around it.
    pub async fn set_size(&self, (width, height): (u32, u32)) {
        let around = "return [outerWidth - innerWidth, outerHeight - innerHeight]";
        let around = self.run(around, Vec::new()).await;
        let pixels =
            |place: usize| u32::try_from(around[place].as_u64().expect("a length")).expect("a length");
        let size = (width + pixels(0), height + pixels(1));
        self.client.set_window_size(size.0, size.1).await.expect("the window takes a size");
    }

    /// A picture of what is on screen as PNG, once it does not change any more.
    pub async fn picture_at_rest(&self) -> Vec<u8> {
        let end = tokio::time::Instant::now() + PATIENCE;
        let mut before = Vec::new();
        loop {
            let picture = self.client.screenshot().await.expect("the browser gives a picture");
            if picture == before {
                return picture;
            }
            assert!(tokio::time::Instant::now() < end, "the page does not come to rest");
            before = picture;
            tokio::time::sleep(Duration::from_millis(150)).await;
        }
    }

    /// Lets a script in [`Page::run_until_called`] take this long.
    pub async fn allow_scripts(&self, time: Duration) {
        let timeouts = fantoccini::wd::TimeoutConfiguration::new(Some(time), None, None);
        self.client.update_timeouts(timeouts).await.expect("the driver takes the limit");
    }

    async fn wait_for(&self, selector: &str) -> Element {
        let found = self.client.wait().at_most(PATIENCE).for_element(Locator::Css(selector)).await;
        match found {
            Ok(element) => element,
            Err(error) => {
                let text = self.run("return document.body.innerText", Vec::new()).await;
                panic!("no {selector} on the page ({error}); its text is {text}");
            }
        }
    }
}

async fn exact(element: &Element) -> u64 {
    let text = element.attr(selectors::EXACT).await.expect("the element is still there");
    let text = text.unwrap_or_else(|| panic!("the element has no {}", selectors::EXACT));
    text.parse().unwrap_or_else(|_| panic!("{text:?} is not a plain integer"))
}
