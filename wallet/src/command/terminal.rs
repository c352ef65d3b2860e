//! Asking the person at the terminal, and writing times for people.

use std::io::{self, IsTerminal, Write};
use std::time::UNIX_EPOCH;

use selfsame_protocol::time::UnixSeconds;

use super::error::CommandError;

/// Whether there is a person to ask.
pub fn has_terminal() -> bool {
    io::stdin().is_terminal()
}

/// Asks the person at the terminal; only `y` and `yes` are consent.
pub fn ask(question: &str, out: &mut dyn Write) -> Result<bool, CommandError> {
    write!(out, "{question} [y/N] ")?;
    out.flush()?;
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

/// A time as a date (RFC 3339); after the year 9999 as Unix seconds.
pub fn instant(time: UnixSeconds) -> String {
    const YEAR_10000: UnixSeconds = UnixSeconds(253_402_300_800);
    if time < YEAR_10000 {
        humantime::format_rfc3339_seconds(UNIX_EPOCH + time.since_epoch()).to_string()
    } else {
        format!("{time} (Unix seconds)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_are_printed_as_dates_up_to_the_year_9999() {
        assert_eq!(instant(UnixSeconds(0)), "1970-01-01T00:00:00Z");
        assert_eq!(instant(UnixSeconds(253_402_300_799)), "9999-12-31T23:59:59Z");
        assert_eq!(instant(UnixSeconds(253_402_300_800)), "253402300800 (Unix seconds)");
        assert_eq!(instant(UnixSeconds::NEVER), "18446744073709551615 (Unix seconds)");
    }
}
