//! `plexus node install` and `uninstall`: the node as a systemd service.

use super::membership;
use crate::commands::Invocation;
use crate::commands::service::{self, InstallArgs, NODE, Scope, USER, UninstallArgs};
use crate::shell;

pub(super) async fn install(args: &InstallArgs, invocation: &Invocation<'_>) -> anyhow::Result<()> {
    let scope = args.unit.scope();
    let join_steps = |data_dir: &std::path::Path| match scope {
        Scope::System => {
            let (plexus, folder) = (shell::plexus(invocation.environment()), shell::word(data_dir));
            vec![format!(
                "If this machine has not joined yet: `runuser -u {USER} -- {plexus} --data-dir {folder} node join HUB_URL CODE`"
            )]
        }
        Scope::User if matches!(membership::credential(data_dir), Ok(Some(_))) => vec![],
        Scope::User => vec![
            "This machine has not joined yet: `plexus node invite NAME` on the hub prints the command."
                .to_owned(),
        ],
    };
    service::install(&NODE, args, || membership::data_dir(invocation), join_steps, invocation).await
}

pub(super) async fn uninstall(args: &UninstallArgs, invocation: &Invocation<'_>) -> anyhow::Result<()> {
    service::uninstall(&NODE, args, invocation).await
}
