//! The files of enrolment by list: member numbers are read from a CSV file, and written into one
//! with their links (RFC 4180).
//!
//! A byte order mark, CRLF and LF are all read, and empty lines are passed over. The first line is
//! a header with one column `member`; other columns are not read.

use std::borrow::Cow;
use std::collections::HashMap;

use super::names::{FormError, MemberNumber};
use super::wire::MOST_INVITATIONS;
use crate::json::to_printable;

/// The column that is read.
pub const MEMBER_COLUMN: &str = "member";

/// The most characters of a text of the file that an error quotes.
const MOST_QUOTED: usize = 80;

/// Why a file of member numbers is refused. Lines count from 1.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CsvError {
    /// A byte that is not part of a UTF-8 text.
    #[error("line {line}: the text is not UTF-8; save the file as \"CSV UTF-8\"")]
    NotUtf8 {
        /// The line of the byte.
        line: usize,
    },
    /// The header has no column for the member numbers.
    #[error(
        "line {line}: the header has no column {MEMBER_COLUMN}, it is {header:?}; name the column of the member \
         numbers {MEMBER_COLUMN}, and separate columns by commas"
    )]
    NoColumn {
        /// The line of the header.
        line: usize,
        /// The beginning of the header.
        header: String,
    },
    /// The header has the column more than once.
    #[error("line {line}: the header has more than one column {MEMBER_COLUMN}; there must be one")]
    TwoColumns {
        /// The line of the header.
        line: usize,
    },
    /// A row that ends before the column.
    #[error("line {line}: the row has no column {MEMBER_COLUMN}")]
    ShortRow {
        /// The line on which the row begins.
        line: usize,
    },
    /// A text that is no member number.
    #[error("line {line}: {number:?} is not a member number: it {problem}")]
    Form {
        /// The line on which the row begins.
        line: usize,
        /// The beginning of the text.
        number: String,
        /// What is wrong with it.
        problem: FormError,
    },
    /// A number that occurs twice.
    #[error("line {second}: the member number {number} is on line {first} already; a number may occur once")]
    Twice {
        /// The number.
        number: MemberNumber,
        /// The line on which it was first.
        first: usize,
        /// The line on which it is again.
        second: usize,
    },
    /// A field that begins with a quote and does not end with one.
    #[error("line {line}: a field begins with a quote, and no quote ends it")]
    UnclosedQuote {
        /// The line of the quote.
        line: usize,
    },
    /// A quote where none may be.
    #[error(
        "line {line}: a quote is inside a field, or text follows the quote that ends one; put the whole field between \
         quotes, and double the quotes inside it"
    )]
    StrayQuote {
        /// The line of the quote.
        line: usize,
    },
    /// More rows than a request for invitations can have.
    #[error("line {line}: the file has more than {MOST_INVITATIONS} rows; divide it")]
    TooManyRows {
        /// The line of the first row beyond them.
        line: usize,
    },
}

/// Reads the member numbers of a file, in their order.
///
/// # Errors
/// The first fault of the file.
pub fn read_members(file: &[u8]) -> Result<Vec<MemberNumber>, CsvError> {
    let text = std::str::from_utf8(file).map_err(|error| {
        let before = file.get(..error.valid_up_to()).unwrap_or_default();
        CsvError::NotUtf8 { line: 1 + before.iter().filter(|byte| **byte == b'\n').count() }
    })?;
    let mut rows = Rows { rest: text.strip_prefix('\u{feff}').unwrap_or(text), line: 1 };
    let mut fields = Vec::new();
    let header_line = rows.next_row(&mut fields)?.unwrap_or(1);
    let mut columns = (0..).zip(&fields).filter(|(_, name)| *name == MEMBER_COLUMN).map(|(index, _)| index);
    let column: usize = match (columns.next(), columns.next()) {
        (Some(column), None) => column,
        (Some(_), Some(_)) => return Err(CsvError::TwoColumns { line: header_line }),
        (None, _) => return Err(CsvError::NoColumn { line: header_line, header: quoted(&fields.join(",")) }),
    };
    let mut members = Vec::new();
    let mut lines = HashMap::new();
    while let Some(line) = rows.next_row(&mut fields)? {
        if members.len() == MOST_INVITATIONS {
            return Err(CsvError::TooManyRows { line });
        }
        let text = fields.get(column).ok_or(CsvError::ShortRow { line })?;
        let number: MemberNumber =
            text.parse().map_err(|problem| CsvError::Form { line, number: quoted(text), problem })?;
        if let Some(first) = lines.insert(number.clone(), line) {
            return Err(CsvError::Twice { number, first, second: line });
        }
        members.push(number);
    }
    Ok(members)
}

