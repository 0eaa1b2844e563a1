//! The stages of an in-flight query.

/// The stage of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Not yet handed to the kernel, or not yet written to a connection.
    Queued,
    /// Sent, not answered.
    Outstanding,
    /// Timed out and recorded; kept to recognise a late answer.
    Lingering,
}
