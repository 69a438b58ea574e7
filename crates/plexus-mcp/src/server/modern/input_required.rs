//! Results of calls that have not ended: questions for the client, and tasks.

use plexus_proto::CallId;
use plexus_tools::{Capabilities, request_digest};
use serde_json::Value;
use serde_json::value::RawValue;

use super::result_json;
use crate::server::rpc::{self, Request, RpcError};

/// The parts of a request that must be the same when it is repeated with answers.
pub(super) struct RequestIdentity {
    method: String,
    name: String,
    arguments: Option<Box<RawValue>>,
}

impl RequestIdentity {
    pub(super) fn of(request: &Request<'_>) -> Self {
        let params = &request.params;
        Self {
            method: request.method.clone().into_owned(),
            name: rpc::text(params.name.or(params.uri)).unwrap_or_default(),
            arguments: params.arguments.map(ToOwned::to_owned),
        }
    }

    /// The identity, if the client supports questions or tasks.
    pub(super) fn if_capable(request: &Request<'_>, capabilities: Capabilities) -> Option<Self> {
        (!capabilities.is_empty()).then(|| Self::of(request))
    }

    pub(super) fn digest(&self) -> [u8; 32] {
        let arguments = self.arguments.as_ref().and_then(|raw| serde_json::from_str(raw.get()).ok());
        request_digest(&self.method, &self.name, &arguments.unwrap_or(Value::Null))
    }
}

/// The answers in a request, an object; none if there are none.
pub(super) fn responses<'a>(request: &Request<'a>) -> Result<Option<&'a RawValue>, RpcError> {
    match request.params.input_responses {
        Some(raw) if !raw.get().starts_with('{') => {
            Err(RpcError::invalid_params("params.inputResponses must be an object of answers by their keys"))
        }
        responses => Ok(responses),
    }
}

/// The `requestState` of a repeated request.
pub(super) fn state(request: &Request<'_>) -> Result<Option<String>, RpcError> {
    match request.params.request_state {
        None => Ok(None),
        raw @ Some(_) => rpc::text(raw)
            .map(Some)
            .ok_or_else(|| RpcError::invalid_params("params.requestState must be a string")),
    }
}

/// A response that asks the client.
pub(super) fn input_required(id: &RawValue, requests: &str, state: &str, call_id: Option<CallId>) -> String {
    let members = format!("\"inputRequests\":{requests},\"requestState\":{}", Value::from(state));
    let meta = call_id.map(|call_id| format!("\"plexus/call-id\":\"{call_id}\"")).unwrap_or_default();
    result_json(id, "input_required", &members, &meta)
}

/// A response that names a task.
pub(super) fn task(id: &RawValue, members: &str, call_id: CallId) -> String {
    result_json(id, "task", members, &format!("\"plexus/call-id\":\"{call_id}\""))
}
