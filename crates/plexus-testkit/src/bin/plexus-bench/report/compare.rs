//! The figures of a row, and their comparison with the other rows of the same era and concurrency.

use anyhow::Result;
use serde::Serialize;

use crate::contenders::Role;
use crate::measure::Sample;
use crate::run::{Row, median};

/// Medians over the rounds.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct Figures {
    pub(super) calls_per_second: f64,
    pub(super) p50_ms: f64,
    pub(super) p99_ms: f64,
    pub(super) cpu_s_per_1000: f64,
    pub(super) client_cpu_s_per_1000: f64,
    pub(super) peak_rss_mb: f64,
}

/// A row's figures divided by those of the rows it is compared with.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub(super) struct Ratios {
    pub(super) p50_to_direct: Option<f64>,
    pub(super) calls_to_floor: Option<f64>,
    /// To the peer with the most calls per second.
    pub(super) calls_to_best_peer: Option<f64>,
    /// To the peer that uses the least CPU.
    pub(super) cpu_to_best_peer: Option<f64>,
}

impl Figures {
    pub(super) fn of(row: &Row) -> Result<Option<Self>> {
        if row.samples.is_empty() {
            return Ok(None);
        }
        let middle = |figure: fn(&Sample) -> f64| median(row.samples.iter().map(figure));
        Ok(Some(Self {
            calls_per_second: middle(|sample| sample.calls_per_second)?,
            p50_ms: middle(|sample| sample.p50_ms)?,
            p99_ms: middle(|sample| sample.p99_ms)?,
            cpu_s_per_1000: middle(|sample| sample.cpu_s_per_1000)?,
            client_cpu_s_per_1000: middle(|sample| sample.client_cpu_s_per_1000)?,
            peak_rss_mb: middle(|sample| sample.peak_rss_mb)?,
        }))
    }
}

impl Ratios {
    pub(super) fn of(row: &Row, rows: &[Row]) -> Result<Self> {
        let Some(own) = Figures::of(row)? else { return Ok(Self::default()) };
        let mut ratios = Self::default();
        let (mut most, mut least) = (None::<f64>, None::<f64>);
        for other in rows.iter().filter(|other| other.era == row.era && other.concurrency == row.concurrency)
        {
            let Some(figures) = Figures::of(other)? else { continue };
            match other.role {
                Role::Direct => ratios.p50_to_direct = Some(own.p50_ms / figures.p50_ms),
                Role::Floor => ratios.calls_to_floor = Some(own.calls_per_second / figures.calls_per_second),
                Role::Peer => {
                    let (calls, cpu) = (figures.calls_per_second, figures.cpu_s_per_1000);
                    most = Some(most.map_or(calls, |most| most.max(calls)));
                    least = Some(least.map_or(cpu, |least| least.min(cpu)));
                }
                Role::Plexus => {}
            }
        }
        ratios.calls_to_best_peer = most.map(|most| own.calls_per_second / most);
        ratios.cpu_to_best_peer = least.map(|least| own.cpu_s_per_1000 / least);
        Ok(ratios)
    }
}
