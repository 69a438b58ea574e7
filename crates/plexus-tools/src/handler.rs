//! A tool as one object: its spec, its validator and what it does.

pub(crate) mod weight;

use std::fmt;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use jsonschema::Validator;
use plexus_auth::Principal;
use plexus_proto::ErrorCode;
use plexus_store::Conn;
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::nodes::selection;
use crate::{Buffered, CallError, Placement, ToolContext, ToolOutput, ToolSpec, alias, arguments, schema};

/// Work on the database that is committed together with the record of the call.
pub type Transaction =
    Box<dyn for<'c> FnOnce(&'c mut Conn) -> BoxFuture<'c, Result<ToolOutput, CallError>> + Send>;

/// How a handler ends.
pub enum Outcome {
    /// Done; nothing of ours was changed.
    Ready(ToolOutput),
    /// To be done in one transaction with the audit record, the events and the idempotency key:
    /// after a crash there are all of them or none.
    Transact(Transaction),
}

impl Outcome {
    /// A transaction from a closure.
    pub fn transact<F>(work: F) -> Self
    where
        F: for<'c> FnOnce(&'c mut Conn) -> BoxFuture<'c, Result<ToolOutput, CallError>> + Send + 'static,
    {
        Self::Transact(Box::new(work))
    }
}

impl fmt::Debug for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ready(output) => f.debug_tuple("Ready").field(output).finish(),
            Self::Transact(_) => f.write_str("Transact"),
        }
    }
}

/// A tool written in Rust: typed arguments in, typed data out; both schemas are derived.
pub trait TypedTool: Send + Sync + 'static {
    type Args: DeserializeOwned + JsonSchema + Send;
    type Output: Serialize + JsonSchema;

    /// Everything but the schemas, which are filled in.
    fn spec(&self) -> ToolSpec;

    fn run(
        &self,
        context: ToolContext,
        arguments: Self::Args,
    ) -> impl Future<Output = Result<Outcome, CallError>> + Send;
}

impl ToolSpec {
    /// The same tool with the schemas of these types; for who lists a tool that runs elsewhere.
    #[must_use]
    pub fn typed<T: TypedTool>(self) -> Self {
        let output = schema::of_output::<T::Output>();
        let output = match self.buffered() {
            Buffered::Never => output,
            Buffered::Always | Buffered::Actions(_) => schema::or_queued(output),
        };
        Self { input_schema: schema::of_input::<T::Args>(), output_schema: Some(output), ..self }
    }
}

/// What a tool does with its checked arguments.
pub type Run = dyn Fn(ToolContext, Value) -> BoxFuture<'static, Result<Outcome, CallError>> + Send + Sync;

#[derive(Clone)]
enum Handler {
    Run(Arc<Run>),
    /// Names another tool and its arguments; the dispatcher goes on with that one.
    Indirect,
}

#[derive(Clone)]
pub struct Tool {
    spec: Arc<ToolSpec>,
    /// None: whoever runs the tool checks its arguments.
    validator: Option<Arc<Validator>>,
    /// Name it is listed by, when that is not the canonical one.
    listed: Option<Arc<str>>,
    handler: Handler,
    /// Its calls choose the machine that they run on. Without it, a tool of a machine runs right here.
    routed: bool,
}

