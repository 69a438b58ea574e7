use std::collections::BTreeMap;

use super::*;

fn patterns(paths: &[PathBuf]) -> Vec<PathPattern> {
    paths.iter().cloned().map(PathPattern::real).collect()
}

#[test]
fn folders_with_exceptions_are_listed_entry_by_entry() {
    let dir = tempfile::tempdir().unwrap();
    let home = fs::canonicalize(dir.path()).unwrap();
    for name in ["work/deep", ".config/app", ".config/gh", ".ssh"] {
        fs::create_dir_all(home.join(name)).unwrap();
    }
    for name in ["notes", ".bashrc", ".config/gh/hosts.yml", ".config/gh/config.yml"] {
        fs::write(home.join(name), "").unwrap();
    }
    std::os::unix::fs::symlink(".ssh", home.join("link")).unwrap();
    let files = FileRules {
        read: patterns(&[PathBuf::from("/")]),
        write: patterns(std::slice::from_ref(&home)),
        read_only: patterns(&[home.join(".bashrc"), home.join(".zshrc")]),
        // The last exception does not exist, and nothing with its name can be created.
        deny: patterns(&[home.join(".ssh"), home.join(".config/gh/hosts.yml"), home.join(".aws")]),
    };
    let below: BTreeMap<String, Access> = entries(files)
        .into_iter()
        .filter_map(|entry| Some((entry.path.strip_prefix(&home).ok()?.display().to_string(), entry.access)))
        .collect();
    let expected = [
        ("", Access::List),
        (".bashrc", Access::Read),
        (".config", Access::List),
        (".config/app", Access::Write),
        (".config/gh", Access::List),
        (".config/gh/config.yml", Access::Write),
        (".config/gh/hosts.yml", Access::Hidden),
        (".ssh", Access::Hidden),
        ("link", Access::Link),
        ("notes", Access::Write),
        ("work", Access::Write),
    ];
    assert_eq!(below, expected.into_iter().map(|(path, access)| (path.to_owned(), access)).collect());
}

#[test]
fn only_named_and_system_paths_are_visible() {
    let nothing = FileRules { read: vec![], write: vec![], read_only: vec![], deny: vec![] };
    let entries = entries(nothing);
    let visible_access =
        |path: &str| entries.iter().find(|entry| entry.path == Path::new(path)).map(|entry| entry.access);
    assert_eq!(visible_access("/usr"), Some(Access::Read));
    assert_eq!(
        (visible_access("/"), visible_access("/etc"), visible_access("/home"), visible_access("/proc")),
        (None, None, None, None)
    );
    assert!(entries.iter().all(|entry| entry.access != Access::Write));
}
