//! `ssh_exec` against a real sshd on loopback, with keys, known hosts and a configuration of its own.

mod files;
mod hostile;
mod hosts;
mod pool;
mod run;
mod server;
mod site;
mod wire;
