//! Source addresses, as the limits for each source count them and as people see them, and the hosts
//! of URLs.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The network that a source address counts as. An IPv6 address counts as its /64, because one
/// household usually has a whole /64. An IPv4-mapped IPv6 address counts as its IPv4 address, and
/// an IPv4 address as itself.
pub fn network_of(source: IpAddr) -> IpAddr {
    match source.to_canonical() {
        IpAddr::V4(address) => address.into(),
        address @ IpAddr::V6(_) => prefix_of(address, 64),
    }
}

/// The address with only its first `bits` bits.
pub fn prefix_of(address: IpAddr, bits: u32) -> IpAddr {
    match address {
        IpAddr::V4(address) => {
            let mask = u32::MAX.checked_shl(32_u32.saturating_sub(bits)).unwrap_or_default();
            Ipv4Addr::from_bits(address.to_bits() & mask).into()
        }
        IpAddr::V6(address) => {
            let mask = u128::MAX.checked_shl(128_u32.saturating_sub(bits)).unwrap_or_default();
            Ipv6Addr::from_bits(address.to_bits() & mask).into()
        }
    }
}

/// The address that the host of a URL is, an IPv6 address in brackets; `None` for a name. An
/// IPv4-mapped IPv6 address is its IPv4 address.
pub fn address_of_host(host: &str) -> Option<IpAddr> {
    match host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        Some(bracketed) => bracketed.parse().ok().map(|address: Ipv6Addr| IpAddr::V6(address).to_canonical()),
        None => host.parse().ok().map(|address: Ipv4Addr| address.into()),
    }
}

/// Whether the host of a URL is this machine: a loopback address, or `localhost`, the name of the
/// loopback interface (RFC 6761, section 6.3).
pub fn is_loopback_host(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost") || address_of_host(host).is_some_and(|address| address.is_loopback())
}

/// The network of an address in CIDR notation, wide enough that it does not identify a household:
/// the first 24 bits of an IPv4 address, the first 48 bits of an IPv6 address.
pub fn network_text(source: IpAddr) -> String {
    let source = source.to_canonical();
    let bits = if source.is_ipv4() { 24 } else { 48 };
    format!("{}/{bits}", prefix_of(source, bits))
}

/// The authority of an absolute URL: its host, and its port if it names one. Empty when the text
/// has no `://`.
pub fn authority(url: &str) -> &str {
    let rest = url.split_once("://").map_or("", |(_, rest)| rest);
    rest.split(['/', '?', '#']).next().unwrap_or_default()
}

/// The host of an absolute URL, without its port; an IPv6 address in brackets. Empty when the text
/// has no `://`.
pub fn host_of(url: &str) -> &str {
    let authority = authority(url);
    // The colons of an IPv6 address are in brackets.
    match authority.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => host,
        _ => authority,
    }
}

