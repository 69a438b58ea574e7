//! Environment variables that a caller sets.

use std::collections::BTreeMap;

use plexus_proto::ErrorCode;
use plexus_tools::{CallError, arguments};
use serde_json::json;

use super::OWNER_HINT;
use crate::policy::Policy;

/// Checks that the names and values are valid and that the policy allows them.
pub(super) fn checked(
    tool: &str,
    policy: &Policy,
    given: Option<BTreeMap<String, String>>,
) -> Result<BTreeMap<String, String>, CallError> {
    let given = given.unwrap_or_default();
    for (name, value) in &given {
        if !policy.environment.can_be_set(name) {
            let message = format!("the policy of this machine does not let a caller set {name:?}");
            return Err(CallError::new(ErrorCode::Forbidden, message).hint(OWNER_HINT).before_it_ran());
        }
        if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
            let message = "a variable name must not be empty or contain `=`, and neither name nor value may contain U+0000";
            return Err(arguments::invalid(tool, vec![json!({ "path": "/env", "message": message })]));
        }
    }
    Ok(given)
}