/// A text of the file as an error quotes it.
fn quoted(text: &str) -> String {
    to_printable(text).chars().take(MOST_QUOTED).collect()
}

/// What is not read yet.
struct Rows<'a> {
    rest: &'a str,
    /// The line on which it begins.
    line: usize,
}

impl<'a> Rows<'a> {
    /// Reads the fields of the next row that is not empty; returns the line on which it begins, or
    /// `None` at the end.
    fn next_row(&mut self, fields: &mut Vec<Cow<'a, str>>) -> Result<Option<usize>, CsvError> {
        fields.clear();
        while let Some(rest) = self.rest.strip_prefix("\r\n").or_else(|| self.rest.strip_prefix('\n')) {
            self.rest = rest;
            self.line += 1;
        }
        if self.rest.is_empty() {
            return Ok(None);
        }
        let line = self.line;
        loop {
            let field = match self.rest.strip_prefix('"') {
                Some(quoted) => self.quoted_field(quoted)?,
                None => self.plain_field()?,
            };
            fields.push(field);
            if let Some(rest) = self.rest.strip_prefix(',') {
                self.rest = rest;
                continue;
            }
            if let Some(rest) = self.rest.strip_prefix("\r\n").or_else(|| self.rest.strip_prefix('\n')) {
                self.rest = rest;
                self.line += 1;
            }
            return Ok(Some(line));
        }
    }

    /// Reads a field up to its comma or the end of its line.
    fn plain_field(&mut self) -> Result<Cow<'a, str>, CsvError> {
        let end = self.rest.find([',', '\n', '"']).unwrap_or(self.rest.len());
        let (field, rest) = self.rest.split_at(end);
        match rest.bytes().next() {
            Some(b'"') => return Err(CsvError::StrayQuote { line: self.line }),
            // The return belongs to the line end, which is read next.
            Some(b'\n') if field.ends_with('\r') => {
                self.rest = &self.rest[end - 1..];
                return Ok(Cow::Borrowed(&field[..end - 1]));
            }
            _ => {}
        }
        self.rest = rest;
        Ok(Cow::Borrowed(field))
    }

    /// Reads a field behind its first quote. Two quotes stand for one.
    fn quoted_field(&mut self, quoted: &'a str) -> Result<Cow<'a, str>, CsvError> {
        let opened = self.line;
        let mut rest = quoted;
        let mut field = Cow::Borrowed("");
        loop {
            let end = rest.find('"').ok_or(CsvError::UnclosedQuote { line: opened })?;
            let (part, after) = (&rest[..end], &rest[end + 1..]);
            self.line += part.bytes().filter(|byte| *byte == b'\n').count();
            match field.is_empty() {
                true => field = Cow::Borrowed(part),
                false => field.to_mut().push_str(part),
            }
            if let Some(further) = after.strip_prefix('"') {
                field.to_mut().push('"');
                rest = further;
                continue;
            }
            self.rest = after;
            let is_end = after.is_empty() || after.starts_with([',', '\n']) || after.starts_with("\r\n");
            return if is_end { Ok(field) } else { Err(CsvError::StrayQuote { line: self.line }) };
        }
    }
}

