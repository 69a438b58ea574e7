//! `plexus tools`: lists, describes and calls tools, and manages user-defined ones.

mod content;
mod cost;
mod defined;
mod scaffold;

use std::process::ExitCode;

use clap::{Args, Subcommand};
use plexus_proto::api::{CallToolParams, CallToolResponse, Tool, ToolAnnotations};
use plexus_proto::{CallId, ErrorCode};
use serde_json::Value;
use serde_json::value::RawValue;

use self::cost::CostArgs;
use self::defined::TestArgs;
use super::Invocation;
use crate::arguments;
use crate::failure::{Exit, Failure};
use crate::listing::{self, ListArgs};
use crate::output::{Output, one_line};
use crate::{client, shell};

#[derive(Debug, Args)]
pub(crate) struct ToolsArgs {
    #[command(subcommand)]
    command: ToolsCommand,
}

#[derive(Debug, Subcommand)]
enum ToolsCommand {
    /// List the tools that your token may call
    #[command(visible_alias = "ls", after_help = "Example:\n  plexus tools list --server time")]
    List {
        /// Only tools of this MCP server behind the hub
        #[arg(long, value_name = "NAME")]
        server: Option<String>,
        /// List user-defined tools instead, including disabled and invalid ones
        #[arg(long, conflicts_with = "server")]
        defined: bool,
        #[command(flatten)]
        list: ListArgs,
    },
    /// Show a tool: description, arguments and required scope
    #[command(visible_alias = "describe", after_help = "Example:\n  plexus tools show todo")]
    Show {
        /// Name of the tool
        name: String,
    },
    /// Show how many tokens of a model's context each tool and server uses
    #[command(
        after_help = "Counted with o200k_base: exact for OpenAI's models since GPT-4o, an estimate for others.\n\n\
Example:\n  plexus tools cost --profile developer"
    )]
    Cost(CostArgs),
    /// Create a user-defined tool on this machine from a template
    #[command(
        after_help = "The tool is created in tools.d of the data folder, and must be enabled with `plexus tools enable`.\n\n\
Example:\n  plexus tools new disk_usage"
    )]
    New {
        /// Name of the tool: letters, digits, _ and -
        name: String,
    },
    /// Test a user-defined tool on the hub's machine, even if it is disabled
    #[command(after_help = "The test runs the tool's program. The exit code is 1 if the call fails.\n\n\
Example:\n  plexus tools test disk_usage --arg path=/home")]
    Test(TestArgs),
    /// Enable a user-defined tool, on the hub's machine
    #[command(after_help = "Example:\n  plexus tools enable disk_usage")]
    Enable {
        /// Name of the tool
        name: String,
    },
    /// Disable a user-defined tool
    #[command(after_help = "Example:\n  plexus tools disable disk_usage")]
    Disable {
        /// Name of the tool
        name: String,
    },
    /// Call a tool and print its result
    #[command(
        after_help = "A value that is valid JSON (3, true, {\"a\": 1}) is sent as JSON, any other value as a string.\n\
Quote a number to send it as a string: --arg 'version=\"1.10\"'. --arg overrides --json-args.\n\
The exit code is 1 if the tool reports a failure.\n\n\
Example:\n  plexus tools call scratchpad --arg action=write --arg section=notes --arg content='buy milk'\n  \
echo '{\"action\": \"list\"}' | plexus tools call todo --json-args -\n  \
plexus tools call terminal --node local --arg action=run --arg command='df -h /'"
    )]
    Call(CallArgs),
}

#[derive(Debug, Args)]
struct CallArgs {
    /// Name of the tool
    name: String,
    /// Argument (repeatable)
    #[arg(long = "arg", value_name = "KEY=VALUE", value_parser = arguments::key_value)]
    pairs: Vec<(String, Value)>,
    /// Arguments as a JSON object, as @FILE, or as - for standard input
    #[arg(long, value_name = "JSON", allow_hyphen_values = true)]
    json_args: Option<String>,
    /// Machine to run it on: name, id, or label such as role=nas; same as --arg node=… [default: the machine of the
    /// profile or the token, else that of the hub]
    #[arg(long, value_name = "NODE")]
    node: Option<String>,
    /// Name of the session that records the call
    #[arg(long, value_name = "NAME")]
    session: Option<String>,
    /// Idempotency key: calls with the same key run only once [default: a new key]
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
}

