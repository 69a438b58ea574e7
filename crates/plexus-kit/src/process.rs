//! Processes of others: ended with all that they have started, also when this one is killed.

mod guardian;

use rustix::process::{Pid, kill_process_group};

pub use guardian::Guardian;
pub use rustix::process::Signal;

/// Kills its process group when it is dropped.
///
/// A group keeps its number from being given to another as long as any process is in it. When none is, the kernel
/// says so, and would have had to hand out all other numbers first to be wrong.
#[derive(Debug)]
pub struct Group(u32);

impl Group {
    /// The group that a process leads.
    #[must_use]
    pub fn of(leader: u32) -> Self {
        Self(leader)
    }

    pub fn signal(&self, signal: Signal) {
        if let Some(group) = Pid::from_raw(self.0.cast_signed()) {
            // It fails when nobody is left, as it should be.
            let _ = kill_process_group(group, signal);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}
