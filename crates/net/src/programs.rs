//! Finds programs on the PATH and in the system directories, which the PATH of ordinary users often lacks.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

/// Folders of system programs: servers are there.
const SYSTEM: [&str; 3] = ["/usr/local/sbin", "/usr/sbin", "/sbin"];
/// Where programs are looked for without a PATH.
const USUAL: &str = "/usr/local/bin:/usr/bin:/bin";

/// The file of a program, by its name or by a path.
pub fn find(program: &str) -> Option<PathBuf> {
    let is_program = |file: &Path| file.is_file() && access(file, Access::EXEC_OK).is_ok();
    if program.contains('/') {
        return Some(PathBuf::from(program)).filter(|file| is_program(file));
    }
    let path = search_path();
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|file| is_program(file))
}

/// The PATH with the folders of system programs behind it, for commands that start programs themselves.
pub fn search_path() -> OsString {
    with_system(std::env::var_os("PATH"))
}

/// An empty PATH means no directories; a missing one means the default.
fn with_system(path: Option<OsString>) -> OsString {
    SYSTEM.iter().fold(path.unwrap_or_else(|| USUAL.into()), |mut path, folder| {
        if !path.is_empty() {
            path.push(":");
        }
        path.push(folder);
        path
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_by_name_and_by_path() {
        let shell = find("sh").unwrap();
        assert!(shell.is_absolute() && shell.ends_with("sh"));
        assert_eq!(find(shell.to_str().unwrap()), Some(shell));
        assert_eq!((find("no-such-program"), find("/etc"), find("/etc/passwd")), (None, None, None));
    }

    #[test]
    fn an_empty_path_is_not_a_path_that_is_missing() {
        assert_eq!(with_system(Some("".into())), "/usr/local/sbin:/usr/sbin:/sbin");
        assert_eq!(with_system(Some("/opt".into())), "/opt:/usr/local/sbin:/usr/sbin:/sbin");
        assert!(with_system(None).to_str().unwrap().starts_with("/usr/local/bin:/usr/bin:/bin:"));
    }

    #[test]
    fn system_programs_are_looked_for_last() {
        let (path, searched) = (std::env::var("PATH").unwrap(), search_path().into_string().unwrap());
        assert_eq!(searched.strip_prefix(&path), Some(":/usr/local/sbin:/usr/sbin:/sbin"));
    }
}
