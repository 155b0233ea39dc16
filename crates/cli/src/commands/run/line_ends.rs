//! Line ends on their way from the guest's terminal to one that translates them too.

/// The guest's terminal makes `\r\n` of each `\n`. What goes to a terminal that does the same is `\n`
/// again.
#[derive(Debug, Default)]
pub(super) struct LineEnds {
    /// The last byte was a carriage return, which perhaps belongs to a line end.
    holds_return: bool,
}

impl LineEnds {
    /// Adds output as the terminal outside wants it.
    pub(super) fn pass(&mut self, printed: &[u8], translated_outside: bool, to: &mut Vec<u8>) {
        if !translated_outside {
            self.end(to);
            return to.extend_from_slice(printed);
        }
        for byte in printed {
            if *byte != b'\n' {
                self.end(to);
            }
            self.holds_return = *byte == b'\r';
            if !self.holds_return {
                to.push(*byte);
            }
        }
    }

    /// Nothing follows.
    pub(super) fn end(&mut self, to: &mut Vec<u8>) {
        if std::mem::take(&mut self.holds_return) {
            to.push(b'\r');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passed(pieces: &[&str], translated_outside: bool) -> String {
        let (mut ends, mut to) = (LineEnds::default(), Vec::new());
        for piece in pieces {
            ends.pass(piece.as_bytes(), translated_outside, &mut to);
        }
        ends.end(&mut to);
        String::from_utf8(to).unwrap()
    }

    #[test]
    fn a_line_end_is_translated_once() {
        assert_eq!(passed(&["a\r\nb\r\n"], true), "a\nb\n");
        assert_eq!(passed(&["a\r", "\nb"], true), "a\nb");
        assert_eq!(passed(&["a\r", "\nb\r\n"], false), "a\r\nb\r\n");
    }

    #[test]
    fn other_returns_stay() {
        assert_eq!(
            passed(&["10 %\r20 %\r", "30 %\r"], true),
            "10 %\r20 %\r30 %\r"
        );
        assert_eq!(passed(&["\r\r\n\r"], true), "\r\n\r");
    }

    #[test]
    fn a_held_return_goes_before_what_is_not_translated() {
        let (mut ends, mut to) = (LineEnds::default(), Vec::new());
        ends.pass(b"a\r", true, &mut to);
        ends.pass(b"\nb", false, &mut to);
        assert_eq!(to, b"a\r\nb");
    }
}
