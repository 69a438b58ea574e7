//! The commands for other machines in README.md and docs/transfer.md work as they are written, on a fresh node with
//! its real sandbox.

use std::path::Path;

use plexus_testkit::until;

use super::Site;
use crate::pty::{SMALL, Terminal};

/// The shell blocks of a page, as lines without comments.
fn blocks(page: &str) -> Vec<Vec<String>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(page);
    let text = std::fs::read_to_string(path).expect("a page");
    let block = |text: &str| {
        let lines = text.lines().map(|line| line.split(" #").next().unwrap_or_default().trim().to_owned());
        lines.filter(|line| !line.is_empty()).collect()
    };
    text.split("```sh\n").skip(1).map(|rest| block(rest.split("```").next().unwrap_or_default())).collect()
}

fn write(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
    std::fs::write(path, text).expect("a file");
}

/// Creates the files that the pages name. `srv` stands for /srv on the node.
fn create_files(site: &Site, srv: &Path) {
    for name in ["photo.jpg", "photos/one.jpg", "report.pdf"] {
        write(&site.local_path(name), name);
    }
    write(&srv.join("backup/sub/file"), "backed up");
    write(&site.in_node_home(".config/app.toml"), "of the node");
    write(&site.local_path("app.toml"), "older");
    write(&site.on_node("app/Makefile"), "test:\n\t@echo tested with CI=$(CI)\n");
    write(&site.on_node("Makefile"), "world:\n\techo made > made\n");
}

/// Joins the machine with the command that `plexus node invite` prints.
async fn join_as_invited(site: &mut Site, line: &str) {
    let invited = site.plexus.shell(line).await;
    let join = invited.ok().lines().map(str::trim).find(|line| line.starts_with("plexus node join "));
    site.nas.shell(join.expect("the command for the machine")).await.ok();
    site.start_node().await;
}

/// Opens the shell on a terminal.
async fn open_shell(site: &Site, line: &str) {
    let mut command = site.plexus.command("/bin/sh", &["-c", line]);
    command.env("TERM", "xterm");
    let mut terminal = Terminal::start(&command, SMALL);
    terminal.send("echo on-$((40 + 2)) at $HOME; exit\r").await;
    terminal.expect(&format!("on-42 at {}", site.nas.home().display())).await;
    assert_eq!(terminal.finish().await.0, Some(0));
}

/// Runs a command of a page and checks its effect.
async fn run(site: &Site, line: &str) {
    let srv = site.in_node_home("srv");
    create_files(site, &srv);
    if line == "plexus shell nas" {
        return open_shell(site, line).await;
    }
    let ran = site.plexus.shell(&line.replace("/srv", &srv.display().to_string())).await;
    let output = ran.ok();
    let content = |path: &Path| std::fs::read_to_string(path).expect("a file");
    match line {
        "plexus exec nas -- mkdir reports" => assert!(site.on_node("reports").is_dir()),
        "plexus cp report.pdf nas:inbox/" => {
            assert_eq!(content(&site.on_node("inbox/report.pdf")), "report.pdf");
        }
        "plexus cp photo.jpg nas:photos/" => {
            assert_eq!(content(&site.on_node("photos/photo.jpg")), "photo.jpg");
        }
        "plexus cp -r nas:/srv/backup ./backup" => {
            assert_eq!(content(&site.local_path("backup/sub/file")), "backed up");
        }
        "plexus cp --force nas:~/.config/app.toml ." => {
            assert_eq!(content(&site.local_path("app.toml")), "of the node");
        }
        "plexus exec nas -- df -h /srv" => assert!(output.starts_with("Filesystem"), "{output}"),
        "tar c photos | plexus exec nas -- tar x" => {
            assert_eq!(content(&site.on_node("photos/one.jpg")), "photos/one.jpg");
        }
        "plexus exec nas --timeout 10m --cwd app -e CI=1 -- make test" => {
            assert_eq!(output, "tested with CI=1\n");
        }
        "plexus exec nas --detach -- make world" => {
            assert_eq!(output.trim().len(), 8, "the id of a job: {output}");
            until("the job has ended", async || site.on_node("made").exists()).await;
        }
        unknown => panic!("{unknown:?} works, but this test does not know its effect: add it"),
    }
}

#[tokio::test]
async fn commands_of_the_readme_work_on_a_fresh_node() {
    let block = blocks("README.md").into_iter().find(|block| block[0].starts_with("plexus node invite"));
    let block = block.expect("a block that begins with an invitation");
    let mut site = Site::before_joining().await;
    join_as_invited(&mut site, &block[0]).await;
    site.is_sandboxed().await;
    assert!(block.len() > 1, "{block:?}");
    for line in &block[1..] {
        run(&site, line).await;
    }
}

#[tokio::test]
async fn commands_of_the_page_about_transfer_work_on_a_fresh_node() {
    let blocks = blocks("docs/transfer.md");
    assert!(!blocks.is_empty());
    for block in blocks {
        let site = Site::new().await;
        site.is_sandboxed().await;
        for line in &block {
            run(&site, line).await;
        }
    }
}