/// The origin of an `http` or `https` URL: scheme, host in lower case, and port. Two URLs have the
/// same origin when these are equal, however they are written. `None` for another text, and for a
/// URL with a user.
pub fn origin_of(url: &str) -> Option<(&'static str, String, u16)> {
    let (scheme, _) = url.split_once("://")?;
    let (scheme, default_port) = match scheme.to_ascii_lowercase().as_str() {
        "http" => ("http", 80),
        "https" => ("https", 443),
        _ => return None,
    };
    let authority = authority(url);
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, Some(port)),
        _ => (authority, None),
    };
    let is_port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
    let port = match port {
        None | Some("") => default_port,
        Some(port) => port.parse().ok().filter(|_| is_port(port))?,
    };
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-_[]:".contains(&byte);
    let is_host = !host.is_empty() && host.bytes().all(is_plain);
    (is_host && (host.starts_with('[') || !host.contains(':'))).then(|| (scheme, host.to_ascii_lowercase(), port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_has_no_port() {
        for (url, host) in [
            ("https://id.example:8443/a:b?c", "id.example"),
            ("https://id.example", "id.example"),
            ("http://[::1]:8085", "[::1]"),
            ("http://[::1]/", "[::1]"),
            ("id.example:8443", ""),
        ] {
            assert_eq!(host_of(url), host, "{url}");
        }
    }

    #[test]
    fn origins_are_compared_by_scheme_host_and_port() {
        let own = origin_of("https://bridge.example");
        for same in [
            "https://bridge.example/",
            "HTTPS://Bridge.Example:443",
            "https://bridge.example:",
            "https://bridge.example/a?b#c",
        ] {
            assert_eq!(origin_of(same), own, "{same}");
        }
        for other in [
            "http://bridge.example",
            "https://bridge.example:444",
            "https://bridge.example.",
            "https://a.bridge.example",
        ] {
            assert!(origin_of(other).is_some() && origin_of(other) != own, "{other}");
        }
        assert_eq!(origin_of("http://[::1]:8085/"), Some(("http", "[::1]".to_owned(), 8085)));
        assert_eq!(origin_of("http://[::1]"), Some(("http", "[::1]".to_owned(), 80)));
        for none in [
            "",
            "bridge.example",
            "ftp://bridge.example",
            "https://",
            "https://a:b",
            "https://a:+1",
            "https://a@b",
            "https://a:b:1",
            "https://a:65536",
        ] {
            assert_eq!(origin_of(none), None, "{none}");
        }
    }

    #[test]
    fn loopback_hosts_are_addresses_and_localhost() {
        for (host, expected) in [
            ("localhost", true),
            ("LocalHost", true),
            ("127.0.0.1", true),
            ("127.8.9.10", true),
            // The host of a URL has brackets.
            ("::1", false),
            ("[::1]", true),
            ("[::ffff:127.0.0.1]", true),
            ("10.0.0.7", false),
            ("0.0.0.0", false),
            ("[::ffff:10.0.0.7]", false),
            ("localhost.example", false),
            ("127.0.0.1.example", false),
            ("localhost.", false),
            ("[localhost]", false),
            ("", false),
        ] {
            assert_eq!(is_loopback_host(host), expected, "{host:?}");
        }
    }

    #[test]
    fn only_the_network_of_a_source_is_shown() {
        for (address, expected) in [
            ("203.0.113.77", "203.0.113.0/24"),
            ("::ffff:203.0.113.77", "203.0.113.0/24"),
            ("2001:db8:1:2:3:4:5:6", "2001:db8:1::/48"),
        ] {
            assert_eq!(network_text(address.parse().expect("an address")), expected);
        }
    }

    #[test]
    fn an_authority_is_a_host_with_its_port() {
        for (url, expected) in [
            ("https://app.example/callback?a=b", "app.example"),
            ("http://localhost:3000", "localhost:3000"),
            ("http://[::1]:3000/x", "[::1]:3000"),
            ("https://app.example?a=/b", "app.example"),
            ("https://app.example#b", "app.example"),
            ("app.example/callback", ""),
            ("", ""),
        ] {
            assert_eq!(authority(url), expected, "{url}");
        }
    }

    #[test]
    fn ipv6_addresses_of_one_network_are_one_source() {
        let table = [
            ("192.0.2.7", "192.0.2.7"),
            ("::ffff:192.0.2.7", "192.0.2.7"),
            ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"),
            ("2001:db8:1:2:ffff::1", "2001:db8:1:2::"),
        ];
        for (source, network) in table {
            let parse = |text: &str| text.parse::<IpAddr>().expect("an address");
            assert_eq!(network_of(parse(source)), parse(network));
        }
    }

    #[test]
    fn the_host_of_a_url_is_this_machine_by_address_or_name() {
        for (host, is_address, is_loopback) in [
            ("127.0.0.1", true, true),
            ("127.8.0.1", true, true),
            ("[::1]", true, true),
            ("[::ffff:127.0.0.1]", true, true),
            ("10.0.0.7", true, false),
            ("[2001:db8::1]", true, false),
            ("localhost", false, true),
            ("LOCALHOST", false, true),
            ("::1", false, false),
            ("[127.0.0.1]", false, false),
            ("localhost.example", false, false),
            ("127.0.0.1.example", false, false),
            ("", false, false),
        ] {
            assert_eq!(address_of_host(host).is_some(), is_address, "{host}");
            assert_eq!(is_loopback_host(host), is_loopback, "{host}");
        }
    }
}
