//! The folder on disk. Every test has its own directory below the system's for temporary files.

#![expect(clippy::disallowed_methods, reason = "these tests write the files that the scanner reads")]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::source::folder::{Files, FolderProblem, FolderState};
use crate::source::scan::{Follower, Scanner, read_bounded};

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

fn scan(root: &Path) -> std::io::Result<(Files, Vec<FolderProblem>)> {
    Scanner::new(root).scan()
}

fn paths(root: &Path) -> Vec<String> {
    scan(root).unwrap().0.into_keys().collect()
}

#[test]
fn directories_inside_each_other_are_read_to_a_bound() {
    let directory = Directory::new();
    let path = |depth: usize| "d/".repeat(depth);
    directory.write(&format!("{}a.yaml", path(100)), "");
    directory.write(&format!("{}b.yaml", path(1000)), "");
    let (files, problems) = fieldcache_testing::nested::on_worker_stack(|| scan(&directory.0).unwrap());
    assert_eq!(files.into_keys().collect::<Vec<_>>(), [format!("{}a.yaml", path(100))]);
    let [problem] = &problems[..] else { panic!("{problems:?}") };
    assert_eq!((problem.file.len(), &*problem.cause), (201, "deeper than 100 directories, not read"));
}

#[test]
#[cfg(target_os = "linux")]
fn an_endless_file_is_read_to_a_bound() {
    // The system says that it is empty, and makes bytes for as long as it is read.
    assert_eq!(read_bounded(Path::new("/proc/self/pagemap")).unwrap(), None);
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

#[test]
fn a_file_that_looks_as_before_is_not_read_again() {
    use std::time::{Duration, SystemTime};
    let directory = Directory::new();
    directory.write("old.yaml", "x: 1\n");
    directory.write("new.yaml", "x: 1\n");
    // What changed a moment ago is not trusted, so these looks are of much later.
    let mut scanner = Scanner::with_clock(&directory.0, || i64::MAX);
    let (first, _) = scanner.scan().unwrap();
    let (again, _) = scanner.scan().unwrap();
    assert!(Arc::ptr_eq(&first["old.yaml"].bytes, &again["old.yaml"].bytes), "not read again");
    directory.write("new.yaml", "x: 2\n");
    let unchanged = SystemTime::UNIX_EPOCH + Duration::from_secs(u64::try_from(first["new.yaml"].modified).unwrap());
    let file = std::fs::File::options().write(true).open(directory.0.join("new.yaml")).unwrap();
    file.set_modified(unchanged).unwrap();
    let (third, _) = scanner.scan().unwrap();
    assert_eq!(&*third["new.yaml"].bytes, b"x: 2\n", "the same size and a time that was set back");
    assert!(Arc::ptr_eq(&first["old.yaml"].bytes, &third["old.yaml"].bytes));

    let mut hasty = Scanner::new(&directory.0);
    hasty.scan().unwrap();
    directory.write("new.yaml", "x: 3\n");
    assert_eq!(&*hasty.scan().unwrap().0["new.yaml"].bytes, b"x: 3\n", "two writes at one time");
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

#[cfg(unix)]
#[test]
fn links_that_lead_out_of_the_folder_are_reported_and_not_read() {
    use std::os::unix::fs::symlink;
    let (directory, outside) = (Directory::new(), Directory::new());
    outside.write("secret.yaml", "x: 1\n");
    directory.write("sub/a.yaml", "x: 1\n");
    symlink(&outside.0, directory.0.join("directory")).unwrap();
    symlink(outside.0.join("secret.yaml"), directory.0.join("file.yaml")).unwrap();
    symlink("../..", directory.0.join("sub/up")).unwrap();
    symlink("sub/a.yaml", directory.0.join("within.yaml")).unwrap();
    let (files, problems) = scan(&directory.0).unwrap();
    assert_eq!(files.into_keys().collect::<Vec<_>>(), ["sub/a.yaml", "within.yaml"]);
    let named: Vec<&str> = problems.iter().map(|problem| &*problem.file).collect();
    assert_eq!(named, ["directory", "file.yaml", "sub/up"]);
    assert_eq!(problems[0].cause, "a link that leads out of the folder, not read");
}

#[tokio::test]
async fn a_follower_sees_an_edit() {
    let directory = Directory::new();
    directory.write("a.yaml", "apiVersion: v1\nkind: Nothing\n");
    let (mut follower, trouble) = Follower::start(&directory.0, Duration::from_secs(3_600));
    assert_eq!(trouble, None);
    let mut state = FolderState::new(1);
    let mut scanner = Scanner::new(&directory.0);
    let first = scanner.update(&mut state, &|_, _, _| None, &|_| Vec::new()).unwrap();
    assert_eq!(first.problems.len(), 1, "{:?}", first.problems);
    directory.write("b.yaml", "apiVersion: v1\nkind: Nothing\n");
    let event = tokio::time::timeout(Duration::from_secs(60), follower.wait()).await;
    event.expect("an event must come");
    let (files, _) = scanner.scan().unwrap();
    assert_eq!(files.into_keys().collect::<Vec<_>>(), ["a.yaml", "b.yaml"]);
}
