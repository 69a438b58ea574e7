//! The built-in profiles.

use std::path::PathBuf;
use std::sync::Arc;

use super::file::Reader;
use super::{Profile, ProfileEntry, ProfileSource, Profiles};

/// Id, `config.json`, `system_prompt.txt` and `subagent_system_prompt.txt` of a folder in `profiles/` of this
/// crate.
macro_rules! shipped {
    ($($id:literal),+) => {
        [$((
            $id,
            include_str!(concat!("../../profiles/", $id, "/config.json")),
            include_str!(concat!("../../profiles/", $id, "/system_prompt.txt")),
            include_str!(concat!("../../profiles/", $id, "/subagent_system_prompt.txt")),
        )),+]
    };
}

const SHIPPED: [(&str, &str, &str, &str); 6] =
    shipped!["secretary", "server_admin", "developer", "tool_developer", "discuss", "modeler_3d"];

pub(super) fn profiles(reader: &Reader) -> Profiles {
    let entries = SHIPPED.into_iter().map(|(id, config, system_prompt, subagent_system_prompt)| {
        let profile = reader.read(id, &PathBuf::from(format!("(shipped)/{id}/config.json")), config);
        let profile = profile.map(|profile| {
            Arc::new(Profile {
                system_prompt: Some(system_prompt.to_owned()),
                subagent_system_prompt: Some(subagent_system_prompt.to_owned()),
                ..profile
            })
        });
        (id.to_owned(), ProfileEntry { source: ProfileSource::Shipped, profile })
    });
    Profiles(entries.collect())
}
