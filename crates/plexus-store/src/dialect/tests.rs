use std::path::Path;

use super::{postgres, sqlite};

#[test]
fn every_migration_file_is_listed_once_under_its_number() {
    for (database, listed) in [("sqlite", sqlite::MIGRATIONS), ("postgres", postgres::MIGRATIONS)] {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("migrations").join(database);
        let files =
            std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap());
        let mut files: Vec<String> = files.collect();
        files.sort();
        let expected: Vec<String> = listed.iter().map(|(name, _)| format!("{name}.sql")).collect();
        assert_eq!(files, expected, "{database}");
        for (index, (name, _)) in listed.iter().enumerate() {
            assert!(name.starts_with(&format!("{:04}_", index + 1)), "{name}");
        }
    }
}
