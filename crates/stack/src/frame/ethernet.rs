//! Ethernet headers, with one optional tag (IEEE 802.1Q).

use super::BadFrame;

/// An address of the link layer.
pub type Mac = [u8; 6];

/// Everybody on the link.
pub const BROADCAST: Mac = [0xff; 6];
/// EtherType of IPv4.
pub const IPV4: u16 = 0x0800;
/// EtherType of ARP.
pub const ARP: u16 = 0x0806;
/// EtherType of IPv6.
pub const IPV6: u16 = 0x86dd;
/// EtherType of a tag (IEEE 802.1Q).
const TAG: u16 = 0x8100;
/// EtherType of the outer of two tags (IEEE 802.1ad).
const OUTER_TAG: u16 = 0x88a8;
/// Longest header in octets: with a tag.
pub const LONGEST: usize = 18;

/// A frame as it arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ethernet<'a> {
    /// To whom.
    pub destination: Mac,
    /// From whom.
    pub source: Mac,
    /// Number of the VLAN, 0 to 4095, if there is a tag.
    pub vlan: Option<u16>,
    /// What the payload is.
    pub ethertype: u16,
    /// What is behind the header, with padding.
    pub payload: &'a [u8],
}

impl<'a> Ethernet<'a> {
    /// Reads the header of a frame.
    ///
    /// # Errors
    /// If it is cut short, or has two tags.
    pub fn read(frame: &'a [u8]) -> Result<Self, BadFrame> {
        let (&destination, rest) = frame.split_first_chunk().ok_or(BadFrame::Ethernet)?;
        let (&source, rest) = rest.split_first_chunk().ok_or(BadFrame::Ethernet)?;
        let (mut ethertype, mut payload) = split_u16(rest).ok_or(BadFrame::Ethernet)?;
        let mut vlan = None;
        if ethertype == TAG {
            let (control, rest) = split_u16(payload).ok_or(BadFrame::Ethernet)?;
            vlan = Some(control & 0x0fff);
            (ethertype, payload) = split_u16(rest).ok_or(BadFrame::Ethernet)?;
        }
        match ethertype {
            TAG | OUTER_TAG => Err(BadFrame::Tags),
            _ => Ok(Self { destination, source, vlan, ethertype, payload }),
        }
    }
}

fn split_u16(octets: &[u8]) -> Option<(u16, &[u8])> {
    let (value, rest) = octets.split_first_chunk()?;
    Some((u16::from_be_bytes(*value), rest))
}

/// A header that is ready to be written: who sends to whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    octets: [u8; LONGEST],
    length: u8,
}

impl Link {
    /// Frames from `source` to `destination`, in a VLAN or none.
    pub fn new(source: Mac, destination: Mac, vlan: Option<u16>) -> Self {
        let mut octets = [0; LONGEST];
        octets[..6].copy_from_slice(&destination);
        octets[6..12].copy_from_slice(&source);
        if let Some(vlan) = vlan {
            octets[12..14].copy_from_slice(&TAG.to_be_bytes());
            octets[14..16].copy_from_slice(&(vlan & 0x0fff).to_be_bytes());
        }
        Self { octets, length: if vlan.is_some() { 18 } else { 14 } }
    }

    /// No header at all, for devices that carry IP packets, such as TUN.
    pub const fn none() -> Self {
        Self { octets: [0; LONGEST], length: 0 }
    }

    /// The same to somebody else.
    pub fn to(mut self, destination: Mac) -> Self {
        self.octets[..6].copy_from_slice(&destination);
        self
    }

    /// Octets of the header.
    pub const fn len(&self) -> usize {
        self.length as usize
    }

    /// Whether there is none.
    pub const fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Writes the header and returns where the payload begins; `None` if it does not fit.
    pub fn write(&self, frame: &mut [u8], ethertype: u16) -> Option<usize> {
        let length = self.len();
        let header = frame.get_mut(..length)?;
        header.copy_from_slice(&self.octets[..length]);
        if let Some(at) = length.checked_sub(2) {
            header[at..].copy_from_slice(&ethertype.to_be_bytes());
        }
        Some(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: Mac = [2, 0, 0, 0, 0, 1];

    #[test]
    fn headers_with_and_without_a_tag_are_read_back() {
        for vlan in [None, Some(0), Some(4_095)] {
            let mut frame = [7; 20];
            let at = Link::new(SOURCE, BROADCAST, None).to([9; 6]).write(&mut [0; 14], IPV4);
            assert_eq!(at, Some(14));
            let at = Link::new(SOURCE, BROADCAST, vlan).write(&mut frame, IPV6).unwrap();
            let read = Ethernet::read(&frame).unwrap();
            let expected =
                Ethernet { destination: BROADCAST, source: SOURCE, vlan, ethertype: IPV6, payload: &frame[at..] };
            assert_eq!(read, expected);
        }
    }

    #[test]
    fn two_tags_and_cut_headers_have_their_reasons() {
        let mut frame = [0; 22];
        Link::new(SOURCE, BROADCAST, Some(7)).write(&mut frame, TAG).unwrap();
        assert_eq!(Ethernet::read(&frame), Err(BadFrame::Tags));
        for length in 0..18 {
            assert_eq!(Ethernet::read(&frame[..length]), Err(BadFrame::Ethernet));
            assert_eq!(Link::new(SOURCE, BROADCAST, Some(7)).write(&mut [0; 18][..length], IPV4), None);
        }
    }

    #[test]
    fn a_device_without_headers_has_none() {
        assert_eq!(Link::none().write(&mut [], IPV4), Some(0));
        assert!(Link::none().is_empty());
    }
}