pub(crate) async fn run(args: ToolsArgs, invocation: &Invocation<'_>) -> anyhow::Result<ExitCode> {
    match args.command {
        ToolsCommand::List { defined: true, .. } => defined::list(invocation).await,
        ToolsCommand::List { server, list, .. } => self::list(server.as_deref(), &list, invocation).await,
        ToolsCommand::Show { name } => show(&name, invocation).await,
        ToolsCommand::Cost(args) => cost::run(&args, invocation).await,
        ToolsCommand::New { name } => scaffold::run(&name, invocation),
        ToolsCommand::Test(args) => defined::test(args, invocation).await,
        ToolsCommand::Enable { name } => defined::switch(&name, "enable", invocation).await,
        ToolsCommand::Disable { name } => defined::switch(&name, "disable", invocation).await,
        ToolsCommand::Call(args) => call(args, invocation).await,
    }
}

async fn list(
    server: Option<&str>,
    args: &ListArgs,
    invocation: &Invocation<'_>,
) -> anyhow::Result<ExitCode> {
    let wanted = server.map(|server| format!("upstream:{server}"));
    // A tool that does not parse is kept, so that it causes an error instead of being hidden.
    let keep = |raw: &RawValue| match &wanted {
        Some(wanted) => {
            client::decode(raw).map_or(true, |tool: Tool| is_from_server(&tool.placement, wanted))
        }
        None => true,
    };
    let page = listing::fetch(&invocation.hub()?, &["tools"], &[], args, keep).await?;
    let row = |tool: &Tool| {
        let about = tool.description.lines().next().unwrap_or_default();
        vec![
            tool.name.clone(),
            placement(&tool.placement),
            effect(tool.annotations).to_owned(),
            about.to_owned(),
        ]
    };
    let empty = match server {
        Some(server) => {
            let shown = shell::name(&one_line(server));
            format!("No tools of {shown}. `plexus upstream show {shown}` shows its state.")
        }
        None => "No tools. The scopes or the profile of your token permit none: see `plexus token list`."
            .to_owned(),
    };
    listing::show(&invocation.out, &page, &["NAME", "PLACEMENT", "EFFECT", "ABOUT"], row, &empty)?;
    Ok(Exit::Ok.into())
}

async fn show(name: &str, invocation: &Invocation<'_>) -> anyhow::Result<ExitCode> {
    let out = &invocation.out;
    let answer = invocation.hub()?.get(&["tools", name], &[]).await?;
    if out.json() {
        out.json_line(answer.raw().get())?;
        return Ok(Exit::Ok.into());
    }
    let tool: Tool = answer.decode()?;
    out.fields(&[
        ("name", tool.name),
        ("title", tool.title),
        ("placement", placement(&tool.placement)),
        ("scope", tool.scope),
        ("effect", effect(tool.annotations).to_owned()),
        ("deadline", format!("{} s", tool.deadline_seconds)),
    ])?;
    out.block(&format!("\n{}\n", tool.description.trim_end()))?;
    if !tool.actions.is_empty() {
        out.block("\nActions\n")?;
        let buffered = |bufferable| if bufferable { "yes" } else { "no" }.to_owned();
        let rows = tool.actions.into_iter().map(|action| {
            vec![
                action.name,
                effect(action.annotations).to_owned(),
                action.scope,
                buffered(action.bufferable),
            ]
        });
        out.table(&["ACTION", "EFFECT", "SCOPE", "BUFFERABLE"], rows.collect())?;
    }
    schema(out, "Arguments", &tool.input_schema)?;
    if let Some(output) = &tool.output_schema {
        schema(out, "Output", output)?;
    }
    Ok(Exit::Ok.into())
}

