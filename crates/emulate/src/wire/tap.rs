//! Captures what the wire delivers: nanosecond pcap of link type RAW, for tcpdump, Wireshark and `ldplayer inspect`.

use std::fmt;
use std::io::{self, Write};

use ldplayer_core::time::NS_PER_S;

/// Magic number of captures with nanosecond timestamps.
const MAGIC_NS: u32 = 0xa1b2_3c4d;
/// Packets begin with their IP header.
const LINKTYPE_RAW: u32 = 101;
const SNAP_LENGTH: u32 = 65_535;

/// A capture being written. After a failed write it takes no more packets, and the error is returned when it is finished.
pub struct Tap {
    output: Box<dyn Write + Send>,
    offset: i64,
    error: Option<io::Error>,
    packets: u64,
}

impl Tap {
    /// Begins a capture; `offset` converts the wire's time to wall-clock time (nanoseconds since 1970). Writes happen
    /// on the wire's thread: `output` should be buffered.
    pub fn new(output: impl Write + Send + 'static, offset: i64) -> Self {
        let mut tap = Self { output: Box::new(output), offset, error: None, packets: 0 };
        let mut header = [0; 24];
        header[..4].copy_from_slice(&MAGIC_NS.to_le_bytes());
        (header[4], header[6]) = (2, 4);
        header[16..20].copy_from_slice(&SNAP_LENGTH.to_le_bytes());
        header[20..].copy_from_slice(&LINKTYPE_RAW.to_le_bytes());
        tap.put(&header);
        tap
    }

    /// Writes a packet delivered at `now` of the wire's time.
    pub fn write(&mut self, now: i64, packet: &[u8]) {
        let time = now.saturating_add(self.offset).max(0);
        let (seconds, ns) = ((time / NS_PER_S) as u32, (time % NS_PER_S) as u32);
        let mut header = [0; 16];
        for (place, word) in header.chunks_exact_mut(4).zip([seconds, ns, packet.len() as u32, packet.len() as u32]) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        self.put(&header);
        self.put(packet);
        self.packets += 1;
    }

    /// Flushes the capture; returns the number of packets in it.
    ///
    /// # Errors
    /// The first failed write, which ended the capture.
    pub fn finish(mut self) -> io::Result<u64> {
        match self.error.take() {
            Some(error) => Err(error),
            None => self.output.flush().map(|()| self.packets),
        }
    }

    fn put(&mut self, octets: &[u8]) {
        if self.error.is_none() {
            self.error = self.output.write_all(octets).err();
        }
    }
}

impl fmt::Debug for Tap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tap").field("packets", &self.packets).field("error", &self.error).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Sender, channel};

    struct Pieces(Sender<Vec<u8>>);

    impl Write for Pieces {
        fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
            self.0.send(octets.to_vec()).map_err(io::Error::other)?;
            Ok(octets.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_capture_has_a_header_and_stamped_packets() {
        let (sender, pieces) = channel();
        let mut tap = Tap::new(Pieces(sender), 1_000_000_000_000_000_000);
        tap.write(5, b"packet");
        assert_eq!(tap.finish().unwrap(), 1);
        let capture: Vec<u8> = pieces.iter().flatten().collect();
        assert_eq!(capture[..8], [0x4d, 0x3c, 0xb2, 0xa1, 2, 0, 4, 0]);
        assert_eq!(capture[20..24], [101, 0, 0, 0]);
        assert_eq!(capture[24..28], 1_000_000_000_u32.to_le_bytes());
        assert_eq!(capture[28..], [&[5, 0, 0, 0, 6, 0, 0, 0, 6, 0, 0, 0][..], b"packet"].concat());
    }

    #[test]
    fn a_write_that_fails_is_told_in_the_end() {
        let (sender, pieces) = channel();
        let mut tap = Tap::new(Pieces(sender), 0);
        drop(pieces);
        tap.write(0, b"packet");
        assert!(tap.finish().is_err());
    }
}
