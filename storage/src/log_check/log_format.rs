//! RocksDB's log format, and how a log ends.
//!
//! The format (`db/log_format.h` of RocksDB): a log consists of blocks of 32 KiB. A record is a
//! header of 7 bytes and a payload. The header holds a masked CRC-32C over type and payload (4
//! bytes), the payload's length (2 bytes) and the type (1 byte). A record that does not fit into
//! its block is split into pieces.

use std::io::{self, Read};

const BLOCK: usize = 32 << 10;
const HEADER: usize = 7;

/// Record types that RocksDB writes with this store's settings: a full record (1), and the first,
/// middle and last piece of a split one (2 to 4).
const TYPES: std::ops::RangeInclusive<u8> = 1..=4;

/// The types that end a record: full, and last piece.
const LAST_PIECES: [u8; 2] = [1, 4];

/// Bytes of a page, the smallest unit in which a file reaches the disk.
const PAGE: usize = 4096;

/// How a log ends. Numbers are byte offsets in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LogEnd {
    /// With a whole record.
    Whole,
    /// With a record that begins at this offset and is cut off by the end of the file.
    CutOff(u64),
    /// With zeros from this offset on.
    Zeros(u64),
    /// With a record that begins at this offset and lacks its last pages.
    Torn(u64),
    /// Damaged at this offset.
    Damaged(u64),
}

impl LogEnd {
    pub(super) fn in_log(mut log: impl Read) -> io::Result<Self> {
        let mut block = Vec::with_capacity(BLOCK);
        let mut begin = 0;
        let mut zeros = None;
        loop {
            block.clear();
            log.by_ref().take(BLOCK as u64).read_to_end(&mut block)?;
            match zeros {
                Some(at) if block.iter().any(|byte| *byte != 0) => return Ok(Self::Damaged(at)),
                Some(_) => {}
                None => match BlockEnd::of(&block) {
                    BlockEnd::Whole => {}
                    BlockEnd::CutOff(at) => return Ok(Self::CutOff(begin + at as u64)),
                    BlockEnd::Zeros(at) => zeros = Some(begin + at as u64),
                    BlockEnd::Damaged(at) => return Self::classify_damage(log, begin, block, at),
                },
            }
            if block.len() < BLOCK {
                return Ok(zeros.map_or(Self::Whole, Self::Zeros));
            }
            begin += BLOCK as u64;
        }
    }

    /// Decides whether the record at `at` in this block, which is not whole, is the log's last and
    /// lacks pages, or is damaged. `begin` is the block's offset in the log.
    fn classify_damage(mut log: impl Read, begin: u64, mut block: Vec<u8>, at: usize) -> io::Result<Self> {
        let damaged = begin + at as u64;
        let claimed = block.get(at..at + HEADER).map_or(HEADER, |header| HEADER + length(header));
        let written = block.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        // A block begins at a page boundary, so this is one too.
        let zeros_from = written.next_multiple_of(PAGE);
        // Zeros show missing pages only when they begin at a page boundary before the record's end:
        // earlier zeros may be payload. A record that leads out of its block, or has a record
        // behind it, is damaged.
        let lacks_pages = zeros_from < block.len() && (zeros_from < at + claimed || zeros_from < at + HEADER);
        if !lacks_pages || at + claimed > BLOCK || has_records(&block[at..]) {
            return Ok(Self::Damaged(damaged));
        }
        loop {
            block.clear();
            log.by_ref().take(BLOCK as u64).read_to_end(&mut block)?;
            if block.iter().any(|byte| *byte != 0) {
                return Ok(Self::Damaged(damaged));
            }
            if block.is_empty() {
                return Ok(Self::Torn(damaged));
            }
        }
    }
}

/// Result of reading one block. Numbers are byte offsets in the block.
enum BlockEnd {
    /// Whole records.
    Whole,
    /// A record at this offset is cut off by the log's end.
    CutOff(usize),
    /// Zeros from this offset on: preallocated space, if all following blocks are zeros too.
    Zeros(usize),
    Damaged(usize),
}

