//! Where the fields of a line begin and end.

/// What stands between two columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Separator {
    Byte(u8),
    /// The same, with fields in quotation marks.
    Quoted(u8),
    Blanks,
}

impl Separator {
    /// The one with which `text` has at least `needed` columns, or the first that occurs.
    pub(super) fn find(text: &[u8], needed: usize) -> Self {
        const KNOWN: [u8; 3] = [b'\t', b';', b','];
        let count = |byte: u8| text.iter().filter(|&&each| each == byte).count();
        let enough = KNOWN.iter().find(|&&byte| count(byte) > 0 && count(byte) + 1 >= needed);
        match enough.or_else(|| KNOWN.iter().find(|&&byte| count(byte) > 0)) {
            Some(&byte) => Self::Quoted(byte),
            None => Self::Blanks,
        }
    }
}

/// Where the fields of a line begin and end.
#[derive(Debug, Default)]
pub(super) struct Cut {
    ends: Vec<(usize, usize)>,
}

impl Cut {
    pub(super) fn count(&self) -> usize {
        self.ends.len()
    }

    /// A field without blanks around it; it must be there.
    #[inline]
    pub(super) fn field<'a>(&self, text: &'a [u8], at: usize) -> &'a [u8] {
        let (begin, end) = self.ends[at];
        text[begin..end].trim_ascii()
    }

    #[inline]
    pub(super) fn line(&mut self, text: &[u8], separator: Separator) {
        self.ends.clear();
        match separator {
            Separator::Byte(byte) => self.plain(text, byte),
            Separator::Quoted(byte) if text.contains(&b'"') => self.quoted(text, byte),
            Separator::Quoted(byte) => self.plain(text, byte),
            Separator::Blanks => self.words(text),
        }
    }

    #[inline]
    fn plain(&mut self, text: &[u8], separator: u8) {
        let mut begin = 0;
        for (at, &byte) in text.iter().enumerate() {
            if byte == separator {
                self.ends.push((begin, at));
                begin = at + 1;
            }
        }
        self.ends.push((begin, text.len()));
    }

    fn words(&mut self, text: &[u8]) {
        let mut begin = 0;
        for (at, byte) in text.iter().chain(b" ").enumerate() {
            if byte.is_ascii_whitespace() {
                if begin < at {
                    self.ends.push((begin, at));
                }
                begin = at + 1;
            }
        }
    }

    /// Separators between quotation marks do not count; the marks around a field are cut off, and
    /// blanks around these.
    fn quoted(&mut self, text: &[u8], separator: u8) {
        let mut inside = false;
        let mut begin = 0;
        for at in 0..=text.len() {
            let byte = text.get(at).copied();
            if byte == Some(b'"') {
                inside = !inside;
            }
            if byte.is_none() || !inside && byte == Some(separator) {
                let field = text[begin..at].trim_ascii_start();
                let from = at - field.len();
                let field = field.trim_ascii_end();
                let marked = field.len() > 1 && field.starts_with(b"\"") && field.ends_with(b"\"");
                let cut = usize::from(marked);
                self.ends.push((from + cut, from + field.len() - cut));
                begin = at + 1;
            }
        }
    }
}
