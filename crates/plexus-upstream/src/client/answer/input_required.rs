//! The questions in a result of a server of the stateless era.

use std::borrow::Cow;
use std::collections::BTreeMap;

use bytes::Bytes;
use plexus_tools::{Inquiry, MAX_QUESTIONS, Question, RawJson};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::super::ClientError;
use super::{malformed, parsed};

const MAX_KEY: usize = 128;
const MAX_QUESTION: usize = 64 << 10;
/// Limit of the state that is returned to the server with the answers.
const MAX_STATE: usize = 64 << 10;

/// The questions by key, and the state to return with the answers.
pub(super) fn questions(
    result: &Bytes,
    method: &str,
) -> Result<(Vec<Question>, Option<String>), ClientError> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Parts<'a> {
        #[serde(borrow)]
        input_requests: Option<&'a RawValue>,
        request_state: Option<String>,
    }
    let Parts { input_requests, request_state } = parsed(result, method)?;
    let questions = match input_requests {
        Some(requests) => read(result, method, requests)?,
        // Without questions the server only requests a repetition of the call.
        None => vec![],
    };
    if questions.is_empty() && request_state.is_none() {
        return Err(malformed(method, &"it asks nothing and gives no state to return"));
    }
    if request_state.as_ref().is_some_and(|state| state.len() > MAX_STATE) {
        return Err(malformed(method, &format_args!("its state has more than {MAX_STATE} bytes")));
    }
    Ok((questions, request_state))
}

/// Parses an object of questions.
pub(super) fn read(message: &Bytes, method: &str, requests: &RawValue) -> Result<Vec<Question>, ClientError> {
    #[derive(Deserialize)]
    struct InputRequest<'a> {
        #[serde(borrow)]
        method: Cow<'a, str>,
        #[serde(borrow)]
        params: Option<&'a RawValue>,
    }
    let requests: BTreeMap<String, InputRequest<'_>> =
        serde_json::from_str(requests.get()).map_err(|error| malformed(method, &error))?;
    if requests.len() > MAX_QUESTIONS {
        return Err(malformed(method, &format_args!("it asks more than {MAX_QUESTIONS} questions at once")));
    }
    let question = |(key, request): (String, InputRequest<'_>)| {
        let inquiry = Inquiry::from_method(&request.method);
        let inquiry = inquiry.ok_or_else(|| malformed(method, &"it asks a question of an unknown kind"))?;
        let params = request.params.filter(|params| params.get() != "null");
        if key.len() > MAX_KEY || params.is_some_and(|params| params.get().len() > MAX_QUESTION) {
            return Err(malformed(method, &"a question is longer than the limit"));
        }
        if params.is_some_and(|params| !params.get().starts_with('{')) {
            return Err(malformed(method, &"the parameters of a question are not an object"));
        }
        Ok(Question { key, inquiry, params: params.map(|params| RawJson::within(message, params)) })
    };
    requests.into_iter().map(question).collect()
}