impl Tool {
    /// A tool from its typed implementation.
    pub fn typed<T: TypedTool>(tool: T) -> Self {
        let spec = tool.spec().typed::<T>();
        let name = spec.name.clone();
        let tool = Arc::new(tool);
        let run = move |context: ToolContext, arguments: Value| -> BoxFuture<'static, _> {
            let (tool, name) = (tool.clone(), name.clone());
            Box::pin(async move {
                // The schema was checked; what is left is what a schema cannot say.
                let arguments = serde_json::from_value(arguments).map_err(|e| {
                    arguments::invalid(
                        &name,
                        vec![serde_json::json!({ "path": "", "message": e.to_string() })],
                    )
                })?;
                tool.run(context, arguments).await
            })
        };
        Self::new(spec, Handler::Run(Arc::new(run)))
    }

    /// The tool that calls other tools.
    pub(crate) fn indirect<A: JsonSchema>(spec: ToolSpec) -> Self {
        Self::new(ToolSpec { input_schema: schema::of_input::<A>(), ..spec }, Handler::Indirect)
    }

    /// A tool of another MCP server. A schema of its that cannot be used here, or only at too great a cost, is its own
    /// affair: it checks the arguments too.
    #[must_use]
    pub fn upstream(spec: ToolSpec, run: Arc<Run>) -> Self {
        let compiled = match weight::is_light(&spec.input_schema) {
            true => jsonschema::validator_for(&spec.input_schema).map_err(|error| error.to_string()),
            false => Err("it may take too long to check: it is too large with its references written out, or it has branches that \
                 lead back to itself"
                .to_owned()),
        };
        let validator = compiled.map(Arc::new).inspect_err(|error| {
            tracing::warn!(tool = %spec.name, %error, "the schema cannot be used; arguments are passed on unchecked");
        });
        let validator = validator.ok();
        Self { spec: Arc::new(spec), validator, listed: None, handler: Handler::Run(run), routed: false }
    }

    /// A tool that is a program of the user. Its schema was found to be usable when its manifest was read.
    pub(crate) fn custom(spec: ToolSpec, run: Arc<Run>) -> Self {
        Self::new(spec, Handler::Run(run))
    }

    /// A tool that runs on a machine which each call chooses: with the arguments that do so, and a handler that brings a
    /// call to the machine in its context.
    #[must_use]
    pub fn on_node(spec: ToolSpec, run: Arc<Run>) -> Self {
        let input_schema = schema::with_routing(spec.input_schema);
        let spec = ToolSpec { input_schema, placement: Placement::Node, ..spec };
        Self { routed: true, ..Self::new(spec, Handler::Run(run)) }
    }

    fn new(spec: ToolSpec, handler: Handler) -> Self {
        let validator = match jsonschema::validator_for(&spec.input_schema) {
            Ok(validator) => validator,
            Err(error) => {
                // A derived schema always compiles; should one not, refuse calls instead of accepting all.
                tracing::error!(tool = %spec.name, %error, "schema does not compile; calls will be refused");
                match jsonschema::validator_for(&Value::Bool(false)) {
                    Ok(refuse) => refuse,
                    Err(_) => unreachable!("`false` is a valid schema"),
                }
            }
        };
        Self {
            spec: Arc::new(spec),
            validator: Some(Arc::new(validator)),
            listed: None,
            handler,
            routed: false,
        }
    }

    /// Name that callers see. The canonical one is in the [spec](Self::spec).
    #[must_use]
    pub fn name(&self) -> &str {
        self.listed.as_deref().unwrap_or(&self.spec.name)
    }

    /// The same tool, listed by another name.
    pub(crate) fn listed_as(&self, name: &str) -> Self {
        Self { listed: Some(Arc::from(name)), ..self.clone() }
    }

    #[must_use]
    pub fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    /// Whether nobody could tell the two apart: same words, same name, same handler.
    pub(crate) fn same_as(&self, other: &Self) -> bool {
        let handlers = match (&self.handler, &other.handler) {
            (Handler::Run(one), Handler::Run(other)) => Arc::ptr_eq(one, other),
            (Handler::Indirect, Handler::Indirect) => true,
            (Handler::Run(_), Handler::Indirect) | (Handler::Indirect, Handler::Run(_)) => false,
        };
        handlers && self.routed == other.routed && self.listed == other.listed && self.spec == other.spec
    }

    /// The name by which the machine that runs it knows it.
    pub(crate) fn name_there(&self) -> &str {
        let hosted = self.spec.upstream().filter(|upstream| upstream.node.is_some());
        hosted.and_then(|upstream| upstream.definition.get("name")?.as_str()).unwrap_or(&self.spec.name)
    }

    pub(crate) fn is_routed(&self) -> bool {
        self.routed
    }

    pub(crate) fn is_indirect(&self) -> bool {
        matches!(self.handler, Handler::Indirect)
    }

    /// This tool as the principal may use it: whole, cut to some actions, or not at all.
    pub(crate) fn narrowed_to(self: &Arc<Self>, principal: &Principal) -> Option<Arc<Self>> {
        let there = match self.spec.upstream().and_then(|upstream| upstream.node.as_ref()) {
            Some(host) => principal.allows(&selection::scope(&host.name)),
            // Whoever may use no machine at all has no use for it.
            None => !self.routed || principal.scopes().allows_some("node"),
        };
        if !there {
            return None;
        }
        if principal.allows(&self.spec.scope()) {
            return Some(self.clone());
        }
        let actions: Vec<_> = self
            .spec
            .actions
            .iter()
            .filter(|action| principal.allows(&self.spec.action_scope(action)))
            .cloned()
            .collect();
        if actions.is_empty() {
            return None;
        }
        let names: Vec<_> = actions.iter().map(|action| &*action.name).collect();
        let input_schema = schema::narrow_actions(&self.spec.input_schema, &names);
        let spec = ToolSpec {
            input_schema,
            access: ToolSpec::common_access(&actions),
            actions,
            ..(*self.spec).clone()
        };
        let narrowed = Self::new(spec, self.handler.clone());
        Some(Arc::new(Self { listed: self.listed.clone(), routed: self.routed, ..narrowed }))
    }

    /// Arguments as they will be run, and what is wrong with them.
    pub(crate) fn check(&self, mut arguments: Map<String, Value>) -> (Value, Result<(), CallError>) {
        let aliases = self.spec.handling.aliases;
        let doubled = alias::resolve(aliases, &mut arguments);
        // What a null means to a program of others is for that program to say.
        if matches!(self.spec.placement, Placement::Hub | Placement::Node) {
            arguments::drop_nulls(&mut arguments, &self.spec.input_schema);
        }
        let arguments = Value::Object(arguments);
        if !doubled.is_empty() {
            return (arguments, Err(arguments::invalid(&self.spec.name, doubled)));
        }
        let outcome = self
            .validator
            .as_ref()
            .map_or(Ok(()), |validator| arguments::validate(&self.spec, validator, &arguments));
        (arguments, outcome)
    }

    pub(crate) fn run(
        &self,
        context: ToolContext,
        arguments: Value,
    ) -> BoxFuture<'static, Result<Outcome, CallError>> {
        match &self.handler {
            Handler::Run(run) => run(context, arguments),
            Handler::Indirect => Box::pin(std::future::ready(Err(CallError::new(
                ErrorCode::Internal,
                "an indirect tool was run itself",
            )))),
        }
    }
}

impl fmt::Debug for Tool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tool").field("name", &self.spec.name).finish_non_exhaustive()
    }
}
