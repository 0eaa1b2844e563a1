//! Memory that is mapped and shared with the kernel, read and written within its bounds whatever the kernel says is where.

use std::io;
use std::os::fd::AsRawFd;
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::atomic::{AtomicU32, Ordering};

use socket2::Socket;

/// A mapping, undone when it is dropped.
pub(super) struct Memory {
    start: NonNull<u8>,
    octets: usize,
}

// SAFETY: the memory belongs to the process, not to a thread.
unsafe impl Send for Memory {}

impl Memory {
    /// Memory of the process's own, all zeros.
    pub(super) fn private(octets: usize) -> io::Result<Self> {
        Self::map(octets, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0)
    }

    /// Memory that the kernel shares by a socket.
    pub(super) fn of_socket(socket: &Socket, octets: usize, offset: libc::off_t) -> io::Result<Self> {
        Self::map(octets, libc::MAP_SHARED, socket.as_raw_fd(), offset)
    }

    fn map(octets: usize, flags: i32, file: i32, offset: libc::off_t) -> io::Result<Self> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let flags = flags | libc::MAP_POPULATE;
        // SAFETY: the kernel chooses where; nothing that is mapped already is replaced.
        let start = unsafe { libc::mmap(ptr::null_mut(), octets, access, flags, file, offset) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { start, octets })
    }

    /// Where it begins, for the kernel.
    pub(super) fn address(&self) -> u64 {
        self.start.as_ptr().addr() as u64
    }

    /// The word at an offset; `None` where that is outside or not aligned.
    fn word(&self, at: usize) -> Option<&AtomicU32> {
        if !at.is_multiple_of(align_of::<AtomicU32>()) || !self.holds(at, size_of::<AtomicU32>()) {
            return None;
        }
        // SAFETY: the word is aligned (mappings begin with a page), inside the mapping, and never accessed but atomically while
        // the kernel may write it.
        Some(unsafe { AtomicU32::from_ptr(self.start.as_ptr().add(at).cast()) })
    }

    /// Reads a word, and with it what its writer had written before; 0 outside.
    pub(super) fn load(&self, at: usize) -> u32 {
        self.word(at).map_or(0, |word| word.load(Ordering::Acquire))
    }

    /// Writes a word, after all that was written before; nothing outside.
    pub(super) fn store(&self, at: usize, value: u32) {
        if let Some(word) = self.word(at) {
            word.store(value, Ordering::Release);
        }
    }

    /// Octets of a part; `None` if it is not inside the mapping.
    ///
    /// # Safety
    /// The kernel must not write to the part while the result lives.
    pub(super) unsafe fn read(&self, at: usize, length: usize) -> &[u8] {
        if !self.holds(at, length) {
            return &[];
        }
        // SAFETY: the part is inside the mapping, whose octets all have a value, and the caller vouches for the kernel.
        unsafe { slice::from_raw_parts(self.start.as_ptr().add(at), length) }
    }

    /// Writable octets of a part; `None` if it is not inside the mapping.
    ///
    /// # Safety
    /// The kernel must neither read nor write the part while the result lives.
    pub(super) unsafe fn write(&mut self, at: usize, length: usize) -> &mut [u8] {
        if !self.holds(at, length) {
            return &mut [];
        }
        // SAFETY: as above; and `self` is borrowed for as long.
        unsafe { slice::from_raw_parts_mut(self.start.as_ptr().add(at), length) }
    }

    fn holds(&self, at: usize, length: usize) -> bool {
        at.checked_add(length).is_some_and(|end| end <= self.octets)
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: these are the address and length of the mapping, and all borrows of it have ended.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.octets) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_outside_is_read_or_written() {
        let mut memory = Memory::private(4_096).unwrap();
        for outside in [4_093, 4_096, 4_098, usize::MAX - 3, usize::MAX] {
            memory.store(outside, 7);
            assert_eq!(memory.load(outside), 0);
        }
        memory.store(4_092, 7);
        assert_eq!(memory.load(4_092), 7);
        // SAFETY: the kernel does not know this memory.
        let lengths =
            unsafe { [memory.read(4_000, 97).len(), memory.read(usize::MAX, 2).len(), memory.read(4_000, 96).len()] };
        assert_eq!(lengths, [0, 0, 96]);
        // SAFETY: as above.
        assert_eq!(unsafe { [memory.write(1, 4_096).len(), memory.write(0, 4_096).len()] }, [0, 4_096]);
    }
}
