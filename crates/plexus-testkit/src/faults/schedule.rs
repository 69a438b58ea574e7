//! The faults of a round and their times.

use std::fmt;
use std::time::Duration;

use super::FaultScenario;

/// One fault, with the delay after the previous one (or after the start of the writers).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScheduledFault<F> {
    pub after: Duration,
    pub fault: F,
}

/// The faults of one round, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schedule<F>(Vec<ScheduledFault<F>>);

impl<F> Schedule<F> {
    pub fn one(after: Duration, fault: F) -> Self {
        Self(vec![ScheduledFault { after, fault }])
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) async fn play<S: FaultScenario<Fault = F>>(self, scene: &mut S) {
        for inject in self.0 {
            // This sleep is not a synchronisation: the seed chose this moment.
            tokio::time::sleep(inject.after).await;
            scene.inject(inject.fault).await;
        }
    }
}

impl<F> FromIterator<ScheduledFault<F>> for Schedule<F> {
    fn from_iter<I: IntoIterator<Item = ScheduledFault<F>>>(faults: I) -> Self {
        Self(faults.into_iter().collect())
    }
}

impl<F: fmt::Debug> fmt::Display for Schedule<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, ScheduledFault { after, fault }) in self.0.iter().enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            write!(f, "{comma}{fault:?} after {after:?}")?;
        }
        Ok(())
    }
}
