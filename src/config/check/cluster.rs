//! The rules about `[cluster]`.

use selfsame_protocol::net::is_loopback_host;

use super::{InvalidSetting, invalid_setting};
use crate::config::cluster::Cluster;
use crate::config::whole::Config;

/// Whether others on the way can read what is sent to a URL.
fn is_plain_http_to_another_machine(url: &str) -> bool {
    url.parse::<http::Uri>()
        .is_ok_and(|url| url.scheme_str() == Some("http") && !url.host().is_some_and(is_loopback_host))
}

/// Every rule that is broken.
pub(super) fn check_cluster(config: &Config) -> Vec<InvalidSetting> {
    let Some(cluster) = &config.cluster else { return Vec::new() };
    let Cluster { etcd, etcd_user, etcd_password_file, etcd_certificate, etcd_private_key, .. } = cluster;
    let Cluster { listen, address, secret_file, certificate, private_key, authorities, .. } = cluster;
    let ip = listen.ip().to_canonical();
    let url = cluster.url(*listen);
    let is_http = url.starts_with("http://");
    let plain_etcd = etcd.iter().find(|url| is_plain_http_to_another_machine(url));
    let taken = config.listen.iter().find(|(_, other)| *other == listen && listen.port() != 0);
    let mut found = Vec::new();
    let mut add = |is_broken: bool, key: &str, message: String| {
        if is_broken {
            found.push(invalid_setting(format!("cluster.{key}"), message));
        }
    };
    add(etcd.is_empty(), "etcd", "is empty; give the URLs of the members of etcd".to_owned());
    if let Some(url) = plain_etcd {
        let message = format!(
            "{url} is plain HTTP to another machine, so others on the way could read and change the journal; give an \
             https URL, or set insecure_http = true"
        );
        add(!config.insecure_http, "etcd", message);
    }
    for (one, name, other, needed) in [
        (etcd_user.is_some(), "etcd_user", etcd_password_file.is_some(), "etcd_password_file"),
        (etcd_certificate.is_some(), "etcd_certificate", etcd_private_key.is_some(), "etcd_private_key"),
        (certificate.is_some(), "certificate", private_key.is_some(), "private_key"),
    ] {
        add(one && !other, needed, format!("is missing; cluster.{name} needs it"));
        add(other && !one, name, format!("is missing; cluster.{needed} needs it"));
    }
    add(
        authorities.is_some() && certificate.is_none(),
        "certificate",
        "is missing; with cluster.authorities each replica shows a certificate".to_owned(),
    );
    add(
        secret_file.is_none() && authorities.is_none(),
        "secret_file",
        "is missing; give a file with a secret that all replicas have, or certificates with cluster.authorities"
            .to_owned(),
    );
    add(
        config.dev && !ip.is_loopback(),
        "listen",
        format!("{listen} is not loopback; with --dev listen on 127.0.0.1 or [::1]"),
    );
    if let Some((interface, _)) = taken {
        let message = format!("{listen} is the address of listen.{}; give it another port", interface.listen_key());
        add(true, "listen", message);
    }
    add(
        address.is_none() && ip.is_unspecified(),
        "address",
        "is missing; cluster.listen is every address of this machine, so set the URL that the other replicas call"
            .to_owned(),
    );
    add(
        is_http && certificate.is_some(),
        "address",
        format!("{url} is plain HTTP, and cluster.listen speaks TLS with cluster.certificate; write https"),
    );
    add(
        certificate.is_none() && !ip.is_loopback() && !config.insecure_http,
        "listen",
        "is plain HTTP for other machines, who can read and change what the replicas say to each other; set \
         cluster.certificate, or insecure_http = true"
            .to_owned(),
    );
    found
}
