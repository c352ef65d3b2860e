//! Source addresses, as the limits for each source count them.

use std::net::{IpAddr, Ipv6Addr};

/// The network that a source address counts as. An IPv6 address counts as its /64, because one
/// household usually has a whole /64. An IPv4-mapped IPv6 address counts as its IPv4 address, and
/// an IPv4 address as itself.
pub fn network_of(source: IpAddr) -> IpAddr {
    match source.to_canonical() {
        IpAddr::V4(address) => address.into(),
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
