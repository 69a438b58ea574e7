//! `scripts/prerequisites`, which runs before every build.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Programs that every Linux has, among them those that the script itself uses.
const BASE: &[&str] = &[
    "awk", "bash", "cut", "dirname", "env", "grep", "head", "mktemp", "paste", "rm", "sed", "sort", "tr",
    "uname",
];

fn prerequisites(path: &Path, args: &[&str], variables: &[(&str, &str)]) -> Output {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/prerequisites");
    let mut command = Command::new("bash");
    command.arg(script).args(args).env_clear().env("PATH", path).env("HOME", path);
    command.envs(variables.iter().copied()).output().unwrap()
}

fn base_folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for name in BASE {
        let program: PathBuf = std::env::split_paths(&std::env::var_os("PATH").unwrap())
            .map(|folder| folder.join(name))
            .find(|path| path.exists())
            .unwrap_or_else(|| panic!("{name} is on the PATH"));
        symlink(program, folder.path().join(name)).unwrap();
    }
    folder
}

#[test]
fn a_bare_machine_gets_all_missing_tools_and_their_packages_at_once() {
    let folder = base_folder();
    let output = prerequisites(folder.path(), &[], &[]);
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stdout.is_empty());
    let message = String::from_utf8(output.stderr).unwrap();
    for missing in ["a C compiler (cc)", "GNU make", "ar", "git", "flock", "curl", "Rust is not installed."] {
        assert!(message.contains(&format!("  missing: {missing}\n")), "{missing} in: {message}");
    }
    let install = "sudo apt-get install gcc libc6-dev make binutils git util-linux curl\n";
    assert!(message.contains(install), "{message}");
    assert!(message.contains("https://rustup.rs"), "{message}");
}

#[test]
fn a_debian_without_certificates_is_told_so() {
    let certificates = Path::new("/etc/ssl/certs/ca-certificates.crt").exists();
    let folder = base_folder();
    symlink("bash", folder.path().join("apt-get")).unwrap();
    let message = |variables: &[(&str, &str)]| {
        String::from_utf8(prerequisites(folder.path(), &[], variables).stderr).unwrap()
    };
    assert_eq!(message(&[]).contains(" ca-certificates"), !certificates);
    assert!(!message(&[("SSL_CERT_FILE", "/certificates.pem")]).contains("ca-certificates"));
}

#[test]
fn a_compiler_without_headers_is_not_taken_for_a_compiler() {
    let folder = base_folder();
    let compiler = folder.path().join("broken-cc");
    fs::write(&compiler, "#!/bin/sh\necho 'fatal error: stdlib.h: No such file or directory' >&2\nexit 1\n")
        .unwrap();
    fs::set_permissions(&compiler, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let output = prerequisites(folder.path(), &[], &[("CC", compiler.to_str().unwrap())]);
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(message.contains("stdlib.h: No such file or directory"), "{message}");
    assert!(message.contains("libc6-dev"), "{message}");
}

#[test]
fn tests_need_a_cpp_compiler_and_name_what_is_skipped() {
    let folder = base_folder();
    let message = |variables: &[(&str, &str)]| {
        let output = prerequisites(folder.path(), &["test"], variables);
        assert_eq!(output.status.code(), Some(1));
        String::from_utf8(output.stderr).unwrap()
    };
    let by_hand = message(&[]);
    assert!(by_hand.contains("  missing: a C++ compiler (c++)\n"), "{by_hand}");
    assert!(by_hand.contains("  missing: kill\n"), "{by_hand}");
    assert!(by_hand.contains("  libfaketime (Debian: libfaketime)\n"), "{by_hand}");
    assert!(by_hand.contains("are skipped:\n  npm (Debian: npm)\n"), "{by_hand}");
    assert!(!by_hand.contains("missing: npm"), "{by_hand}");
    let in_ci = message(&[("CI", "true")]);
    for missing in ["a C++ compiler (c++)", "npm", "Python 3.10 or newer with venv"] {
        assert!(in_ci.contains(&format!("  missing: {missing}\n")), "{missing} in: {in_ci}");
    }
    assert!(!in_ci.contains("skipped"), "{in_ci}");
}

#[test]
fn a_machine_that_builds_these_tests_lacks_nothing() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/prerequisites");
    let output = Command::new("bash").arg(script).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.stderr.is_empty() && output.stdout.is_empty());
}
