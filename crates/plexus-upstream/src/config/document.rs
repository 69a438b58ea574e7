//! The file of a server as a type: editors and [`super::schema`] have their schema from it.
//!
//! Values are as written until the references in them are filled in. What a type cannot say (which keys go together,
//! what a URL is) is checked in [`super::check`].

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;

use super::{Approve, Inject};

/// An MCP server behind a Plexus hub. The name of the file is the name of the server.
///
/// Every text may have `${env:NAME}`, `${env:NAME:-default}` and `${file:PATH}` in it.
// No `Debug`: it may hold credentials.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(title = "MCP server")]
pub(super) struct Document {
    /// Address of this schema, for editors.
    #[serde(rename = "$schema")]
    pub(super) _schema: Option<String>,
    /// How the hub talks to the server. May be left out: `command` means stdio, `url` means streamable_http, or sse
    /// where its path ends in `/sse`.
    pub(super) transport: Option<TransportName>,
    /// stdio: the program to start, by name or path. A relative path begins in `cwd`, else in the folder of this file.
    pub(super) command: Option<String>,
    /// stdio: arguments of the program, handed over as they are: a relative path begins in the folder that the program
    /// is started in, and `~` is not replaced. Other users of the machine can read them: credentials belong in `env`.
    pub(super) args: Vec<String>,
    /// stdio: variables for the program, besides the few that every program gets.
    pub(super) env: BTreeMap<String, String>,
    /// stdio: the folder to start the program in. A relative path begins in the folder of this file. Left out: the
    /// folder that the hub was started in.
    pub(super) cwd: Option<String>,
    /// sse, streamable_http: the address of the server.
    pub(super) url: Option<String>,
    /// sse, streamable_http: headers of every request, such as `Authorization`.
    pub(super) headers: BTreeMap<String, String>,
    /// sse, streamable_http: the server may be on a private network.
    pub(super) allow_private: bool,
    /// sse, streamable_http: how the hub shows who it is, where a header does not do.
    pub(super) auth: Auth,
    /// Off: the server is known and not started.
    #[schemars(extend("default" = true))]
    pub(super) enabled: Option<bool>,
    /// Started once to learn its tools, which the hub remembers also over its own restart; from then on stopped when it
    /// was not called for a while, and started by the next call.
    pub(super) lazy: bool,
    /// A connection (and process) for each session instead of one for all.
    pub(super) per_session: bool,
    /// Off: the server is told that nobody can be asked anything, neither the user nor the model, and no questions of it are
    /// passed on. For servers that do better without.
    #[schemars(extend("default" = true))]
    pub(super) questions: Option<bool>,
    /// Time for one call: text such as "30s", "5m" or "500ms", or a number of seconds.
    pub(super) timeout: Option<Time>,
    /// Calls at the same time; more wait.
    #[schemars(range(min = 1, max = 1024))]
    pub(super) max_concurrency: Option<u16>,
    /// Which of the server's tools there are, and by what name. Names are the server's own.
    pub(super) tools: Tools,
    /// Names for some of the tools, which profiles refer to: group to names of tools, or patterns with `*`.
    pub(super) groups: BTreeMap<String, Vec<String>>,
    /// What to tell models about the server, beside what it says itself.
    pub(super) instructions: Option<String>,
    /// How its tools are called: `prefixed` is `mcp__server__tool`, `bare` is the tool's own name where nothing else
    /// has it.
    pub(super) naming: Option<Naming>,
    /// Which of its tools are trusted: `tofu` trusts those that it has when it is first seen and holds back what changes
    /// or comes later, until it is approved; `manual` holds back all that was not approved; `auto` trusts whatever it says.
    #[schemars(extend("default" = "tofu"))]
    pub(super) approve: Option<Approve>,
    /// Arguments that the hub fills in, so that a model never has to type them.
    pub(super) inject: BTreeMap<String, InjectName>,
    /// The machine to run on. There are no nodes yet: leave it out.
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
    /// How access is asked for. May be left out where only `tls` is wanted.
    #[serde(rename = "type")]
    pub(super) kind: Option<AuthName>,
    /// Who grants access: `authorization_code` is a person, by `plexus upstream login`; `client_credentials` nobody,
    /// because the hub has access of its own.
    pub(super) grant: Option<GrantName>,
    /// What to ask access to. Left out, what the server says.
    pub(super) scopes: Vec<String>,
    /// The hub, as the authorization server knows it. Left out, the hub introduces itself.
    pub(super) client_id: Option<String>,
    /// The password that goes with `client_id`: a reference such as `${env:NAME}`. It is shown to
    /// `authorization_server`, which has to be there then, and to nobody else.
    pub(super) client_secret: Option<String>,
    /// Address of a document that describes the hub, for authorization servers that take that.
    pub(super) client_metadata_url: Option<String>,
    /// Port that the browser is sent back to. Left out, any that is free.
    #[schemars(range(min = 1))]
    pub(super) redirect_port: Option<u16>,
    /// The authorization server, where the server names several or none, or where there is a `client_secret`.
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
    /// File with the certificate that the hub shows to the server, and those that vouch for it (PEM).
    pub(super) client_cert: Option<String>,
    /// File with its private key (PEM).
    pub(super) client_key: Option<String>,
    /// File with certificates that are trusted beside those of the machine (PEM).
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
    /// The path that the model gave, made absolute.
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
    /// Only these: names, or patterns with `*`. Empty: all.
    pub(super) allow: Vec<String>,
    /// Not these, even if allowed: names, or patterns with `*`.
    pub(super) deny: Vec<String>,
    /// The server's name of a tool to the one to use here, which must not be that of another of its tools.
    pub(super) rename: BTreeMap<String, String>,
    /// Tools that may be run again when it is not known whether they ran: names, or patterns with `*`.
    pub(super) idempotent: Vec<String>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(untagged)]
pub(super) enum Time {
    Seconds(u64),
    Text(String),
}
