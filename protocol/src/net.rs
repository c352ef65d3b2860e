//! Source addresses, as the limits for each source count them.

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
