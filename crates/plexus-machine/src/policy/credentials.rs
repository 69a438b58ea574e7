//! Where credentials are kept: out of reach of every tool that works on files, whatever a policy says.

/// Below the home folder; `*` stands for any text within a name.
pub(super) const IN_HOME: &[&str] = &[
    // Logins to other machines, and keys.
    ".ssh",
    ".gnupg",
    ".netrc",
    ".config/age",
    ".config/sops",
    // Key rings and password stores.
    ".password-store",
    ".local/share/keyrings",
    ".local/share/kwalletd",
    ".kde/share/apps/kwallet",
    ".config/op",
    ".config/Bitwarden CLI",
    ".vault-token",
    "Library/Keychains",
    // Clouds.
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
    // Sessions in browsers are logins.
    ".mozilla",
    ".config/google-chrome",
    ".config/chromium",
    ".config/BraveSoftware",
    // Of Plexus itself.
    ".local/share/plexus",
    ".local/share/plexus-node",
];

/// Of the machine.
pub(super) const OF_MACHINE: &[&str] = &[
    "/etc/shadow*",
    "/etc/gshadow*",
    "/etc/sudoers",
    "/etc/sudoers.d",
    "/etc/ssh/ssh_host_*_key",
    "/etc/ssl/private",
    "/var/lib/plexus",
    // Beside it is the home folder of commands, see `deploy/plexus-node.service`.
    "/var/lib/plexus-node/data",
    "/run/secrets",
    "/var/run/secrets",
    // Through these a process can be read, or made to do something.
    "/run/user",
    "/run/docker.sock",
    "/var/run/docker.sock",
];

/// What is run by itself at the next login: who can write it has a command run that no sandbox holds. These are the default
/// of `files.read_only`.
pub(super) const RUN_AT_LOGIN: &[&str] = &[
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
