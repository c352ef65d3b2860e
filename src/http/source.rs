//! The source address of a request, read through the proxies that the operator trusts.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use hyper::header::{FORWARDED, HeaderMap, HeaderName};

use super::limits::ForwardedHeader;

/// Where a connection or a request comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// An address; see [`source_address`].
    Address(IpAddr),
    /// A process of this machine, through a unix socket.
    UnixSocket,
}

impl Source {
    /// The address that limits by source count: the processes behind a unix socket count as one
    /// source, the loopback address.
    pub fn address(self) -> IpAddr {
        match self {
            Self::Address(address) => address,
            Self::UnixSocket => IpAddr::V4(Ipv4Addr::LOCALHOST),
        }
    }
}

static X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// The address of the client: `peer`, or the address that the proxies in front name in `header`,
/// when `peer` is a proxy that is `trusted`.
///
/// Proxies append to the header, so the list is read from its right end: the first address that is
/// not a trusted proxy is the client; where all are trusted it is the left-most. The client can
/// forge everything further left, so it is not read. The result is `peer` when the header is
/// missing or an element that is read is not an address. The other header is not read: the client
/// may have sent it.
pub fn source_address(
    peer: IpAddr,
    headers: &HeaderMap,
    header: ForwardedHeader,
    trusted: impl Fn(IpAddr) -> bool,
) -> IpAddr {
    let peer = peer.to_canonical();
    if !trusted(peer) {
        return peer;
    }
    let addresses = elements(headers, name_of(header)).map(|element| match header {
        ForwardedHeader::Forwarded => element.and_then(forwarded_for),
        ForwardedHeader::XForwardedFor => element.and_then(node),
    });
    client(addresses, &trusted).unwrap_or(peer)
}

/// The header's name.
pub(super) fn name_of(header: ForwardedHeader) -> &'static HeaderName {
    match header {
        ForwardedHeader::Forwarded => &FORWARDED,
        ForwardedHeader::XForwardedFor => &X_FORWARDED_FOR,
    }
}

/// The first untrusted address, else the last one; `None` as soon as something is not an address.
fn client(addresses: impl Iterator<Item = Option<IpAddr>>, trusted: impl Fn(IpAddr) -> bool) -> Option<IpAddr> {
    let mut last = None;
    for address in addresses {
        let address = address?;
        last = Some(address);
        if !trusted(address) {
            break;
        }
    }
    last
}

/// The comma-separated elements of all lines of a header, from the right; `None` for a line that is
/// not text.
fn elements<'a>(headers: &'a HeaderMap, name: &'static HeaderName) -> impl Iterator<Item = Option<&'a str>> + use<'a> {
    let lines = headers.get_all(name).iter().rev();
    lines.flat_map(|line| {
        let text = line.to_str().ok();
        let parts = text.map(|text| text.rsplit(',').map(|element| Some(element.trim())));
        parts.into_iter().flatten().chain(text.is_none().then_some(None))
    })
}

/// The `for` parameter of one element of `Forwarded`.
///
/// Addresses contain neither commas nor semicolons, so quoted strings with either in them are cut
/// apart here and then are not addresses: the text that a trusted proxy appended stays the
/// right-most element regardless of the text before it.
fn forwarded_for(element: &str) -> Option<IpAddr> {
    let mut values = element.split(';').filter_map(|pair| {
        let (name, value) = pair.split_once('=')?;
        name.trim().eq_ignore_ascii_case("for").then_some(value.trim())
    });
    let value = values.next()?;
    if values.next().is_some() {
        return None;
    }
    let unquoted = value.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    node(unquoted.unwrap_or(value))
}

