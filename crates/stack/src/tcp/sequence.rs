//! Comparing sequence numbers, which wrap (RFC 9293 section 3.4).

/// Whether `a` comes before `b`.
pub const fn before(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) < 0
}

/// Whether `a` comes after `b`.
pub const fn after(a: u32, b: u32) -> bool {
    before(b, a)
}

/// The earlier of two.
pub const fn earlier(a: u32, b: u32) -> u32 {
    if before(a, b) { a } else { b }
}

/// The later of two.
pub const fn later(a: u32, b: u32) -> u32 {
    if before(a, b) { b } else { a }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_compared_across_the_wrap() {
        assert!(before(u32::MAX, 0) && after(5, u32::MAX - 5) && !before(7, 7) && !after(7, 7));
        assert_eq!((earlier(u32::MAX, 3), later(u32::MAX, 3)), (u32::MAX, 3));
    }
}
