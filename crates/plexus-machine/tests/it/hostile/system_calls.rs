//! Dangerous system calls, made directly: refused before the kernel checks their arguments.

use serde_json::Value;

use super::{Scene, output_text, policy_with_level};
use crate::sandbox::{LEVELS, is_available};

/// Name, number, and arguments without an effect.
const CALLS: &[(&str, i64, &str)] = &[
    ("ptrace", libc::SYS_ptrace, "16,{OTHER},0,0"),
    ("process_vm_readv", libc::SYS_process_vm_readv, "{OTHER},0,0,0,0,0"),
    ("process_vm_writev", libc::SYS_process_vm_writev, "{OTHER},0,0,0,0,0"),
    ("pidfd_getfd", libc::SYS_pidfd_getfd, "-1,0,0"),
    ("kcmp", libc::SYS_kcmp, "{OTHER},{OTHER},0,0,0"),
    ("perf_event_open", libc::SYS_perf_event_open, "0,0,-1,-1,0"),
    ("mount", libc::SYS_mount, "0,0,0,0,0"),
    ("umount2", libc::SYS_umount2, "0,0"),
    ("fsopen", libc::SYS_fsopen, "0,0"),
    ("open_tree", libc::SYS_open_tree, "-1,0,0"),
    ("move_mount", libc::SYS_move_mount, "-1,0,-1,0,0"),
    ("mount_setattr", libc::SYS_mount_setattr, "-1,0,0,0,0"),
    ("pivot_root", libc::SYS_pivot_root, "0,0"),
    ("chroot", libc::SYS_chroot, "0"),
    ("setns", libc::SYS_setns, "-1,0"),
    ("unshare", libc::SYS_unshare, "0x10000000"),
    ("unshare of mounts", libc::SYS_unshare, "0x00020000"),
    ("open_by_handle_at", libc::SYS_open_by_handle_at, "-1,0,0"),
    ("fanotify_init", libc::SYS_fanotify_init, "-1,0"),
    ("swapon", libc::SYS_swapon, "0,0"),
    ("bpf", libc::SYS_bpf, "-1,0,0"),
    ("kexec_load", libc::SYS_kexec_load, "0,-1,0,0"),
    ("init_module", libc::SYS_init_module, "0,0,0"),
    ("finit_module", libc::SYS_finit_module, "-1,0,0"),
    ("delete_module", libc::SYS_delete_module, "0,0"),
    ("userfaultfd", libc::SYS_userfaultfd, "-1"),
    ("reboot", libc::SYS_reboot, "0,0,0,0"),
    ("keyctl", libc::SYS_keyctl, "0,-3,0,0,0"),
    ("add_key", libc::SYS_add_key, "0,0,0,0,-3"),
    ("request_key", libc::SYS_request_key, "0,0,0,-3"),
    ("personality", libc::SYS_personality, "0x0040000"),
    ("ioctl TIOCSTI", libc::SYS_ioctl, "0,0x5412,0"),
    ("ioctl TIOCLINUX", libc::SYS_ioctl, "0,0x541c,0"),
    ("socket AF_VSOCK", libc::SYS_socket, "40,1,0"),
    ("socket AF_ALG", libc::SYS_socket, "38,5,0"),
    ("socket AF_PACKET", libc::SYS_socket, "17,3,0"),
];

/// Calls reported as not implemented.
const MISSING_CALLS: &[(&str, i64, &str)] = &[
    ("clone3", libc::SYS_clone3, "0,0"),
    ("io_uring_setup", libc::SYS_io_uring_setup, "0,0"),
    ("io_uring_enter", libc::SYS_io_uring_enter, "-1,0,0,0,0,0"),
    ("io_uring_register", libc::SYS_io_uring_register, "-1,0,0,0"),
];

fn command(calls: &[(&str, i64, &str)]) -> String {
    let each = calls.iter().map(|(name, number, arguments)| {
        format!("$! = 0; $r = syscall({number},{arguments}); print \"{name}: \", ($r == -1 ? $!+0 : \"ok\"), \"\\n\";")
    });
    format!("perl -e '{}'", each.collect::<String>().replace('\'', ""))
}

fn unexpected_results(calls: &[(&str, i64, &str)], ran: &Value, error: i32) -> Vec<String> {
    let output = output_text(ran);
    let answered = |name: &str| output.lines().any(|line| line == format!("{name}: {error}"));
    calls.iter().filter(|(name, ..)| !answered(name)).map(|(name, ..)| (*name).to_owned()).collect()
}

#[tokio::test]
async fn dangerous_system_calls_are_refused() {
    for level in LEVELS.into_iter().filter(|level| is_available(*level)) {
        let scene = Scene::new(&policy_with_level(level, "")).await;
        let ran = scene.run(&command(CALLS)).await;
        assert_eq!(unexpected_results(CALLS, &ran, libc::EPERM), [""; 0], "{level}: {ran}");
        let ran = scene.run(&command(MISSING_CALLS)).await;
        assert_eq!(unexpected_results(MISSING_CALLS, &ran, libc::ENOSYS), [""; 0], "{level}: {ran}");
    }
}

/// The same calls through the x32 ABI.
#[cfg(target_arch = "x86_64")]
#[tokio::test]
async fn x32_numbers_do_not_bypass_the_filter() {
    for level in LEVELS.into_iter().filter(|level| is_available(*level)) {
        let scene = Scene::new(&policy_with_level(level, "")).await;
        let calls: Vec<_> =
            CALLS.iter().map(|(name, number, rest)| (*name, number | 0x4000_0000, *rest)).collect();
        let ran = scene.run(&command(&calls)).await;
        assert_eq!(unexpected_results(&calls, &ran, libc::EPERM), [""; 0], "{level}: {ran}");
    }
}

/// Namespaces through `clone`, which programs also use for threads and processes.
#[tokio::test]
async fn processes_cannot_create_namespaces() {
    for level in LEVELS.into_iter().filter(|level| is_available(*level)) {
        let scene = Scene::new(&policy_with_level(level, "")).await;
        for flag in [0x1000_0000, 0x0002_0000, 0x2000_0000, 0x4000_0000_u32] {
            let ran = scene
                .run(&format!(
                    "perl -e '$r = syscall({},{}|17,0,0,0,0); exit 9 if $r == 0; print $r == -1 ? $!+0 : \"ok\"'",
                    libc::SYS_clone,
                    flag
                ))
                .await;
            assert_eq!(output_text(&ran), libc::EPERM.to_string(), "{level}: {flag:#x}: {ran}");
        }
    }
}
