use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use plexus_kit::{Stage, Supervisor};
use plexus_tools::{Answer, Inquiry, RawJson};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{
    MAX_GARBAGE, MAX_WAITING, Pipe, QUEUE_CAPACITY, Receive, RequestId, RequestOptions, Transmit,
    TransmitError,
};
use crate::client::{Answerer, Bridge, ClientError, Listener, ServerChange, message};

const PATIENCE: Duration = Duration::from_secs(20);

struct FromServer(mpsc::UnboundedReceiver<String>);

impl Receive for FromServer {
    async fn receive(&mut self) -> Result<Bytes, String> {
        self.0.recv().await.map(Bytes::from).ok_or_else(|| "the server is gone".to_owned())
    }
}

/// Accepts a message only when the test reads one.
struct ToServer(mpsc::Sender<Vec<u8>>);

impl Transmit for ToServer {
    async fn transmit(&mut self, _: Option<RequestId>, message: Vec<u8>) -> Result<(), TransmitError> {
        let room = self.0.reserve().await;
        let room = room.map_err(|_| TransmitError::Connection("the server reads no more".to_owned()))?;
        if message.windows(6).any(|part| part == b"refuse") {
            return Err(TransmitError::Message(ClientError::Protocol("refused".to_owned())));
        }
        room.send(message);
        Ok(())
    }
}

#[derive(Default)]
struct ChangeCount(AtomicUsize);