/// An address with or without a port: `192.0.2.1`, `192.0.2.1:80`, `[2001:db8::1]`,
/// `[2001:db8::1]:80`, `2001:db8::1`.
fn node(text: &str) -> Option<IpAddr> {
    let bracketed = || text.strip_prefix('[')?.strip_suffix(']')?.parse::<Ipv6Addr>().ok();
    let address = text
        .parse::<IpAddr>()
        .or_else(|error| bracketed().map(IpAddr::V6).ok_or(error))
        .or_else(|_| text.parse::<SocketAddr>().map(|socket| socket.ip()));
    address.ok().map(|address| address.to_canonical())
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    const PEER: &str = "10.0.0.1";

    /// The trusted networks are 10.0.0.0/8 and fd00::/8.
    fn trusted(address: IpAddr) -> bool {
        match address {
            IpAddr::V4(address) => address.octets()[0] == 10,
            IpAddr::V6(address) => address.octets()[0] == 0xfd,
        }
    }

    fn source(peer: &str, header: ForwardedHeader, lines: &[(&HeaderName, &str)]) -> String {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(*name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        source_address(peer.parse().unwrap(), &headers, header, trusted).to_string()
    }

    #[test]
    fn forwarding_headers_of_untrusted_peers_are_ignored() {
        let lines = [(&FORWARDED, "for=198.51.100.7"), (&X_FORWARDED_FOR, "198.51.100.7")];
        for header in [ForwardedHeader::Forwarded, ForwardedHeader::XForwardedFor] {
            assert_eq!(source("192.0.2.1", header, &lines), "192.0.2.1");
            assert_eq!(source("::ffff:192.0.2.1", header, &lines), "192.0.2.1");
            assert_eq!(source(PEER, header, &[]), PEER);
            assert_eq!(source("::ffff:10.0.0.1", header, &lines), "198.51.100.7");
        }
    }

    #[test]
    fn the_source_is_read_from_forwarded() {
        #[rustfmt::skip]
        let table = [
            ("for=192.0.2.1", "192.0.2.1"),
            ("FOR=192.0.2.1;proto=https;by=10.0.0.9", "192.0.2.1"),
            ("proto=https ; for = \"192.0.2.1:4711\"", "192.0.2.1"),
            ("for=\"[2001:db8::1]\"", "2001:db8::1"),
            ("for=\"[2001:db8::1]:4711\"", "2001:db8::1"),
            ("for=\"[::ffff:192.0.2.1]\"", "192.0.2.1"),
            ("for=203.0.113.9, for=192.0.2.1", "192.0.2.1"),
            ("for=192.0.2.1, for=10.0.0.2, for=\"[fd00::1]\"", "192.0.2.1"),
            ("for=garbage, for=192.0.2.1, for=10.0.0.2", "192.0.2.1"),
            ("for=10.0.0.3, for=10.0.0.2", "10.0.0.3"),
            // An unclosed quoted string of the client does not hide what the proxy appends.
            ("for=\"203.0.113.9, for=192.0.2.1", "192.0.2.1"),
            ("for=\"203.0.113.9, for=\"192.0.2.1\"", "192.0.2.1"),
            // The value is not an address, so the peer is the source.
            ("", PEER),
            ("for=", PEER),
            ("for=unknown", PEER),
            ("for=_hidden", PEER),
            ("for=\"_hidden:_port\"", PEER),
            ("for=192.0.2.1, for=unknown, for=10.0.0.2", PEER),
            ("for=192.0.2.1, proto=https", PEER),
            ("for=192.0.2.1;for=192.0.2.2", PEER),
            ("for=192.0.2.1,", PEER),
            ("for=\"192.0.2.1", PEER),
            ("for=\"[2001:db8::1\"", PEER),
            ("for=192.0.2.256", PEER),
            ("192.0.2.1", PEER),
        ];
        for (value, expected) in table {
            assert_eq!(
                source(PEER, ForwardedHeader::Forwarded, &[(&FORWARDED, value)]),
                expected,
                "Forwarded: {value}"
            );
        }
    }

    #[test]
    fn the_source_is_read_from_x_forwarded_for() {
        #[rustfmt::skip]
        let table = [
            ("192.0.2.1", "192.0.2.1"),
            ("192.0.2.1:4711", "192.0.2.1"),
            ("2001:db8::1", "2001:db8::1"),
            ("[2001:db8::1]", "2001:db8::1"),
            ("[2001:db8::1]:4711", "2001:db8::1"),
            ("203.0.113.9, 192.0.2.1 , 10.0.0.2", "192.0.2.1"),
            ("10.0.0.3,10.0.0.2", "10.0.0.3"),
            ("", PEER),
            ("unknown", PEER),
            ("192.0.2.1, nonsense", PEER),
            ("192.0.2.1:99999", PEER),
            ("192.0.2.1, \u{e9}", PEER),
        ];
        for (value, expected) in table {
            assert_eq!(
                source(PEER, ForwardedHeader::XForwardedFor, &[(&X_FORWARDED_FOR, value)]),
                expected,
                "X-Forwarded-For: {value}"
            );
        }
    }

    #[test]
    fn header_lines_are_joined_in_order_and_only_the_chosen_header_is_read() {
        use ForwardedHeader::{Forwarded, XForwardedFor};

        let lines = [(&X_FORWARDED_FOR, "203.0.113.9"), (&X_FORWARDED_FOR, "192.0.2.1, 10.0.0.2")];
        assert_eq!(source(PEER, XForwardedFor, &lines), "192.0.2.1");
        // The proxy appends to one header and passes the other on as the client sent it.
        let forged = [(&FORWARDED, "for=203.0.113.9"), (&X_FORWARDED_FOR, "192.0.2.1")];
        assert_eq!(source(PEER, XForwardedFor, &forged), "192.0.2.1");
        assert_eq!(source(PEER, Forwarded, &forged), "203.0.113.9");
        assert_eq!(source(PEER, Forwarded, &forged[1..]), PEER);
    }
}
