//! Questions of servers over a pipe: which caller they reach, and which they never reach.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use futures_util::future::BoxFuture;
use plexus_proto::api::UpstreamState;
use plexus_testkit::fixture::Eras;
use plexus_testkit::{ClientRevision, InteractiveClient, QuestionReply, TestHub, until};
use plexus_tools::{Answer, Capabilities, Inquiry, LogLevel, LogLine, LogSink, RawJson};
use plexus_upstream::client::{
    Answerer, Bridge, ClientError, ListKind, Method, Outgoing, Request, RequestResponse,
};
use serde_json::{Map, Value, json};
use tokio::sync::Notify;

use super::fast_timing;
use super::script::{Script, folder};
use super::server::{Server, ServerStart, outgoing};

pub(crate) const ALL_CAPABILITIES: Capabilities = Capabilities {
    form: true,
    url: true,
    sampling: true,
    sampling_tools: true,
    sampling_context: true,
    roots: true,
    tasks: false,
};

/// Answers as the test specifies, and records the questions.
pub(crate) struct TestAnswerer {
    questions: Mutex<Vec<(Inquiry, Value)>>,
    answer: Value,
    /// Answers only when told to.
    release: Option<Arc<Notify>>,
    /// Notified when a question arrives.
    pub(crate) question_arrived: Notify,
}

impl TestAnswerer {
    pub(crate) fn answering(answer: Value) -> Arc<Self> {
        Arc::new(Self { questions: Mutex::default(), answer, release: None, question_arrived: Notify::new() })
    }

    pub(crate) fn answering_after(answer: Value, release: &Arc<Notify>) -> Arc<Self> {
        let release = Some(release.clone());
        Arc::new(Self { questions: Mutex::default(), answer, release, question_arrived: Notify::new() })
    }

    pub(crate) fn questions(&self) -> Vec<(Inquiry, Value)> {
        self.questions.lock().unwrap().clone()
    }
}

fn raw(value: &Value) -> RawJson {
    RawJson::of(&serde_json::value::to_raw_value(value).unwrap())
}

impl Answerer for TestAnswerer {
    fn ask(&self, inquiry: Inquiry, params: Option<RawJson>) -> BoxFuture<'static, Answer> {
        let params = params.map_or(Value::Null, |params| params.parsed().unwrap());
        self.questions.lock().unwrap().push((inquiry, params));
        self.question_arrived.notify_one();
        let (answer, release) = (Answer::Result(raw(&self.answer)), self.release.clone());
        Box::pin(async move {
            if let Some(release) = release {
                release.notified().await;
            }
            answer
        })
    }

    fn has_asked(&self) -> bool {
        !self.questions().is_empty()
    }
}

/// A call by a caller with all capabilities.
pub(crate) fn call_by(caller: &str, person: &Arc<TestAnswerer>, tool: &str, arguments: Value) -> Outgoing {
    let answerer = Some(person.clone() as Arc<dyn Answerer>);
    let bridge =
        Bridge { caller: Some(caller.into()), answerer, capabilities: ALL_CAPABILITIES, ..Bridge::default() };
    Outgoing { bridge, ..outgoing(tool, arguments) }
}

async fn session() -> Server {
    let mut start = ServerStart::fixture(Eras::Revision("2025-06-18"));
    start.connect.capabilities = ALL_CAPABILITIES;
    start.connect().await
}

fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text: {result}"))
}

#[tokio::test]
async fn session_question_is_answered_by_the_caller() {
    let server = session().await;
    assert_eq!(server.client.peer().revision, "2025-06-18");
    let ann = TestAnswerer::answering(
        json!({ "action": "accept", "content": { "username": "ann", "email": "a@b" } }),
    );
    let call = call_by("ann", &ann, "test_elicitation", json!({ "message": "Who?" }));
    let result = server.call_with(call).await.unwrap();
    assert!(text(&result).contains("action=accept") && text(&result).contains("ann"), "{result}");
    let (inquiry, params) = ann.questions().remove(0);
    assert_eq!((inquiry, &params["message"]), (Inquiry::Elicit, &json!("Who?")));

    let model = TestAnswerer::answering(
        json!({ "role": "assistant", "model": "m", "content": { "type": "text", "text": "Paris" } }),
    );
    let call = call_by("ann", &model, "test_sampling", json!({ "prompt": "The capital?" }));
    assert_eq!(text(&server.call_with(call).await.unwrap()), "LLM response: Paris");
    let folders = TestAnswerer::answering(json!({ "roots": [{ "uri": "file:///here" }] }));
    let call = call_by("ann", &folders, "test_input_required_result_list_roots", json!({}));
    assert!(text(&server.call_with(call).await.unwrap()).contains("file:///here"));
}

