//! The file of a server as a type; editors and [`super::schema`] derive the schema from it.
//!
//! Values are as written until their references are resolved. Rules that a type cannot express (which keys
//! may be combined, what a valid URL is) are checked in [`super::check`].

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;

use super::{Approve, Inject};

/// An MCP server behind a Plexus hub. The name of the file is the name of the server.
///
/// Every string may contain `${env:NAME}`, `${env:NAME:-default}` and `${file:PATH}`.
// No `Debug`: it may hold credentials.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(title = "MCP server")]
pub(super) struct Document {
    /// Address of this schema, for editors.
    #[serde(rename = "$schema")]
    pub(super) _schema: Option<String>,
    /// How the hub connects to the server. Optional: `command` implies stdio; `url` implies streamable_http,
    /// or sse if its path ends in `/sse`.
    pub(super) transport: Option<TransportName>,
    /// stdio: the program to start, by name or path. A relative path is resolved against `cwd`, or against
    /// the folder of this file if `cwd` is not set.
    pub(super) command: Option<String>,
    /// stdio: arguments of the program, passed unchanged: a relative path is resolved against the folder that the
    /// program is started in, and `~` is not expanded. Other users of the machine can read arguments: put credentials
    /// into `env`.
    pub(super) args: Vec<String>,
    /// stdio: environment variables for the program, in addition to the few that every program gets.
    pub(super) env: BTreeMap<String, String>,
    /// stdio: the folder to start the program in. A relative path is resolved against the folder of this
    /// file. Default: the folder that the hub was started in.
    pub(super) cwd: Option<String>,
    /// sse, streamable_http: the address of the server.
    pub(super) url: Option<String>,
    /// sse, streamable_http: headers of every request, such as `Authorization`.
    pub(super) headers: BTreeMap<String, String>,
    /// sse, streamable_http: allow the server to be on a private network.
    pub(super) allow_private: bool,
    /// sse, streamable_http: how the hub authenticates when a header is not enough.
    pub(super) auth: Auth,
    /// If false, the server is configured but not started.
    #[schemars(extend("default" = true))]
    pub(super) enabled: Option<bool>,
    /// Start the server once to learn its tools, which the hub remembers across restarts; from then on stop
    /// it when it has not been called for a while and start it with the next call.
    pub(super) lazy: bool,
    /// Use one connection (and process) per session instead of one for all sessions.
    pub(super) per_session: bool,
    /// If false, the hub reports to the server that neither the user nor the model can be asked anything, and
    /// passes on none of the server's questions. For servers that work better without them.
    #[schemars(extend("default" = true))]
    pub(super) questions: Option<bool>,
    /// Time limit for one call: a string such as "30s", "5m" or "500ms", or a number of seconds.
    pub(super) timeout: Option<Time>,
    /// Maximum number of concurrent calls; further calls wait.
    #[schemars(range(min = 1, max = 1024))]
    pub(super) max_concurrency: Option<u16>,
    /// Which of the server's tools are available, and under which names. Patterns match the server's own
    /// names.
    pub(super) tools: Tools,
    /// Named groups of tools for use in profiles: group name to tool names, or patterns with `*`.
    pub(super) groups: BTreeMap<String, Vec<String>>,
    /// Additional information for models about the server, besides the server's own instructions.
    pub(super) instructions: Option<String>,
    /// How its tools are named: `prefixed` is `mcp__server__tool`; `bare` is the tool's own name if no other
    /// tool has it.
    pub(super) naming: Option<Naming>,
    /// Which of its tools are trusted: `tofu` trusts the tools that the server has when it is first seen and
    /// holds back changed or new ones until they are approved; `manual` holds back every tool until it is
    /// approved; `auto` trusts everything.
    #[schemars(extend("default" = "tofu"))]
    pub(super) approve: Option<Approve>,
    /// Arguments that the hub fills in, so that a model does not have to provide them.
    pub(super) inject: BTreeMap<String, InjectName>,
    /// The node to run the server on. Not supported yet: leave it out.
    pub(super) node: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum TransportName {
    Stdio,
    Sse,
    StreamableHttp,
}

#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Auth {
    /// How the hub requests access. Optional if only `tls` is used.
    #[serde(rename = "type")]
    pub(super) kind: Option<AuthName>,
    /// Who grants access: with `authorization_code` a person, through `plexus upstream login`; with
    /// `client_credentials` nobody, because the hub has its own credentials.
    pub(super) grant: Option<GrantName>,
    /// Scopes to request. Default: the scopes that the server asks for.
    pub(super) scopes: Vec<String>,
    /// The hub's client id at the authorization server. Default: the hub registers itself.
    pub(super) client_id: Option<String>,
    /// The password for `client_id`: a reference such as `${env:NAME}`. It is sent only to `authorization_server`,
    /// which must then be set.
    pub(super) client_secret: Option<String>,
    /// URL of a document that describes the hub, for authorization servers that support client metadata
    /// documents.
    pub(super) client_metadata_url: Option<String>,
    /// Port that the browser is redirected to. Default: any free port.
    #[schemars(range(min = 1))]
    pub(super) redirect_port: Option<u16>,
    /// The authorization server. Required if the server names several or none, or if there is a
    /// `client_secret`.
    pub(super) authorization_server: Option<String>,
    /// Certificates of the connection.
    pub(super) tls: Tls,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum AuthName {
    Oauth,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum GrantName {
    AuthorizationCode,
    ClientCredentials,
}

#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Tls {
    /// File with the certificate that the hub presents to the server, and its chain (PEM).
    pub(super) client_cert: Option<String>,
    /// File with its private key (PEM).
    pub(super) client_key: Option<String>,
    /// File with certificates that are trusted in addition to those of the machine (PEM).
    pub(super) ca: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Naming {
    Prefixed,
    Bare,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum InjectName {
    /// The id of the caller's session.
    SessionId,
    /// The folder for files of the caller's session.
    SessionFiles,
    /// The path that the model provides, made absolute.
    Path,
}

impl From<InjectName> for Inject {
    fn from(name: InjectName) -> Self {
        match name {
            InjectName::SessionId => Self::SessionId,
            InjectName::SessionFiles => Self::SessionFiles,
            InjectName::Path => Self::Path,
        }
    }
}

#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Tools {
    /// Only these tools: names, or patterns with `*`. Empty: all.
    pub(super) allow: Vec<String>,
    /// Not these tools, even if allowed: names, or patterns with `*`.
    pub(super) deny: Vec<String>,
    /// The server's name of a tool to the name to use here, which must not be the name of another of its
    /// tools.
    pub(super) rename: BTreeMap<String, String>,
    /// Tools that may be run again when it is unknown whether they ran: names, or patterns with `*`.
    pub(super) idempotent: Vec<String>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(untagged)]
pub(super) enum Time {
    Seconds(u64),
    Text(String),
}
