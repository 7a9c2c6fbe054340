//! How tests find things on the page. The page keeps these; nothing else about its markup is relied on.

/// Present once the first chart is drawn.
pub const READY: &str = "[data-ready=\"true\"]";
/// The slider that moves the context; arrow keys move it, whatever its scale.
pub const CONTEXT_SLIDER: &str = "input[type=\"range\"][aria-label=\"Context\"]";
/// The box that takes a context as text (`65536`, `64Ki`, `1M`) on Enter. Its [`EXACT`] is the context in tokens.
pub const CONTEXT_BOX: &str = "input[aria-label=\"Context in tokens\"]";
/// One shown version; the attribute holds its catalogue id.
pub const MODEL: &str = "[data-model]";
/// The attribute of [`MODEL`].
pub const MODEL_ID: &str = "data-model";
/// Inside [`MODEL`]: bytes that one request holds at the context. Its [`EXACT`] is that integer.
pub const RESIDENT_BYTES: &str = "[data-figure=\"resident_bytes\"]";
/// Inside [`MODEL`]: what the chosen engine reserves. Its [`EXACT`] is that integer.
pub const RESERVED_BYTES: &str = "[data-figure=\"reserved_bytes\"]";
/// Chooses whose reserved bytes stand beside the logical ones, by the engine's name.
pub const ENGINE: &str = "select[aria-label=\"Engine\"]";
/// The sentence that says why the chosen engine refuses a version.
pub const ENGINE_REFUSAL: &str = "[data-notice=\"engine-refusal\"]";
/// Takes the text of a config.
pub const PASTED_CONFIG: &str = "textarea[aria-label=\"Text of a config.json\"]";
/// The attribute that holds a figure as an exact integer, whatever its text is rounded to.
pub const EXACT: &str = "data-value";
/// The main chart.
pub const CHART: &str = "canvas[data-figure=\"growth\"]";
/// Says what the page cannot do, when no agent serves it.
pub const WITHOUT_AGENT: &str = "[data-notice=\"no-agent\"]";
/// Takes a user's own config file.
pub const CONFIG_FILE: &str = "input[type=\"file\"][aria-label=\"Open a config\"]";
/// The sentence that says why something the user gave was refused.
pub const REFUSAL: &str = "[role=\"alert\"]";
/// Takes the memory that state is to fit, as text (`60 GiB`, `80GB`) on Enter. Its [`EXACT`] is in bytes.
pub const MEMORY: &str = "input[aria-label=\"Memory for state on one rank\"]";
/// One version in the answer to what fits; the attribute holds its id, `data-tokens` and `data-requests` what fits.
pub const FITS: &str = "[data-fits]";
