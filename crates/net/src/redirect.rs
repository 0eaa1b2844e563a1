//! Leads what would leave by one interface to another one (tc(8)): `tc filter add dev ONE egress … action mirred egress redirect dev OTHER`.

use std::io;

use crate::netlink::{CREATE_NEW, Netlink, REQUEST_ACK, RTM_NEWQDISC, TCA_KIND, attribute};

const RTM_NEWTFILTER: u16 = 44;
/// Parent handle of egress filters, which run before a device's own queue (linux/pkt_sched.h).
const TC_H_CLSACT: u32 = 0xffff_fff1;
const CLSACT_HANDLE: u32 = 0xffff_0000;
const EGRESS: u32 = 0xffff_fff3;
/// The first filter, of all protocols: ETH_P_ALL in network order.
const FIRST_OF_ALL: u32 = 1 << 16 | 3_u16.to_be() as u32;
const TCA_OPTIONS: u16 = 2;
const TCA_U32_SEL: u16 = 5;
const TCA_U32_ACT: u16 = 7;
const TC_U32_TERMINAL: u8 = 1;
const TCA_ACT_KIND: u16 = 1;
const TCA_ACT_OPTIONS: u16 = 2;
const TCA_MIRRED_PARMS: u16 = 2;
const TC_ACT_STOLEN: u32 = 4;
const TCA_EGRESS_REDIR: u32 = 1;

impl Netlink {
    /// Has everything that would leave by an interface leave by another one, with the Ethernet header that it has.
    ///
    /// # Errors
    /// Without CAP_NET_ADMIN in the namespace, or where the kernel lacks one of `clsact`, `u32` and `mirred`, and has no module for it.
    pub fn redirect(&self, from: u32, to: u32) -> io::Result<()> {
        let mut place = traffic(from, CLSACT_HANDLE, TC_H_CLSACT, 0);
        attribute(&mut place, TCA_KIND, b"clsact\0");
        self.request(RTM_NEWQDISC, REQUEST_ACK | CREATE_NEW, &place)?;
        let mut filter = traffic(from, 0, EGRESS, FIRST_OF_ALL);
        attribute(&mut filter, TCA_KIND, b"u32\0");
        attribute(&mut filter, TCA_OPTIONS, &everything(&redirection(to)));
        self.request(RTM_NEWTFILTER, REQUEST_ACK | CREATE_NEW, &filter).map(drop)
    }
}

/// struct tcmsg: family and padding, index, handle, parent, info.
fn traffic(index: u32, handle: u32, parent: u32, info: u32) -> Vec<u8> {
    [0, index, handle, parent, info].iter().flat_map(|word| word.to_ne_bytes()).collect()
}

/// The options of a `u32` filter that takes everything: one key, under whose mask nothing is left.
fn everything(action: &[u8]) -> Vec<u8> {
    // struct tc_u32_sel: flags, shift, keys, two octets of padding and four fields of 16 bits, hash mask; the key: mask, value, offsets.
    let mut selector = vec![TC_U32_TERMINAL, 0, 1, 0];
    selector.resize(selector.len() + 12 + 16, 0);
    let mut actions = Vec::new();
    attribute(&mut actions, 1, action);
    let mut options = Vec::new();
    attribute(&mut options, TCA_U32_SEL, &selector);
    attribute(&mut options, TCA_U32_ACT, &actions);
    options
}

/// A `mirred` action: `struct tc_mirred` has the five fields of all actions (the third is the verdict), then two of its own.
fn redirection(to: u32) -> Vec<u8> {
    let parameters = [0, 0, TC_ACT_STOLEN, 0, 0, TCA_EGRESS_REDIR, to];
    let mut options = Vec::new();
    attribute(&mut options, TCA_MIRRED_PARMS, &parameters.map(u32::to_ne_bytes).concat());
    let mut action = Vec::new();
    attribute(&mut action, TCA_ACT_KIND, b"mirred\0");
    attribute(&mut action, TCA_ACT_OPTIONS, &options);
    action
}
