//! Bounds-checked reading of batch fields.

use std::net::{IpAddr, SocketAddr, SocketAddrV6};

use bytes::Bytes;

use super::WireError;

/// What is left of a batch.
pub struct Reader<'a> {
    octets: &'a Bytes,
    at: usize,
}

impl<'a> Reader<'a> {
    /// All of it.
    pub const fn new(octets: &'a Bytes) -> Self {
        Self { octets, at: 0 }
    }

    /// Whether nothing is left.
    pub const fn is_empty(&self) -> bool {
        self.at == self.octets.len()
    }

    /// The next octets, a fixed number of them.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], WireError> {
        let found = self.octets.get(self.at..).and_then(|rest| rest.first_chunk()).ok_or(WireError::Short)?;
        self.at += N;
        Ok(*found)
    }

    /// The next octets, without a copy.
    pub fn shared(&mut self, length: usize) -> Result<Bytes, WireError> {
        let end = self.at.checked_add(length).filter(|&end| end <= self.octets.len()).ok_or(WireError::Short)?;
        let shared = self.octets.slice(self.at..end);
        self.at = end;
        Ok(shared)
    }

    pub fn u8(&mut self) -> Result<u8, WireError> {
        self.array().map(u8::from_le_bytes)
    }

    pub fn u16(&mut self) -> Result<u16, WireError> {
        self.array().map(u16::from_le_bytes)
    }

    pub fn u32(&mut self) -> Result<u32, WireError> {
        self.array().map(u32::from_le_bytes)
    }

    pub fn u64(&mut self) -> Result<u64, WireError> {
        self.array().map(u64::from_le_bytes)
    }

    pub fn i64(&mut self) -> Result<i64, WireError> {
        self.array().map(i64::from_le_bytes)
    }

    /// An address behind its length.
    pub fn address(&mut self) -> Result<IpAddr, WireError> {
        match self.u8()? {
            4 => Ok(self.array::<4>()?.into()),
            16 => Ok(self.array::<16>()?.into()),
            _ => Err(WireError::Value("address")),
        }
    }

    /// An address, a port, and for IPv6 its scope.
    pub fn socket_address(&mut self) -> Result<SocketAddr, WireError> {
        let (address, port) = (self.address()?, self.u16()?);
        match address {
            IpAddr::V4(v4) => Ok((v4, port).into()),
            IpAddr::V6(v6) => Ok(SocketAddrV6::new(v6, port, 0, self.u32()?).into()),
        }
    }

    /// One of the variants of an enum, by its discriminant.
    pub fn variant<T: Copy>(&mut self, all: &[T], what: &'static str) -> Result<T, WireError> {
        all.get(usize::from(self.u8()?)).copied().ok_or(WireError::Value(what))
    }
}

/// Appends what [`Reader::address`] reads.
pub fn write_address(out: &mut Vec<u8>, address: IpAddr) {
    match address {
        IpAddr::V4(v4) => {
            out.push(4);
            out.extend_from_slice(&v4.octets());
        }
        IpAddr::V6(v6) => {
            out.push(16);
            out.extend_from_slice(&v6.octets());
        }
    }
}

/// Appends what [`Reader::socket_address`] reads.
pub fn write_socket_address(out: &mut Vec<u8>, address: SocketAddr) {
    write_address(out, address.ip());
    out.extend_from_slice(&address.port().to_le_bytes());
    if let SocketAddr::V6(v6) = address {
        out.extend_from_slice(&v6.scope_id().to_le_bytes());
    }
}