#[tokio::test]
async fn incapable_caller_is_not_asked_and_the_server_gets_an_error() {
    let server = session().await;
    let result = server.call("test_elicitation", json!({ "message": "Who?" })).await.unwrap();
    assert_eq!(result["isError"], true, "{result}");
    assert!(text(&result).contains("cannot be asked"), "{result}");
    // A client that declares no capabilities is asked nothing.
    let quiet = ServerStart::fixture(Eras::Sessions).connect().await;
    let result = quiet.call("test_elicitation", json!({ "message": "Who?" })).await.unwrap();
    assert!(text(&result).contains("the client cannot be asked this"), "{result}");
}

#[tokio::test]
async fn two_questions_may_be_open_at_once() {
    let server = session().await;
    let answer_now = Arc::new(Notify::new());
    let answer = json!({ "action": "accept", "content": { "color": "red", "size": "big" } });
    let ann = TestAnswerer::answering_after(answer, &answer_now);
    let questions = ann.clone();
    let both = async {
        until("two questions were asked", async || questions.questions().len() == 2).await;
        answer_now.notify_waiters();
    };
    let call = server.call_with(call_by("ann", &ann, "ask_twice_at_once", json!({})));
    let (result, ()) = tokio::join!(call, both);
    assert!(text(&result.unwrap()).contains("red"));
}

#[tokio::test]
async fn question_among_several_callers_is_refused() {
    let server = session().await;
    let go_on = Arc::new(Notify::new());
    let answer = json!({ "action": "accept", "content": { "username": "ann", "email": "a@b" } });
    let (ann, bob) = (TestAnswerer::answering_after(answer.clone(), &go_on), TestAnswerer::answering(answer));
    let first = server.call_with(call_by("ann", &ann, "test_elicitation", json!({ "message": "Ann?" })));
    let second = async {
        ann.question_arrived.notified().await;
        // Its call is in flight, so the next question is ambiguous.
        let call = call_by("bob", &bob, "test_elicitation", json!({ "message": "Bob?" }));
        let refused = server.call_with(call).await.unwrap();
        assert_eq!(refused["isError"], true, "{refused}");
        assert!(text(&refused).contains("several callers"), "{refused}");
        // An unidentified caller may be concerned, too.
        let refused = server.call("test_elicitation", json!({ "message": "Who?" })).await.unwrap();
        assert!(text(&refused).contains("several callers"), "{refused}");
        // The same caller may be asked for either call; the question goes through the older one.
        let newer = TestAnswerer::answering(json!({ "action": "decline" }));
        let again =
            server.call_with(call_by("ann", &newer, "test_elicitation", json!({ "message": "Again?" })));
        let answers = async {
            until("the user is asked again", async || ann.questions().len() == 2).await;
            go_on.notify_waiters();
            go_on.notify_one();
        };
        let (again, ()) = tokio::join!(again, answers);
        assert!(text(&again.unwrap()).contains("action=accept"));
        assert_eq!(newer.questions(), []);
    };
    let (first, ()) = tokio::join!(first, second);
    assert!(text(&first.unwrap()).contains("action=accept"));
    assert_eq!(bob.questions(), []);
}

#[tokio::test]
async fn question_outside_of_a_call_is_refused() {
    let start = ServerStart::script(
        r#"next; initialize; next
        printf '{"jsonrpc":"2.0","id":"r","method":"roots/list"}\n'; read -r roots
        printf '{"jsonrpc":"2.0","id":"e","method":"elicitation/create","params":{"message":"?","requestedSchema":{}}}\n'; read -r asked
        answer '{}'; next; code="${asked#*\"code\":}"; code="${code%%,*}"
        case "$roots" in *'"roots":[]'*) text "none $code";; *) text "unexpected";; esac
        cat >/dev/null"#,
    );
    let server = start.connect().await;
    // A request of the hub itself is not a caller's call.
    server.client.ping().await.unwrap();
    let called = server.call("x", json!({})).await.unwrap();
    assert_eq!(text(&called), "none -32600");
}

