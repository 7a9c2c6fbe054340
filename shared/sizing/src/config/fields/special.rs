//! Numbers that Python writes and JSON does not know.

use serde_json::Value;

use super::{Fields, WHOLE_NUMBER};
use crate::config::json::Special;
use crate::{Error, Result};

impl Fields<'_> {
    pub(in crate::config) fn with_special(self, special: Vec<Special>) -> Self {
        Self { special: special.into(), ..self }
    }

    /// `NaN` and infinities, which are null in the values: where a number is wanted they are no absence of it.
    pub(super) fn refuse_special(&self, key: &str) -> Result<()> {
        if self.special.is_empty() {
            return Ok(());
        }
        let inner = self.levels.iter().take_while(|(_, map)| map.get(key).is_none_or(Value::is_null));
        let mut paths = inner.map(|(prefix, _)| format!("{prefix}{key}"));
        let found = paths.find_map(|path| self.special.iter().find(|special| special.path == path));
        match found {
            Some(Special { path, word }) => {
                Err(Error::field(path, format!("expected {WHOLE_NUMBER}, found {word}")))
            }
            None => Ok(()),
        }
    }
}
