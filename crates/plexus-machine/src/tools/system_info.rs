//! `system_info`: describes the machine and its load.

use std::time::Duration;

use plexus_kit::clock;
use plexus_proto::{ErrorCode, Timestamp};
use plexus_tools::{Access, CallError, Outcome, ToolContext, ToolOutput, ToolSpec, TypedTool};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sysinfo::{CpuRefreshKind, Disks, MemoryRefreshKind, RefreshKind, System};

/// A network disk that does not respond blocks the query of its size.
const QUERY_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(super) struct SystemInfo;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Args {}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Output {
    hostname: Option<String>,
    /// Such as `linux` or `macos`.
    os: String,
    /// With its version, such as `Debian GNU/Linux 12`.
    os_version: Option<String>,
    kernel: Option<String>,
    arch: String,
    cpu: Cpu,
    memory: Amount,
    swap: Amount,
    disks: Vec<Disk>,
    /// Load averages of the last 1, 5 and 15 minutes.
    load: Option<[f64; 3]>,
    uptime_seconds: Option<u64>,
    #[schemars(with = "Option<String>")]
    booted_at: Option<Timestamp>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Cpu {
    model: Option<String>,
    /// Number of processors visible to the system.
    count: usize,
    physical_cores: Option<usize>,
}

/// In bytes.
#[derive(Debug, Serialize, JsonSchema)]
struct Amount {
    total: u64,
    used: u64,
    available: u64,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Disk {
    mount: String,
    device: String,
    file_system: String,
    total: u64,
    available: u64,
    read_only: bool,
}

/// The tool's specification without its schemas.
pub(super) fn spec() -> ToolSpec {
    ToolSpec::node(
        "system_info",
        "System info",
        "Tells what machine this is and how busy it is: operating system, kernel, architecture, host name, processors, \
         memory, swap, disks with free space, load and uptime. Sizes are in bytes.",
        Access::READ,
    )
}

impl TypedTool for SystemInfo {
    type Args = Args;
    type Output = Output;

    fn spec(&self) -> ToolSpec {
        spec()
    }

    async fn run(&self, _: ToolContext, _: Args) -> Result<Outcome, CallError> {
        let collected = tokio::time::timeout(QUERY_TIMEOUT, tokio::task::spawn_blocking(collect)).await;
        match collected {
            Ok(Ok(Ok(output))) => Ok(Outcome::Ready(ToolOutput::new(output.text(), &output))),
            Ok(Ok(Err(error))) => Err(CallError::new(
                ErrorCode::ToolFailed,
                format!("the state of the machine cannot be read: {error}"),
            )
            .hint("Run `uname -a`, `free` or `df` in the terminal instead.")),
            Ok(Err(_)) => Err(CallError::new(
                ErrorCode::Internal,
                "reading the state of the machine failed unexpectedly",
            )
            .hint("The node's log has the details.")),
            Err(_) => Err(CallError::new(
                ErrorCode::DeadlineExceeded,
                format!("the state of the machine could not be read within {} s", QUERY_TIMEOUT.as_secs()),
            )
            .hint("A network disk may not be responding. Run `df -l` or `uptime` in the terminal instead.")),
        }
    }
}

/// Values that the system does not provide are `None`.
fn collect() -> Result<Output, sysinfo::Error> {
    let what = RefreshKind::nothing()
        .with_cpu(CpuRefreshKind::nothing())
        .with_memory(MemoryRefreshKind::everything());
    let system = System::new_with_specifics(what)?;
    let disks = Disks::new_with_refreshed_list()?;
    let disk = |disk: &sysinfo::Disk| Disk {
        mount: disk.mount_point().display().to_string(),
        device: disk.name().to_string_lossy().into_owned(),
        file_system: disk.file_system().to_string_lossy().into_owned(),
        total: disk.total_space(),
        available: disk.available_space(),
        read_only: disk.is_read_only(),
    };
    let millis = |seconds: u64| i64::try_from(seconds).unwrap_or(0).saturating_mul(1_000);
    Ok(Output {
        hostname: System::host_name().ok(),
        os: std::env::consts::OS.to_owned(),
        os_version: System::long_os_version().ok(),
        kernel: System::kernel_version().ok(),
        arch: std::env::consts::ARCH.to_owned(),
        cpu: Cpu {
            model: system.cpus().first().map(|cpu| cpu.brand().trim().to_owned()).filter(|it| !it.is_empty()),
            count: system.cpus().len(),
            physical_cores: System::physical_core_count().ok(),
        },
        memory: Amount {
            total: system.total_memory(),
            used: system.used_memory(),
            available: system.available_memory(),
        },
        swap: Amount { total: system.total_swap(), used: system.used_swap(), available: system.free_swap() },
        disks: disks.iter().map(disk).collect(),
        load: System::load_average().ok().map(|load| [load.one, load.five, load.fifteen]),
        uptime_seconds: System::uptime().ok(),
        booted_at: System::boot_time().ok().map(|seconds| clock::from_millis(millis(seconds))),
    })
}

impl Output {
    fn text(&self) -> String {
        let or_unknown = |text: &Option<String>| text.clone().unwrap_or_else(|| "unknown".to_owned());
        let mut lines = vec![
            format!("{} ({})", or_unknown(&self.hostname), self.arch),
            format!("{}, kernel {}", or_unknown(&self.os_version), or_unknown(&self.kernel)),
            format!("{} × {}", self.cpu.count, or_unknown(&self.cpu.model)),
            format!("memory: {} free of {}", gib(self.memory.available), gib(self.memory.total)),
            format!("swap: {} free of {}", gib(self.swap.available), gib(self.swap.total)),
        ];
        lines.extend(self.load.map(|[one, five, fifteen]| format!("load: {one:.2} {five:.2} {fifteen:.2}")));
        lines.extend(self.uptime_seconds.map(|up| format!("up {} h {} min", up / 3600, up / 60 % 60)));
        lines.extend(self.disks.iter().map(|disk| {
            format!("{}: {} free of {} ({})", disk.mount, gib(disk.available), gib(disk.total), disk.device)
        }));
        lines.join("\n")
    }
}

fn gib(bytes: u64) -> String {
    format!("{:.1} GiB", bytes as f64 / f64::from(1 << 30))
}