#[tokio::test]
async fn server_may_cancel_its_question() {
    let start = ServerStart::script(
        r#"next; initialize; next; call="$id"
        printf '{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"message":"?","requestedSchema":{}}}\n'
        printf '{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"q"}}\n'
        id="$call"; text "without an answer"
        next; text "$line" | tr -d '\\'; cat >/dev/null"#,
    );
    let server = start.connect().await;
    let never = Arc::new(Notify::new());
    let ann = TestAnswerer::answering_after(json!({ "action": "cancel" }), &never);
    let result = server.call_with(call_by("ann", &ann, "x", json!({}))).await.unwrap();
    assert_eq!(text(&result), "without an answer");
    until("the question is abandoned", async || {
        server.start.connect.supervisor.count(plexus_kit::Stage::Work) == 0
    })
    .await;
}

#[tokio::test]
async fn log_lines_reach_only_the_caller_who_wants_them() {
    for eras in [Eras::Sessions, Eras::Stateless] {
        let server = ServerStart::fixture(eras).connect().await;
        let lines: Arc<Mutex<Vec<String>>> = Arc::default();
        let recorded = lines.clone();
        let sink =
            Arc::new(move |line: LogLine| recorded.lock().unwrap().push(line.params.as_str().to_owned()));
        let log = Some(LogSink { least: LogLevel::Info, sink });
        let bridge = Bridge { caller: Some("ann".into()), log, ..Bridge::default() };
        let call = Outgoing { bridge: bridge.clone(), ..outgoing("test_logging_tool", json!({})) };
        server.call_with(call).await.unwrap();
        assert_eq!(lines.lock().unwrap().len(), 3, "{eras:?}: {lines:?}");
        assert!(lines.lock().unwrap()[0].contains("Tool execution started"), "{lines:?}");
        // A caller without a log sink gets no lines, and others get none of its lines.
        let grave = LogSink { least: LogLevel::Error, ..bridge.log.unwrap() };
        let bridge = Bridge { caller: Some("ann".into()), log: Some(grave), ..Bridge::default() };
        let call = Outgoing { bridge, ..outgoing("test_logging_tool", json!({})) };
        server.call_with(call).await.unwrap();
        assert_eq!(lines.lock().unwrap().len(), 3, "{eras:?}");
    }
}

#[tokio::test]
async fn resources_and_prompts_are_listed_and_read() {
    for eras in [Eras::Revision("2025-06-18"), Eras::Stateless] {
        let server = ServerStart::fixture(eras).connect().await;
        let offers = server.client.peer().offers;
        assert!(offers.resources && offers.prompts && offers.subscribe && offers.completions, "{offers:?}");
        let resources = server.client.list_all(ListKind::Resources).await.unwrap();
        assert!(resources.iter().any(|resource| resource["uri"] == "test://static-text"), "{resources:?}");
        assert_eq!(server.client.list_all(ListKind::Templates).await.unwrap().len(), 1);
        assert!(!server.client.list_all(ListKind::Prompts).await.unwrap().is_empty());
        let params = Map::from_iter([("uri".to_owned(), json!("test://static-text"))]);
        let read = server.client.request(Request::new(Method::ReadResource, params)).await.unwrap();
        let RequestResponse::Result(read) = read else { panic!("{read:?}") };
        assert!(String::from_utf8_lossy(&read).contains("static text resource"), "{read:?}");
        let params = Map::from_iter([("uri".to_owned(), json!("test://nowhere"))]);
        let missing = server.client.request(Request::new(Method::ReadResource, params)).await.unwrap_err();
        assert!(matches!(missing, ClientError::Rpc { .. }), "{missing:?}");
    }
}

