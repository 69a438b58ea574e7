//! A dispatcher with a real store and authenticator, and tools whose behaviour the tests define.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use plexus_auth::profiles::LiveProfiles;
use plexus_auth::{AuthError, Authenticator, KeyRing, Principal};
use plexus_kit::{Clock, Durability, Supervisor};
use plexus_proto::api::{AuditCall, CreateTokenParams, TokenKind};
use plexus_proto::{CallId, Event, SessionId, Timestamp, tool_name};
use plexus_store::{AuditFilter, Store, StoreOptions};
use plexus_tools::{
    Access, Call, CallError, CallReply, Dispatcher, DispatcherOptions, Outcome, Placement, Registry,
    SessionKey, Tool, ToolContext, ToolOutput, ToolSpec, TypedTool, UpstreamTool, Via, native,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

const LIMIT: Duration = Duration::from_secs(60);

/// Ends a test that hangs.
pub(crate) async fn bounded<T>(test: impl Future<Output = T>) -> T {
    tokio::time::timeout(LIMIT, test).await.expect("the test hangs")
}

pub(crate) struct Hub {
    pub(crate) dir: tempfile::TempDir,
    pub(crate) store: Store,
    pub(crate) supervisor: Supervisor,
    pub(crate) dispatcher: Dispatcher,
    pub(crate) clock: Clock,
    authenticator: Authenticator,
    admin: Arc<Principal>,
    tools: Vec<Tool>,
}

/// Calls at once and bytes of output that a [`Hub`] allows.
pub(crate) const CALLS: usize = 32;
pub(crate) const OUTPUT: usize = 1 << 20;

impl Hub {
    /// With the native tools.
    pub(crate) async fn start() -> Self {
        Self::with([]).await
    }

    /// With the native tools and these.
    pub(crate) async fn with(tools: impl IntoIterator<Item = Tool>) -> Self {
        Self::limited(CALLS, OUTPUT, tools).await
    }

    pub(crate) async fn limited(calls: usize, output: usize, tools: impl IntoIterator<Item = Tool>) -> Self {
        let tools = native::tools().into_iter().chain(tools).collect();
        Self::open(tempfile::tempdir().unwrap(), calls, output, tools).await
    }

    async fn open(dir: tempfile::TempDir, calls: usize, output: usize, tools: Vec<Tool>) -> Self {
        let supervisor = Supervisor::new();
        let options = StoreOptions {
            data_dir: dir.path().to_owned(),
            database_url: None,
            durability: Durability::Process,
            instance_id: "main".to_owned(),
        };
        let store = Store::open(&options, &supervisor).await.unwrap();
        let clock = Clock::manual("2026-11-01T00:00:00Z".parse::<Timestamp>().unwrap());
        let keys = Arc::new(KeyRing::open(dir.path(), clock.clone()).unwrap());
        let path = dir.path().join("admin-token");
        let authenticator =
            Authenticator::new(keys, store.clone(), clock.clone(), path.clone()).await.unwrap();
        authenticator.ensure_admin_token().await.unwrap();
        let admin = authenticator.authenticate(std::fs::read_to_string(path).unwrap().trim()).unwrap();
        let files_dir = dir.path().join("sessions");
        let options = DispatcherOptions { files_dir, calls_per_principal: calls, output_bytes: output };
        let registry = Arc::new(Registry::new(tools.clone()));
        let dispatcher = Dispatcher::new(registry, store.clone(), clock.clone(), supervisor.clone(), options);
        Self { dir, store, supervisor, dispatcher, clock, authenticator, admin, tools }
    }

    /// After a restart, on the same database.
    pub(crate) async fn restarted(self) -> Self {
        let drained = self.supervisor.shutdown(LIMIT).await;
        assert!(drained.aborted.is_empty(), "{drained:?}");
        let Self { dir, store, dispatcher, authenticator, tools, .. } = self;
        // The file is this process's until the last handle is gone.
        drop((store, dispatcher, authenticator));
        Self::open(dir, CALLS, OUTPUT, tools).await
    }

    /// A second dispatcher on the same database, as another hub has.
    pub(crate) fn second_dispatcher(&self) -> Dispatcher {
        let clock = Clock::manual("2026-11-01T00:00:00Z".parse::<Timestamp>().unwrap());
        let options = DispatcherOptions {
            files_dir: self.dir.path().join("sessions"),
            calls_per_principal: CALLS,
            output_bytes: OUTPUT,
        };
        let registry = Arc::new(Registry::new(self.tools.clone()));
        Dispatcher::new(registry, self.store.clone(), clock, self.supervisor.clone(), options)
    }

    /// Reads the profiles of a folder from now on.
    pub(crate) fn follow_profiles(&self, profiles: &LiveProfiles) {
        self.authenticator.follow_profiles(profiles.clone());
        self.dispatcher.registry().follow_profiles(profiles.clone());
    }

    pub(crate) fn admin(&self) -> Arc<Principal> {
        self.admin.clone()
    }

    /// The holder of a fresh token: `agent:<name>` with these scopes.
    pub(crate) async fn agent(&self, name: &str, scopes: &[&str]) -> Arc<Principal> {
        self.agent_of(name, scopes, None).await
    }

    /// The same, with a profile.
    pub(crate) async fn agent_of(
        &self,
        name: &str,
        scopes: &[&str],
        profile: Option<&str>,
    ) -> Arc<Principal> {
        self.mint(name, scopes, profile, None).await.unwrap()
    }

    /// The same, set up for a machine.
    pub(crate) async fn agent_on(
        &self,
        name: &str,
        scopes: &[&str],
        profile: Option<&str>,
        node: Option<&str>,
    ) -> Arc<Principal> {
        self.mint(name, scopes, profile, node).await.unwrap()
    }

    /// The same, unless the profile or one of the scopes is refused.
    pub(crate) async fn try_agent(
        &self,
        name: &str,
        scopes: &[&str],
        profile: Option<&str>,
    ) -> Option<Arc<Principal>> {
        self.mint(name, scopes, profile, None).await.ok()
    }

    async fn mint(
        &self,
        name: &str,
        scopes: &[&str],
        profile: Option<&str>,
        node: Option<&str>,
    ) -> Result<Arc<Principal>, AuthError> {
        let params = CreateTokenParams {
            kind: TokenKind::Agent,
            name: name.to_owned(),
            profile: profile.map(str::to_owned),
            node: node.map(str::to_owned),
            scopes: scopes.iter().map(|scope| (*scope).to_owned()).collect(),
            ttl_seconds: None,
            renew_seconds: None,
        };
        let created = self.authenticator.mint(&self.admin, params).await?;
        Ok(self.authenticator.authenticate(&created.token).unwrap())
    }

    pub(crate) async fn call(&self, principal: &Arc<Principal>, tool: &str, arguments: Value) -> CallReply {
        self.dispatcher.call(principal.clone(), call(tool, arguments)).await
    }

    pub(crate) async fn ok(&self, principal: &Arc<Principal>, tool: &str, arguments: Value) -> ToolOutput {
        self.call(principal, tool, arguments).await.result.unwrap()
    }

    pub(crate) async fn err(&self, principal: &Arc<Principal>, tool: &str, arguments: Value) -> CallError {
        self.call(principal, tool, arguments).await.result.unwrap_err()
    }

    pub(crate) async fn audited(&self, call_id: CallId) -> Option<AuditCall> {
        self.store.read().await.unwrap().audit_call(call_id).await.unwrap()
    }

    /// All calls, oldest first.
    pub(crate) async fn all_audited(&self) -> Vec<AuditCall> {
        let mut reader = self.store.read().await.unwrap();
        let mut calls = reader.audit_calls("main", &AuditFilter::default(), 10_000).await.unwrap();
        calls.reverse();
        calls
    }

    /// Waits until the database holds a call as described.
    pub(crate) async fn until_audited(&self, matches: impl Fn(&AuditCall) -> bool) -> AuditCall {
        let mut heads = self.store.audit_heads();
        loop {
            heads.borrow_and_update();
            if let Some(call) = self.all_audited().await.into_iter().find(&matches) {
                return call;
            }
            heads.changed().await.unwrap();
        }
    }

    pub(crate) async fn events(&self, session: SessionId) -> Vec<Event> {
        self.store.read().await.unwrap().events(session, 0, 10_000).await.unwrap()
    }
}

/// A call in the session `external:test:1`.
pub(crate) fn call(tool: &str, arguments: Value) -> Call {
    Call::new(tool, arguments, SessionKey::new("external", &["test", "1"], Some("test")), Via::Rest)
}

pub(crate) fn keyed(tool: &str, arguments: Value, key: &str) -> Call {
    Call { idempotency_key: Some(key.to_owned()), ..call(tool, arguments) }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    pub(crate) text: Option<String>,
    #[expect(dead_code, reason = "only sent")]
    pub(crate) password: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Output {
    pub(crate) text: String,
}

pub(crate) fn output(text: &str) -> ToolOutput {
    ToolOutput::new(text, &Output { text: text.to_owned() })
}

pub(crate) fn ready(text: &str) -> Result<Outcome, CallError> {
    Ok(Outcome::Ready(output(text)))
}

type Script = dyn Fn(ToolContext, Args) -> BoxFuture<'static, Result<Outcome, CallError>> + Send + Sync;

struct Scripted {
    name: &'static str,
    deadline: Duration,
    script: Box<Script>,
}

impl TypedTool for Scripted {
    type Args = Args;
    type Output = Output;

    fn spec(&self) -> ToolSpec {
        spec(self.name, self.deadline)
    }

    async fn run(&self, context: ToolContext, args: Args) -> Result<Outcome, CallError> {
        (self.script)(context, args).await
    }
}

pub(crate) fn spec(name: &'static str, deadline: Duration) -> ToolSpec {
    ToolSpec {
        name: name.into(),
        title: "Scripted".into(),
        description: "Does what a test wrote down.".into(),
        input_schema: Value::Null,
        output_schema: None,
        access: Access::ADD,
        actions: vec![],
        placement: Placement::Hub,
        deadline,
        admin: false,
        time: None,
        starts_agents: false,
        handling: plexus_tools::Handling::default(),
    }
}

/// A tool that runs `script`.
pub(crate) fn scripted<F, Fut>(name: &'static str, script: F) -> Tool
where
    F: Fn(ToolContext, Args) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Outcome, CallError>> + Send + 'static,
{
    scripted_until(name, LIMIT, script)
}

pub(crate) fn scripted_until<F, Fut>(name: &'static str, deadline: Duration, script: F) -> Tool
where
    F: Fn(ToolContext, Args) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Outcome, CallError>> + Send + 'static,
{
    Tool::typed(Scripted {
        name,
        deadline,
        script: Box::new(move |context, args| Box::pin(script(context, args))),
    })
}

/// A tool of another server, which answers with its canonical name.
pub(crate) fn named_upstream_tool(tool: UpstreamTool) -> Tool {
    let name = tool_name::canonical(&tool.server, &tool.tool);
    let spec = ToolSpec {
        name: name.clone().into(),
        input_schema: json!({ "type": "object" }),
        placement: Placement::Upstream(Arc::new(tool)),
        ..ToolSpec::hub("", "Upstream", "Of another server.", Access::READ)
    };
    let run = move |_, _| -> BoxFuture<'static, _> {
        let output = ToolOutput::new(name.clone(), &json!({}));
        Box::pin(std::future::ready(Ok(Outcome::Ready(output))))
    };
    Tool::upstream(spec, Arc::new(run))
}

/// A tool `write` of the server `far`, which must not be run twice and runs `script`.
pub(crate) fn upstream_tool<Fut>(script: impl Fn() -> Fut + Send + Sync + 'static) -> Tool
where
    Fut: Future<Output = Result<ToolOutput, CallError>> + Send + 'static,
{
    upstream_tool_with_schema(json!({ "type": "object" }), script)
}

/// The same, for arguments of this schema.
pub(crate) fn upstream_tool_with_schema<Fut>(
    input_schema: Value,
    script: impl Fn() -> Fut + Send + Sync + 'static,
) -> Tool
where
    Fut: Future<Output = Result<ToolOutput, CallError>> + Send + 'static,
{
    let spec = ToolSpec {
        input_schema,
        placement: Placement::Upstream(Arc::new(UpstreamTool::new("far", "write"))),
        ..ToolSpec::hub("mcp__far__write", "Write", "Writes far away.", Access::ADD)
    };
    let run = move |_, _| -> BoxFuture<'static, _> {
        let done = script();
        Box::pin(async move { done.await.map(Outcome::Ready) })
    };
    Tool::upstream(spec, Arc::new(run))
}

/// A tool whose handler blocks until the test releases it.
#[derive(Clone)]
pub(crate) struct BlockingTool {
    pub(crate) entered: Arc<tokio::sync::Semaphore>,
    pub(crate) release: CancellationToken,
}

impl BlockingTool {
    pub(crate) fn tool(name: &'static str) -> (Self, Tool) {
        let blocking =
            Self { entered: Arc::new(tokio::sync::Semaphore::new(0)), release: CancellationToken::new() };
        let inside = blocking.clone();
        let tool = scripted(name, move |_, _| {
            let inside = inside.clone();
            async move {
                inside.entered.add_permits(1);
                inside.release.cancelled().await;
                ready("let go")
            }
        });
        (blocking, tool)
    }

    /// Waits until `calls` more calls have entered the handler.
    pub(crate) async fn wait_for_calls(&self, calls: u32) {
        self.entered.acquire_many(calls).await.unwrap().forget();
    }
}
