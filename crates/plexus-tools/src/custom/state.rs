//! The tools that an admin has enabled, stored in a file that only the hub's user can read.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use plexus_kit::private_file;
use serde::{Deserialize, Serialize};

#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct State {
    enabled: BTreeSet<String>,
}

/// None if the file cannot be used, which is logged; then it enables nothing.
pub(super) fn read(file: &Path) -> BTreeSet<String> {
    let read = private_file::read(file).and_then(|bytes| match bytes {
        Some(bytes) => serde_json::from_slice::<State>(&bytes).map_err(io::Error::from),
        None => Ok(State::default()),
    });
    match read {
        Ok(state) => state.enabled,
        Err(error) => {
            tracing::error!(file = %file.display(), %error, "cannot read the enabled user-defined tools; this file enables none");
            BTreeSet::new()
        }
    }
}

pub(super) fn write(file: &Path, enabled: &BTreeSet<String>) -> io::Result<()> {
    let state = State { enabled: enabled.clone() };
    let mut text = serde_json::to_string_pretty(&state).map_err(io::Error::from)?;
    text.push('\n');
    private_file::write(file, text.as_bytes())
}
