//! `plexus node policy`: shows and checks what a hub may do on this machine, and the sandbox that enforces it.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use plexus_kit::findings::Problem;
use plexus_kit::{config, env};
use plexus_machine::launch::{Launcher, MissingLevel};
use plexus_machine::policy::{self, PathPattern, Policy};
use serde_json::{Value, json};

use super::membership;
use crate::commands::Invocation;
use crate::failure::{Exit, Failure};
use crate::output::{self, Output};

/// Folder of the hub's own node, in the hub's data folder.
const LOCAL_NODE: &str = "local-node";

#[derive(Debug, Args)]
pub(super) struct PolicyArgs {
    /// Print a policy file with all defaults, explained
    #[arg(long, conflicts_with_all = ["check", "local"])]
    default: bool,
    /// Report all errors in a file, by default this machine's policy; the exit code is 1 if there are any
    #[arg(long, value_name = "FILE", num_args = 0..=1)]
    check: Option<Option<PathBuf>>,
    /// Use the policy of the hub's own machine; --data-dir is then the hub's data folder
    #[arg(long)]
    local: bool,
}

/// The data folder of a node.
struct NodeFolder {
    data_dir: PathBuf,
    /// Further folders that tools and commands cannot access.
    private: Vec<PathBuf>,
}

pub(super) fn run(args: PolicyArgs, invocation: &Invocation<'_>) -> anyhow::Result<ExitCode> {
    if args.default {
        output::write_bytes(policy::DEFAULT.as_bytes())?;
        return Ok(Exit::Ok.into());
    }
    let (out, environment) = (&invocation.out, invocation.environment());
    let folder = if args.local { NodeFolder::of_hub(invocation)? } else { NodeFolder::of_node(invocation)? };
    let default_file = folder.data_dir.join(policy::FILE);
    let named = args.check.as_ref().and_then(Clone::clone);
    if let Some(named) = named.as_ref().filter(|named| !named.exists()) {
        let message = format!("{} does not exist", named.display());
        return Err(Failure::new(Exit::Usage, message).hint("pass the path of a policy file").into());
    }
    let file = named.unwrap_or(default_file);
    let policy = policy::check(&file, environment, &folder.data_dir, &folder.private);
    match (args.check.is_some(), policy) {
        (true, checked) => report_problems(out, &file, checked.err().unwrap_or_default()),
        (false, Err(problems)) => report_problems(out, &file, problems),
        (false, Ok(policy)) => {
            let program = std::env::current_exe()?;
            show(out, &file, &policy, &Launcher::new(program, environment))?;
            Ok(Exit::Ok.into())
        }
    }
}

impl NodeFolder {
    fn of_node(invocation: &Invocation<'_>) -> anyhow::Result<Self> {
        Ok(Self { data_dir: membership::data_dir(invocation)?, private: Vec::new() })
    }

    /// The folder of the hub's own node.
    fn of_hub(invocation: &Invocation<'_>) -> anyhow::Result<Self> {
        let environment = invocation.environment();
        let hub = invocation
            .data_dir()
            .map(PathBuf::from)
            .or_else(|| environment.get(env::DATA_DIR).map(PathBuf::from))
            .or_else(|| config::default_data_dir(environment));
        let Some(hub) = hub else {
            let message = "no data folder is known: neither HOME nor XDG_DATA_HOME is set";
            return Err(Failure::new(Exit::Usage, message).hint("name a folder with --data-dir").into());
        };
        let hub = std::path::absolute(hub)?;
        Ok(Self { data_dir: hub.join(LOCAL_NODE), private: vec![hub] })
    }
}