impl BlockEnd {
    fn of(block: &[u8]) -> Self {
        let mut at = 0;
        loop {
            let rest = &block[at..];
            // A header that is cut off, the end of the log, or a rest of the block too short for a
            // header.
            if rest.len() < HEADER {
                let is_cut_off = !rest.is_empty() && block.len() < BLOCK;
                return if is_cut_off { Self::CutOff(at) } else { Self::Whole };
            }
            if rest.iter().all(|byte| *byte == 0) {
                return Self::Zeros(at);
            }
            match Record::first_of(rest) {
                Some(record) if record.is_whole() => at += HEADER + record.payload.len(),
                Some(_) => return Self::Damaged(at),
                // The record's length leads beyond the data. It is cut off if the log ends here, no
                // record follows, and the checksum does not match the bytes that are there. If it
                // matches, the length is damaged.
                None => {
                    let fits = block.len() < BLOCK && TYPES.contains(&rest[6]) && at + HEADER + length(rest) <= BLOCK;
                    let is_cut_off = fits && !is_whole(rest, &rest[HEADER..]) && !has_records(rest);
                    return if is_cut_off { Self::CutOff(at) } else { Self::Damaged(at) };
                }
            }
        }
    }
}

struct Record<'log> {
    bytes: &'log [u8],
    payload: &'log [u8],
}

impl<'log> Record<'log> {
    /// The record at the beginning of `bytes`; `None` when it leads beyond them.
    fn first_of(bytes: &'log [u8]) -> Option<Self> {
        if bytes.len() < HEADER {
            return None;
        }
        let payload = bytes.get(HEADER..HEADER + length(bytes))?;
        Some(Self { bytes, payload })
    }

    fn is_whole(&self) -> bool {
        TYPES.contains(&self.bytes[6]) && is_whole(self.bytes, self.payload)
    }
}

fn length(header: &[u8]) -> usize {
    usize::from(u16::from_le_bytes([header[4], header[5]]))
}

/// Whether the header's checksum is that of its type and this payload. RocksDB masks the CRC: it
/// rotates it right by 15 bits and adds a constant (`util/crc32c.h`).
fn is_whole(header: &[u8], payload: &[u8]) -> bool {
    let checksum = u32::from_le_bytes([header[0], header[1], header[2], header[3]]);
    let crc = !payload.iter().fold(step(!0, header[6]), |crc, byte| step(crc, *byte));
    checksum == crc.rotate_right(15).wrapping_add(0xa282_ead8)
}

/// The whole records of a log, up to the first one that is not whole: each piece's payload, and
/// whether it is the last piece of its record.
pub(super) fn pieces(log: &[u8]) -> impl Iterator<Item = (&[u8], bool)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        if BLOCK - at % BLOCK < HEADER {
            at = at.next_multiple_of(BLOCK);
        }
        let block = log.get(at..log.len().min(at - at % BLOCK + BLOCK))?;
        let record = Record::first_of(block).filter(Record::is_whole)?;
        at += HEADER + record.payload.len();
        Some((record.payload, LAST_PIECES.contains(&record.bytes[6])))
    })
}

/// Whether a whole record with a payload begins at any offset after the first byte.
fn has_records(rest: &[u8]) -> bool {
    (1..rest.len().saturating_sub(HEADER))
        .any(|at| Record::first_of(&rest[at..]).is_some_and(|record| !record.payload.is_empty() && record.is_whole()))
}

fn step(crc: u32, byte: u8) -> u32 {
    (crc >> 8) ^ TABLE[usize::from(crc as u8 ^ byte)]
}

