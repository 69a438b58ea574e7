//! How a program is installed that servers are often started with.

/// A program, the package that contains it, and the URL of that package.
const INSTALLERS: [(&str, &str, &str); 14] = [
    ("uvx", "uv", "https://docs.astral.sh/uv/getting-started/installation/"),
    ("uv", "uv", "https://docs.astral.sh/uv/getting-started/installation/"),
    ("npx", "Node.js", "https://nodejs.org/en/download"),
    ("npm", "Node.js", "https://nodejs.org/en/download"),
    ("node", "Node.js", "https://nodejs.org/en/download"),
    ("bunx", "Bun", "https://bun.sh"),
    ("bun", "Bun", "https://bun.sh"),
    ("deno", "Deno", "https://docs.deno.com/runtime/"),
    ("docker", "Docker", "https://docs.docker.com/engine/install/"),
    ("podman", "Podman", "https://podman.io/docs/installation"),
    ("python", "Python", "https://www.python.org/downloads/"),
    ("python3", "Python", "https://www.python.org/downloads/"),
    ("pipx", "pipx", "https://pipx.pypa.io/stable/installation/"),
    ("java", "a Java runtime", "https://adoptium.net/installation/"),
];

/// What to do about a program that is not there.
#[must_use]
pub fn advice(program: &str) -> String {
    match INSTALLERS.iter().find(|(installer, ..)| *installer == program) {
        Some((_, package, url)) => format!("{program} comes with {package}: {url}"),
        None => format!("install {program}"),
    }
}
