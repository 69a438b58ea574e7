//! Devices, mounts and other views of the machine.

use super::{Case, WithoutSandbox, check, contains_secret, reports_success};

const CASES: &[Case] = &[
    Case {
        name: "the disk",
        command: "for d in /dev/sda /dev/vda /dev/nvme0n1 /dev/xvda; do head -c 512 $d >/dev/null 2>&1 && [ -b $d ] && echo done; done",
        harm: reports_success,
        free: WithoutSandbox::Unknown,
    },
    Case {
        name: "memory of the machine",
        command: "for d in /dev/mem /dev/kmem /dev/port; do exec 9<$d && echo done; done",
        harm: reports_success,
        free: WithoutSandbox::Unknown,
    },
    Case {
        name: "messages of the kernel",
        command: "head -c 1 /dev/kmsg >/dev/null && echo done; perl -e 'open F, \"+<\", \"/dev/kmsg\" and print \"done\\n\"'",
        harm: reports_success,
        free: WithoutSandbox::Unknown,
    },
    Case {
        name: "a device of its own",
        command: "mknod d b 8 0; mknod c c 1 1; [ -b d ] || [ -c c ] && echo done",
        harm: reports_success,
        free: WithoutSandbox::AsRoot,
    },
    Case {
        name: "a device in shared memory",
        command: "mknod /dev/shm/plexus-d c 1 1 && echo done; rm -f /dev/shm/plexus-d",
        harm: reports_success,
        free: WithoutSandbox::AsRoot,
    },
    Case {
        name: "mount something over it",
        command: "mkdir m; mount -t tmpfs none m && echo done; umount m",
        harm: reports_success,
        free: WithoutSandbox::AsRoot,
    },
    Case {
        name: "bind what is denied elsewhere",
        command: "mkdir m; mount --bind {HOME}/.ssh m; cat m/id_ed25519; umount m",
        harm: contains_secret,
        free: WithoutSandbox::AsRoot,
    },
    Case {
        name: "take away what lies over it",
        command: "umount -l {HOME}/.ssh; umount {HOME}/.ssh; umount -R {HOME}; cat {HOME}/.ssh/id_ed25519",
        harm: contains_secret,
        free: WithoutSandbox::HarmsAnyUser,
    },
    Case {
        name: "make it writable",
        command: "mount -o remount,rw,bind / && echo done; mount -o remount,rw /usr && echo done",
        harm: reports_success,
        free: WithoutSandbox::Unknown,
    },
    Case {
        name: "a user of its own",
        command: "unshare -Ur true && echo done",
        harm: reports_success,
        free: WithoutSandbox::Unknown,
    },
    Case {
        name: "mounts of its own",
        command: "unshare -Urm sh -c 'mount --bind {HOME}/.ssh {HOME}/work && cat {HOME}/work/id_ed25519'",
        harm: contains_secret,
        free: WithoutSandbox::Unknown,
    },
    Case {
        name: "processes of its own",
        command: "unshare -p -f true && echo done",
        harm: reports_success,
        free: WithoutSandbox::AsRoot,
    },
    Case {
        name: "a sandbox in the sandbox",
        command: "bwrap --bind / / cat {HOME}/.ssh/id_ed25519; bwrap --dev-bind / / --proc /proc true && echo done",
        harm: |scene, ran| contains_secret(scene, ran) || reports_success(scene, ran),
        free: WithoutSandbox::Unknown,
    },
    Case {
        name: "another root",
        command: "/usr/sbin/chroot / /bin/sh -c 'echo done'; /usr/sbin/chroot /proc/self/root /bin/true && echo done",
        harm: reports_success,
        free: WithoutSandbox::AsRoot,
    },
    Case {
        name: "the view of another",
        command: "nsenter -t {PID} -m true && echo done; nsenter -t 1 -a true && echo done",
        harm: reports_success,
        free: WithoutSandbox::AsRoot,
    },
];

#[tokio::test]
async fn devices_and_mounts_are_inaccessible() {
    check(CASES).await;
}
