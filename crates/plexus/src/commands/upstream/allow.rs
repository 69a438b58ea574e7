//! Allows the hub to run a server's command, by a flag or a prompt, and stores the permission.
//!
//! The hub does not accept such a permission over the network. This command writes it into the data folder. It requires the
//! local admin token, and a user who can read that token has the rights of the hub's owner anyway.

use std::path::PathBuf;

use clap::Args;
use plexus_kit::allowed_commands;

use crate::commands::Invocation;
use crate::failure::{Exit, Failure};
use crate::output::{Output, PromptReply};
use crate::target::Credential;

#[derive(Debug, Clone, Copy, Args)]
pub(super) struct AllowArgs {
    /// Allow the hub to run this command from now on, without asking
    #[arg(long)]
    pub(super) allow_command: bool,
}

/// The user, who may allow commands if the hub is on this machine and the local admin token is used.
pub(crate) struct Owner<'a> {
    out: &'a Output,
    /// The hub's data folder; none if the user may not allow commands.
    data_dir: Option<PathBuf>,
}

impl<'a> Owner<'a> {
    pub(crate) fn of(invocation: &'a Invocation<'_>) -> anyhow::Result<Self> {
        let target = invocation.target()?;
        let is_local = target.is_local && matches!(target.credential, Credential::Local(_));
        let data_dir = is_local.then(|| invocation.data_folder()).transpose()?;
        Ok(Self { out: &invocation.out, data_dir })
    }

    /// Sends a request. If the hub refuses its command and the user allows it, sends the request again.
    pub(super) async fn send<T>(
        &self,
        args: AllowArgs,
        request: impl AsyncFn() -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        let error = match request().await {
            Ok(answer) => return Ok(answer),
            Err(error) => error,
        };
        let Some(command) = error.downcast_ref::<Failure>().and_then(|failure| failure.command.clone())
        else {
            return Err(error);
        };
        match self.permit(args, std::slice::from_ref(&command)).await? {
            true => request().await,
            false => Err(self.with_hint(error)),
        }
    }

    /// Allows these commands if the flag was given or the user agrees at the terminal. Returns whether they are allowed.
    pub(super) async fn permit(&self, args: AllowArgs, commands: &[String]) -> anyhow::Result<bool> {
        let names = commands.iter().map(|command| format!("`{command}`")).collect::<Vec<_>>().join(", ");
        if args.allow_command && self.data_dir.is_none() {
            let message =
                format!("--allow-command cannot allow {names}: that requires the local admin token");
            return Err(Failure::new(Exit::Denied, message)
                .hint("run the command on the hub's machine as the hub's user, without PLEXUS_TOKEN")
                .into());
        }
        if self.data_dir.is_none() || !(args.allow_command || self.out.can_prompt()) {
            return Ok(false);
        }
        if !args.allow_command {
            self.out.note(&format!("The setting `upstreams.commands` does not list {names}."));
            let question = "Allow the hub to run it permanently? [y/N]";
            match self.out.prompt()?.ask(question).await {
                PromptReply::Line(answer) if matches!(answer.as_str(), "y" | "yes") => {}
                PromptReply::Line(_) | PromptReply::Eof => return Ok(false),
                PromptReply::Interrupted => {
                    return Err(Failure::new(Exit::Interrupted, "interrupted: nothing was changed").into());
                }
            }
        }
        self.allow(commands)?;
        Ok(true)
    }

    /// Stores that the hub may run these commands.
    pub(crate) fn allow(&self, commands: &[String]) -> anyhow::Result<()> {
        let Some(data_dir) = &self.data_dir else { return Ok(()) };
        allowed_commands::add(data_dir, commands).map_err(|error| {
            Failure::new(Exit::Failed, format!("cannot store the permission: {error}"))
                .hint("correct or remove that file")
        })?;
        let file = data_dir.join(allowed_commands::FILE);
        if !self.out.json() {
            let names = commands.join(", ");
            self.out.note(&format!("Allowed permanently: {names} (stored in {}).", file.display()));
        }
        Ok(())
    }

    /// Whether the user may allow commands.
    pub(crate) fn can_allow(&self) -> bool {
        self.data_dir.is_some()
    }

    /// Adds a hint that names the flag, if the user may allow commands.
    fn with_hint(&self, error: anyhow::Error) -> anyhow::Error {
        let mut failure = match error.downcast::<Failure>() {
            Ok(failure) if self.data_dir.is_some() => failure,
            Ok(failure) => return failure.into(),
            Err(error) => return error,
        };
        failure.hint = Some(
            "--allow-command lets the hub run it from now on. Or add the command to `upstreams.commands` in plexus.toml \
             and send the hub SIGHUP."
                .to_owned(),
        );
        failure.into()
    }
}
