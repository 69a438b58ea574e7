use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::FutureExt as _;
use serde_json::{Value, json};

use super::*;
use crate::client::{Answerer, Listener, ServerChange};

/// Never answers.
struct Silent;

impl Answerer for Silent {
    fn ask(&self, _: Inquiry, _: Option<RawJson>) -> BoxFuture<'static, Answer> {
        Box::pin(std::future::pending())
    }
}

/// Answers immediately.
struct Prompt;

impl Answerer for Prompt {
    fn ask(&self, _: Inquiry, _: Option<RawJson>) -> BoxFuture<'static, Answer> {
        Box::pin(std::future::ready(result(r#"{"action":"decline"}"#)))
    }
}

#[derive(Default)]
struct Refused(AtomicUsize);

impl Listener for Refused {
    fn on_change(&self, _: ServerChange) {}

    fn questions_refused(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn bridge(caller: Option<&str>, answerer: Option<Arc<dyn Answerer>>) -> Bridge {
    Bridge { caller: caller.map(Into::into), answerer, ..Bridge::default() }
}

fn take(questions: &Arc<ServerQuestions>, id: &str, method: &str, owner: Owner) -> QuestionHandling {
    let id = RawValue::from_string(id.to_owned()).unwrap();
    let listener: SharedListener = Arc::new(Refused::default());
    questions.take((&id, method, None), || owner, &listener)
}

/// The immediate answer.
fn now(handling: QuestionHandling) -> Value {
    match handling {
        QuestionHandling::Now(message) => serde_json::from_slice(&message).unwrap(),
        QuestionHandling::Later(_) => panic!("later"),
        QuestionHandling::Dropped => panic!("dropped"),
    }
}

fn owner(in_flight: &[(RequestId, Bridge)]) -> Owner {
    let in_flight = in_flight.iter().map(|(id, bridge)| (*id, bridge));
    Owner::among(in_flight, &DepartedCallers::default(), |bridge| bridge.answerer.is_some())
}

#[test]
fn owner_is_never_guessed() {
    let silent = || Some(Arc::new(Silent) as Arc<dyn Answerer>);
    assert!(matches!(owner(&[]), Owner::Nobody));
    let (ann, ann_too) = (bridge(Some("ann"), silent()), bridge(Some("ann"), None));
    assert!(matches!(
        owner(&[(1, ann.clone()), (2, ann_too.clone())]),
        Owner::One(Bridge { answerer: Some(_), .. })
    ));
    assert!(matches!(owner(&[(2, ann_too), (1, ann.clone())]), Owner::One(Bridge { answerer: Some(_), .. })));
    let numbered = |number: u64| (number, Bridge { number, ..ann.clone() });
    assert!(matches!(owner(&[numbered(2), numbered(1), numbered(3)]), Owner::One(Bridge { number: 1, .. })));
    assert!(matches!(owner(&[(1, ann.clone()), (2, bridge(Some("bob"), silent()))]), Owner::Several));
    // A caller without an answerer may be the one concerned.
    assert!(matches!(owner(&[(1, ann), (2, bridge(None, None))]), Owner::Several));
    assert!(matches!(owner(&[(1, bridge(None, None)), (2, bridge(None, None))]), Owner::One(_)));
}

#[test]
fn unanswerable_questions_are_refused_with_a_code() {
    let questions = Arc::new(ServerQuestions::default());
    let code =
        |method: &str, owner: Owner| now(take(&questions, "1", method, owner))["error"]["code"].clone();
    assert_eq!(
        now(take(&questions, r#""a""#, "ping", Owner::Nobody)),
        json!({ "jsonrpc": "2.0", "id": "a", "result": {} })
    );
    assert_eq!(now(take(&questions, "1", "roots/list", Owner::Nobody))["result"], json!({ "roots": [] }));
    assert_eq!(code("tools/call", Owner::Nobody), -32601);
    assert_eq!(code("elicitation/create", Owner::Nobody), -32600);
    assert_eq!(code("elicitation/create", Owner::One(Bridge::default())), -32601);
    assert_eq!(code("roots/list", Owner::Several), -32603);
    assert!(matches!(take(&questions, "{}", "ping", Owner::Nobody), QuestionHandling::Dropped));
    let long = format!("\"{}\"", "x".repeat(300));
    assert!(matches!(take(&questions, &long, "ping", Owner::Nobody), QuestionHandling::Dropped));
}

#[test]
fn open_questions_are_limited_and_can_be_cancelled() {
    let questions = Arc::new(ServerQuestions::default());
    let ask = |id: usize| {
        take(
            &questions,
            &id.to_string(),
            "roots/list",
            Owner::One(bridge(Some("ann"), Some(Arc::new(Silent)))),
        )
    };
    let mut open: Vec<_> = (0..MAX_OPEN_QUESTIONS)
        .map(|id| match ask(id) {
            QuestionHandling::Later(answer) => answer,
            _ => panic!("refused: {id}"),
        })
        .collect();
    assert!(matches!(ask(3), QuestionHandling::Dropped), "the question is already open");
    assert_eq!(now(ask(99))["error"]["code"], -32603);
    let id = RawValue::from_string("3".to_owned()).unwrap();
    assert!(questions.cancel(&id));
    assert!(matches!(open.remove(3).now_or_never(), Some(None)), "a cancelled question gets no answer");
    assert!(!questions.cancel(&id));
    assert!(matches!(ask(99), QuestionHandling::Later(_)));
    drop(open);
    assert!(questions.lock().is_empty());
}

#[test]
fn question_stays_open_until_its_reply_is_dropped() {
    let questions = Arc::new(ServerQuestions::default());
    let QuestionHandling::Later(answer) =
        take(&questions, "7", "elicitation/create", Owner::One(bridge(Some("ann"), Some(Arc::new(Prompt)))))
    else {
        panic!("refused")
    };
    let reply = answer.now_or_never().flatten().expect("an answer");
    let message: Value = serde_json::from_slice(&reply.message).unwrap();
    assert_eq!(message, json!({ "jsonrpc": "2.0", "id": 7, "result": { "action": "decline" } }));
    assert_eq!(questions.lock().len(), 1);
    drop(reply);
    assert!(questions.lock().is_empty());
}

#[test]
fn refused_questions_are_reported_once() {
    let (questions, refused) = (Arc::new(ServerQuestions::default()), Arc::new(Refused::default()));
    let listener: SharedListener = refused.clone();
    let id = RawValue::from_string("1".to_owned()).unwrap();
    for _ in 0..3 {
        questions.take((&id, "roots/list", None), || Owner::Several, &listener);
    }
    assert_eq!(refused.0.load(Ordering::Relaxed), 1);
}

#[test]
fn reused_ids_are_not_mixed_with_earlier_questions() {
    let questions = Arc::new(ServerQuestions::default());
    let ask = |caller: &str| {
        let owner = Owner::One(bridge(Some(caller), Some(Arc::new(Silent))));
        match take(&questions, "1", "elicitation/create", owner) {
            QuestionHandling::Later(answer) => answer,
            _ => panic!("refused: {caller}"),
        }
    };
    let before = ask("ann");
    questions.forget();
    let after = ask("bob");
    assert!(matches!(before.now_or_never(), Some(None)), "the old question is cancelled without an answer");
    assert_eq!(questions.lock().len(), 1, "only the new question is open");
    drop(after);
    assert!(questions.lock().is_empty());
}
