//! The watch itself: from the start of a program to the end of the last that it started.

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

/// Between two looks at what the processes take, at least.
const TICK: Duration = Duration::from_millis(10);
/// A look may take this part of the time, whatever it costs.
const PART: u32 = 5;
/// Before whatever the program may start.
const FIRST: i32 = -10;

/// Runs these words, which begin the program, and watches it to its end.
pub(crate) fn watch(limits: &Limits, words: &[OsString]) -> io::Result<()> {
    let control = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let report = watched(limits, words, &control)
        .unwrap_or_else(|error| Report { failed: Some(error.to_string()), ..Report::default() });
    let mut text = serde_json::to_vec(&report)?;
    text.push(b'\n');
    // Whoever is gone is not told.
    let _ = (&control).write_all(&text);
    Ok(())
}

/// Why the watch ended.
enum End {
    Exited(WaitStatus),
    Over(Limit),
    Unwanted,
}

fn watched(limits: &Limits, words: &[OsString], control: &UnixStream) -> io::Result<Report> {
    set_child_subreaper(Some(getpid()))?;
    // Away from the terminal of the node, whose signals are not for it.
    setsid()?;
    let (program, arguments) = words.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let stdin = match &limits.stdin {
        Some(path) => Stdio::from(File::open(path)?),
        None => Stdio::null(),
    };
    let began = Instant::now();
    let child = Command::new(program).args(arguments).stdin(stdin).spawn()?;
    // Only root may; where it cannot be, the program steps back, and not its warden forward.
    let _ = setpriority_process(None, FIRST);
    // Where each session has a share of its own, a program could have as many shares as it likes.
    let _ = fs_err::write("/proc/self/autogroup", FIRST.to_string());
    let leader = Pid::from_child(&child);
    let mut usage = Usage::new(limits);
    let end = until_end(limits, leader, control, began, &mut usage);
    let duration = began.elapsed();
    let by_itself = matches!(end, Ok(End::Exited(_)));
    // Also where it cannot be watched any more.
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

/// Signals that the kernel sends for a limit and nothing else.
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
    // Where there is none, its end is seen at the next look.
    let handle = pidfd_open(leader, PidfdFlags::empty()).ok();
    loop {
        if let Some(status) = reaped(leader)? {
            return Ok(End::Exited(status));
        }
        if began.elapsed() >= limits.time {
            return Ok(End::Over(Limit::Time));
        }
        let looked = Instant::now();
        if let Some(limit) = usage.look() {
            return Ok(End::Over(limit));
        }
        let pause = (looked.elapsed() * PART).max(TICK);
        let left = limits.time.saturating_sub(began.elapsed());
        if closed(control, handle.as_ref(), pause.min(left))? {
            return Ok(End::Unwanted);
        }
    }
}

/// Asks about all who have ended; gives how the leader ended, if it did.
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

/// Waits for a while, or until the leader has ended. True: nobody is at the other end any more.
fn closed(control: &UnixStream, leader: Option<&OwnedFd>, pause: Duration) -> io::Result<bool> {
    let pause = Timespec { tv_sec: pause.as_secs().cast_signed(), tv_nsec: i64::from(pause.subsec_nanos()) };
    let mut waited = vec![PollFd::new(control, PollFlags::IN)];
    waited.extend(leader.map(|leader| PollFd::new(leader, PollFlags::IN)));
    match poll(&mut waited, Some(&pause)) {
        // Nothing is ever written to it: what can be read is its end.
        Ok(_) => Ok(!waited[0].revents().is_empty()),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}