#[tokio::test]
async fn changes_are_reported_while_a_resource_is_watched() {
    const WATCHED: &str = "test://watched-resource";
    for eras in [Eras::Revision("2025-06-18"), Eras::Stateless] {
        let server = ServerStart::fixture(eras).connect().await;
        let touch = async |uri: &str| server.text("touch_resource", json!({ "uri": uri })).await;
        server.client.watch(BTreeSet::from([WATCHED.to_owned()])).await.unwrap();
        touch("test://static-text").await;
        touch(WATCHED).await;
        until("the update has arrived", async || server.updates() == [WATCHED]).await;
        server.client.watch(BTreeSet::new()).await.unwrap();
        touch(WATCHED).await;
        // Later notifications arrive later.
        server.text("change_tools", json!({})).await;
        until("the tools have changed", async || server.has_changed()).await;
        assert_eq!(server.updates(), [WATCHED], "{eras:?}");
    }
}

/// A stateless server that reports changes, but refuses to subscribe to one resource.
const REFUSES_ONE: &str = r#"
about='"capabilities":{"tools":{"listChanged":true},"resources":{"subscribe":true}},"ttlMs":0,"cacheScope":"private"'
tell() { printf '{"jsonrpc":"2.0","method":"notifications/%s","params":{%s"_meta":{"io.modelcontextprotocol/subscriptionId":%s}}}\n' "$1" "$2" "$listens"; }
while read -r line; do
    id
    case "$line" in
        *server/discover*) answer "{\"resultType\":\"complete\",\"supportedVersions\":[\"2026-07-28\"],$about}" ;;
        *subscriptions/listen*a://bad*) printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32602,"message":"no"}}\n' "$id" ;;
        *subscriptions/listen*) listens=$id; asked=$line; tell subscriptions/acknowledged '' ;;
        *notifications/cancelled*) case "$line" in *"\"requestId\":$listens"[,}]*) listens= ;; esac ;;
        *tools/call*)
            if [ "$listens" ]; then
                tell tools/list_changed ''
                case "$asked" in *a://good*) tell resources/updated '"uri":"a://good",' ;; esac
            fi
            text done ;;
    esac
done
"#;

#[tokio::test]
async fn refused_resource_does_not_affect_other_watches() {
    let mut start = ServerStart::script(REFUSES_ONE);
    start.connect.known_era = None;
    let server = start.connect().await;
    server.client.watch(BTreeSet::from(["a://bad".to_owned()])).await.unwrap();
    server.text("work", json!({})).await;
    until("the tools have changed", async || server.has_changed()).await;
    server.client.watch(["a://bad", "a://good"].map(str::to_owned).into()).await.unwrap();
    server.text("work", json!({})).await;
    until("the other resource was updated", async || server.updates() == ["a://good"]).await;
}

/// Asks, waits for the answer, and exits.
const ASKS_AND_DIES: &str = r#"echo run >> "$dir/runs"
printf '{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"message":"?","requestedSchema":{"type":"object","properties":{}}}}\n'
IFS= read -r answer; exit 1"#;

#[tokio::test]
async fn call_lost_after_an_answer_is_not_rerun() {
    let hub = TestHub::start_timed(fast_timing()).await;
    hub.add_upstream("s", &Script::answering(ASKS_AND_DIES).idempotent().install(&hub, "s")).await;
    let runs = || std::fs::read_to_string(folder(&hub, "s").join("runs")).unwrap().lines().count();
    let token = hub.token("agent", &["call:*"]).await.token;
    for (speaks, count_before) in [(ClientRevision::Session("2025-06-18"), 1), (ClientRevision::Stateless, 2)]
    {
        let client = InteractiveClient::connect(&hub, &token, speaks, json!({ "elicitation": {} })).await;
        let client = client.answer_with(|_, _| QuestionReply::Result(json!({ "action": "decline" })));
        hub.upstream_in("s", UpstreamState::Ready).await;
        let lost = client.tool("mcp__s__work", json!({})).await.unwrap();
        assert_eq!(lost["isError"], true, "{lost}");
        assert!(text(&lost).contains("Check first"), "{speaks:?}: {lost}");
        assert_eq!(runs(), count_before, "{speaks:?}");
        assert_eq!(client.methods(), ["elicitation/create"], "{speaks:?}: nobody is asked twice");
    }
    // Without a question it may be run again, as its annotations allow.
    let client =
        InteractiveClient::connect(&hub, &token, ClientRevision::Session("2025-06-18"), json!({})).await;
    hub.upstream_in("s", UpstreamState::Ready).await;
    let lost = client.tool("mcp__s__work", json!({})).await.unwrap();
    assert!(text(&lost).contains("without harm"), "{lost}");
    assert_eq!(runs(), 4);
}

