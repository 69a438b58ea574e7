//! `plexus node join`: makes this machine a node of a hub.

use clap::Args;
use plexus_kit::{Clock, env, private_file};
use plexus_node::{Credential, HubClient};
use plexus_proto::api::JoinNodeParams;
use serde_json::json;

use super::membership::{self, TlsArgs};
use crate::arguments;
use crate::commands::Invocation;
use crate::failure::{Exit, Failure};
use crate::output::one_line;
use crate::shell;

#[derive(Debug, Args)]
pub(super) struct JoinArgs {
    /// URL of the hub, such as https://hub.example
    #[arg(value_name = "HUB_URL")]
    address: String,
    /// Code that `plexus node invite` printed; without it, the certificate of --cert or the key in PLEXUS_NODE_KEY is
    /// used
    code: Option<String>,
    /// Name for the machine, with PLEXUS_NODE_KEY
    #[arg(long, conflicts_with = "code")]
    name: Option<String>,
    /// Label for the machine, such as role=nas, with PLEXUS_NODE_KEY (repeatable)
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = arguments::label, conflicts_with = "code")]
    labels: Vec<(String, String)>,
    /// Join even if this data folder has joined before, and replace its credential
    #[arg(long)]
    again: bool,
    #[command(flatten)]
    tls: TlsArgs,
}

pub(super) async fn run(args: JoinArgs, invocation: &Invocation<'_>) -> anyhow::Result<()> {
    let out = &invocation.out;
    let data_dir = membership::data_dir(invocation)?;
    if !args.again
        && let Some(before) = membership::credential(&data_dir)?
    {
        let message = format!(
            "this machine has already joined {} as {} (data folder {})",
            one_line(&before.hub),
            one_line(&before.name),
            data_dir.display()
        );
        let hint = "start it with `plexus node run`, join again with --again, or use another --data-dir for another node";
        return Err(Failure::new(Exit::Usage, message).hint(hint).into());
    }
    let hub = HubClient::new(&args.address, &args.tls.options()?).map_err(membership::failure)?;
    let params = params(&args, invocation)?;
    // Create the folder first: if that fails, the code, which can be used only once, is not spent.
    private_file::create_dir(&data_dir)?;
    let response = hub.join(&params).await.map_err(membership::failure)?;
    let credential = Credential::new(&hub, response, &Clock::system());
    credential.write(&data_dir)?;
    if out.json() {
        let joined = json!({
            "node_id": credential.node_id,
            "name": credential.name,
            "hub": credential.hub,
            "data_dir": data_dir,
            "expires_at": credential.expires_at,
        });
        return out.json_line(&joined.to_string());
    }
    out.line(&format!("This machine is now {} of {}.", one_line(&credential.name), one_line(hub.address())))?;
    let folder = match invocation.data_dir() {
        Some(_) => format!(" --data-dir {}", shell::word(&data_dir)),
        None => String::new(),
    };
    out.note(&format!(
        "Run `{} node run{folder}` to connect it to the hub.",
        shell::plexus(invocation.environment())
    ));
    Ok(())
}

fn params(args: &JoinArgs, invocation: &Invocation<'_>) -> anyhow::Result<JoinNodeParams> {
    let labels = args.labels.iter().cloned().collect();
    if let Some(code) = &args.code {
        return Ok(JoinNodeParams { code: Some(code.clone()), key: None, name: None, labels });
    }
    if args.name.is_none() && args.tls.shows_certificate() {
        return Ok(JoinNodeParams { code: None, key: None, name: None, labels });
    }
    let Some(key) = invocation.environment().get(env::NODE_KEY) else {
        let message =
            "joining needs an invitation code, the hub's key in PLEXUS_NODE_KEY, or a certificate (--cert)";
        let hint = "`plexus node invite NAME` on the hub prints the complete command";
        return Err(Failure::new(Exit::Usage, message).hint(hint).into());
    };
    let Some(name) = &args.name else {
        let message = "a machine that joins with PLEXUS_NODE_KEY needs a name";
        return Err(Failure::new(Exit::Usage, message).hint("pass --name NAME").into());
    };
    Ok(JoinNodeParams { code: None, key: Some(key.to_owned()), name: Some(name.clone()), labels })
}
