//! Lists of what the servers behind the hub offer besides tools.

use plexus_auth::Principal;
use serde_json::value::RawValue;

use super::State;
use super::rpc::{self, RpcError};
use super::version::Features;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Listed {
    Resources,
    Templates,
    Prompts,
}

impl Listed {
    fn method(self) -> &'static str {
        match self {
            Self::Resources => "resources/list",
            Self::Templates => "resources/templates/list",
            Self::Prompts => "prompts/list",
        }
    }
}

/// A page of a list, and where the next begins, without the braces around them.
pub(super) fn list(
    _state: &State,
    _principal: &Principal,
    what: Listed,
    _cursor: Option<&RawValue>,
    _features: Features,
) -> Result<String, RpcError> {
    Err(rpc::method_not_found(what.method()))
}
