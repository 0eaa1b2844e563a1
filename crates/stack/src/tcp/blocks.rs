//! Values by number, in blocks: no value is moved when there are more, which would stall a machine with a million of them.

use std::ops::{Index, IndexMut};

/// Values per block.
const BLOCK: usize = 1_024;

/// The values, numbered from 0.
#[derive(Debug)]
pub struct Blocks<T> {
    blocks: Vec<Vec<T>>,
    length: u32,
}

impl<T> Default for Blocks<T> {
    fn default() -> Self {
        Self { blocks: Vec::new(), length: 0 }
    }
}

impl<T> Blocks<T> {
    /// Adds a value and returns its number.
    pub fn push(&mut self, value: T) -> u32 {
        let number = self.length;
        if number as usize == self.blocks.len() * BLOCK {
            self.blocks.push(Vec::with_capacity(BLOCK));
        }
        self.blocks[number as usize / BLOCK].push(value);
        self.length += 1;
        number
    }

    /// How many there are.
    pub const fn len(&self) -> u32 {
        self.length
    }

    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// The value, if there is one of this number.
    pub fn get(&self, number: u32) -> Option<&T> {
        self.blocks.get(number as usize / BLOCK)?.get(number as usize % BLOCK)
    }
}

impl<T> Index<u32> for Blocks<T> {
    type Output = T;
    fn index(&self, number: u32) -> &T {
        &self.blocks[number as usize / BLOCK][number as usize % BLOCK]
    }
}

impl<T> IndexMut<u32> for Blocks<T> {
    fn index_mut(&mut self, number: u32) -> &mut T {
        &mut self.blocks[number as usize / BLOCK][number as usize % BLOCK]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_many_blocks_have_their_numbers() {
        let mut blocks = Blocks::default();
        for number in 0..3_000_u32 {
            assert_eq!(blocks.push(number), number);
        }
        blocks[2_047] = 7;
        assert_eq!((blocks[2_047], blocks[2_048], blocks.get(3_000), blocks.len()), (7, 2_048, None, 3_000));
    }
}
