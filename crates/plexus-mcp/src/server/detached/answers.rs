//! The open questions of a call, and the answers received so far.

use std::collections::BTreeMap;

use plexus_tools::{Answer, Answers, AskError, Inquiry, Question, RawJson};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::server::rpc::RpcError;
use crate::server::running_call::QuestionRound;

/// Whether the key of a question may be used again in the same call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::server) enum KeyReuse {
    /// After the question was answered: each round is answered separately.
    AfterAnswer,
    Never,
}

/// The open questions, in the order in which they were asked.
pub(in crate::server) struct OpenQuestions {
    rounds: Vec<OpenRound>,
    key_reuse: KeyReuse,
    /// The number of rounds so far.
    round_count: usize,
}

struct OpenRound {
    round: QuestionRound,
    /// The keys sent to the client, in the order of the questions.
    client_keys: Vec<String>,
    answers: Answers,
}

impl OpenQuestions {
    pub(in crate::server) fn new(key_reuse: KeyReuse) -> Self {
        Self { rounds: Vec::new(), key_reuse, round_count: 0 }
    }

    pub(in crate::server) fn add(&mut self, round: QuestionRound) {
        self.round_count += 1;
        let in_use =
            |key: &str| self.rounds.iter().any(|open| open.client_keys.iter().any(|other| other == key));
        let client_key = |question: &Question| {
            let number_all = self.key_reuse == KeyReuse::Never && self.round_count > 1;
            match number_all || in_use(&question.key) {
                true => format!("r{}.{}", self.round_count, question.key),
                false => question.key.clone(),
            }
        };
        let client_keys = round.questions.iter().map(client_key).collect();
        self.rounds.push(OpenRound { round, client_keys, answers: Answers::new() });
    }

    /// Whether no question is open. Removes rounds that the call no longer waits for.
    pub(in crate::server) fn is_empty(&mut self) -> bool {
        self.rounds.retain(|open| !open.round.answer.is_closed());
        self.rounds.is_empty()
    }

    /// The unanswered questions as the JSON of `inputRequests`.
    pub(in crate::server) fn requests(&self) -> String {
        let unanswered = self.rounds.iter().flat_map(OpenRound::unanswered);
        let requests =
            unanswered.map(|(key, question)| format!("{}:{}", Value::from(key), request(question)));
        format!("{{{}}}", requests.collect::<Vec<_>>().join(","))
    }

    /// Accepts `inputResponses`, an object. Ignores unknown keys and invalid answers; their questions stay open.
    /// Passes the answers of a complete round to the call.
    pub(in crate::server) fn accept(&mut self, responses: Option<&RawValue>) -> Result<(), RpcError> {
        let responses: BTreeMap<String, &RawValue> = match responses {
            None => BTreeMap::new(),
            Some(raw) => serde_json::from_str(raw.get()).map_err(|_| {
                RpcError::invalid_params("params.inputResponses must be an object of answers by their keys")
            })?,
        };
        for open in &mut self.rounds {
            for (question, key) in open.round.questions.iter().zip(&open.client_keys) {
                if let Some(answer) = responses.get(key).and_then(|raw| answer(question, raw)) {
                    open.answers.insert(question.key.clone(), answer);
                }
            }
        }
        let complete = self.rounds.extract_if(.., |open| open.answers.len() >= open.round.questions.len());
        for OpenRound { round, answers, .. } in complete {
            // Fails only if the call no longer waits.
            let _ = round.answer.send(Ok(answers));
        }
        Ok(())
    }

    /// Ends all open questions without answers.
    pub(in crate::server) fn close(&mut self, why: &AskError) {
        for open in self.rounds.drain(..) {
            let _ = open.round.answer.send(Err(why.clone()));
        }
    }
}

impl OpenRound {
    fn unanswered(&self) -> impl Iterator<Item = (&str, &Question)> {
        let all = self.client_keys.iter().map(String::as_str).zip(&self.round.questions);
        all.filter(|(_, question)| !self.answers.contains_key(&question.key))
    }
}

/// The question as JSON, with unchanged parameters.
fn request(question: &Question) -> String {
    let params = question.params.as_ref().map(|params| format!(",\"params\":{}", params.as_str()));
    format!("{{\"method\":\"{}\"{}}}", question.inquiry.as_str(), params.unwrap_or_default())
}

/// The answer, if it is valid for the question.
fn answer(question: &Question, raw: &RawValue) -> Option<Answer> {
    let answer: Map<String, Value> = serde_json::from_str(raw.get()).ok()?;
    let is_valid = match question.inquiry {
        Inquiry::Elicit => {
            let action = answer.get("action").and_then(Value::as_str);
            action.is_some_and(|action| matches!(action, "accept" | "decline" | "cancel"))
        }
        Inquiry::Sample => answer.contains_key("role") && answer.contains_key("content"),
        Inquiry::Roots => answer.get("roots").is_some_and(Value::is_array),
    };
    is_valid.then(|| Answer::Result(RawJson::of(raw)))
}
