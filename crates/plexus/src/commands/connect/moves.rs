//! The MCP servers that agents have of their own, moved behind the hub: imported there, and taken out of the agents' files by
//! the same change that puts the hub's entry in. `plexus disconnect` puts them back.
//!
//! The hub has a server before its agent loses it. What an entry holds is sent to the hub and kept in the ledger, and is not
//! shown.

use plexus_bridge::Servers;
use plexus_bridge::agents::{Agent, Scope};
use plexus_proto::ErrorCode;
use plexus_proto::api::{ImportUpstreamsParams, UpstreamImport};
use serde_json::{Value, json};

use super::desk::{self, Desk, Questions};
use super::{ConnectArgs, Planned};
use crate::client::Hub;
use crate::commands::Invocation;
use crate::commands::run::maker::is;
use crate::commands::upstream::allow::Owner;
use crate::failure::{Exit, Failure};
use crate::output::one_line;

/// The servers of one agent that move, and those that cannot.
#[derive(Default)]
pub(super) struct Moves {
    pub(super) servers: Vec<Moving>,
    /// Name, and why it stays.
    pub(super) stay: Vec<(String, String)>,
}

pub(super) struct Moving {
    pub(super) name: String,
    entry: Value,
    /// The command that has to be allowed first.
    command: Option<String>,
    /// Another agent brings the same server.
    is_shared: bool,
}

impl Moves {
    pub(super) fn names(&self) -> Vec<String> {
        self.servers.iter().map(|server| server.name.clone()).collect()
    }
}