/// Table for CRC-32C (polynomial 0x82f63b78, reflected), indexed by byte.
static TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ 0x82f6_3b78 } else { crc >> 1 };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    const FULL: u8 = 1;
    const FIRST: u8 = 2;
    const MIDDLE: u8 = 3;
    const LAST: u8 = 4;

    /// A log of these records in RocksDB's format.
    fn log(payloads: &[Vec<u8>]) -> Vec<u8> {
        let mut log = Vec::new();
        for payload in payloads {
            let mut rest = payload.as_slice();
            let mut is_first = true;
            loop {
                let mut left = BLOCK - log.len() % BLOCK;
                if left < HEADER {
                    log.resize(log.len() + left, 0);
                    left = BLOCK;
                }
                let (piece, behind) = rest.split_at(rest.len().min(left - HEADER));
                let kind = match (is_first, behind.is_empty()) {
                    (true, true) => FULL,
                    (true, false) => FIRST,
                    (false, false) => MIDDLE,
                    (false, true) => LAST,
                };
                let crc = !piece.iter().fold(step(!0, kind), |crc, byte| step(crc, *byte));
                log.extend(crc.rotate_right(15).wrapping_add(0xa282_ead8).to_le_bytes());
                log.extend((piece.len() as u16).to_le_bytes());
                log.push(kind);
                log.extend(piece);
                (rest, is_first) = (behind, false);
                if rest.is_empty() {
                    break;
                }
            }
        }
        log
    }

    /// Records that end at many positions of a block; some are split over several blocks.
    fn example() -> Vec<u8> {
        let lengths = [1, 30_000, 2_700, 20, 33, 70_000, 5, 28_000, 6_000, 100, 40_000, 9];
        let bytes = |(number, length): (usize, &usize)| (0..*length).map(|at| (at * 7 + number) as u8 | 1).collect();
        log(&lengths.iter().enumerate().map(bytes).collect::<Vec<Vec<u8>>>())
    }

    /// Every record comes out of its pieces, up to the one that is cut off.
    #[test]
    fn pieces_make_up_the_records() {
        let payloads: Vec<Vec<u8>> = [1, 30_000, 2_700, 70_000, 0, 32_754, 5, 100_000, 9]
            .iter()
            .enumerate()
            .map(|(number, length)| vec![number as u8 + 1; *length])
            .collect();
        let log = log(&payloads);
        for (log, expected) in [(log.as_slice(), payloads.len()), (&log[..log.len() - 20], payloads.len() - 2)] {
            let (mut records, mut record) = (Vec::new(), Vec::new());
            for (piece, is_last) in pieces(log) {
                record.extend_from_slice(piece);
                if is_last {
                    records.push(std::mem::take(&mut record));
                }
            }
            assert_eq!(records, payloads[..expected]);
        }
    }

    fn found(log: &[u8]) -> LogEnd {
        LogEnd::in_log(log).expect("a log in memory can be read")
    }

    #[test]
    fn a_log_that_ends_anywhere_is_undamaged() {
        let log = example();
        for end in (0..log.len()).step_by(61).chain(log.len() - 40..=log.len()) {
            match found(&log[..end]) {
                LogEnd::Whole => {}
                // The records before it are undamaged.
                LogEnd::CutOff(at) => assert_eq!(found(&log[..at as usize]), LogEnd::Whole, "cut off at {end}"),
                other => panic!("cut off at {end}: {other:?}"),
            }
        }
    }

    #[test]
    fn preallocated_zeros_are_undamaged_only_at_the_end_of_a_log() {
        let log = example();
        for zeros in [1, 6, 7, 100, BLOCK, 3 * BLOCK + 5] {
            let mut ready = [log.as_slice(), &vec![0; zeros]].concat();
            // Fewer zeros than a header are taken for a header that was cut off.
            let end = log.len() as u64;
            let expected = if zeros < HEADER { LogEnd::CutOff(end) } else { LogEnd::Zeros(end) };
            assert_eq!(found(&ready), expected, "{zeros} zeros");
            ready.extend(example());
            assert!(matches!(found(&ready), LogEnd::Damaged(_)), "{zeros} zeros and records");
        }
    }

    /// Only the last write can lack pages, and it lacks all pages from some page on.
    #[test]
    fn a_last_record_that_lacks_pages_is_torn() {
        let before = log(&[vec![5; 20_000]]);
        let whole = log(&[vec![5; 20_000], vec![7; 100_000]]);
        let begin = before.len() as u64;
        for page in before.len().div_ceil(PAGE)..whole.len().div_ceil(PAGE) {
            let mut torn = whole.clone();
            torn[page * PAGE..].fill(0);
            let at = match found(&torn) {
                LogEnd::Torn(at) | LogEnd::Zeros(at) => at,
                other => panic!("page {page}: {other:?}"),
            };
            assert!(at >= begin, "page {page}: {at}");
            assert_eq!(found(&torn[..at as usize]), LogEnd::Whole, "page {page}, cut");
            // With another record after the missing pages.
            torn.extend(log(&[vec![1; 10]]));
            assert!(matches!(found(&torn), LogEnd::Damaged(_)), "page {page} and more");
        }
        // Zeros that do not start at the beginning of a page, or do not extend to the end of the
        // log.
        let mut damaged = whole.clone();
        damaged[whole.len() - 50..].fill(0);
        assert!(matches!(found(&damaged), LogEnd::Damaged(_)));
        let mut damaged = whole;
        damaged[8 * PAGE..9 * PAGE].fill(0);
        assert!(matches!(found(&damaged), LogEnd::Damaged(_)));
    }

    #[test]
    fn every_changed_byte_is_detected() {
        let log = example();
        let block = BLOCK as u64;
        let with_zeros = [log.as_slice(), &[0; 3 * PAGE]].concat();
        for (at, log) in (0..log.len()).step_by(97).flat_map(|at| [(at, &log), (at, &with_zeros)]) {
            let mut changed = log.clone();
            changed[at] ^= 0x10;
            let LogEnd::Damaged(found) = found(&changed) else { panic!("byte {at} was changed") };
            assert!(found <= at as u64 && found + 2 * block > at as u64, "byte {at} was found at {found}");
        }
    }
}
