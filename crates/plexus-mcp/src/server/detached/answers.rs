//! The questions that a call has open, and the answers that have come in.

use std::collections::BTreeMap;

use plexus_tools::{Answer, Answers, Inquiry, Question, RawJson, Unasked};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::server::rpc::RpcError;
use crate::server::running_call::Round;

/// Whether a key may be used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::server) enum Keys {
    /// Only not at the same time: each round of questions is answered on its own.
    Anew,
    /// Never in one call.
    Unique,
}

/// What is open, in the order in which it was asked.
pub(in crate::server) struct Open {
    rounds: Vec<OpenRound>,
    keys: Keys,
    /// Rounds so far.
    asked: usize,
}

struct OpenRound {
    round: Round,
    /// The key that the client knows each question by, in the order of the questions.
    outward: Vec<String>,
    answers: Answers,
}

impl Open {
    pub(in crate::server) fn new(keys: Keys) -> Self {
        Self { rounds: Vec::new(), keys, asked: 0 }
    }

    pub(in crate::server) fn add(&mut self, round: Round) {
        self.asked += 1;
        let taken = |key: &str| self.rounds.iter().any(|open| open.outward.iter().any(|known| known == key));
        let outward = |question: &Question| {
            let again = self.keys == Keys::Unique && self.asked > 1;
            match again || taken(&question.key) {
                true => format!("r{}.{}", self.asked, question.key),
                false => question.key.clone(),
            }
        };
        let outward = round.questions.iter().map(outward).collect();
        self.rounds.push(OpenRound { round, outward, answers: Answers::new() });
    }

    /// Whether there is nothing to answer. What nobody waits for any more is no question.
    pub(in crate::server) fn is_empty(&mut self) -> bool {
        self.rounds.retain(|open| !open.round.answer.is_closed());
        self.rounds.is_empty()
    }

    /// `inputRequests`, as JSON: what has no answer yet.
    pub(in crate::server) fn requests(&self) -> String {
        let unanswered = self.rounds.iter().flat_map(OpenRound::unanswered);
        let requests =
            unanswered.map(|(outward, question)| format!("{}:{}", Value::from(outward), request(question)));
        format!("{{{}}}", requests.collect::<Vec<_>>().join(","))
    }

    /// Takes `inputResponses`, an object. What answers nothing is left; what is no answer counts as none, and is asked
    /// again. A round that is whole goes to the one who asked.
    pub(in crate::server) fn give(&mut self, responses: Option<&RawValue>) -> Result<(), RpcError> {
        let responses: BTreeMap<String, &RawValue> = match responses {
            None => BTreeMap::new(),
            Some(raw) => serde_json::from_str(raw.get()).map_err(|_| {
                RpcError::invalid_params("params.inputResponses must be an object of answers by their keys")
            })?,
        };
        for open in &mut self.rounds {
            for (question, outward) in open.round.questions.iter().zip(&open.outward) {
                if let Some(answer) = responses.get(outward).and_then(|raw| answer(question, raw)) {
                    open.answers.insert(question.key.clone(), answer);
                }
            }
        }
        let whole = self.rounds.extract_if(.., |open| open.answers.len() >= open.round.questions.len());
        for OpenRound { round, answers, .. } in whole {
            // Whoever no longer waits has lost nothing.
            let _ = round.answer.send(Ok(answers));
        }
        Ok(())
    }

    /// There will be no answers.
    pub(in crate::server) fn close(&mut self, why: &Unasked) {
        for open in self.rounds.drain(..) {
            let _ = open.round.answer.send(Err(why.clone()));
        }
    }
}

impl OpenRound {
    fn unanswered(&self) -> impl Iterator<Item = (&str, &Question)> {
        let all = self.outward.iter().map(String::as_str).zip(&self.round.questions);
        all.filter(|(_, question)| !self.answers.contains_key(&question.key))
    }
}

/// As it came, text for text.
fn request(question: &Question) -> String {
    let params = question.params.as_ref().map(|params| format!(",\"params\":{}", params.as_str()));
    format!("{{\"method\":\"{}\"{}}}", question.inquiry.as_str(), params.unwrap_or_default())
}

/// What came, if it is an answer to this.
fn answer(question: &Question, raw: &RawValue) -> Option<Answer> {
    let answer: Map<String, Value> = serde_json::from_str(raw.get()).ok()?;
    let answers = match question.inquiry {
        Inquiry::Elicit => {
            let action = answer.get("action").and_then(Value::as_str);
            action.is_some_and(|action| matches!(action, "accept" | "decline" | "cancel"))
        }
        Inquiry::Sample => answer.contains_key("role") && answer.contains_key("content"),
        Inquiry::Roots => answer.get("roots").is_some_and(Value::is_array),
    };
    answers.then(|| Answer::Result(RawJson::of(raw)))
}
