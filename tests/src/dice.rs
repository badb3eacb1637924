//! Randomness that can be had again.

use uuid::Uuid;

/// A stream of random numbers that its seed decides: splitmix64.
#[derive(Debug)]
pub struct Dice(u64);

impl Dice {
    /// Of the seed in `OUTBOX_TEST_SEED`, or else of a fresh one. It is printed, which a test shows
    /// when it fails.
    ///
    /// # Panics
    ///
    /// If the variable holds no number.
    #[must_use]
    pub fn cast() -> Self {
        let seed = match std::env::var("OUTBOX_TEST_SEED") {
            Ok(seed) => seed.parse().expect("OUTBOX_TEST_SEED is a number"),
            Err(_) => Uuid::new_v4().as_u64_pair().0,
        };
        println!("OUTBOX_TEST_SEED={seed}");
        Self(seed)
    }

    /// Dice of their own, for a task that throws beside the others.
    #[must_use]
    pub fn split(&mut self) -> Self {
        Self(self.next())
    }

    /// A number from `least` to `most`, both included.
    pub fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.next() % (most - least + 1)
    }

    /// True once in `n` throws, on average.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.between(1, n) == 1
    }

    /// An index below `length`.
    ///
    /// # Panics
    ///
    /// If there is none.
    pub fn index(&mut self, length: usize) -> usize {
        assert!(length > 0, "nothing to choose from");
        let most = u64::try_from(length - 1).expect("a small number");
        usize::try_from(self.between(0, most)).expect("a small number")
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}
