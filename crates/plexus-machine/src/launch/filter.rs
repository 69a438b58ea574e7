//! A seccomp filter that refuses system calls which a command does not need and which could bypass its sandbox.
//!
//! Unlisted calls are allowed: all kinds of programs run here, and other mechanisms protect files. A call of another
//! architecture kills the process, because its call numbers have other meanings.

use std::collections::BTreeMap;
use std::io;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch, apply_filter, sock_filter,
};

/// Allowed socket families. Landlock does not cover Unix sockets with a path, and some of them belong to services
/// that run commands for any client. So a command without its own view of the file system gets no Unix sockets.
pub(super) const NETWORK_FAMILIES: &[i32] = &[libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];
pub(super) const NO_FAMILIES: &[i32] = &[];
pub(super) const NAMESPACE_FAMILIES: &[i32] =
    &[libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];

/// Refused regardless of their arguments.
const REFUSED: &[i64] = &[
    // Access to other processes.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    libc::SYS_perf_event_open,
    // Mounts, and access to files other than by path.
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_mount_setattr,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_setns,
    libc::SYS_open_by_handle_at,
    libc::SYS_fanotify_init,
    libc::SYS_quotactl,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    // The kernel.
    libc::SYS_bpf,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_userfaultfd,
    libc::SYS_syslog,
    libc::SYS_acct,
    libc::SYS_reboot,
    // Keys that the kernel stores for a login.
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    // Settings of the machine.
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_vhangup,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
];

/// Reported as unknown to the kernel, so that programs use the alternative. Their arguments are in memory, which a
/// filter cannot inspect.
const UNKNOWN: &[i64] =
    &[libc::SYS_clone3, libc::SYS_io_uring_setup, libc::SYS_io_uring_enter, libc::SYS_io_uring_register];

const NAMESPACES: &[i32] = &[
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWNS,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWCGROUP,
];
/// `TIOCSTI` and `TIOCLINUX`, which inject input into a terminal. The type of the constants differs between C
/// libraries.
const TERMINAL_IOCTLS: &[u64] = &[0x5412, 0x541c];
/// Queries the personality, and sets the default one.
const PERSONALITIES: &[u64] = &[0xffff_ffff, 0];

/// Restricts this process and its children. Sockets are limited to these families.
pub(super) fn apply(families: &[i32]) -> io::Result<()> {
    for program in programs(families).map_err(failed)? {
        apply_filter(&program).map_err(failed)?;
    }
    Ok(())
}

fn programs(families: &[i32]) -> Result<[BpfProgram; 2], seccompiler::BackendError> {
    let mut refused: BTreeMap<i64, Vec<SeccompRule>> =
        REFUSED.iter().map(|call| (*call, Vec::new())).collect();
    let namespaces = |argument| {
        let any = NAMESPACES.iter().map(move |flag| {
            let flag = u64::from(flag.cast_unsigned());
            rule(argument, [(SeccompCmpOp::MaskedEq(flag), flag)])
        });
        any.collect::<Result<Vec<_>, _>>()
    };
    refused.insert(libc::SYS_unshare, namespaces(0)?);
    refused.insert(libc::SYS_clone, namespaces(0)?);
    let orders = TERMINAL_IOCTLS.iter().map(|order| rule(1, [(SeccompCmpOp::Eq, *order)]));
    refused.insert(libc::SYS_ioctl, orders.collect::<Result<_, _>>()?);
    let others = PERSONALITIES.iter().map(|usual| (SeccompCmpOp::Ne, *usual));
    refused.insert(libc::SYS_personality, vec![rule(0, others)?]);
    let families = families.iter().map(|family| (SeccompCmpOp::Ne, u64::from(family.cast_unsigned())));
    let sockets = match families.len() {
        0 => Vec::new(),
        _ => vec![rule(0, families)?],
    };
    refused.insert(libc::SYS_socket, sockets);
    let unknown = UNKNOWN.iter().map(|call| (*call, Vec::new())).collect();
    Ok([program(refused, libc::EPERM)?, program(unknown, libc::ENOSYS)?])
}

/// A rule that matches if all conditions on an argument do.
fn rule(
    argument: u8,
    conditions: impl IntoIterator<Item = (SeccompCmpOp, u64)>,
) -> Result<SeccompRule, seccompiler::BackendError> {
    let conditions = conditions
        .into_iter()
        .map(|(operator, value)| SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value));
    SeccompRule::new(conditions.collect::<Result<_, _>>()?)
}

fn program(
    rules: BTreeMap<i64, Vec<SeccompRule>>,
    error: i32,
) -> Result<BpfProgram, seccompiler::BackendError> {
    let arch = TargetArch::try_from(std::env::consts::ARCH)?;
    let filter =
        SeccompFilter::new(rules, SeccompAction::Allow, SeccompAction::Errno(error.cast_unsigned()), arch)?;
    let program: BpfProgram = filter.try_into()?;
    Ok(x32_guard().into_iter().chain(program).collect())
}

/// Refuses calls through the x32 ABI, whose numbers would bypass the list.
#[cfg(target_arch = "x86_64")]
fn x32_guard() -> Vec<sock_filter> {
    const X32: u32 = 0x4000_0000;
    let statement = |code: u32, k: u32| sock_filter { code: code as u16, jt: 0, jf: 0, k };
    vec![
        // The call number is the first field.
        statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0),
        sock_filter { jf: 1, ..statement(libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K, X32) },
        statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ERRNO | libc::EPERM.cast_unsigned()),
    ]
}

#[cfg(not(target_arch = "x86_64"))]
fn x32_guard() -> Vec<sock_filter> {
    Vec::new()
}

fn failed(error: impl std::error::Error) -> io::Error {
    io::Error::other(format!("the system call filter: {error}"))
}
