//! Another program swaps files and folders for symlinks as fast as possible while calls are running.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::hostile::Site;

/// The duration of the test for each kind of call.
const TIME: Duration = Duration::from_millis(400);

/// Swaps the entry at a path for a symlink and back, until it is dropped.
struct Swapper {
    stop: Arc<AtomicBool>,
    swaps: Arc<AtomicU64>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Swapper {
    /// `make` creates the honest entry at the given path.
    fn new(path: PathBuf, leads_to: PathBuf, make: fn(&Path)) -> Self {
        let (stop, swaps) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let thread = std::thread::spawn({
            let (stop, swaps) = (stop.clone(), swaps.clone());
            let replacement = path.with_file_name("aside");
            let link = path.with_file_name("link");
            make(&replacement);
            symlink(leads_to, &link).unwrap();
            // Both always exist, and each swap is atomic, so one of them is always at the path.
            let exchange = |a: &Path, b: &Path| {
                let _ = rustix::fs::renameat_with(
                    rustix::fs::CWD,
                    a,
                    rustix::fs::CWD,
                    b,
                    rustix::fs::RenameFlags::EXCHANGE,
                );
            };
            let _ = std::fs::rename(&replacement, &path);
            move || {
                while !stop.load(Ordering::Relaxed) {
                    // A call may have put another entry there.
                    if !path.exists() && !path.is_symlink() {
                        make(&path);
                    }
                    if !link.exists() && !link.is_symlink() {
                        let _ = std::fs::rename(&path, &link);
                        continue;
                    }
                    exchange(&path, &link);
                    swaps.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        Self { stop, swaps, thread: Some(thread) }
    }
}

impl Drop for Swapper {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.take().unwrap().join();
    }
}

/// Repeats a call while a path is swapped; returns the number of successes.
async fn during_swaps(site: &Site, swapper: &Swapper, call: impl Fn(u64) -> Value) -> (u64, u64) {
    let (begun, mut good, mut tries) = (Instant::now(), 0, 0);
    while begun.elapsed() < TIME {
        good += u64::from(site.harmless(call(tries)).await.is_ok());
        tries += 1;
    }
    assert!(swapper.swaps.load(Ordering::Relaxed) > 10, "nothing was swapped");
    (good, tries)
}

fn file(path: &Path) {
    std::fs::write(path, "plain\n").unwrap();
}

fn folder(path: &Path) {
    let _ = std::fs::create_dir(path);
    let _ = std::fs::write(path.join("id"), "plain\n");
    let _ = std::fs::write(path.join("file"), "plain\n");
}

#[tokio::test]
async fn file_swapped_for_a_link_never_reaches_a_denied_file() {
    let site = Site::new().await;
    std::fs::create_dir(site.home("swap")).unwrap();
    let path = site.home("swap/x");
    for leads_to in [site.home(".ssh/id"), site.out("file")] {
        let _ = std::fs::remove_dir_all(site.home("swap"));
        std::fs::create_dir(site.home("swap")).unwrap();
        let swapper = Swapper::new(path.clone(), leads_to, file);
        during_swaps(&site, &swapper, |_| json!({ "action": "read", "path": path })).await;
        during_swaps(&site, &swapper, |_| json!({ "action": "write", "path": path, "text": "mine" })).await;
        during_swaps(
            &site,
            &swapper,
            |_| json!({ "action": "grep", "path": site.home("swap"), "pattern": "." }),
        )
        .await;
        during_swaps(
            &site,
            &swapper,
            |n| json!({ "action": "copy", "path": path, "to": site.home(&format!("work/c{n}")) }),
        )
        .await;
    }
}

#[tokio::test]
async fn folder_swapped_for_a_link_does_not_mislead_a_walk() {
    let site = Site::new().await;
    let path = site.home("swap/x");
    for leads_to in [site.home(".ssh"), site.out("")] {
        let _ = std::fs::remove_dir_all(site.home("swap"));
        std::fs::create_dir(site.home("swap")).unwrap();
        let swapper = Swapper::new(path.clone(), leads_to, folder);
        let inner = |name: &str| site.home("swap/x").join(name);
        during_swaps(
            &site,
            &swapper,
            |_| json!({ "action": "grep", "path": site.home("swap"), "pattern": "." }),
        )
        .await;
        during_swaps(&site, &swapper, |n| {
            json!({ "action": "copy", "path": site.home("swap"), "to": site.home(&format!("work/t{n}")) })
        })
        .await;
        during_swaps(&site, &swapper, |_| json!({ "action": "write", "path": inner("id"), "text": "mine" }))
            .await;
        during_swaps(
            &site,
            &swapper,
            |_| json!({ "action": "write", "path": inner("new"), "text": "mine", "mode": "create" }),
        )
        .await;
        during_swaps(
            &site,
            &swapper,
            |_| json!({ "action": "delete", "path": inner("file"), "permanent": true }),
        )
        .await;
        during_swaps(&site, &swapper, |_| json!({ "action": "delete", "path": inner("id") })).await;
        during_swaps(&site, &swapper, |n| json!({ "action": "mkdir", "path": inner(&format!("m{n}")) }))
            .await;
        during_swaps(
            &site,
            &swapper,
            |n| json!({ "action": "move", "path": inner("id"), "to": site.home(&format!("work/m{n}")) }),
        )
        .await;
        let patch = "--- /dev/null\n+++ b/x/patched\n@@ -0,0 +1 @@\n+x\n";
        during_swaps(
            &site,
            &swapper,
            |_| json!({ "action": "patch", "path": site.home("swap"), "patch": patch }),
        )
        .await;
    }
}

#[tokio::test]
async fn removing_a_tree_does_not_follow_links() {
    let site = Site::new().await;
    let path = site.home("swap/x");
    std::fs::create_dir(site.home("swap")).unwrap();
    for round in 0..20 {
        let _ = std::fs::remove_dir_all(site.home("swap"));
        std::fs::create_dir(site.home("swap")).unwrap();
        let leads_to = if round % 2 == 0 { site.home(".ssh") } else { site.out("") };
        let _swapper = Swapper::new(path.clone(), leads_to, folder);
        let _ =
            site.harmless(json!({ "action": "delete", "path": site.home("swap"), "permanent": true })).await;
    }
}