fn schema(out: &Output, heading: &str, schema: &Value) -> anyhow::Result<()> {
    out.block(&format!("\n{heading} (JSON Schema)\n{schema:#}\n"))
}

async fn call(args: CallArgs, invocation: &Invocation<'_>) -> anyhow::Result<ExitCode> {
    let CallArgs { name, mut pairs, json_args, node, session, idempotency_key } = args;
    pairs.extend(node.map(|node| ("node".to_owned(), Value::String(node))));
    let json_pair = pairs.iter().find(|(_, value)| !value.is_string()).cloned();
    let params = CallToolParams { arguments: arguments::tool_arguments(json_args.as_deref(), pairs)? };
    // The key exists before the first attempt, so the call can be repeated if its response is lost.
    let key = idempotency_key.unwrap_or_else(|| format!("cli-{}", CallId::new()));
    let headers = [("idempotency-key", Some(key.as_str())), ("plexus-session", session.as_deref())];
    let answer = invocation
        .hub()?
        .post(&["tools", &name, "call"], &params, &headers)
        .await
        .map_err(|e| with_string_hint(with_retry_hint(e, &key), json_pair))?;
    let out = &invocation.out;
    if out.json() {
        out.json_line(answer.raw().get())?;
    }
    let response: CallToolResponse = answer.decode()?;
    if !out.json() {
        match (&response.structured, response.text.is_empty()) {
            (Some(structured), true) => out.block(&format!("{structured:#}\n"))?,
            _ => out.block(&response.text)?,
        }
        content::omitted_blocks(&response).iter().for_each(|note| out.note(note));
        if response.replayed {
            out.note("note: this is the stored result of an earlier call with the same idempotency key");
        }
    }
    if response.success {
        return Ok(Exit::Ok.into());
    }
    let message = format!("{} reported a failure", one_line(&response.tool));
    let hint = format!("see its audit record: plexus audit show {}", response.call_id);
    Err(Failure::new(Exit::Failed, message).hint(hint).into())
}

/// Suggests a string for an argument that was parsed as JSON, which the tool may not accept.
fn with_string_hint(error: anyhow::Error, json_pair: Option<(String, Value)>) -> anyhow::Error {
    match (error.downcast::<Failure>(), json_pair) {
        (Ok(failure), Some((key, value))) if failure.code == Some(ErrorCode::InvalidArguments) => {
            let pair = shell::name(&format!("{key}={}", Value::String(value.to_string())));
            let before = failure.hint.as_ref().map(|hint| format!("{hint} ")).unwrap_or_default();
            failure
                .hint(format!("{before}{key} was sent as JSON; to send it as a string, use --arg {pair}"))
                .into()
        }
        (Ok(failure), _) => failure.into(),
        (Err(error), _) => error,
    }
}

/// Suggests a retry with the same key: a call without a response may have run.
fn with_retry_hint(error: anyhow::Error, key: &str) -> anyhow::Error {
    match error.downcast::<Failure>() {
        Ok(failure) if failure.after_sending => {
            let hint =
                format!("the call may have run; to get its result, repeat it with --idempotency-key {key}");
            failure.hint(hint).into()
        }
        Ok(failure) => failure.into(),
        Err(error) => error,
    }
}

/// Whether a tool belongs to this server, on any machine.
fn is_from_server(placement: &str, server: &str) -> bool {
    placement.split_once('@').map_or(placement, |(server, _)| server) == server
}

/// Where a tool runs: in the hub, on the node that a call names, or in a server behind the hub or on a node.
fn placement(placement: &str) -> String {
    match placement.strip_prefix("upstream:") {
        Some(server) => match server.split_once('@') {
            Some((server, node)) => format!("server {server} on {node}"),
            None => format!("server {server}"),
        },
        None => placement.to_owned(),
    }
}

fn effect(annotations: ToolAnnotations) -> &'static str {
    match (annotations.read_only_hint, annotations.destructive_hint) {
        (true, _) => "reads",
        (false, true) => "may delete",
        (false, false) => "writes",
    }
}
