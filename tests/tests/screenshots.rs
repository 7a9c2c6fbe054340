//! What eight states of the page look like, in light and dark, at one and two device pixels per CSS pixel, beside kept pictures
//! of a quarter of the points. With `KVSCOPE_UPDATE_GOLDEN=1` they are written anew: look at each before it is kept.

use std::path::PathBuf;

use kvscope_tests::picture::Picture;

/// Names of the states and their links.
const STATES: [(&str, &str); 8] = [
    ("first-visit", ""),
    ("growth-in-an-engine", "?v=1&m=gemma-3-27b,qwen3.5-397b-a17b&e=vllm&es=tp:2&mem=60GiB&gpu=h200:8"),
    ("versions", "?v=1&r=versions&f=glm-4.5&t=glm-5.1"),
    ("models", "?v=1&r=models"),
    ("plans", "?v=1&r=plans&m=deepseek-v3.2&p=offload"),
    ("claims", "?v=1&r=claims&c=article-spread"),
    ("log", "?v=1&r=log"),
    ("measure", "?v=1&r=measure"),
];

fn kept(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("screenshots").join(format!("{name}.png"))
}

/// A comparison that took one state for another, or a page whose lines have moved for the same, would prove nothing.
#[test]
fn pictures_of_different_states_are_told_apart() {
    let pictures: Vec<(String, Picture)> = STATES
        .iter()
        .flat_map(|(state, _)| ["light", "dark"].map(|theme| format!("{state}-{theme}-1x")))
        .map(|name| (name.clone(), Picture::kept(&kept(&name)).expect(&name)))
        .collect();
    for (place, (name, one)) in pictures.iter().enumerate() {
        assert!(one.distance(one).expect("its own size").is_of_the_same_page());
        let moved = one.distance(&one.lower_by(1)).expect("its own size");
        assert!(!moved.is_of_the_same_page(), "{name} moved by a line is taken for itself: {moved:?}");
        for (other, two) in &pictures[..place] {
            let distance = one.distance(two).expect("pictures of one size");
            assert!(!distance.is_of_the_same_page(), "{name} is taken for {other}: {distance:?}");
        }
    }
}

mod in_chromium {
    use std::env;

    use kvscope_tests::browser::{Browser, Look, PixelRatio, Theme};
    use kvscope_tests::picture::Picture;
    use kvscope_tests::static_host;

    /// CSS pixels of the page.
    const SIZE: (u32, u32) = (1280, 900);

    async fn compare(theme: Theme, ratio: u8) {
        let look = Look { ratio: PixelRatio(f64::from(ratio)), theme };
        let browser = Browser::start_with(look).await;
        let address = static_host::start().await;
        let mut wrong = Vec::new();
        for (state, query) in super::STATES {
            let page = browser.open(&format!("{}/{query}", address.trim_end_matches('/'))).await;
            page.set_size(SIZE).await;
            let taken = Picture::of_png(&page.picture_at_rest().await).smaller(2 * usize::from(ratio));
            let name = format!("{state}-{}-{ratio}x", theme.word());
            let path = super::kept(&name);
            if env::var_os("KVSCOPE_UPDATE_GOLDEN").is_some() {
                taken.keep(&path);
                continue;
            }
            let distance = Picture::kept(&path).and_then(|kept| kept.distance(&taken));
            if distance.is_none_or(|distance| !distance.is_of_the_same_page()) {
                let shown = env::temp_dir().join(format!("kvscope-screenshot-{name}.png"));
                taken.keep(&shown);
                wrong.push(format!("{name}: {distance:?}; taken: {}", shown.display()));
            }
        }
        assert!(
            wrong.is_empty(),
            "the page looks otherwise than in tests/screenshots; where that is wanted, run with KVSCOPE_UPDATE_GOLDEN=1 and look \
             at what it writes:\n{}",
            wrong.join("\n")
        );
    }

    #[tokio::test]
    async fn light() {
        compare(Theme::Light, 1).await;
    }

    #[tokio::test]
    async fn light_at_two_pixels() {
        compare(Theme::Light, 2).await;
    }

    #[tokio::test]
    async fn dark() {
        compare(Theme::Dark, 1).await;
    }

    #[tokio::test]
    async fn dark_at_two_pixels() {
        compare(Theme::Dark, 2).await;
    }
}
