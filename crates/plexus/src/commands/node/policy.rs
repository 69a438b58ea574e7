//! `plexus node policy`: what may be done on this machine, and what holds commands to it.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use plexus_kit::findings::Problem;
use plexus_kit::{config, env};
use plexus_machine::launch::{Launcher, Missing};
use plexus_machine::policy::{self, PathPattern, Policy};
use serde_json::{Value, json};

use super::place;
use crate::commands::Invocation;
use crate::failure::{Exit, Failure};
use crate::output::{self, Output};

/// In the data folder of a hub.
const LOCAL: &str = "local-node";

#[derive(Debug, Args)]
pub(super) struct PolicyArgs {
    /// Print all defaults, with what each means: a file to begin with
    #[arg(long, conflicts_with_all = ["check", "local"])]
    default: bool,
    /// Say everything that is wrong with a file, or with that of this machine, and exit with 1 if something is
    #[arg(long, value_name = "FILE", num_args = 0..=1)]
    check: Option<Option<PathBuf>>,
    /// Of the hub's own machine: --data-dir is the hub's folder then
    #[arg(long)]
    local: bool,
}

/// A folder of a node, and what holds there.
struct Place {
    data_dir: PathBuf,
    /// Denied as the node's own folder is.
    private: Vec<PathBuf>,
}

pub(super) fn run(args: PolicyArgs, invocation: &Invocation<'_>) -> anyhow::Result<ExitCode> {
    if args.default {
        output::write_bytes(policy::DEFAULT.as_bytes())?;
        return Ok(Exit::Ok.into());
    }
    let (out, environment) = (&invocation.out, invocation.environment());
    let place = if args.local { local(invocation)? } else { Place::own(invocation)? };
    let own = place.data_dir.join(policy::FILE);
    let named = args.check.as_ref().and_then(Clone::clone);
    if let Some(named) = named.as_ref().filter(|named| !named.exists()) {
        let message = format!("there is no file {}", named.display());
        return Err(Failure::new(Exit::Usage, message).hint("name the file to check").into());
    }
    let file = named.unwrap_or(own);
    let policy = policy::check(&file, environment, &place.data_dir, &place.private);
    match (args.check.is_some(), policy) {
        (true, checked) => report(out, &file, checked.err().unwrap_or_default()),
        (false, Err(problems)) => report(out, &file, problems),
        (false, Ok(policy)) => {
            let program = std::env::current_exe()?;
            show(out, &file, &policy, &Launcher::new(program, environment))?;
            Ok(Exit::Ok.into())
        }
    }
}

impl Place {
    fn own(invocation: &Invocation<'_>) -> anyhow::Result<Self> {
        Ok(Self { data_dir: place::data_dir(invocation)?, private: Vec::new() })
    }
}

fn local(invocation: &Invocation<'_>) -> anyhow::Result<Place> {
    let environment = invocation.environment();
    let hub = invocation
        .data_dir()
        .map(PathBuf::from)
        .or_else(|| environment.get(env::DATA_DIR).map(PathBuf::from))
        .or_else(|| config::default_data_dir(environment));
    let Some(hub) = hub else {
        let message = "neither HOME nor XDG_DATA_HOME says where a data folder could be";
        return Err(Failure::new(Exit::Usage, message).hint("name one with --data-dir").into());
    };
    let hub = std::path::absolute(hub)?;
    Ok(Place { data_dir: hub.join(LOCAL), private: vec![hub] })
}

fn report(out: &Output, file: &Path, problems: Vec<Problem>) -> anyhow::Result<ExitCode> {
    if out.json() {
        let each = problems
            .iter()
            .map(|Problem { field, what, fix, .. }| json!({ "field": field, "problem": what, "fix": fix }));
        let found = json!({ "file": file, "problems": each.collect::<Vec<_>>() });
        out.json_line(&found.to_string())?;
    } else if problems.is_empty() {
        out.line(&format!("{}: nothing is wrong with it.", file.display()))?;
    }
    if !out.json() {
        problems.iter().try_for_each(|problem| out.line(&problem.to_string()))?;
    }
    Ok(if problems.is_empty() { Exit::Ok } else { Exit::Failed }.into())
}

fn show(out: &Output, file: &Path, policy: &Policy, launcher: &Launcher) -> anyhow::Result<()> {
    let (held, missing) = (launcher.held(policy.sandbox), launcher.missing(policy.sandbox.network));
    let described = described(policy);
    let work = policy.work_folder().map_err(|error| error.to_string());
    if out.json() {
        let mut all = json!({
            "file": file,
            "file_exists": file.exists(),
            "working_folder": work.ok(),
            "sandbox": {
                "asked": policy.sandbox.level,
                "held": held.as_ref().ok(),
                "network": policy.sandbox.network,
                "missing": missing,
            },
        });
        for (section, values) in described {
            all[section] =
                Value::Object(values.into_iter().map(|(key, value)| (key.to_owned(), value)).collect());
        }
        return out.json_line(&all.to_string());
    }
    let place = match file.exists() {
        true => file.display().to_string(),
        false => format!("{} (not there: the defaults hold)", file.display()),
    };
    let asked = serde_json::to_value(policy.sandbox.level)?;
    let in_effect = match &held {
        Ok(held) => held.to_string(),
        Err(_) => "unavailable: nothing is run".to_owned(),
    };
    out.fields(&[
        ("file", place),
        ("sandbox", in_effect),
        ("asked for", asked.as_str().unwrap_or_default().to_owned()),
        ("network", if policy.sandbox.network { "yes" } else { "no" }.to_owned()),
        ("working folder", work.map_or_else(|why| format!("none: {why}"), |work| work.display().to_string())),
    ])?;
    for Missing { level, because } in &missing {
        out.line(&format!("{level} does not work here: {because}"))?;
    }
    for (section, values) in described {
        out.block(&format!("\n[{section}]\n"))?;
        for (key, value) in values {
            out.line(&format!("{key} = {value}"))?;
        }
    }
    Ok(())
}

/// Everything but the sandbox, by its keys.
fn described(policy: &Policy) -> Vec<(&'static str, Vec<(&'static str, Value)>)> {
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
