//! Runs a request to its result, including the questions that its server asks.
//!
//! A server of the stateless era asks in its result: the request is repeated with the answers over the same
//! connection. A server with a session asks while the request runs, which `questions` handles.

use std::collections::BTreeMap;
use std::sync::Arc;

use plexus_proto::ErrorCode;
use plexus_proto::api::UpstreamEra;
use plexus_tools::{
    Answer, Answers, AskError, CallError, Capabilities, Inquiry, MAX_QUESTIONS, ProgressSink, Question,
    RawJson, ToolContext,
};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

use super::questions::{CallerDialog, normal_form};
use super::task;
use super::upstream_call::{CallOutcome, MISSING_CAPABILITY, Operation};
use crate::client::{CallResponse, Client, ClientError, Inputs, Outgoing, Request, RequestResponse};
use crate::supervision::unit::Unit;

/// Limit of questions before a result.
const MAX_ROUNDS: usize = 16;
/// Error code: the user must open a URL first, and nothing was run. Only 2025-11-25 defines it.
const URL_FIRST: i64 = -32042;

/// Why a request has no result.
pub(in crate::supervision) enum Failed {
    Client(ClientError),
    /// An error that is already worded for the caller.
    Call(CallError),
}

impl From<ClientError> for Failed {
    fn from(error: ClientError) -> Self {
        Self::Client(error)
    }
}

/// Sends a request, and repeats it with answers until there is a result.
pub(super) async fn run_to_completion(
    unit: &Arc<Unit>,
    client: &Client,
    operation: &Operation<'_>,
    progress: Option<ProgressSink>,
    dialog: &CallerDialog,
    context: &ToolContext,
) -> Result<CallOutcome, Failed> {
    let send =
        async |inputs: Inputs| send(client, operation, progress.clone(), dialog, context, inputs).await;
    let mut inputs = Inputs::default();
    if client.peer().era == UpstreamEra::Stateless {
        inputs.responses = context.inputs().cloned();
    }
    let first = match send(inputs).await {
        Ok(Sent::CallOutcome(ended)) => return Ok(ended),
        Err(ClientError::Rpc { code: URL_FIRST, message, data }) => {
            return Box::pin(async {
                let error = ClientError::Rpc { code: URL_FIRST, message, data: data.clone() };
                after_urls(dialog, context, data, error).await?;
                match send(Inputs::default()).await? {
                    Sent::CallOutcome(ended) => Ok(ended),
                    _ => Err(ClientError::Protocol(
                        "the server asked by an error first and in its result afterwards".to_owned(),
                    )
                    .into()),
                }
            })
            .await;
        }
        other => other?,
    };
    // Boxed because questions are rare: otherwise every call would carry this future's size.
    Box::pin(async {
        let mut sent = first;
        for _ in 0..MAX_ROUNDS {
            unit.activity.record_message();
            let (questions, state) = match sent {
                Sent::CallOutcome(ended) => return Ok(ended),
                Sent::Task { id, poll } => {
                    return task::follow(unit, client, id, poll, dialog, context).await;
                }
                Sent::Ask { questions, state } => (questions, state),
            };
            let responses = match questions.is_empty() {
                // The server only requests a repetition.
                true => None,
                false => Some(answers(questions, dialog, context).await?),
            };
            dialog.note_round();
            sent = send(Inputs { responses, state }).await?;
        }
        match sent {
            Sent::CallOutcome(ended) => Ok(ended),
            _ => {
                let why =
                    format!("it asked {MAX_ROUNDS} times without returning a result, which is the limit");
                Err(ClientError::Protocol(why).into())
            }
        }
    })
    .await
}

/// The server's response to one attempt.
enum Sent {
    CallOutcome(CallOutcome),
    Ask { questions: Vec<Question>, state: Option<String> },
    Task { id: String, poll: std::time::Duration },
}

async fn send(
    client: &Client,
    operation: &Operation<'_>,
    progress: Option<ProgressSink>,
    dialog: &CallerDialog,
    context: &ToolContext,
    inputs: Inputs,
) -> Result<Sent, ClientError> {
    let (cancel, trace) = (context.cancel.clone(), context.trace_context().cloned());
    let bridge = dialog.bridge.clone();
    match operation {
        Operation::Call { tool, arguments, as_task } => {
            let (tool, arguments, as_task) = ((*tool).to_owned(), arguments.clone(), *as_task);
            let call = Outgoing { tool, arguments, progress, cancel, trace, bridge, inputs, as_task };
            Ok(match client.call(call).await? {
                CallResponse::Output(output) => Sent::CallOutcome(CallOutcome::Output(output)),
                CallResponse::Ask { questions, state } => Sent::Ask { questions, state },
                CallResponse::Task { id, poll } => Sent::Task { id, poll },
            })
        }
        Operation::Request { method, params } => {
            let (method, params, cancel) = (*method, params.clone(), Some(cancel));
            let request = Request { method, params, cancel, bridge, inputs, trace };
            Ok(match client.request(request).await? {
                RequestResponse::Result(result) => Sent::CallOutcome(CallOutcome::Result(result)),
                RequestResponse::Ask { questions, state } => Sent::Ask { questions, state },
            })
        }
    }
}

