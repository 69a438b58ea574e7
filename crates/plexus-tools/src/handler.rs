//! A tool as one object: its spec, its validator and its handler.
//!
//! What a token's scopes hide of a tool is in `narrowing`.

mod narrowing;
pub(crate) mod weight;

use std::fmt;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use jsonschema::Validator;
use plexus_proto::ErrorCode;
use plexus_store::Conn;
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::{Buffered, CallError, Placement, ToolContext, ToolOutput, ToolSpec, alias, arguments, schema};

/// Database work that commits together with the record of the call.
pub type Transaction =
    Box<dyn for<'c> FnOnce(&'c mut Conn) -> BoxFuture<'c, Result<ToolOutput, CallError>> + Send>;

/// The result of a handler.
pub enum Outcome {
    /// Finished, without a write to the hub's database.
    Ready(ToolOutput),
    /// A write to run in one transaction with the audit record, the events and the idempotency key: a crash leaves all
    /// of them or none.
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

    /// The spec without the schemas, which are derived.
    fn spec(&self) -> ToolSpec;

    fn run(
        &self,
        context: ToolContext,
        arguments: Self::Args,
    ) -> impl Future<Output = Result<Outcome, CallError>> + Send;
}

impl ToolSpec {
    /// The spec with the schemas of these types, to list a tool that runs on another machine.
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

/// How a tool is run with its validated arguments.
pub type Run = dyn Fn(ToolContext, Value) -> BoxFuture<'static, Result<Outcome, CallError>> + Send + Sync;

#[derive(Clone)]
enum Handler {
    Run(Arc<Run>),
    /// Names another tool and its arguments; the dispatcher continues with that tool.
    Indirect,
}

#[derive(Clone)]
pub struct Tool {
    spec: Arc<ToolSpec>,
    /// None: the program or server that runs the tool validates its arguments.
    validator: Option<Arc<Validator>>,
    /// The listed name, if it differs from the canonical one.
    listed: Option<Arc<str>>,
    handler: Handler,
    /// Its calls select the node that they run on. If false, a node tool runs on this machine.
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
                // The schema matched; this covers what a schema cannot express.
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

    /// A tool of another MCP server. If its schema cannot be compiled, or is too expensive to check, the arguments are
    /// passed on unchecked: the server validates them too.
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

    /// A tool that runs a program of the user. Its schema was validated when its manifest was loaded.
    pub(crate) fn custom(spec: ToolSpec, run: Arc<Run>) -> Self {
        Self::new(spec, Handler::Run(run))
    }

    /// A tool that runs on a node selected by each call. Adds the arguments that select the node; the handler delivers
    /// the call to the node in its context.
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
                // A derived schema always compiles; if one does not, refuse all calls instead of accepting all.
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

    /// The name that callers see. The canonical name is in the [spec](Self::spec).
    #[must_use]
    pub fn name(&self) -> &str {
        self.listed.as_deref().unwrap_or(&self.spec.name)
    }

    /// The same tool, listed under another name.
    pub(crate) fn listed_as(&self, name: &str) -> Self {
        Self { listed: Some(Arc::from(name)), ..self.clone() }
    }

    #[must_use]
    pub fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    /// Whether the two are indistinguishable: same spec, same name, same handler.
    pub(crate) fn same_as(&self, other: &Self) -> bool {
        let handlers = match (&self.handler, &other.handler) {
            (Handler::Run(one), Handler::Run(other)) => Arc::ptr_eq(one, other),
            (Handler::Indirect, Handler::Indirect) => true,
            (Handler::Run(_), Handler::Indirect) | (Handler::Indirect, Handler::Run(_)) => false,
        };
        handlers && self.routed == other.routed && self.listed == other.listed && self.spec == other.spec
    }

    /// The tool's name on the node that runs it.
    pub(crate) fn name_on_server(&self) -> &str {
        let hosted = self.spec.upstream().filter(|upstream| upstream.node.is_some());
        hosted.and_then(|upstream| upstream.definition.get("name")?.as_str()).unwrap_or(&self.spec.name)
    }

    pub(crate) fn is_routed(&self) -> bool {
        self.routed
    }

    pub(crate) fn is_indirect(&self) -> bool {
        matches!(self.handler, Handler::Indirect)
    }

    /// The normalized arguments and the result of their validation.
    pub(crate) fn check(&self, mut arguments: Map<String, Value>) -> (Value, Result<(), CallError>) {
        let aliases = self.spec.handling.aliases;
        let doubled = alias::resolve(aliases, &mut arguments);
        // The meaning of null is up to the third-party program.
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
                "an indirect tool was run directly",
            )))),
        }
    }
}

impl fmt::Debug for Tool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tool").field("name", &self.spec.name).finish_non_exhaustive()
    }
}
