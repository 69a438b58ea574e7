//! The JSON schema of `node.toml`, committed for editors.

use std::path::Path;

use plexus_machine::policy;

#[test]
fn committed_policy_schema_matches_the_code() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schema/node-policy.schema.json");
    let schema = policy::schema_file();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&file, &schema).unwrap();
    }
    assert_eq!(std::fs::read_to_string(&file).unwrap_or_default(), schema, "stale: run `make generated`");
}
