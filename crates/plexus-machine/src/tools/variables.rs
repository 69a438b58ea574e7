//! Variables of the environment that a caller gives to what it runs.

use std::collections::BTreeMap;

use plexus_proto::ErrorCode;
use plexus_tools::{CallError, arguments};
use serde_json::json;

use super::OWNER;
use crate::policy::Policy;

/// Those that the policy lets a caller set, and that are variables.
pub(super) fn checked(
    tool: &str,
    policy: &Policy,
    given: Option<BTreeMap<String, String>>,
) -> Result<BTreeMap<String, String>, CallError> {
    let given = given.unwrap_or_default();
    for (name, value) in &given {
        if !policy.environment.can_be_set(name) {
            let message = format!("the policy of this machine does not let a caller set {name:?}");
            return Err(CallError::new(ErrorCode::Forbidden, message).hint(OWNER).before_it_ran());
        }
        if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
            let message = "the name of a variable is not empty and has no `=`; neither has U+0000";
            return Err(arguments::invalid(tool, vec![json!({ "path": "/env", "message": message })]));
        }
    }
    Ok(given)
}
