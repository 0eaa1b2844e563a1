//! Free disk space.

use std::path::Path;

/// Bytes that a user without privileges can still write where `path` is; `None` where the system does not say.
pub fn free(path: &Path) -> Option<u64> {
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    let disk = rustix::fs::statvfs(path).ok()?;
    Some(disk.f_bavail.saturating_mul(disk.f_frsize))
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_folder_has_room_and_what_is_not_there_has_no_answer() {
        assert!(super::free(&std::env::temp_dir()).is_some_and(|free| free > 0));
        assert_eq!(super::free(std::path::Path::new("/no/such/folder")), None);
    }
}
