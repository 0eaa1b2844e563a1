//! Counts of the fields that a C-DNS file does not keep.

use std::borrow::Cow;

use crate::Tally;

/// Something that was not kept. Each stands for itself in the accounts, under its name in [`NAMES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Lost {
    Time,
    ClientAddress,
    ClientPort,
    Id,
    ServerAddress,
    ServerPort,
    Transport,
    Opcode,
    Flags,
    QueryName,
    QueryType,
    QueryRecords,
    ResponseDelay,
    ResponseRcode,
    ResponseAnswers,
    ResponseAuthorities,
    ResponseAdditionals,
    ResponseOpt,
    Ttl,
    Rdata,
    Dtls,
    TrailingData,
    AddressSuffix,
    TrueAddresses,
    UnsampledTraffic,
    CaseOfNames,
}

/// The words for them, in the same order.
const NAMES: [&str; 26] = [
    "time",
    "client_address",
    "client_port",
    "message_id",
    "server_address",
    "server_port",
    "transport",
    "opcode",
    "header_flags",
    "query_name",
    "query_type",
    "query_records",
    "response_delay",
    "response_rcode",
    "response_answers",
    "response_authorities",
    "response_additionals",
    "response_opt",
    "ttl",
    "rdata",
    "dtls",
    "trailing_data",
    "address_suffix",
    "true_addresses",
    "unsampled_traffic",
    "case_of_names",
];

/// What was not kept of one transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Losses(u32);

impl Losses {
    /// Notes something.
    pub fn note(&mut self, lost: Lost) {
        self.0 |= 1 << lost as u8;
    }

    /// The value, or its default and a note.
    pub fn or<T>(&mut self, value: Option<T>, lost: Lost, default: T) -> T {
        value.unwrap_or_else(|| {
            self.note(lost);
            default
        })
    }
}

/// How many transactions lost what.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counts([u64; NAMES.len()]);

impl Counts {
    /// Counts what a transaction lost.
    pub fn add(&mut self, losses: Losses) {
        let mut left = losses.0;
        while left != 0 {
            self.0[left.trailing_zeros() as usize] += 1;
            left &= left - 1;
        }
    }

    /// Puts the counts into the accounts.
    pub fn account(&self, tally: &mut Tally) {
        tally.lost.extend(NAMES.map(Cow::Borrowed).into_iter().zip(self.0).filter(|(_, count)| *count > 0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_loss_is_counted_under_its_name_once_a_transaction() {
        let (mut counts, mut tally, mut losses) = (Counts::default(), Tally::default(), Losses::default());
        assert_eq!(losses.or(Some(3), Lost::ClientPort, 0), 3);
        assert_eq!(losses.or(None, Lost::Time, 7), 7);
        losses.note(Lost::CaseOfNames);
        losses.note(Lost::CaseOfNames);
        counts.add(losses);
        counts.add(Losses::default());
        counts.account(&mut tally);
        assert_eq!(tally.lost, [("time".into(), 1), ("case_of_names".into(), 1)].into());
        assert_eq!(NAMES[Lost::ResponseOpt as usize], "response_opt");
    }
}