/// Prints the problems. The exit code is 1 if there are any.
fn report_problems(out: &Output, file: &Path, problems: Vec<Problem>) -> anyhow::Result<ExitCode> {
    if out.json() {
        let each = problems
            .iter()
            .map(|Problem { field, what, fix, .. }| json!({ "field": field, "problem": what, "fix": fix }));
        let found = json!({ "file": file, "problems": each.collect::<Vec<_>>() });
        out.json_line(&found.to_string())?;
    } else if problems.is_empty() {
        out.line(&format!("{}: the policy is valid.", file.display()))?;
    }
    if !out.json() {
        problems.iter().try_for_each(|problem| out.line(&problem.to_string()))?;
    }
    Ok(if problems.is_empty() { Exit::Ok } else { Exit::Failed }.into())
}

fn show(out: &Output, file: &Path, policy: &Policy, launcher: &Launcher) -> anyhow::Result<()> {
    let (in_effect, missing) =
        (launcher.sandbox_level(policy.sandbox), launcher.missing_levels(policy.sandbox.network));
    let sections = sections(policy);
    let work = policy.work_folder().map_err(|error| error.to_string());
    if out.json() {
        let mut all = json!({
            "file": file,
            "file_exists": file.exists(),
            "working_folder": work.ok(),
            "sandbox": {
                "asked": policy.sandbox.level,
                "held": in_effect.as_ref().ok(),
                "network": policy.sandbox.network,
                "missing": missing,
            },
        });
        for (section, values) in sections {
            all[section] =
                Value::Object(values.into_iter().map(|(key, value)| (key.to_owned(), value)).collect());
        }
        return out.json_line(&all.to_string());
    }
    let shown_file = match file.exists() {
        true => file.display().to_string(),
        false => format!("{} (does not exist: the defaults apply)", file.display()),
    };
    let configured = serde_json::to_value(policy.sandbox.level)?;
    let in_effect = match &in_effect {
        Ok(level) => level.to_string(),
        Err(_) => "unavailable: no command is run".to_owned(),
    };
    out.fields(&[
        ("file", shown_file),
        ("sandbox", in_effect),
        ("configured", configured.as_str().unwrap_or_default().to_owned()),
        ("network", if policy.sandbox.network { "yes" } else { "no" }.to_owned()),
        ("working folder", work.map_or_else(|why| format!("none: {why}"), |work| work.display().to_string())),
    ])?;
    for MissingLevel { level, because } in &missing {
        out.line(&format!("{level} is not available here: {because}"))?;
    }
    for (section, values) in sections {
        out.block(&format!("\n[{section}]\n"))?;
        for (key, value) in values {
            out.line(&format!("{key} = {value}"))?;
        }
    }
    Ok(())
}

/// All settings except the sandbox, by section and key.
fn sections(policy: &Policy) -> Vec<(&'static str, Vec<(&'static str, Value)>)> {
    let paths = |patterns: &[PathPattern]| {
        Value::from(patterns.iter().map(|path| path.as_path().display().to_string()).collect::<Vec<_>>())
    };
    let Policy { tools, files, commands, environment, code, ssh, images, .. } = policy;
    let (allow, deny) = commands.lists();
    vec![
        ("tools", vec![("on", json!(tools.on)), ("off", json!(tools.off))]),
        (
            "files",
            vec![
                ("read", paths(&files.read)),
                ("write", paths(&files.write)),
                ("work", json!(policy.work)),
                ("read_only", paths(&files.read_only)),
                ("deny", paths(&files.deny)),
            ],
        ),
        ("commands", vec![("allow", json!(allow)), ("deny", json!(deny))]),
        ("environment", vec![("pass", json!(environment.pass)), ("set", json!(environment.set))]),
        (
            "code",
            vec![
                ("seconds", json!(code.time.as_secs())),
                ("cpu_seconds", json!(code.cpu.as_secs())),
                ("memory_mb", json!(code.memory >> 20)),
                ("file_mb", json!(code.file >> 20)),
                ("processes", json!(code.processes)),
                ("output_kb", json!(code.output >> 10)),
            ],
        ),
        ("ssh", vec![("hosts", json!(ssh.hosts))]),
        ("images", vec![("urls", json!(images.urls)), ("private_networks", json!(images.private_networks))]),
    ]
}
