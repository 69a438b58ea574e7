//! Paths of credentials, which every file tool is denied, whatever a policy allows.

/// Paths in the home folder; `*` matches any text within a name.
pub(super) const HOME_PATHS: &[&str] = &[
    // SSH logins and keys.
    ".ssh",
    ".gnupg",
    ".netrc",
    ".config/age",
    ".config/sops",
    // Key rings and password managers.
    ".password-store",
    ".local/share/keyrings",
    ".local/share/kwalletd",
    ".kde/share/apps/kwallet",
    ".config/op",
    ".config/Bitwarden CLI",
    ".vault-token",
    "Library/Keychains",
    // Cloud providers.
    ".aws",
    ".azure",
    ".boto",
    ".oci",
    ".config/gcloud",
    ".config/doctl",
    ".config/hcloud",
    ".config/rclone",
    ".kube",
    ".terraform.d/credentials.tfrc.json",
    // Registries, forges and databases.
    ".docker/config.json",
    ".config/containers/auth.json",
    ".config/gh/hosts.yml",
    ".config/glab-cli",
    ".git-credentials",
    ".config/git/credentials",
    ".npmrc",
    ".yarnrc.yml",
    ".pypirc",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".gem/credentials",
    ".pgpass",
    ".my.cnf",
    // Agents.
    ".codex/auth.json",
    ".claude/.credentials.json",
    ".gemini/oauth_creds.json",
    ".local/share/opencode/auth.json",
    // Browser sessions, which contain logins.
    ".mozilla",
    ".config/google-chrome",
    ".config/chromium",
    ".config/BraveSoftware",
    // Plexus itself.
    ".local/share/plexus",
    ".local/share/plexus-node",
];

/// Paths of the machine.
pub(super) const MACHINE_PATHS: &[&str] = &[
    "/etc/shadow*",
    "/etc/gshadow*",
    "/etc/sudoers",
    "/etc/sudoers.d",
    "/etc/ssh/ssh_host_*_key",
    "/etc/ssl/private",
    "/var/lib/plexus",
    // The home folder of commands is next to it, see `deploy/plexus-node.service`.
    "/var/lib/plexus-node/data",
    "/run/secrets",
    "/var/run/secrets",
    // Sockets that give access to other processes.
    "/run/user",
    "/run/docker.sock",
    "/var/run/docker.sock",
];

/// Files that run automatically at the next login. Write access to them would run a command outside of any sandbox.
/// These are the default of `files.read_only`.
pub(super) const LOGIN_FILES: &[&str] = &[
    "~/.profile",
    "~/.bash_profile",
    "~/.bash_login",
    "~/.bash_logout",
    "~/.bashrc",
    "~/.zshenv",
    "~/.zprofile",
    "~/.zshrc",
    "~/.zlogin",
    "~/.zlogout",
    "~/.xprofile",
    "~/.xsessionrc",
    "~/.config/fish",
    "~/.config/systemd",
    "~/.local/share/systemd",
    "~/.config/autostart",
    "~/.config/environment.d",
    "~/.pam_environment",
    "~/Library/LaunchAgents",
];
