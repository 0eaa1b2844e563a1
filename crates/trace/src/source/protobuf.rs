//! A borrowing reader of Protocol Buffers fields.
//!
//! Written by hand, since dnstap has only two messages with some twenty fields: a code generator would add a compiler or
//! macros to the build, and would copy fields that are not needed.

/// Not a Protocol Buffers message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed;

/// The value of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Value<'a> {
    /// A number of any of the three encodings.
    Number(u64),
    /// A string, octets, or a message inside of this one.
    Octets(&'a [u8]),
}

impl<'a> Value<'a> {
    /// The number.
    pub fn number(self) -> Result<u64, Malformed> {
        if let Self::Number(number) = self { Ok(number) } else { Err(Malformed) }
    }

    /// The octets.
    pub fn octets(self) -> Result<&'a [u8], Malformed> {
        if let Self::Octets(octets) = self { Ok(octets) } else { Err(Malformed) }
    }
}

/// The remaining fields of a message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fields<'a>(pub &'a [u8]);

impl<'a> Fields<'a> {
    /// The number of the next field and its value; `None` at the end.
    #[inline]
    pub fn next(&mut self) -> Result<Option<(u64, Value<'a>)>, Malformed> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let key = self.varint()?;
        let value = match key & 7 {
            0 => Value::Number(self.varint()?),
            1 => Value::Number(u64::from_le_bytes(*self.take_chunk()?)),
            2 => {
                let length = self.varint()?;
                Value::Octets(self.take(usize::try_from(length).map_err(|_| Malformed)?)?)
            }
            5 => Value::Number(u32::from_le_bytes(*self.take_chunk()?).into()),
            // Groups (3 and 4) are deprecated, and dnstap has none.
            _ => return Err(Malformed),
        };
        // Field number 0 is invalid.
        if key >> 3 == 0 { Err(Malformed) } else { Ok(Some((key >> 3, value))) }
    }

    #[inline]
    fn take_chunk<const N: usize>(&mut self) -> Result<&'a [u8; N], Malformed> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(Malformed)?;
        self.0 = rest;
        Ok(taken)
    }

    #[inline]
    fn take(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(Malformed)?;
        self.0 = rest;
        Ok(taken)
    }

    /// A varint: seven bits per octet, the lowest first; at most ten octets, nearly always one.
    #[inline]
    fn varint(&mut self) -> Result<u64, Malformed> {
        match self.0.split_first() {
            Some((&octet, rest)) if octet < 0x80 => {
                self.0 = rest;
                Ok(octet.into())
            }
            _ => self.long_varint(),
        }
    }

    fn long_varint(&mut self) -> Result<u64, Malformed> {
        let mut number = 0;
        for (at, &octet) in self.0.iter().take(10).enumerate() {
            number |= u64::from(octet & 0x7f).checked_shl(7 * at as u32).unwrap_or(0);
            if octet < 0x80 {
                self.0 = &self.0[at + 1..];
                return Ok(number);
            }
        }
        Err(Malformed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn all(octets: &[u8]) -> Result<Vec<(u64, Value<'_>)>, Malformed> {
        let mut fields = Fields(octets);
        let mut found = Vec::new();
        while let Some(field) = fields.next()? {
            found.push(field);
        }
        Ok(found)
    }

    #[test]
    fn every_encoding_is_read() {
        let octets = [0x08, 0xac, 0x02, 0x12, 2, b'h', b'i', 0x4d, 1, 0, 0, 0, 0x79, 2, 0, 0, 0, 0, 0, 0, 0];
        let expected =
            [(1, Value::Number(300)), (2, Value::Octets(b"hi")), (9, Value::Number(1)), (15, Value::Number(2))];
        assert_eq!(all(&octets).unwrap(), expected);
        let largest = [0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1];
        assert_eq!(all(&largest).unwrap(), [(1, Value::Number(u64::MAX))]);
    }

    #[test]
    fn what_is_cut_off_or_unknown_is_malformed() {
        let wrong: [&[u8]; 7] = [
            &[0x08],
            &[0x08, 0x80],
            &[0x12, 3, b'h', b'i'],
            &[0x4d, 1, 0, 0],
            &[0x0b, 0x0c],
            &[0x00, 0x01],
            &[0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1],
        ];
        for octets in wrong {
            assert_eq!(all(octets), Err(Malformed), "{octets:?}");
        }
    }

    proptest! {
        #[test]
        fn any_octets_end_in_fields_or_an_error(octets: Vec<u8>) {
            let _ = all(&octets);
        }
    }
}
