//! The warden's main loop: from the start of a program to the end of its last process.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{
    Pid, PidfdFlags, WaitOptions, WaitStatus, getpid, pidfd_open, set_child_subreaper, setpriority_process,
    setsid,
};

use super::usage::Usage;
use super::{Limit, Limits, Report, ending};

/// The minimum interval between measurements.
const TICK: Duration = Duration::from_millis(10);
/// The interval is at least this multiple of a measurement's duration.
const PART: u32 = 5;
/// A higher priority than the program and its processes.
const FIRST: i32 = -10;

/// Starts the program with these arguments and watches it until it ends.
pub(crate) fn watch(limits: &Limits, words: &[OsString]) -> io::Result<()> {
    let control = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let report = watched(limits, words, &control)
        .unwrap_or_else(|error| Report { failed: Some(error.to_string()), ..Report::default() });
    let mut text = serde_json::to_vec(&report)?;
    text.push(b'\n');
    // The node may be gone.
    let _ = (&control).write_all(&text);
    Ok(())
}

/// The reason the watch ended.
enum End {
    Exited(WaitStatus),
    Over(Limit),
    Unwanted,
}

fn watched(limits: &Limits, words: &[OsString], control: &UnixStream) -> io::Result<Report> {
    set_child_subreaper(Some(getpid()))?;
    // Detach from the node's terminal, whose signals are not meant for the program.
    setsid()?;
    let (program, arguments) = words.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let stdin = match &limits.stdin {
        Some(path) => Stdio::from(File::open(path)?),
        None => Stdio::null(),
    };
    let began = Instant::now();
    let child = Command::new(program).args(arguments).stdin(stdin).spawn()?;
    // Requires root; otherwise only the program's priority is lowered.
    let _ = setpriority_process(None, FIRST);
    // With autogroups, a program could gain CPU shares by creating sessions.
    let _ = fs_err::write("/proc/self/autogroup", FIRST.to_string());
    let leader = Pid::from_child(&child);
    let mut usage = Usage::new(limits);
    let end = until_end(limits, leader, control, began, &mut usage);
    let duration = began.elapsed();
    let by_itself = matches!(end, Ok(End::Exited(_)));
    // Even if watching failed.
    let last = ending::end_all();
    let mut report = Report {
        duration,
        cpu: usage.cpu_in_all(),
        memory: usage.memory,
        processes: usage.processes,
        left: if by_itself { last.found } else { 0 },
        escaped: last.escaped,
        ..Report::default()
    };
    match end? {
        End::Exited(status) => {
            report.exit_code = status.exit_status();
            report.signal = status.terminating_signal();
            report.limit = report.signal.and_then(ended_by_kernel);
        }
        End::Over(limit) => {
            report.signal = Some(rustix::process::Signal::KILL.as_raw());
            report.limit = Some(limit);
        }
        End::Unwanted => {
            report.signal = Some(rustix::process::Signal::KILL.as_raw());
            report.cancelled = true;
        }
    }
    Ok(report)
}

/// Signals that the kernel sends only for an exceeded limit.
fn ended_by_kernel(signal: i32) -> Option<Limit> {
    use rustix::process::Signal;
    match signal {
        _ if signal == Signal::XCPU.as_raw() => Some(Limit::Cpu),
        _ if signal == Signal::XFSZ.as_raw() => Some(Limit::FileSize),
        _ => None,
    }
}

fn until_end(
    limits: &Limits,
    leader: Pid,
    control: &UnixStream,
    began: Instant,
    usage: &mut Usage<'_>,
) -> io::Result<End> {
    // Without a pidfd, the end is detected at the next measurement.
    let handle = pidfd_open(leader, PidfdFlags::empty()).ok();
    loop {
        if let Some(status) = reaped(leader)? {
            return Ok(End::Exited(status));
        }
        if began.elapsed() >= limits.time {
            return Ok(End::Over(Limit::Time));
        }
        let looked = Instant::now();
        if let Some(limit) = usage.check() {
            return Ok(End::Over(limit));
        }
        let pause = (looked.elapsed() * PART).max(TICK);
        let left = limits.time.saturating_sub(began.elapsed());
        if closed(control, handle.as_ref(), pause.min(left))? {
            return Ok(End::Unwanted);
        }
    }
}

/// Reaps all ended processes; returns the exit status of the leader if it ended.
fn reaped(leader: Pid) -> io::Result<Option<WaitStatus>> {
    let mut ended = None;
    loop {
        match rustix::process::wait(WaitOptions::NOHANG) {
            Ok(Some((pid, status))) if pid == leader => ended = Some(status),
            Ok(Some(_)) => {}
            Ok(None) | Err(rustix::io::Errno::CHILD) => return Ok(ended),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Waits for the interval or the end of the leader. Returns true if the other end of the socket is closed.
fn closed(control: &UnixStream, leader: Option<&OwnedFd>, pause: Duration) -> io::Result<bool> {
    let pause = Timespec { tv_sec: pause.as_secs().cast_signed(), tv_nsec: i64::from(pause.subsec_nanos()) };
    let mut waited = vec![PollFd::new(control, PollFlags::IN)];
    waited.extend(leader.map(|leader| PollFd::new(leader, PollFlags::IN)));
    match poll(&mut waited, Some(&pause)) {
        // Nothing is ever written to the socket, so it becomes readable only when it is closed.
        Ok(_) => Ok(!waited[0].revents().is_empty()),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}
