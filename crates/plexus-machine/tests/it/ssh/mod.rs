//! Tests of `ssh_exec` against a real sshd on loopback, with its own keys, known hosts and configuration.

mod files;
mod hostile;
mod hosts;
mod pool;
mod run;
mod server;
mod site;
mod wire;