/// A field as it is written: with quotes only where it needs them.
pub fn to_field(text: &str) -> Cow<'_, str> {
    match text.contains([',', '"', '\r', '\n']) {
        true => Cow::Owned(format!("\"{}\"", text.replace('"', "\"\""))),
        false => Cow::Borrowed(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(file: &[u8]) -> Result<Vec<String>, String> {
        let members = read_members(file).map_err(|error| error.to_string())?;
        Ok(members.iter().map(|number| number.as_str().to_owned()).collect())
    }

    #[test]
    fn member_numbers_are_read_in_their_order_from_every_usual_form() {
        #[rustfmt::skip]
        let table: [(&[u8], &[&str]); 17] = [
            (b"member\n417\n9\n", &["417", "9"]),
            (b"member\n417\n9", &["417", "9"]),
            (b"member\r\n417\r\n9\r\n", &["417", "9"]),
            (b"member\r\n417\n9\r\n", &["417", "9"]),
            (b"\xef\xbb\xbfmember\r\n417\r\n", &["417"]),
            (b"\n\nmember\n\n417\n\n\n9\n\n", &["417", "9"]),
            (b"name,member\nAnna,417\nBen,9\n", &["417", "9"]),
            (b"member,name\n417,Anna\n9\n", &["417", "9"]),
            (b"member,name\n417,\"Anna, B.\"\n9,\"line\nbreak\"\n10,\n", &["417", "9", "10"]),
            (b"\"member\"\n\"417\"\n\"a \"\"b\"\"\"\n\"\"\"\"\n", &["417", "a \"b\"", "\""]),
            (b"\"member\"\r\n\"a,b\"\r\n", &["a,b"]),
            (b"member\n0417\n417\n", &["0417", "417"]),
            ("member\nM\u{fc}ller 7\n".as_bytes(), &["M\u{fc}ller 7"]),
            // Compared as bytes: the same letter in two forms is two numbers.
            ("member\n\u{e9}\ne\u{301}\n".as_bytes(), &["\u{e9}", "e\u{301}"]),
            (b"member\n", &[]),
            (b"member", &[]),
            (b"Member,member,MEMBER\nx,417,y\n", &["417"]),
        ];
        for (file, expected) in table {
            let expected = expected.iter().map(|number| (*number).to_owned()).collect();
            assert_eq!(numbers(file), Ok(expected), "{:?}", String::from_utf8_lossy(file));
        }
    }

    #[test]
    fn every_fault_is_refused_with_its_line() {
        let long = [b"member\n".as_slice(), &[b'x'; 65]].concat();
        #[rustfmt::skip]
        let table: [(&[u8], &str); 23] = [
            (b"", "line 1: the header has no column member, it is \"\";"),
            (b"\n\r\n", "line 1: the header has no column member, it is \"\";"),
            (b"\nnumber,name\n417,Anna\n", "line 2: the header has no column member, it is \"number,name\";"),
            (b"member;name\n417;Anna\n", "line 1: the header has no column member, it is \"member;name\"; name the \
                column of the member numbers member, and separate columns by commas"),
            (b" member\n417\n", "line 1: the header has no column member"),
            (b"member,name,member\n1,x,2\n", "line 1: the header has more than one column member"),
            (b"name,member\nAnna,417\n\nBen\n", "line 4: the row has no column member"),
            (b"name,member\nAnna,\n", "line 2: \"\" is not a member number: it must have 1 to 64 bytes"),
            (b"member\n 417\n", "line 2: \" 417\" is not a member number"),
            (b"member\n417 \r\n", "line 2: \"417 \" is not a member number"),
            // As spreadsheets and web pages have it: a space that no line ends at.
            (b"member\n417\n417\xc2\xa0\n", "line 3: \"417\\u{a0}\" is not a member number"),
            (b"member\n\xe3\x80\x80417\n", "line 2: \"\\u{3000}417\" is not a member number"),
            (b"member\n4\t17\n", "line 2: \"417\" is not a member number"),
            (b"member\n4\r17\n", "line 2: \"417\" is not a member number"),
            (b"member\n\"4\n17\"\n", "line 2: \"417\" is not a member number"),
            (&long, "line 2: \"xxxx"),
            (b"member,note\n417,\"a\nb\"\n9,\n417,\n",
                "line 5: the member number 417 is on line 2 already; a number may occur once"),
            (b"member\r\n417\r\n\"9\r\n10\r\n", "line 3: a field begins with a quote, and no quote ends it"),
            (b"member\n417\n9\"\n", "line 3: a quote is inside a field"),
            (b"member\n\"417\"x\n", "line 2: a quote is inside a field, or text follows"),
            (b"member\n\"a\nb\" ,\n", "line 3: a quote is inside a field, or text follows"),
            (b"member\n417\nM\xfcller\n", "line 3: the text is not UTF-8"),
            (b"\xff\xfem\0e\0", "line 1: the text is not UTF-8"),
        ];
        for (file, expected) in table {
            let found = numbers(file).expect_err("a refusal");
            assert!(found.starts_with(expected), "{:?}: {found}", String::from_utf8_lossy(file));
        }
    }

    #[test]
    fn the_most_rows_are_read_and_one_more_is_refused_by_its_line() {
        let file = |rows: usize| {
            let numbers: String = (0..rows).map(|number| format!("{number}\r\n")).collect();
            format!("member\r\n{numbers}").into_bytes()
        };
        assert_eq!(read_members(&file(MOST_INVITATIONS)).map(|members| members.len()), Ok(MOST_INVITATIONS));
        let line = MOST_INVITATIONS + 2;
        assert_eq!(read_members(&file(MOST_INVITATIONS + 1)), Err(CsvError::TooManyRows { line }));
    }

    #[test]
    fn a_written_field_is_read_as_the_same_number() {
        for (number, expected) in [("417", "417"), ("a b", "a b"), ("a,b", "\"a,b\""), ("\"", "\"\"\"\""), ("=1", "=1")]
        {
            assert_eq!(to_field(number), expected);
            let file = format!("member,link\n{expected},https://wallet.example/join#members.0\n");
            assert_eq!(numbers(file.as_bytes()), Ok(vec![number.to_owned()]));
        }
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(file: Vec<u8>) {
            let with_header = [b"member\n".as_slice(), &file].concat();
            let _ = (read_members(&file), read_members(&with_header));
        }
    }
}