/// Finds out what can move, asks unless a flag answers, and plans it.
pub(super) async fn plan(
    planned: &mut [Planned],
    scope: &Scope,
    args: &ConnectArgs,
    desk: &Desk,
    (invocation, questions): (&Invocation<'_>, &mut Questions),
) -> anyhow::Result<()> {
    let out = &invocation.out;
    let can_ask = out.can_ask() && out.terminal() && !args.yes && !args.dry_run;
    if args.no_move_servers || *scope != Scope::User || !(args.move_servers || can_ask) {
        return Ok(());
    }
    let found = match find(planned, scope, desk, invocation).await {
        Ok(found) => found,
        // Nobody asked for it: a user who may not add servers is offered nothing.
        Err(error) if !args.move_servers => {
            tracing::debug!("servers of agents are not looked at: {error:#}");
            return Ok(());
        }
        Err(error) => return Err(error),
    };
    let names: Vec<String> = planned
        .iter()
        .zip(&found)
        .filter(|(_, moves)| !moves.servers.is_empty())
        .map(|(planned, moves)| format!("{} ({})", planned.agent.name, one_line(&moves.names().join(", "))))
        .collect();
    if !args.move_servers {
        if names.is_empty() {
            return Ok(());
        }
        out.line(&format!("MCP servers of their own: {}.", names.join("; ")))?;
        let question =
            "Move them behind the hub, for all agents to use? `plexus disconnect` puts them back. [y/N]";
        if !questions.confirmed(out, question).await? {
            return Ok(());
        }
    }
    for (planned, moves) in planned.iter_mut().zip(found) {
        planned.moves = moves;
        apply_to_plan(planned, desk)?;
    }
    Ok(())
}

/// The servers of each agent, with what the hub says of them. Nothing is changed.
async fn find(
    planned: &[Planned],
    scope: &Scope,
    desk: &Desk,
    invocation: &Invocation<'_>,
) -> anyhow::Result<Vec<Moves>> {
    let (hub, owner) = (invocation.hub()?, Owner::of(invocation)?);
    let mut found: Vec<Moves> = Vec::new();
    // Name, entry and document of each server that an agent before brings.
    let mut brought: Vec<(String, Value, Option<Value>)> = Vec::new();
    for planned in planned {
        let mut moves = Moves::default();
        let is_possible = planned.plan.problems.is_empty();
        let Servers { entries, .. } = match is_possible {
            true => {
                desk.keeper.bridge().servers(planned.agent, scope).map_err(|error| desk::refused(&error))?
            }
            false => Servers::default(),
        };
        for (name, entry) in entries {
            let import = import(&hub, planned.agent, &name, &entry, true).await?;
            let document = import.added.into_iter().next().map(|added| added.document);
            let skipped = import.skipped.into_iter().next();
            let (command, why) =
                skipped.map_or((None, None), |skipped| (skipped.command, Some(skipped.reason)));
            let command = command.filter(|_| owner.can_allow());
            if document.is_none() && command.is_none() {
                // One without a reason is not a server, or is this hub.
                moves.stay.extend(why.map(|why| (name, why)));
                continue;
            }
            let before = brought.iter().find(|(known, ..)| *known == name);
            let is_shared = before.is_some();
            if before.is_some_and(|(_, other, known)| {
                !is_same((other, known.as_ref()), (&entry, document.as_ref()))
            }) {
                moves.stay.push((name, "another agent has another server of this name".to_owned()));
                continue;
            }
            if !is_shared {
                brought.push((name.clone(), entry.clone(), document));
            }
            moves.servers.push(Moving { name, entry, command, is_shared });
        }
        found.push(moves);
    }
    Ok(found)
}

/// Whether two agents mean the same server. What is masked in a document may differ.
fn is_same(one: (&Value, Option<&Value>), other: (&Value, Option<&Value>)) -> bool {
    let is_masked = |document: &Value| document.to_string().contains("[redacted]");
    one.0 == other.0 || (one.1.is_some_and(|document| !is_masked(document)) && one.1 == other.1)
}

/// Replaces the change that enters the hub by one that also takes the servers out. A server that cannot be taken out of its
/// file without doubt stays there.
fn apply_to_plan(planned: &mut Planned, desk: &Desk) -> anyhow::Result<()> {
    let bridge = desk.keeper.bridge();
    let Some(change) = planned.plan.changes.iter_mut().find(|change| change.enters()) else { return Ok(()) };
    let mut can = Vec::new();
    for server in std::mem::take(&mut planned.moves.servers) {
        match bridge.moving(change, std::slice::from_ref(&server.name)) {
            Ok(_) => can.push(server),
            Err(error) => planned.moves.stay.push((server.name, error.to_string())),
        }
    }
    planned.moves.servers = can;
    if !planned.moves.servers.is_empty() {
        let names = planned.moves.names();
        *change = bridge.moving(change, &names).map_err(|error| desk::refused(&error))?;
    }
    Ok(())
}

/// Has the hub take the servers over, and plans anew without those that it did not take.
pub(super) async fn carry_out(
    planned: &mut Planned,
    desk: &Desk,
    invocation: &Invocation<'_>,
) -> anyhow::Result<()> {
    if planned.moves.servers.is_empty() {
        return Ok(());
    }
    let (hub, owner) = (invocation.hub()?, Owner::of(invocation)?);
    let mut commands: Vec<String> =
        planned.moves.servers.iter().filter_map(|server| server.command.clone()).collect();
    commands.sort();
    commands.dedup();
    if !commands.is_empty() {
        owner.allow(&commands)?;
    }
    let mut taken = Vec::new();
    for server in std::mem::take(&mut planned.moves.servers) {
        if server.is_shared {
            taken.push(server);
            continue;
        }
        let import = import(&hub, planned.agent, &server.name, &server.entry, false).await?;
        match import.added.is_empty() {
            false => taken.push(server),
            true => {
                let why = import.skipped.into_iter().next().map(|skipped| skipped.reason);
                planned
                    .moves
                    .stay
                    .push((server.name, why.unwrap_or_else(|| "the hub did not take it".to_owned())));
            }
        }
    }
    planned.moves.servers = taken;
    let names = planned.moves.names();
    if let Some(change) = planned.plan.changes.iter_mut().find(|change| change.enters()) {
        *change = desk.keeper.bridge().moving(change, &names).map_err(|error| desk::refused(&error))?;
    }
    Ok(())
}

/// One server, in the form of its agent.
async fn import(
    hub: &Hub,
    agent: &Agent,
    name: &str,
    entry: &Value,
    dry_run: bool,
) -> anyhow::Result<UpstreamImport> {
    let servers = Value::Object([(name.to_owned(), entry.clone())].into_iter().collect());
    let content = agent.keys.iter().rev().fold(servers, |inner, key| json!({ *key: inner })).to_string();
    let params = ImportUpstreamsParams { file_name: format!("{}.json", agent.id), content, dry_run };
    let answer = hub.post(&["upstreams", "-", "import"], &params, &[]).await.map_err(|error| {
        if !is(&error, ErrorCode::Forbidden) {
            return error;
        }
        Failure::new(Exit::Denied, "only an admin of the hub can move servers behind it")
            .hint("leave out --move-servers, or run this with an admin's token")
            .into()
    })?;
    answer.decode()
}
