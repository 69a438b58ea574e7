//! Checks that every `PLEXUS_` variable that is set is a known one.

use plexus_kit::Environment;

use super::Finding;

const CHECK: &str = "environment";

pub(super) fn check(environment: &Environment) -> Vec<Finding> {
    let unknown = environment.unknown();
    if unknown.is_empty() {
        return vec![Finding::ok(CHECK, "no unknown PLEXUS_ variable is set")];
    }
    let found = unknown.into_iter().map(|(name, nearest)| {
        let suggestion = nearest.map_or_else(String::new, |nearest| format!("; did you mean {nearest}?"));
        Finding::warning(
            CHECK,
            format!("{name} is set, but nothing reads it{suggestion}"),
            format!("unset {name}"),
        )
    });
    found.collect()
}