impl Listener for ChangeCount {
    fn on_change(&self, change: ServerChange) {
        assert_eq!(change, ServerChange::Tools);
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// The server's end of a pipe, played by the test.
struct Server {
    from_client: Option<mpsc::UnboundedSender<String>>,
    to_client: mpsc::Receiver<Vec<u8>>,
    changes: Arc<ChangeCount>,
    supervisor: Supervisor,
}

fn open() -> (Pipe, Server) {
    let (from_client, from_server) = mpsc::unbounded_channel();
    let (to_server, to_client) = mpsc::channel(1);
    let (changes, supervisor) = (Arc::new(ChangeCount::default()), Supervisor::new());
    let (from, to) = (FromServer(from_server), ToServer(to_server));
    let pipe = Pipe::open("test", from, to, changes.clone(), Arc::default(), &supervisor);
    (pipe, Server { from_client: Some(from_client), to_client, changes, supervisor })
}

impl Server {
    fn send(&self, message: impl ToString) {
        self.from_client.as_ref().unwrap().send(message.to_string()).unwrap();
    }

    async fn received(&mut self) -> Value {
        let message = tokio::time::timeout(PATIENCE, self.to_client.recv()).await.expect("a message in time");
        serde_json::from_slice(&message.expect("an open pipe")).unwrap()
    }

    /// Waits until the tasks of the pipe have ended.
    async fn tasks_ended(&self) {
        let ended = async {
            while self.supervisor.count(Stage::Storage) > 0 {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(PATIENCE, ended).await.expect("the tasks end");
    }
}

/// Sends a request in its own task.
fn ask(pipe: &Pipe, cancel: &CancellationToken) -> tokio::task::JoinHandle<Result<Bytes, ClientError>> {
    let (pipe, cancel) = (pipe.clone(), cancel.clone());
    spawn(async move {
        pipe.request(message::ping, RequestOptions { cancel: Some(&cancel), ..RequestOptions::default() })
            .await
    })
}

#[expect(clippy::disallowed_methods, reason = "a caller, and not a task of the hub")]
fn spawn<T: Send + 'static>(task: impl Future<Output = T> + Send + 'static) -> tokio::task::JoinHandle<T> {
    tokio::spawn(async move { tokio::time::timeout(PATIENCE, task).await.expect("an end in time") })
}

fn never_cancelled() -> CancellationToken {
    CancellationToken::new()
}

#[tokio::test]
async fn answers_find_their_callers_in_any_order() {
    let (pipe, mut server) = open();
    let calls: Vec<_> = (0..10).map(|_| ask(&pipe, &never_cancelled())).collect();
    let mut ids = Vec::new();
    for _ in 0..10 {
        ids.push(server.received().await["id"].clone());
    }
    for id in ids.iter().rev() {
        server.send(json!({ "id": id, "result": { "to": id } }));
    }
    let mut answered = Vec::new();
    for call in calls {
        let answer: Value = serde_json::from_slice(&call.await.unwrap().unwrap()).unwrap();
        answered.push(answer["to"].clone());
    }
    assert_eq!(answered, ids);
}

#[tokio::test]
async fn duplicate_and_unknown_answers_are_dropped() {
    let (pipe, mut server) = open();
    let call = ask(&pipe, &never_cancelled());
    let id = server.received().await["id"].clone();
    server.send(json!({ "id": 4711, "result": {} }));
    server.send(json!({ "id": null, "error": { "code": -32700, "message": "what?" } }));
    server.send(json!({ "id": id, "result": { "n": 1 } }));
    server.send(json!({ "id": id, "result": { "n": 2 } }));
    assert_eq!(call.await.unwrap().unwrap(), r#"{"n":1}"#);
    let call = ask(&pipe, &never_cancelled());
    let id = server.received().await["id"].clone();
    server.send(json!({ "id": id, "error": { "code": -1, "message": "no", "data": 3 } }));
    let error = ClientError::Rpc { code: -1, message: "no".to_owned(), data: Some(json!(3)) };
    assert_eq!(call.await.unwrap(), Err(error));
}

#[tokio::test]
async fn sent_request_is_cancelled_at_the_server() {
    let (pipe, mut server) = open();
    let cancel = CancellationToken::new();
    let call = ask(&pipe, &cancel);
    let id = server.received().await["id"].clone();
    cancel.cancel();
    assert_eq!(call.await.unwrap(), Err(ClientError::Cancelled));
    let message = server.received().await;
    assert_eq!(
        (&message["method"], &message["params"]["requestId"]),
        (&json!("notifications/cancelled"), &id)
    );
    // Dropping a call has the same effect.
    let call = ask(&pipe, &never_cancelled());
    let id = server.received().await["id"].clone();
    call.abort();
    assert_eq!(server.received().await["params"]["requestId"], id);
}

#[tokio::test]
async fn unsent_request_is_dropped_silently() {
    let (pipe, mut server) = open();
    // One message is with the server, one is being written, and the queue is full: the last one waits for
    // room.
    let cancel = CancellationToken::new();
    let calls: Vec<_> = (0..QUEUE_CAPACITY + 5).map(|_| ask(&pipe, &cancel)).collect();
    let waiting = || pipe.shared.state().waiting.len();
    while waiting() < QUEUE_CAPACITY + 5 || pipe.shared.queue.capacity() > 0 {
        tokio::task::yield_now().await;
    }
    cancel.cancel();
    for call in calls {
        assert_eq!(call.await.unwrap(), Err(ClientError::Cancelled));
    }
    assert_eq!(waiting(), 0);
    let after = ask(&pipe, &never_cancelled());
    let mut messages = Vec::new();
    for _ in 0..5 {
        messages.push(server.received().await);
    }
    let methods: Vec<_> = messages.iter().map(|message| message["method"].as_str().unwrap()).collect();
    let cancelled = "notifications/cancelled";
    assert_eq!(methods, ["ping", "ping", cancelled, cancelled, "ping"]);
    server.send(json!({ "id": messages[4]["id"], "result": {} }));
    after.await.unwrap().unwrap();
}

#[tokio::test]
async fn excess_unanswered_requests_are_refused() {
    let (pipe, mut server) = open();
    let cancel = CancellationToken::new();
    let calls: Vec<_> = (0..MAX_WAITING).map(|_| ask(&pipe, &cancel)).collect();
    for _ in 0..MAX_WAITING {
        server.received().await;
    }
    let refused = ask(&pipe, &cancel).await.unwrap().unwrap_err();
    assert!(matches!(&refused, ClientError::Busy(why) if why.contains("1024")), "{refused}");
    cancel.cancel();
    for call in calls {
        assert_eq!(call.await.unwrap(), Err(ClientError::Cancelled));
    }
}

#[tokio::test]
async fn lost_connection_fails_all_waiting_requests() {
    let (pipe, mut server) = open();
    let sent = ask(&pipe, &never_cancelled());
    server.received().await;
    // One message that the server has not read, one that is being written, and one behind it.
    let calls: Vec<_> = (0..3).map(|_| ask(&pipe, &never_cancelled())).collect();
    while pipe.shared.state().waiting.len() < 4 || pipe.shared.queue.capacity() != QUEUE_CAPACITY - 1 {
        tokio::task::yield_now().await;
    }
    server.from_client = None;
    assert_eq!(sent.await.unwrap(), Err(ClientError::Lost("the server is gone".to_owned())));
    let mut lost = 0;
    for call in calls {
        match call.await.unwrap().unwrap_err() {
            ClientError::Lost(_) => lost += 1,
            other => assert_eq!(other, ClientError::Unreachable("the server is gone".to_owned())),
        }
    }
    assert_eq!(lost, 2);
    assert_eq!(pipe.closed().await, "the server is gone");
    let late = ask(&pipe, &never_cancelled()).await.unwrap();
    assert_eq!(late, Err(ClientError::Unreachable("the server is gone".to_owned())));
    server.tasks_ended().await;
}

#[tokio::test]
async fn undelivered_message_fails_only_itself() {
    let (pipe, mut server) = open();
    let refused = pipe.request(|_| b"refuse".to_vec(), RequestOptions::default());
    let refused = tokio::time::timeout(PATIENCE, refused).await.unwrap();
    assert_eq!(refused, Err(ClientError::Protocol("refused".to_owned())));
    let call = ask(&pipe, &never_cancelled());
    let id = server.received().await["id"].clone();
    server.send(json!({ "id": id, "result": {} }));
    call.await.unwrap().unwrap();
}

#[tokio::test]
async fn tasks_end_with_the_last_handle() {
    let (pipe, server) = open();
    let borrowed = pipe.borrowed();
    let waiting = spawn(async move { borrowed.request(message::ping, RequestOptions::default()).await });
    drop(pipe);
    server.tasks_ended().await;
    waiting.await.unwrap().unwrap_err();
}

#[tokio::test]
async fn hub_shutdown_ends_the_pipe() {
    let (pipe, server) = open();
    assert_eq!(server.supervisor.shutdown(PATIENCE).await.aborted, Vec::<String>::new());
    assert_eq!(pipe.closed().await, "the hub is shutting down");
}

#[tokio::test]
async fn panicked_reader_fails_waiting_requests() {
    let (pipe, mut server) = open();
    let asking = pipe.clone();
    let call = spawn(async move {
        let progress: plexus_tools::ProgressSink = Arc::new(|_| panic!("a sink that is broken"));
        asking
            .request(message::ping, RequestOptions { progress: Some(progress), ..RequestOptions::default() })
            .await
    });
    let id = server.received().await["id"].clone();
    let params = json!({ "progressToken": id, "progress": 1 });
    server.send(json!({ "method": "notifications/progress", "params": params }));
    assert_eq!(call.await.unwrap(), Err(ClientError::Lost("the connection was closed".to_owned())));
    server.tasks_ended().await;
}

#[tokio::test]
async fn notifications_reach_the_right_request() {
    let (pipe, mut server) = open();
    let (reports, mut reported) = mpsc::unbounded_channel();
    let progress: plexus_tools::ProgressSink = Arc::new(move |progress| reports.send(progress.done).unwrap());
    let asking = pipe.clone();
    let call = spawn(async move {
        asking
            .request(message::ping, RequestOptions { progress: Some(progress), ..RequestOptions::default() })
            .await
    });
    let id = server.received().await["id"].clone();
    let progress = |token: Value, done: f64| {
        let params = json!({ "progressToken": token, "progress": done });
        json!({ "method": "notifications/progress", "params": params })
    };
    server.send(progress(json!(99), 0.1));
    server.send(progress(id.clone(), 0.5));
    server.send(json!({ "method": "notifications/message", "params": { "level": "info", "data": 1 } }));
    server.send(json!({ "method": "notifications/tools/list_changed" }));
    server.send(json!({ "id": "q", "method": "sampling/createMessage", "params": {} }));
    let refused = server.received().await;
    assert_eq!((&refused["id"], &refused["error"]["code"]), (&json!("q"), &json!(-32600)));
    server.send(json!([{ "id": id, "result": {} }, progress(id.clone(), 0.9)]));
    call.await.unwrap().unwrap();
    assert_eq!(reported.recv().await, Some(0.5));
    assert_eq!(reported.recv().await, None, "progress after the answer, or of another request");
    assert_eq!(server.changes.0.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn answers_to_a_server_that_does_not_read_are_bounded() {
    let (pipe, mut server) = open();
    for n in 0..10 * QUEUE_CAPACITY {
        server.send(json!({ "id": n, "method": "ping" }));
    }
    // This follows them, and is read although nothing can be written.
    server.send(json!({ "method": "notifications/tools/list_changed" }));
    let exchange = async {
        while server.changes.0.load(Ordering::SeqCst) == 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, exchange).await.unwrap();
    let call = ask(&pipe, &never_cancelled());
    let mut answers = 0;
    let id = loop {
        let message = server.received().await;
        match message.get("method") {
            Some(_) => break message["id"].clone(),
            None => answers += 1,
        }
    };
    assert!((QUEUE_CAPACITY..=QUEUE_CAPACITY + 2).contains(&answers), "{answers}");
    server.send(json!({ "id": id, "result": {} }));
    call.await.unwrap().unwrap();
}

#[tokio::test]
async fn only_consecutive_garbage_closes_the_pipe() {
    let (pipe, mut server) = open();
    for _ in 0..3 {
        (1..MAX_GARBAGE).for_each(|_| server.send("Starting up!"));
        server.send("");
        let call = ask(&pipe, &never_cancelled());
        let id = server.received().await["id"].clone();
        server.send(json!({ "id": id, "result": {} }));
        call.await.unwrap().unwrap();
    }
    (0..MAX_GARBAGE).for_each(|n| server.send(format!("line {n} \x1b[1mtoken=abcdef123456")));
    let why = tokio::time::timeout(PATIENCE, pipe.closed()).await.unwrap();
    assert!(why.contains("100 lines") && why.ends_with("line 99 [redacted]"), "{why}");
    server.tasks_ended().await;
}

/// Refuses immediately, with a distinctive code.
struct Refuses;

impl Answerer for Refuses {
    fn ask(&self, _: Inquiry, _: Option<RawJson>) -> BoxFuture<'static, Answer> {
        Box::pin(std::future::ready(Answer::Error { code: -1, message: "no".to_owned(), data: None }))
    }
}

fn of(caller: &str) -> Bridge {
    Bridge { caller: Some(caller.into()), answerer: Some(Arc::new(Refuses)), ..Bridge::default() }
}

/// Sends a request for a caller; returns its id once it was sent.
async fn ask_for(
    caller: &str,
    cancel: &CancellationToken,
    (pipe, server): (&Pipe, &mut Server),
) -> (Value, tokio::task::JoinHandle<Result<Bytes, ClientError>>) {
    let (pipe, cancel, bridge) = (pipe.clone(), cancel.clone(), Some(of(caller)));
    let call = spawn(async move {
        let manner = RequestOptions { cancel: Some(&cancel), bridge, ..RequestOptions::default() };
        pipe.request(message::ping, manner).await
    });
    (server.received().await["id"].clone(), call)
}

/// The error code of a refused question.
async fn refusal(server: &mut Server) -> Value {
    server.send(json!({ "id": "q", "method": "roots/list" }));
    server.received().await["error"]["code"].clone()
}

#[tokio::test]
async fn question_of_a_departed_call_reaches_no_other_caller() {
    let (pipe, mut server) = open();
    let (cancel, never_cancelled) = (CancellationToken::new(), never_cancelled());
    let (ann, call) = ask_for("ann", &cancel, (&pipe, &mut server)).await;
    let (bob, waits) = ask_for("bob", &never_cancelled, (&pipe, &mut server)).await;
    cancel.cancel();
    assert_eq!(call.await.unwrap(), Err(ClientError::Cancelled));
    assert_eq!(server.received().await["method"], "notifications/cancelled");
    assert_eq!(refusal(&mut server).await, -32603, "it may concern Ann's request");
    // The departed caller is the only one, and may be asked through another call.
    server.send(json!({ "id": bob, "result": {} }));
    waits.await.unwrap().unwrap();
    let (again, waits) = ask_for("ann", &never_cancelled, (&pipe, &mut server)).await;
    assert_eq!(refusal(&mut server).await, -1);
    server.send(json!({ "id": again, "result": {} }));
    waits.await.unwrap().unwrap();
    // The answer ends the uncertainty.
    server.send(json!({ "id": ann, "result": {} }));
    let (_, waits) = ask_for("bob", &never_cancelled, (&pipe, &mut server)).await;
    assert_eq!(refusal(&mut server).await, -1);
    waits.abort();
}

#[tokio::test]
async fn present_caller_may_be_asked_without_a_request() {
    let (pipe, mut server) = open();
    let present = pipe.present(of("ann"));
    let (_, waits) = ask_for("bob", &never_cancelled(), (&pipe, &mut server)).await;
    assert_eq!(refusal(&mut server).await, -32603);
    drop(present);
    assert_eq!(refusal(&mut server).await, -1);
    let mut present = pipe.present(of("ann"));
    present.continues = true;
    drop(present);
    assert_eq!(refusal(&mut server).await, -32603);
    waits.abort();
}