/// The caller's answers to these questions, as an object keyed by question.
pub(super) async fn answers(
    questions: Vec<Question>,
    dialog: &CallerDialog,
    context: &ToolContext,
) -> Result<RawJson, Failed> {
    let can = dialog.bridge.capabilities;
    if questions.iter().any(|question| can.lacks(question).is_some()) {
        let why = "it asks for a capability that the request did not declare";
        return Err(ClientError::Protocol(why.to_owned()).into());
    }
    let normal = |question: Question| {
        let params = normal_form(question.inquiry, question.params).map_err(|refusal| match refusal {
            Answer::Error { message, .. } => ClientError::Protocol(message),
            Answer::Result(_) => ClientError::Protocol("its question is empty".to_owned()),
        })?;
        Ok(Question { params, ..question })
    };
    let questions = questions.into_iter().map(normal).collect::<Result<Vec<_>, ClientError>>()?;
    let inquiries: BTreeMap<String, Inquiry> =
        questions.iter().map(|question| (question.key.clone(), question.inquiry)).collect();
    let answers =
        context.ask(questions).await.map_err(|ask_error| Failed::Call(unanswered_error(&ask_error)))?;
    given(&inquiries, &answers)
}

/// Encodes the answers. The stateless era cannot express an error as an answer.
fn given(inquiries: &BTreeMap<String, Inquiry>, answers: &Answers) -> Result<RawJson, Failed> {
    const CANCELLED: &str = r#"{"action":"cancel"}"#;
    let mut given: BTreeMap<&str, &RawValue> = BTreeMap::new();
    let unwritten = |_| Failed::Client(ClientError::Protocol("an answer cannot be passed on".to_owned()));
    for (key, inquiry) in inquiries {
        let text = match (answers.get(key), inquiry) {
            (Some(Answer::Result(result)), _) => result.as_str(),
            (Some(Answer::Error { .. }), Inquiry::Elicit) => CANCELLED,
            (Some(Answer::Error { message, code, .. }), Inquiry::Sample | Inquiry::Roots) => {
                let message = format!("the client did not answer {}: {message} ({code})", inquiry.as_str());
                return Err(Failed::Call(CallError::new(ErrorCode::ToolFailed, message)));
            }
            // The server asks again for missing answers.
            (None, _) => continue,
        };
        given.insert(key, serde_json::from_str(text).map_err(unwritten)?);
    }
    Ok(RawJson::of(&to_raw_value(&given).map_err(unwritten)?))
}

/// The error for the caller when a question remains unanswered.
fn unanswered_error(ask_error: &AskError) -> CallError {
    let code = match ask_error {
        AskError::Incapable(_) => ErrorCode::ToolFailed,
        AskError::TooMany(_) => ErrorCode::Overloaded,
        AskError::Expired => ErrorCode::DeadlineExceeded,
        AskError::Gone => ErrorCode::Cancelled,
    };
    let message = format!("the tool asked a question that was not answered: {ask_error}");
    let error = CallError::new(code, message);
    match ask_error {
        AskError::Incapable(lacking) => {
            let data = json!({ "requiredCapabilities": lacking.to_json() });
            error.hint("Call it from an MCP client that can answer questions of this kind.").from_rpc(
                MISSING_CAPABILITY,
                ask_error.to_string(),
                Some(data),
            )
        }
        _ => error.hint("It may have done part of its work. Check first, and call again only if needed."),
    }
}

/// Asks the user to open the URLs that the server requires first. Returns the server's error if that is not
/// possible.
async fn after_urls(
    dialog: &CallerDialog,
    context: &ToolContext,
    data: Option<Value>,
    error: ClientError,
) -> Result<(), Failed> {
    let listed = data.as_ref().and_then(|data| data["elicitations"].as_array()).map(Vec::as_slice);
    let listed = listed.unwrap_or_default();
    let can: Capabilities = dialog.bridge.capabilities;
    if !can.url || listed.is_empty() || listed.len() > MAX_QUESTIONS {
        return Err(error.into());
    }
    let question = |(number, elicitation): (usize, &Value)| {
        let params = to_raw_value(elicitation).ok().map(|params| RawJson::of(&params));
        let question = Question { key: format!("q{}", number + 1), inquiry: Inquiry::Elicit, params };
        question.is_url().then_some(question)
    };
    let Some(questions) = listed.iter().enumerate().map(question).collect::<Option<Vec<_>>>() else {
        return Err(error.into());
    };
    let count = questions.len();
    let answers = answers(questions, dialog, context).await?;
    dialog.note_round();
    let answers: BTreeMap<String, Value> = answers.parsed().unwrap_or_default();
    let accepted = answers.values().filter(|answer| answer["action"] == "accept").count();
    if accepted == count {
        return Ok(());
    }
    let message = "the tool requires the user to open a web page first, which the user did not do";
    Err(Failed::Call(CallError::new(ErrorCode::ToolFailed, message).hint("Nothing was run.")))
}
