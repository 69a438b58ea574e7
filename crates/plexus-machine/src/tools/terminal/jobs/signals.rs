//! Signals by their names.

use plexus_kit::process::Signal;

/// Those that a job can be sent. The keeper of a job outlives them all but `KILL`, after which it is not needed.
const SENT: [(&str, Signal); 10] = [
    ("HUP", Signal::HUP),
    ("INT", Signal::INT),
    ("QUIT", Signal::QUIT),
    ("KILL", Signal::KILL),
    ("USR1", Signal::USR1),
    ("USR2", Signal::USR2),
    ("TERM", Signal::TERM),
    ("STOP", Signal::STOP),
    ("CONT", Signal::CONT),
    ("WINCH", Signal::WINCH),
];

/// Others that end a program.
const ENDING: [(&str, Signal); 10] = [
    ("ILL", Signal::ILL),
    ("TRAP", Signal::TRAP),
    ("ABRT", Signal::ABORT),
    ("BUS", Signal::BUS),
    ("FPE", Signal::FPE),
    ("SEGV", Signal::SEGV),
    ("PIPE", Signal::PIPE),
    ("ALRM", Signal::ALARM),
    ("XCPU", Signal::XCPU),
    ("XFSZ", Signal::XFSZ),
];

/// `TERM`, `SIGTERM` and `term` are the same.
pub(crate) fn to_send(name: &str) -> Option<Signal> {
    let name = name.to_ascii_uppercase();
    let name = name.strip_prefix("SIG").unwrap_or(&name);
    SENT.iter().find(|(known, _)| *known == name).map(|(_, signal)| *signal)
}

/// Any that has a name here.
pub(super) fn named(name: &str) -> Option<Signal> {
    SENT.iter().chain(&ENDING).find(|(known, _)| *known == name).map(|(_, signal)| *signal)
}

pub(in crate::tools) fn name(signal: i32) -> Option<&'static str> {
    SENT.iter().chain(&ENDING).find(|(_, known)| known.as_raw() == signal).map(|(name, _)| *name)
}

/// The signal that a shell means with an exit code.
pub(super) fn of_status(code: i32) -> Option<&'static str> {
    name(code.checked_sub(128)?)
}
