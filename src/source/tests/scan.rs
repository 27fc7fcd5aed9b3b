//! The folder on disk. Every test has its own directory below the system's for temporary files.

#![expect(clippy::disallowed_methods, reason = "these tests write the files that the scanner reads")]

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::source::folder::FolderState;
use crate::source::scan::{Follower, read, scan};

/// A directory that goes with the test.
struct Directory(PathBuf);

impl Directory {
    fn new() -> Directory {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("fieldcache-scan-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Directory(path)
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.0.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _left_for_the_system = std::fs::remove_dir_all(&self.0);
    }
}

fn paths(root: &Path) -> Vec<String> {
    scan(root).unwrap().0.into_keys().collect()
}

#[test]
fn manifests_are_found_and_leftovers_are_not() {
    let directory = Directory::new();
    for path in [
        "b.yaml",
        "a.yml",
        "sub/deep/c.json",
        "D.YAML",
        ".hidden.yaml",
        ".git/x.yaml",
        "#a.yaml#",
        "#b.yaml",
        "a.yaml~",
        ".a.yaml.swp",
        "notes.txt",
        "yaml",
        "README.md",
    ] {
        directory.write(path, "x: 1\n");
    }
    assert_eq!(paths(&directory.0), ["D.YAML", "a.yml", "b.yaml", "sub/deep/c.json"]);
    let (files, problems) = scan(&directory.0).unwrap();
    assert_eq!((&*files["b.yaml"].bytes, problems.len()), (&b"x: 1\n"[..], 0));
    assert!(files["b.yaml"].modified > 1_600_000_000, "seconds since 1970");
}

#[test]
fn a_missing_folder_is_an_error_and_an_empty_one_is_not() {
    let directory = Directory::new();
    assert_eq!(paths(&directory.0), Vec::<String>::new());
    let missing = scan(&directory.0.join("missing")).unwrap_err();
    assert_eq!(missing.kind(), std::io::ErrorKind::NotFound);
}

#[cfg(unix)]
#[test]
fn a_mounted_config_map_is_read_once_and_links_in_a_circle_end() {
    use std::os::unix::fs::symlink;
    let directory = Directory::new();
    directory.write("..2024_01_01/a.yaml", "x: 1\n");
    symlink("..2024_01_01", directory.0.join("..data")).unwrap();
    symlink("..data/a.yaml", directory.0.join("a.yaml")).unwrap();
    symlink(&directory.0, directory.0.join("loop")).unwrap();
    symlink("nowhere.yaml", directory.0.join("dangling.yaml")).unwrap();
    assert_eq!(paths(&directory.0), ["a.yaml"]);
}

#[tokio::test]
async fn a_follower_sees_an_edit() {
    let directory = Directory::new();
    directory.write("a.yaml", "apiVersion: v1\nkind: Nothing\n");
    let (mut follower, trouble) = Follower::start(&directory.0);
    assert_eq!(trouble, None);
    let mut state = FolderState::new(1);
    let first = read(&directory.0, &mut state, &|_, _, _| None, &|_| Vec::new()).unwrap();
    assert_eq!(first.problems.len(), 1, "{:?}", first.problems);
    directory.write("b.yaml", "apiVersion: v1\nkind: Nothing\n");
    // Below the period of the slow repetition, so that only the system's events can end it.
    let next = tokio::time::timeout(std::time::Duration::from_secs(8), follower.next()).await;
    let (files, _) = next.expect("an event must come").unwrap();
    assert_eq!(files.into_keys().collect::<Vec<_>>(), ["a.yaml", "b.yaml"]);
}
