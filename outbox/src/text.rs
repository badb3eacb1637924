//! A text for the compiler to show, put together while it compiles.

/// A text put together in a `const`.
pub(crate) struct Text {
    bytes: [u8; Self::CAPACITY],
    length: usize,
}

impl Text {
    /// Enough for two topics and two places; what is longer is cut.
    const CAPACITY: usize = 2048;

    pub(crate) const fn new() -> Self {
        Self {
            bytes: [0; Self::CAPACITY],
            length: 0,
        }
    }

    pub(crate) const fn and(mut self, text: &str) -> Self {
        let bytes = text.as_bytes();
        let mut at = 0;
        while at < bytes.len() && self.length < Self::CAPACITY {
            self.bytes[self.length] = bytes[at];
            self.length += 1;
            at += 1;
        }
        self
    }

    /// The character that starts at this byte.
    pub(crate) const fn and_character(self, text: &str, at: usize) -> Self {
        let mut end = at + 1;
        while !text.is_char_boundary(end) {
            end += 1;
        }
        let (text, _) = text.split_at(end);
        let (_, character) = text.split_at(at);
        self.and(character)
    }

    pub(crate) const fn and_number(self, number: usize) -> Self {
        const DIGITS: &str = "0123456789";
        let rest = if number < 10 {
            self
        } else {
            self.and_number(number / 10)
        };
        rest.and_character(DIGITS, number % 10)
    }

    #[track_caller]
    pub(crate) const fn panic(&self) -> ! {
        let (text, _) = self.bytes.split_at(self.length);
        match std::str::from_utf8(text) {
            Ok(text) => panic!("{}", text),
            // Only a text that was cut within a character.
            Err(_) => panic!("a promise that is checked here is broken"),
        }
    }
}
