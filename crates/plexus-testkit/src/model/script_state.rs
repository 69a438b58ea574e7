//! The state of a script, and the requests so far.
//!
//! All of it is one value in a watch channel: it is changed in one place at a time, and waiting tasks watch it.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::sync::watch;

use super::reply::{Refusal, Reply, ReplyCall};
use super::request::{AnswerSource, Message, ModelRequest, ParsedRequest, Wire};
use super::script::{Fault, Script, Turn, Usage};

/// Only a client in an endless loop gets near this.
const MAX_REQUESTS: usize = 500;
/// Time limit for a test to release a point at which a client waits.
const TIMEOUT: Duration = Duration::from_secs(60);
/// The answer to requests that are not part of the script: short, and valid as a title or a yes.
const UNSCRIPTED_REPLY: &str = "ok";

#[derive(Debug)]
pub(super) struct ScriptState {
    script: Script,
    /// Part of every call id, so that the calls of another model are not confused with this one's.
    tag: String,
    pub(super) record: watch::Sender<Record>,
}

#[derive(Debug, Default)]
pub(super) struct Record {
    pub(super) requests: Vec<ModelRequest>,
    /// Errors of unreadable requests.
    pub(super) malformed: Vec<String>,
    /// Points at which a client waits or waited.
    pub(super) reached: BTreeSet<String>,
    pub(super) released: BTreeSet<String>,
    /// Number of attempts, by turn.
    attempts: Vec<usize>,
    replies: usize,
}

/// The answer to a client.
#[derive(Debug)]
pub(super) enum Answer {
    Complete(Reply),
    /// Only the first half of the reply.
    Truncated(Reply),
    Refused(Refusal),
}

impl ScriptState {
    pub(super) fn new(script: Script) -> Self {
        let record = Record { attempts: vec![0; script.len()], ..Record::default() };
        let tag = format!("{:08x}", rand::random::<u32>());
        Self { script, tag, record: watch::Sender::new(record) }
    }

    pub(super) fn script(&self) -> &Script {
        &self.script
    }

    /// Records a request and answers it once the test allows it.
    pub(super) async fn answer(
        &self,
        wire: Wire,
        headers: Vec<(String, String)>,
        parsed: ParsedRequest,
    ) -> Answer {
        let mut decision = None;
        self.record.send_modify(|record| decision = Some(self.decide(record, wire, headers, parsed)));
        let Some((answer, pause)) = decision else {
            return Answer::Refused(Refusal::Broken("nothing was decided".to_owned()));
        };
        if let Some(point) = pause {
            let released = |record: &Record| record.released.contains(&point);
            let mut record = self.record.subscribe();
            if tokio::time::timeout(TIMEOUT, record.wait_for(released)).await.is_err() {
                return Answer::Refused(Refusal::Broken(format!(
                    "the test did not release `{point}` in time"
                )));
            }
        }
        answer
    }

    /// The answer, and the point to wait at before sending it.
    fn decide(
        &self,
        record: &mut Record,
        wire: Wire,
        headers: Vec<(String, String)>,
        parsed: ParsedRequest,
    ) -> (Answer, Option<String>) {
        if record.requests.len() == MAX_REQUESTS {
            let reason = format!("{MAX_REQUESTS} requests were made, more than any script needs");
            return (Answer::Refused(Refusal::Invalid(reason)), None);
        }
        let index = record.requests.len();
        record.requests.push(ModelRequest { wire, headers, parsed, answer_source: AnswerSource::Unscripted });
        let parsed = record.requests[index].parsed.clone();
        let (answer_source, answer, pause) = match self.turn_for(&parsed) {
            Ok(Some(number)) => {
                let turn = &self.script.turns[number];
                match self.reply(record, number, turn, &parsed) {
                    Ok(reply) => {
                        let (answer_source, answer) = attempt(record, number, turn, reply);
                        (answer_source, answer, turn.pause.clone())
                    }
                    Err(reason) => (
                        AnswerSource::Mismatch(reason.clone()),
                        Answer::Refused(Refusal::Invalid(reason)),
                        None,
                    ),
                }
            }
            Ok(None) => (AnswerSource::Unscripted, Answer::Complete(unscripted_reply(record, &parsed)), None),
            Err(reason) => {
                (AnswerSource::Mismatch(reason.clone()), Answer::Refused(Refusal::Invalid(reason)), None)
            }
        };
        record.requests[index].answer_source = answer_source;
        record.reached.extend(pause.clone());
        (answer, pause)
    }

