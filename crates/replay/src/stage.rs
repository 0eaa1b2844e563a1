//! Where a query stands that is on its way.

/// Where a query stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Not handed to the kernel; on connections: not written.
    Queued,
    /// Sent, not answered.
    Outstanding,
    /// Timed out and recorded; kept so that a late answer is known.
    Lingering,
}
