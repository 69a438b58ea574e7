//! Faults under load, and what must hold afterwards.
//!
//! A [`Scene`] is something under test: it says who writes to it, which faults may strike, how each
//! one is done, and what must hold when a round is over. [`rounds`] plays it: writers write all at
//! once, the faults of the round's [`Schedule`] strike amid them, then the scene checks. All of it is
//! drawn from one [`Seed`]; a round that fails prints its schedule and what repeats it.
//!
//! Nothing here knows what is written to: a hub today, a node, an outbox or an upstream tomorrow.

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
pub use load::{Attempt, Load, OnSilence, Sent, Write, Writer, exactly_once};
pub use schedule::{Schedule, Strike};
pub use seed::Seed;

/// Something that is written to while faults strike.
pub trait Scene: Send {
    type Writer: Writer;
    type Fault: fmt::Debug + Send;

    /// The faults of a round. Everything about them is drawn here, before the round begins, so that
    /// the same seed gives the same schedule.
    fn schedule(&self, rng: &mut StdRng) -> Schedule<Self::Fault>;

    /// Who writes in this round.
    fn writers(&mut self, round: u64) -> impl Future<Output = Vec<Self::Writer>> + Send;

    /// Does what a fault is, and makes whole again what can be: when this returns, the scene can be
    /// written to.
    fn strike(&mut self, fault: Self::Fault) -> impl Future<Output = ()> + Send;

    /// Compares what was sent with what is there; panics where they differ.
    fn check(&mut self, sent: Vec<Sent<Self::Writer>>) -> impl Future<Output = ()> + Send;
}

/// What the rounds came to, for a person who asks whether they tested anything.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Tally {
    pub rounds: u64,
    pub strikes: usize,
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

/// Plays a scene so many times, one round after the other on what the last one left behind; only one of
/// them where the environment asks for it.
pub async fn rounds<S: Scene>(scene: &mut S, count: u64, load: Load) -> Tally {
    let (seed, began) = (Seed::choose(), Instant::now());
    let mut tally = Tally::default();
    for round in Seed::rounds(count) {
        let schedule = scene.schedule(&mut seed.round(round));
        let told = Told { seed, round, schedule: schedule.to_string() };
        tally.rounds += 1;
        tally.strikes += schedule.len();
        let writers = scene.writers(round).await;
        let sent = under_load(writers, round, load, schedule.play(scene)).await;
        tally.count(&sent);
        scene.check(sent).await;
        drop(told);
    }
    say(&format!("{} rounds in {:.1?} with {seed}: {tally:?}", tally.rounds, began.elapsed()));
    tally
}

/// Says at a failure, after all else, what the round was and how to have it again.
struct Told {
    seed: Seed,
    round: u64,
    schedule: String,
}

impl Drop for Told {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let Self { seed, round, schedule } = self;
            let alone = seed.repeat(*round);
            say(&format!(
                "the faults of round {round}: {schedule}\nrepeat it alone with {alone}, or after the rounds before it with {seed}"
            ));
        }
    }
}

fn say(line: &str) {
    // Where nobody listens there is nobody to tell.
    let _ = writeln!(std::io::stderr(), "{line}");
}
