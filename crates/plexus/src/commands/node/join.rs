//! `plexus node join`: makes this machine a node of a hub.

use clap::Args;
use plexus_kit::{Clock, env, private_file};
use plexus_node::{Credential, HubClient};
use plexus_proto::api::JoinNodeParams;
use serde_json::json;

use super::place::{self, TlsArgs};
use crate::arguments;
use crate::commands::Invocation;
use crate::failure::{Exit, Failure};
use crate::output::one_line;
use crate::shell;

#[derive(Debug, Args)]
pub(super) struct JoinArgs {
    /// Address of the hub, such as https://hub.example
    #[arg(value_name = "HUB_URL")]
    address: String,
    /// The code that `plexus node invite` printed; without one, the certificate of --cert is used, or the key in
    /// PLEXUS_NODE_KEY
    code: Option<String>,
    /// With PLEXUS_NODE_KEY: what the machine is to be called
    #[arg(long, conflicts_with = "code")]
    name: Option<String>,
    /// With PLEXUS_NODE_KEY: a label of it, such as role=nas; may be repeated
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = arguments::label, conflicts_with = "code")]
    labels: Vec<(String, String)>,
    /// Join although this folder has joined before; that membership is given up
    #[arg(long)]
    again: bool,
    #[command(flatten)]
    tls: TlsArgs,
}

pub(super) async fn run(args: JoinArgs, invocation: &Invocation<'_>) -> anyhow::Result<()> {
    let out = &invocation.out;
    let data_dir = place::data_dir(invocation)?;
    if !args.again
        && let Some(before) = place::joined(&data_dir)?
    {
        let message = format!(
            "this machine has joined {} as {} already (data folder {})",
            one_line(&before.hub),
            one_line(&before.name),
            data_dir.display()
        );
        let hint = "run `plexus node run`; --again replaces that, and another --data-dir makes a second node";
        return Err(Failure::new(Exit::Usage, message).hint(hint).into());
    }
    let hub = HubClient::new(&args.address, &args.tls.options()?).map_err(place::refused)?;
    let params = params(&args, invocation)?;
    // A code is good once: what can fail here is better tried before.
    private_file::create_dir(&data_dir)?;
    let given = hub.join(&params).await.map_err(place::refused)?;
    let credential = Credential::new(&hub, given, &Clock::system());
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
        "`{} node run{folder}` links it to the hub for as long as it runs.",
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
        let message = "joining needs the code of an invitation, the hub's key in PLEXUS_NODE_KEY, or a certificate (--cert)";
        let hint = "`plexus node invite NAME` on the hub prints the whole command";
        return Err(Failure::new(Exit::Usage, message).hint(hint).into());
    };
    let Some(name) = &args.name else {
        let message = "a machine that joins with PLEXUS_NODE_KEY needs a name";
        return Err(Failure::new(Exit::Usage, message).hint("pass --name NAME").into());
    };
    Ok(JoinNodeParams { code: None, key: Some(key.to_owned()), name: Some(name.clone()), labels })
}
