use super::reports_refusal;

#[test]
fn refused_system_calls_of_programs_are_recognized() {
    for output in [
        "mkdir: cannot create directory '/home/ann/new': Permission denied",
        "mkdir: cannot create directory ‘new’: Permission denied",
        "mkdir: can't create directory 'new': Permission denied",
        "touch: cannot touch 'a': Read-only file system",
        "cp: cannot create regular file '/srv/a': Permission denied",
        "chown: changing ownership of 'a': Operation not permitted",
        "sh: 1: cannot create /home/ann/new: Permission denied",
        "/bin/sh: 1: cannot create new: Permission denied",
        "bash: new: Permission denied",
        "-bash: /home/ann/new: Permission denied",
        "bash: line 1: new: Permission denied",
        "zsh: permission denied: new",
        "ls: cannot open directory '/home/ann/.ssh': Permission denied",
        "tar: a: Cannot open: Permission denied",
        "tee: new: Read-only file system",
        "ping: socket: Operation not permitted",
        "unshare: unshare failed: Operation not permitted",
        "mount: /mnt: permission denied.",
        "rsync: [Receiver] mkdir \"/srv/a\" failed: Permission denied (13)",
        "E: Could not open lock file /var/lib/dpkg/lock-frontend - open (13: Permission denied)",
        "fatal: could not create work tree dir 'repo': Permission denied",
        "error: could not lock config file /home/ann/.gitconfig: Permission denied",
        "Could not create directory '/home/ann/.ssh' (Permission denied).",
        "open /home/ann/new: operation not permitted",
        "2026/11/02 10:00:00 mkdir /home/ann/new: permission denied",
        "Error: EACCES: permission denied, open '/home/ann/new'",
        "npm error code EACCES",
        "[Error: EPERM: operation not permitted, mkdir '/home/ann/new'] {",
        "PermissionError: [Errno 13] Permission denied: 'new'",
        "OSError: [Errno 30] Read-only file system: 'new'",
        "Caused by:\n  Permission denied (os error 13)",
        "Permission denied @ rb_sysopen - /home/ann/new (Errno::EACCES)",
        "java.io.FileNotFoundException: /home/ann/new (Permission denied)",
        "Can't open '/home/ann/new': Permission denied at -e line 1.",
        "make: *** [Makefile:2: all] Error 1\r\nmkdir: cannot create directory 'out': Permission denied\r\n$ ",
    ] {
        assert!(reports_refusal(output), "{output}");
    }
}

#[test]
fn refusals_by_servers_and_logins_are_not_attributed_to_the_sandbox() {
    for output in [
        "",
        "mkdir: cannot create directory 'a': No such file or directory",
        "git@github.com: Permission denied (publickey).\nfatal: Could not read from remote repository.",
        "ann@nas: Permission denied (publickey,password).",
        "ann@nas: Permission denied (publickey,keyboard-interactive).\r",
        "ann@nas's password: \r\nPermission denied, please try again.",
        "Permission denied, please try again.\nann@nas's password: ",
        "Permission denied (publickey).\r\nConnection closed",
        "ssh: connect to host nas port 22: Permission denied",
        "scp: /srv/a: Permission denied",
        "scp: dest open \"/srv/a\": Permission denied",
        "remote: /srv/repo.git: Permission denied",
        "ERROR: Permission to ann/repo.git denied to bob.",
        "remote: Permission to ann/repo.git denied to bob.\nfatal: unable to access 'https://github.com/ann/repo.git/': \
         The requested URL returned error: 403",
        "sudo: PERM_SUDOERS: setresuid(-1, 1, -1): Operation not permitted",
        "sudo: unable to open /etc/sudoers: Permission denied",
        "su: Permission denied",
        "su: cannot set groups: Operation not permitted",
        "curl: (22) The requested URL returned error: 403",
        "HTTP/1.1 403 Forbidden: permission denied",
        "{\"error\":{\"code\":403,\"message\":\"Permission denied\"}}",
        "Error: GET https://api.example.com/v1/items: permission denied",
        "ERROR: (gcloud.run.deploy) PERMISSION_DENIED: Permission denied on resource project 'shop'",
        "psql: error: FATAL:  permission denied for database \"shop\"",
        "ERROR:  permission denied for table accounts",
        "Error: permission denied",
        "error: permission denied: you need the role admin",
        "the word permission denied in a text",
    ] {
        assert!(!reports_refusal(output), "{output}");
    }
}