    /// The turn of a conversation; `None` if it is not part of the script.
    fn turn_for(&self, parsed: &ParsedRequest) -> Result<Option<usize>, String> {
        if self.script.is_empty() || !self.script.tools().all(|tool| tool.is_offered(&parsed.tools)) {
            return Ok(None);
        }
        let turns = self.script.len();
        match self.next_after(&parsed.messages) {
            next if next < turns => Ok(Some(next)),
            _ => Err(format!("the script has {turns} turns and all were played; the client goes on")),
        }
    }

    /// The turn after the last one in the conversation.
    fn next_after(&self, messages: &[Message]) -> usize {
        let mut next = 0;
        for message in messages.iter().filter(|message| message.role == "assistant") {
            for turn in message.calls.iter().filter_map(|call| self.turn_of(&call.id)) {
                next = next.max(turn + 1);
            }
            let only_text = self.script.turns.get(next).filter(|turn| turn.calls.is_empty());
            if only_text.and_then(|turn| turn.text.as_deref()).is_some_and(|text| text == message.text) {
                next += 1;
            }
        }
        next
    }

    fn call_id(&self, turn: usize, index: usize, serial: usize) -> String {
        format!("call_{}_{turn}_{index}_{serial}", self.tag)
    }

    /// The turn of a call, if this model made it.
    fn turn_of(&self, call_id: &str) -> Option<usize> {
        let rest = call_id.strip_prefix("call_")?.strip_prefix(&self.tag)?.strip_prefix('_')?;
        rest.split('_').next()?.parse().ok()
    }

    fn reply(
        &self,
        record: &mut Record,
        number: usize,
        turn: &Turn,
        parsed: &ParsedRequest,
    ) -> Result<Reply, String> {
        record.replies += 1;
        let serial = record.replies;
        let mut calls = Vec::new();
        for (index, (tool, arguments)) in turn.calls.iter().enumerate() {
            calls.push(ReplyCall {
                id: self.call_id(number, index, serial),
                tool: tool.among(&parsed.tools)?.clone(),
                arguments: arguments.clone(),
            });
        }
        Ok(Reply { serial, model: parsed.model.clone(), text: turn.text.clone(), calls, usage: turn.usage })
    }
}

/// The turn, or the fault that is due at this attempt.
fn attempt(record: &mut Record, number: usize, turn: &Turn, reply: Reply) -> (AnswerSource, Answer) {
    let attempt = record.attempts[number];
    record.attempts[number] += 1;
    let Some(fault) = turn.faults.get(attempt) else {
        return (AnswerSource::Turn(number), Answer::Complete(reply));
    };
    let answer = match *fault {
        Fault::RateLimited { retry_after } => Answer::Refused(Refusal::RateLimited(retry_after)),
        Fault::Broken => Answer::Refused(Refusal::Broken("broken, as the script says".to_owned())),
        Fault::Overloaded => Answer::Refused(Refusal::Overloaded),
        Fault::CutOff => Answer::Truncated(reply),
    };
    (AnswerSource::Fault(number), answer)
}

fn unscripted_reply(record: &mut Record, parsed: &ParsedRequest) -> Reply {
    record.replies += 1;
    let (text, model) = (Some(UNSCRIPTED_REPLY.to_owned()), parsed.model.clone());
    Reply { serial: record.replies, model, text, calls: vec![], usage: Usage::default() }
}
