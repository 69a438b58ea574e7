//! Parses `node.toml` into a policy, or reports all its problems at once.

use std::path::{Path, PathBuf};
use std::time::Duration;

use plexus_kit::Environment;
use plexus_kit::findings::{Findings, Problem};
use plexus_kit::syntax::Format;
use serde_json::Value;

use super::document::{Document, SCHEMA};
use super::{
    CodeLimits, CommandRules, FileRules, ImageRules, PathPattern, Policy, SandboxRules, SshRules, ToolRules,
    VariableRules, credentials, home, work,
};

/// Variables that a program needs to find other programs and its files, and to format its text. Any other variable
/// may be secret.
const INHERITED_VARIABLES: &[&str] =
    &["PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_*", "TZ", "TERM", "TMPDIR", "XDG_*"];

pub(super) fn standard(environment: &Environment, data_dir: &Path) -> Policy {
    let mut findings = Findings::new(PathBuf::new());
    validate(Document::default(), environment, data_dir, &mut findings)
}

/// Parses a policy.
pub(super) fn policy(
    text: &str,
    file: &Path,
    environment: &Environment,
    data_dir: &Path,
) -> Result<Policy, Vec<Problem>> {
    let mut findings = Findings::new(file.to_owned());
    let document = match Format::Toml.parse(text) {
        Ok(mut written) => {
            SCHEMA.check(&mut written, &mut findings);
            serde_json::from_value(Value::Object(written)).unwrap_or_else(|_| {
                findings.unusable("cannot be read", "compare it with `plexus node policy --default`");
                Document::default()
            })
        }
        Err(what) => {
            findings
                .unusable(what, "correct it, or see `plexus node policy --default` for what it looks like");
            Document::default()
        }
    };
    let policy = validate(document, environment, data_dir, &mut findings);
    if findings.problems.is_empty() { Ok(policy) } else { Err(findings.problems) }
}

fn validate(
    document: Document,
    environment: &Environment,
    data_dir: &Path,
    findings: &mut Findings,
) -> Policy {
    let Document { tools, files, commands, environment: variables, sandbox, code, ssh, images } = document;
    let home = home(environment);
    let texts = |configured: Option<Vec<String>>, default: &[&str]| {
        configured.unwrap_or_else(|| default.iter().map(|text| (*text).to_owned()).collect())
    };
    let commands = CommandRules::new(&texts(commands.allow, &["*"]), &texts(commands.deny, &[]));
    // A variable such as `PATH`, `LD_PRELOAD` or `GIT_SSH_COMMAND` can change which program runs.
    let settable: &[&str] = if commands.are_restricted() { &[] } else { &["*"] };
    // The allowlist does not apply on a host that leads back to this machine, which this machine itself may be.
    let hosts = settable;
    let mut paths = |key: &str, configured: Option<Vec<String>>, default: &[&str]| {
        let configured = texts(configured, default);
        let parsed = configured.iter().enumerate().filter_map(|(index, text)| {
            let pattern = PathPattern::parse(text, &home);
            if pattern.is_none() {
                let field = format!("files.{key}[{index}]");
                findings.problem(field, "is not a full path", "begin it with / or ~/, without `..` in it");
            }
            pattern
        });
        parsed.collect::<Vec<_>>()
    };
    let read = paths("read", files.read, &["/"]);
    let write = paths("write", files.write, &["~", "/tmp"]);
    let read_only = paths("read_only", files.read_only, credentials::LOGIN_FILES);
    let mut deny = paths("deny", files.deny, &[]);
    let in_home = credentials::HOME_PATHS.iter().map(|path| format!("~/{path}"));
    let of_machine = credentials::MACHINE_PATHS.iter().map(|path| (*path).to_owned());
    let own = data_dir.display().to_string();
    deny.extend(in_home.chain(of_machine).chain([own]).filter_map(|text| PathPattern::parse(&text, &home)));
    let rules = FileRules {
        read: with_real_paths(read),
        write: with_real_paths(write),
        read_only: with_real_paths(read_only),
        deny: with_real_paths(deny),
    };
    let work = work_folder(files.work.as_deref(), &home, &rules, findings);
    Policy {
        tools: ToolRules { on: texts(tools.on, &["*"]), off: texts(tools.off, &[]) },
        files: rules,
        work,
        commands,
        environment: VariableRules {
            pass: texts(variables.pass, INHERITED_VARIABLES),
            set: texts(variables.set, settable),
        },
        sandbox: SandboxRules {
            level: sandbox.level.unwrap_or_default(),
            network: sandbox.network.unwrap_or(true),
        },
        code: CodeLimits {
            time: Duration::from_secs(code.seconds.unwrap_or(60)),
            cpu: Duration::from_secs(code.cpu_seconds.unwrap_or(60)),
            memory: code.memory_mb.unwrap_or(1024) << 20,
            file: code.file_mb.unwrap_or(64) << 20,
            processes: code.processes.unwrap_or(64),
            output: code.output_kb.unwrap_or(256) << 10,
        },
        ssh: SshRules { hosts: texts(ssh.hosts, hosts) },
        images: ImageRules {
            urls: images.urls.unwrap_or(true),
            private_networks: images.private_networks.unwrap_or(false),
        },
    }
}

/// The working folder that the file names, or the default one. A named folder must be usable.
fn work_folder(
    configured: Option<&str>,
    home: &Path,
    rules: &FileRules,
    findings: &mut Findings,
) -> Option<PathBuf> {
    let Some(configured) = configured else {
        // If the home folder is the root, no folder in it belongs to the user alone.
        let default = PathPattern::parse(work::DEFAULT, home).filter(|_| home != Path::new("/"));
        return default.map(|path| path.as_path().to_owned());
    };
    let path = PathPattern::parse(configured, home).filter(|path| !path.is_pattern());
    let Some(path) = path.map(|path| path.as_path().to_owned()) else {
        findings.problem(
            "files.work",
            "is not a full path",
            "begin it with / or ~/, without `..` or `*` in it",
        );
        return None;
    };
    if let Err(refused) = rules.check_work(&path) {
        let fix = "name a folder that `files.write` covers and that contains nothing protected, such as ~/plexus-work";
        findings.problem("files.work", refused.to_string(), fix);
    }
    Some(path)
}

/// Adds the targets of symlinks, because real paths are compared with these patterns.
fn with_real_paths(patterns: Vec<PathPattern>) -> Vec<PathPattern> {
    let mut all = patterns;
    for index in 0..all.len() {
        let real = fs_err::canonicalize(all[index].as_path()).ok();
        if let Some(real) = real.filter(|real| real != all[index].as_path()) {
            all.push(PathPattern::real(real));
        }
    }
    all
}
