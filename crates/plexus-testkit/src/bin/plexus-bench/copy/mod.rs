//! `plexus-bench copy`: the speed of `plexus cp` with a large file, compared with `scp` in one run.
//!
//! A hub and a node as their users run them, and a separate SSH server, all on this machine over loopback. Both
//! copy the same file alternately, to the other end and back, and the copies are compared. The baseline is a plain
//! copy on the disk, which no network copy can beat.

mod report;
mod sshd;

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use serde::Serialize;

use crate::args::MeasurementArgs;
use crate::contenders;
use crate::machine::Machine;
use crate::nodes::site::{NODE, Site};
use crate::report::write_measurement;
use crate::run::median;
use sshd::Sshd;

/// Seconds of one way of copying.
#[derive(Debug, Serialize)]
struct CopyTimes {
    name: String,
    /// To the other machine, and back; medians.
    there: f64,
    back: f64,
}

#[derive(Debug, Serialize)]
struct Measured {
    machine: Machine,
    megabytes: u64,
    rounds: usize,
    ways: Vec<CopyTimes>,
    /// Why scp was not measured, if it was not.
    without_scp: Option<String>,
}

pub(crate) async fn run(args: MeasurementArgs, folder: &Path) -> Result<()> {
    let plexus = args.plexus()?;
    let machine = Machine::detect(&plexus)?;
    let (rounds, megabytes) = if args.quick { (1, 64) } else { (3, 1_000) };
    let source = folder.join("source");
    write_noise(&source, megabytes)?;
    let site = Site::open(&plexus, &folder.join("site"), Some("ws")).await?;
    let (sshd, without_scp) = match Sshd::start(&folder.join("ssh")).await {
        Ok(sshd) => (Some(sshd), None),
        Err(why) => {
            eprintln!("without scp: {why:#}");
            (None, Some(format!("{why:#}")))
        }
    };
    // A folder in which the node's policy allows writing.
    let (there, back) = (folder.join("site/node/there"), folder.join("back"));
    let (mut own, mut ssh, mut disk) = (Times::default(), Times::default(), Times::default());
    for round in 1..=rounds {
        eprintln!("round {round} of {rounds}");
        let cp = |from: &str, to: &str| {
            let mut command = contenders::command(&plexus, &folder.join("site/hub"));
            let data = folder.join("site/hub/data");
            command.args(["cp", "--force", from, to, "--data-dir"]).arg(data);
            command
        };
        let remote = format!("{NODE}:{}", there.display());
        own.there.push(timed(cp(text(&source)?, &remote), &source, &there)?);
        let remote = format!("{NODE}:{}", source.display());
        own.back.push(timed(cp(&remote, text(&back)?), &source, &back)?);
        if let Some(sshd) = &sshd {
            ssh.there.push(timed(sshd.scp(text(&source)?, &sshd.remote(&there)), &source, &there)?);
            ssh.back.push(timed(sshd.scp(&sshd.remote(&source), text(&back)?), &source, &back)?);
        }
        let plain = |from: &Path, to: &Path| {
            let mut command = Command::new("cp");
            command.arg(from).arg(to);
            command
        };
        disk.there.push(timed(plain(&source, &there), &source, &there)?);
        disk.back.push(timed(plain(&source, &back), &source, &back)?);
    }
    drop(site);
    let mut ways = vec![own.medians("`plexus cp`")?];
    if sshd.is_some() {
        ways.push(ssh.medians("`scp`")?);
    }
    ways.push(disk.medians("`cp` on the disk")?);
    let measured = Measured { machine, megabytes, rounds, ways, without_scp };
    write_measurement("copy", &report::text(&measured), &measured, &args)
}

#[derive(Debug, Default)]
struct Times {
    there: Vec<f64>,
    back: Vec<f64>,
}

impl Times {
    fn medians(self, name: &str) -> Result<CopyTimes> {
        let (there, back) = (median(self.there.into_iter())?, median(self.back.into_iter())?);
        Ok(CopyTimes { name: name.to_owned(), there, back })
    }
}

/// Runs a copy, compares the result with the source and removes it.
fn timed(mut command: Command, source: &Path, target: &Path) -> Result<f64> {
    let begun = Instant::now();
    let output = command.stdin(Stdio::null()).output().context("a program that copies")?;
    let seconds = begun.elapsed().as_secs_f64();
    ensure!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    let same = Command::new("cmp").args([source, target]).status().context("cmp")?;
    ensure!(same.success(), "{command:?}: the copy differs from the source");
    std::fs::remove_file(target).with_context(|| target.display().to_string())?;
    Ok(seconds)
}

/// Writes an incompressible file.
fn write_noise(path: &Path, megabytes: u64) -> Result<()> {
    use std::io::{Read as _, Write as _};
    let mut random = std::fs::File::open("/dev/urandom").context("/dev/urandom")?;
    let mut file = std::fs::File::create(path).with_context(|| path.display().to_string())?;
    let mut block = vec![0; 1_000_000];
    for _ in 0..megabytes {
        random.read_exact(&mut block).context("noise")?;
        file.write_all(&block).context("a file with noise")?;
    }
    Ok(())
}

fn text(path: &Path) -> Result<&str> {
    path.to_str().context("a path that is text")
}