#[tokio::test]
async fn refused_shared_question_is_reported_as_a_warning() {
    let hub = TestHub::start_timed(fast_timing()).await;
    hub.add_upstream("fix", &plexus_testkit::stdio_fixture(Eras::Sessions)).await;
    let (one, two) = (hub.token("one", &["call:*"]).await.token, hub.token("two", &["call:*"]).await.token);
    let waits =
        InteractiveClient::connect(&hub, &one, ClientRevision::Stateless, json!({ "elicitation": {} })).await;
    let waits = waits.answer_with(|_, _| QuestionReply::Result(json!({ "action": "decline" })));
    let asking_client = InteractiveClient::connect(
        &hub,
        &two,
        ClientRevision::Session("2025-11-25"),
        json!({ "elicitation": {} }),
    )
    .await;
    let slow = waits.tool("mcp__fix__slow", json!({ "ms": 3_000 }));
    let refused = async {
        until("the server is busy", async || {
            hub.upstreams().get("fix").is_some_and(|upstream| upstream.in_flight == 1)
        })
        .await;
        asking_client.tool("mcp__fix__test_elicitation", json!({ "message": "Who?" })).await.unwrap()
    };
    let (slow, refused) = tokio::join!(slow, refused);
    assert_eq!(slow.unwrap()["isError"], false);
    assert!(text(&refused).contains("several callers"), "{refused}");
    assert!(asking_client.methods().is_empty() && waits.methods().is_empty());
    let upstream = hub.upstream_when("fix", "warned", |upstream| !upstream.warnings.is_empty()).await;
    assert!(upstream.warnings[0].contains("per_session"), "{:?}", upstream.warnings);
    // With separate connections both are asked.
    let mut document = plexus_testkit::stdio_fixture(Eras::Sessions);
    document["per_session"] = json!(true);
    hub.add_upstream("own", &document).await;
    let asking_client =
        asking_client.answer_with(|_, _| QuestionReply::Result(json!({ "action": "decline" })));
    let slow = waits.tool("mcp__own__slow", json!({ "ms": 500 }));
    let questions = asking_client.tool_text("mcp__own__test_elicitation", json!({ "message": "Who?" }));
    let (_, questions) = tokio::join!(slow, questions);
    assert!(questions.contains("action=decline"), "{questions}");
}

/// Of 2025-11-25: only as a task, whose result is asked for.
const ONLY_AS_TASK: &str = r#"case "$line" in
  *'"task":{'*)
    reply '"result":{"task":{"taskId":"t-1","status":"working","createdAt":"2026-01-01T00:00:00Z","ttl":1000,"pollInterval":10}}'
    IFS= read -r line; id=${line#*'"id":'}; id=${id%%[,\}]*}
    case "$line" in *'"method":"tasks/result"'*'"taskId":"t-1"'*) say "as a task" ;; *) say "unexpected" ;; esac ;;
  *) reply '"error":{"code":-32601,"message":"only as a task"}' ;;
esac"#;

#[tokio::test]
async fn task_only_tool_is_called_as_a_task() {
    let hub = TestHub::start_timed(fast_timing()).await;
    let mut script = Script::answering(ONLY_AS_TASK);
    script.tools[0]["execution"] = json!({ "taskSupport": "required" });
    hub.add_upstream("s", &script.install(&hub, "s")).await;
    let token = hub.token("agent", &["call:*"]).await.token;
    for speaks in [ClientRevision::Session("2025-11-25"), ClientRevision::Stateless] {
        let client = InteractiveClient::connect(&hub, &token, speaks, json!({})).await;
        assert_eq!(client.tool_text("mcp__s__work", json!({})).await, "as a task", "{speaks:?}");
    }
}
