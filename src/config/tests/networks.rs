//! Ranges of addresses.

use std::net::IpAddr;

use crate::config::Network;

#[test]
fn networks_contain_their_addresses() {
    let cases = [
        ("10.0.0.0/8", "10.255.0.1", true),
        ("10.0.0.0/8", "11.0.0.0", false),
        ("10.0.0.0/8", "::ffff:10.1.2.3", true),
        ("::ffff:10.0.0.0/104", "10.1.2.3", true),
        ("192.0.2.1", "192.0.2.1", true),
        ("192.0.2.1", "192.0.2.2", false),
        ("192.0.2.128/25", "192.0.2.127", false),
        ("192.0.2.0/31", "192.0.2.1", true),
        ("0.0.0.0/0", "203.0.113.9", true),
        ("0.0.0.0/0", "2001:db8::1", false),
        ("::/0", "2001:db8::1", true),
        ("::/0", "203.0.113.9", false),
        ("::/0", "::ffff:203.0.113.9", false),
        ("2001:db8::/33", "2001:db8:7fff::1", true),
        ("2001:db8::/33", "2001:db8:8000::1", false),
        ("::1", "::1", true),
        ("::1/128", "::2", false),
    ];
    for (network, address, inside) in cases {
        let address: IpAddr = address.parse().unwrap();
        assert_eq!(network.parse::<Network>().unwrap().contains(address), inside, "{address} in {network}");
    }
    let wrong = [
        "",
        "/8",
        "10.0.0.0/",
        "10.0.0.0/33",
        "10.0.0.0/+8",
        "::/129",
        "10.0.0/8",
        "10.0.0.1/8",
        "host",
        "::ffff:0.0.0.0/95",
        "10.0.0.0/8/8",
        " 10.0.0.1",
    ];
    for text in wrong {
        let error = text.parse::<Network>().unwrap_err();
        let has_bits = (text == "10.0.0.1/8").then_some("has bits behind its prefix; the network is 10.0.0.0/8");
        let expected = has_bits.unwrap_or("is not an IP address or a network, such as 10.0.0.0/8 or fd00::/8");
        assert_eq!(error, format!("{text:?} {expected}"));
    }
    let mapped = "::ffff:10.0.0.1/104".parse::<Network>().unwrap_err();
    assert_eq!(mapped, "\"::ffff:10.0.0.1/104\" has bits behind its prefix; the network is 10.0.0.0/8");
    for (text, shown) in [("192.0.2.1", "192.0.2.1/32"), ("::ffff:10.0.0.0/104", "10.0.0.0/8"), ("::1", "::1/128")] {
        assert_eq!(text.parse::<Network>().unwrap().to_string(), shown);
    }
}
