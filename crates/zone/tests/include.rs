//! `$INCLUDE` reads regular files below the zone file's folder, so many and so much, and shows nothing of others.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use ldplayer_zone::Records;
use ldplayer_zone::load::{self, Includes, MAX_INCLUDED_FILES};

const HEAD: &str = "$TTL 60\n$ORIGIN example.\n@ SOA ns h 1 2 3 4 5\n";
/// What a file out of the folder has, which no message may show.
const SECRET: &str = "topsecret:x:1000:1000\n";

/// A folder with a set, and a file beside the set.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        let folder = Self(tempfile::tempdir().unwrap());
        fs::create_dir_all(folder.path("set/sub")).unwrap();
        fs::write(folder.path("secret"), SECRET).unwrap();
        fs::write(folder.path("good"), "good A 192.0.2.2\n").unwrap();
        fs::write(folder.path("set/sub/inner"), "inner A 192.0.2.1\n$INCLUDE deeper\n").unwrap();
        fs::write(folder.path("set/sub/deeper"), "deeper A 192.0.2.3\n").unwrap();
        folder
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.0.path().join(name)
    }

    fn load(&self, text: &str, includes: Includes) -> Result<Records, String> {
        let file = self.path("set/z");
        fs::write(&file, HEAD.to_owned() + text).unwrap();
        let shown = |error: ldplayer_zone::LoadError| error.to_string().replace(self.0.path().to_str().unwrap(), "");
        load::file_with(&file, None, includes).map_err(shown)
    }

    fn refused(&self, path: &str) -> String {
        self.load(&format!("$INCLUDE {path}\n"), Includes::Below).unwrap_err()
    }
}

#[test]
fn files_below_the_folder_are_included() {
    let folder = Folder::new();
    let inner = folder.path("set/sub/inner");
    symlink(&inner, folder.path("set/link")).unwrap();
    for path in ["sub/inner", "./sub/../sub/inner", inner.to_str().unwrap()] {
        let records = folder.load(&format!("$INCLUDE {path}\n"), Includes::Below).unwrap();
        assert_eq!(records.len(), 3, "{path}");
    }
    assert!(folder.refused("link").contains("/set/deeper: cannot be read"), "it is beside the link, and read");
}

#[test]
fn files_out_of_the_folder_are_not_included_whether_they_are_there_or_not() {
    let folder = Folder::new();
    symlink(folder.path("secret"), folder.path("set/link")).unwrap();
    symlink(folder.0.path(), folder.path("set/up")).unwrap();
    let wanted = "is outside the folder of the zone file, and only files in that folder are included (see --include-anywhere of serve, \
                  zones check, zones sign and zones views)";
    for path in
        ["../secret", "../nothing", "sub/../../secret", "/etc/passwd", "/no/such", "link", "up/secret", "../set-2/x"]
    {
        assert_eq!(folder.refused(path), format!("/set/z:4: `{path}` {wanted}"));
    }
    let error = folder.refused("sub/nothing");
    assert!(error.starts_with("/set/sub/nothing: cannot be read"), "{error}");
}

#[test]
fn only_regular_files_are_included() {
    let folder = Folder::new();
    let pipe = folder.path("set/pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    for path in ["pipe", "sub"] {
        assert_eq!(folder.refused(path), format!("/set/z:4: `{path}` is not a regular file and is not included"));
    }
    let error = folder.load("$INCLUDE /dev/zero\n", Includes::Anywhere).unwrap_err();
    assert_eq!(error, "/set/z:4: `/dev/zero` is not a regular file and is not included");
}

#[test]
fn an_option_lifts_it_and_nothing_of_a_file_outside_is_shown() {
    let folder = Folder::new();
    assert_eq!(folder.load("$INCLUDE ../good\n", Includes::Anywhere).unwrap().len(), 2);
    fs::write(folder.path("outer"), "x A 192.0.2.1\n$INCLUDE topsecret\n").unwrap();
    for (path, place) in [("../secret", "/secret:1"), ("../outer", "/outer:2")] {
        let error = folder.load(&format!("$INCLUDE {path}\n"), Includes::Anywhere).unwrap_err();
        let (file, rest) = error.split_at(error.rfind(place).unwrap_or_else(|| panic!("{error}")) + place.len());
        assert!(!error.contains("topsecret"), "{error}");
        assert_eq!(
            rest, ": syntax error; details are not shown for files outside the folder of the zone file",
            "{file}"
        );
    }
}

#[test]
fn so_many_files_are_included() {
    let folder = Folder::new();
    let text = |files: usize| "$INCLUDE sub/deeper\n".repeat(files);
    assert_eq!(folder.load(&text(MAX_INCLUDED_FILES), Includes::Below).unwrap().len(), 1 + MAX_INCLUDED_FILES);
    let error = folder.load(&text(MAX_INCLUDED_FILES + 1), Includes::Below).unwrap_err();
    assert_eq!(error, "/set/z:1028: more than 1024 included files: put the records into fewer files");
    // Files that include one another twice each, down to the bound on depth.
    for number in 0..15 {
        let next = format!("$INCLUDE t{}\n", number + 1);
        fs::write(folder.path(&format!("set/t{number}")), next.repeat(2)).unwrap();
    }
    fs::write(folder.path("set/t15"), "").unwrap();
    let error = folder.refused("t0");
    assert!(error.contains("files"), "{error}");
    assert!(Path::new(&folder.path("set/t15")).exists());
}
