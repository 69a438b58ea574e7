//! Faults under load, and the invariants afterwards.
//!
//! A [`Scene`] is a system under test: it defines the writers, the possible faults, how each one is injected, and
//! what must hold after a round. [`rounds`] plays it: writers write concurrently, the faults of the round's
//! [`Schedule`] are injected, then the scene checks the result. Everything is drawn from one [`Seed`]; a failed
//! round prints its schedule and how to repeat it.
//!
//! The module is independent of the system under test: a hub, a node, an outbox or an upstream.

mod load;
mod schedule;
mod seed;
#[cfg(test)]
mod tests;

use std::fmt;
use std::io::Write as _;
use std::time::Instant;

use rand::rngs::StdRng;

use load::under_load;
pub use load::{Attempt, Load, Sent, UnansweredPolicy, Write, Writer, exactly_once};
pub use schedule::{Schedule, ScheduledFault};
pub use seed::Seed;

/// A system that is written to while faults occur.
pub trait FaultScenario: Send {
    type Writer: Writer;
    type Fault: fmt::Debug + Send;

    /// The faults of a round. All random choices are made here, before the round starts, so that the same seed
    /// gives the same schedule.
    fn schedule(&self, rng: &mut StdRng) -> Schedule<Self::Fault>;

    /// The writers of this round.
    fn writers(&mut self, round: u64) -> impl Future<Output = Vec<Self::Writer>> + Send;

    /// Injects a fault and recovers from it: when this returns, the scene accepts writes again.
    fn inject(&mut self, fault: Self::Fault) -> impl Future<Output = ()> + Send;

    /// Compares the sent writes with the stored ones; panics if they differ.
    fn check(&mut self, sent: Vec<Sent<Self::Writer>>) -> impl Future<Output = ()> + Send;
}

/// Summary of the rounds, which shows whether they tested anything.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Tally {
    pub rounds: u64,
    pub faults: usize,
    pub acknowledged: usize,
    pub unanswered: usize,
    pub retries: usize,
}

impl Tally {
    fn count<W: Writer>(&mut self, sent: &[Sent<W>]) {
        for sent in sent {
            self.acknowledged += sent.acknowledged().count();
            self.unanswered += sent.unanswered().count();
            self.retries += sent.attempts.iter().map(|attempt| attempt.retries).sum::<usize>();
        }
    }
}

/// Plays a scene for a number of rounds, each on the state left by the previous one; or for a single round, if the
/// environment selects one.
pub async fn rounds<S: FaultScenario>(scene: &mut S, count: u64, load: Load) -> Tally {
    let (seed, began) = (Seed::choose(), Instant::now());
    let mut tally = Tally::default();
    for round in Seed::rounds(count) {
        let schedule = scene.schedule(&mut seed.round(round));
        let failure_report = FailureReport { seed, round, schedule: schedule.to_string() };
        tally.rounds += 1;
        tally.faults += schedule.len();
        let writers = scene.writers(round).await;
        let sent = under_load(writers, round, load, schedule.play(scene)).await;
        tally.count(&sent);
        scene.check(sent).await;
        drop(failure_report);
    }
    print_line(&format!("{} rounds in {:.1?} with {seed}: {tally:?}", tally.rounds, began.elapsed()));
    tally
}

/// Prints the round and how to repeat it if the test fails, after all other output.
struct FailureReport {
    seed: Seed,
    round: u64,
    schedule: String,
}

impl Drop for FailureReport {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let Self { seed, round, schedule } = self;
            let repeat_command = seed.repeat(*round);
            print_line(&format!(
                "the faults of round {round}: {schedule}\nrepeat it alone with {repeat_command}, or after the rounds before it with {seed}"
            ));
        }
    }
}

fn print_line(line: &str) {
    // Ignore a closed standard error.
    let _ = writeln!(std::io::stderr(), "{line}");
}
