//! TLS on the public listeners.

use reqwest::header::{ACCEPT, SET_COOKIE};
use reqwest::redirect::Policy;
use reqwest::{Certificate, Version};
use selfsame::config::Tls;
use selfsame_interfaces::interface::Interface;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::harness::{Folder, TestDaemon, folder, run, write_secret};

/// A certificate for the addresses of the tests and its key, in files; and the certificate for
/// clients that trust it.
pub fn certificate(folder: &Folder) -> (Tls, Certificate) {
    let addresses: Vec<String> = (1..=6).map(|host| format!("127.0.0.{host}")).collect();
    let made = rcgen::generate_simple_self_signed(addresses).expect("a certificate");
    let tls = Tls { certificate: folder.path().join("chain.pem"), private_key: folder.path().join("key.pem") };
    std::fs::write(&tls.certificate, made.cert.pem()).expect("written");
    write_secret(&tls.private_key, made.signing_key.serialize_pem());
    (tls, Certificate::from_pem(made.cert.pem().as_bytes()).expect("a certificate"))
}

#[tokio::test]
async fn public_listeners_speak_tls_and_the_operator_listener_does_not() {
    let files = folder();
    let (tls, trusted) = certificate(&files);
    let daemon = TestDaemon::start_with(files.path(), |config| config.tls = Some(tls)).await;
    let http = reqwest::Client::builder().no_proxy().redirect(Policy::none()).tls_certs_only([trusted]);
    let http = http.build().expect("a client");
    let addresses = daemon.addresses;
    for (_, address) in addresses.iter().filter(|(interface, _)| interface.is_public()) {
        let answer = http.get(format!("https://{address}/health")).send().await.expect("an answer");
        assert_eq!((answer.status().as_u16(), answer.version()), (200, Version::HTTP_2), "{address}");
        assert!(http.get(format!("http://{address}/health")).send().await.is_err(), "{address} speaks plain HTTP");
    }
    let operator =
        http.get(format!("http://{}/health", addresses[Interface::Operator])).send().await.expect("an answer");
    assert_eq!(operator.status(), 200);

    // The operator's token must not cross a network in clear text.
    let (tls, trusted) = certificate(&files);
    let data = folder();
    let reachable = TestDaemon::start_with(data.path(), |config| {
        config.tls = Some(tls);
        config.operator.allow_public = true;
        config.listen[Interface::Operator] = ([0, 0, 0, 0], 0).into();
    })
    .await;
    let port = reachable.addresses[Interface::Operator].port();
    let client = reqwest::Client::builder().no_proxy().tls_certs_only([trusted]).build().expect("a client");
    assert_eq!(client.get(format!("https://127.0.0.1:{port}/health")).send().await.expect("an answer").status(), 200);
    assert!(client.get(format!("http://127.0.0.1:{port}/health")).send().await.is_err(), "it speaks plain HTTP");

    // A client that does not speak TLS is disconnected; other clients do not notice.
    let mut stranger = TcpStream::connect(addresses[Interface::SignIn]).await.expect("connected");
    stranger.write_all(b"GET / HTTP/1.1\r\nhost: h\r\n\r\n").await.expect("sent");
    let mut said = Vec::new();
    let _ = stranger.read_to_end(&mut said).await;
    assert!(!said.starts_with(b"HTTP"), "{said:?}");

    let url = format!("https://{}", addresses[Interface::SignIn]);
    let document = http.get(format!("{url}/.well-known/openid-configuration")).send().await.expect("an answer");
    let document: Value = document.json().await.expect("JSON");
    assert_eq!(document["issuer"], url);
    let page = http
        .get(format!(
            "{url}/authorize?client_id=app_staging_5e1f5a3e000000000000000000000001&response_type=code&scope=openid\
             &redirect_uri=http://localhost:3000/callback"
        ))
        .header(ACCEPT, "text/html");
    let page = page.send().await.expect("an answer");
    assert!(page.headers()[SET_COOKIE].to_str().expect("text").ends_with("; Secure"), "{page:?}");
}

#[tokio::test]
async fn a_new_certificate_is_served_without_a_restart() {
    let files = folder();
    let (tls, first) = certificate(&files);
    let served =
        selfsame_interfaces::http::Certificate::load(&tls.certificate, &tls.private_key).expect("a certificate");
    assert!(!served.reload_if_changed().expect("the files are good"));

    let daemon = TestDaemon::start_with(files.path(), |config| config.tls = Some(tls.clone())).await;
    let url = format!("https://{}/health", daemon.addresses[Interface::SignIn]);
    let client = |trusted: &Certificate| {
        reqwest::Client::builder().no_proxy().tls_certs_only([trusted.clone()]).build().expect("a client")
    };
    let answer = client(&first).get(&url).send().await.expect("an answer");
    assert_eq!(answer.headers()["strict-transport-security"], "max-age=31536000");
    // A certificate that cannot be used leaves the old one in use.
    std::fs::write(&tls.certificate, "not a certificate").expect("written");
    daemon.reloading.reload_changed_certificate();
    assert_eq!(client(&first).get(&url).send().await.expect("an answer").status(), 200);
    let (_, second) = certificate(&files);
    daemon.reloading.reload_changed_certificate();
    assert_eq!(client(&second).get(&url).send().await.expect("an answer").status(), 200);
    assert!(client(&first).get(&url).send().await.is_err(), "the old certificate is still served");
    assert!(served.reload_if_changed().expect("the files are good"));

    let metrics = format!("http://{}/metrics", daemon.addresses[Interface::Operator]);
    let metrics = reqwest::get(metrics).await.expect("an answer").text().await.expect("text");
    let expiry = metrics
        .lines()
        .find_map(|line| line.strip_prefix("selfsame_tls_certificate_expiry_timestamp_seconds ")?.parse::<f64>().ok());
    // rcgen's certificates expire in the year 4096.
    assert!(expiry.is_some_and(|expiry| expiry > 6e10), "{expiry:?}");
}

/// The cause of a failed read can pass without a change of the files, for example when the process
/// was out of file descriptors.
#[test]
fn files_that_could_not_be_used_are_read_again_and_reported_once() {
    let files = folder();
    let (tls, _) = certificate(&files);
    let served =
        selfsame_interfaces::http::Certificate::load(&tls.certificate, &tls.private_key).expect("a certificate");
    certificate(&files);
    let good = std::fs::read(&tls.certificate).expect("read");
    let written_at = std::fs::metadata(&tls.certificate).and_then(|file| file.modified()).expect("a time");
    let changed_at = written_at + std::time::Duration::from_secs(5);
    let write = |text: &[u8]| {
        std::fs::write(&tls.certificate, text).expect("written");
        let file = std::fs::File::options().write(true).open(&tls.certificate).expect("opened");
        file.set_modified(changed_at).expect("the time is set");
    };
    write(b"not a certificate");
    assert!(served.reload_if_changed().is_err());
    assert!(!served.reload_if_changed().expect("the error was returned before"));
    write(&good);
    assert!(served.reload_if_changed().expect("the files are good"));
    assert!(!served.reload_if_changed().expect("the files are good"));
}

#[test]
fn bad_tls_files_are_refused_with_their_key() {
    let files = folder();
    let (tls, _) = certificate(&files);
    let other = folder();
    let (others, _) = certificate(&other);
    let nothing = files.path().join("nothing.pem");
    write_secret(&nothing, "");
    for (certificate, private_key, parts) in [
        (&files.path().join("missing.pem"), &tls.private_key, ["tls.certificate", "missing.pem"]),
        (&nothing, &tls.private_key, ["tls.certificate", "no certificate"]),
        (&tls.certificate, &nothing, ["tls.private_key", "nothing.pem"]),
        (&tls.certificate, &others.private_key, ["tls: ", "do not go together"]),
    ] {
        let data = folder();
        let file = data.path().join("selfsame.toml");
        let listen = Interface::ALL.map(|interface| format!("{} = '127.0.0.1:0'\n", interface.listen_key()));
        let (certificate, private_key) = (certificate.display(), private_key.display());
        let data_dir = data.path().join("data");
        let text = format!(
            "data_dir = '{}'\noperator.allow_public = true\n[listen]\n{}[tls]\ncertificate = '{certificate}'\nprivate_key = '{private_key}'\n",
            data_dir.display(),
            listen.concat()
        );
        std::fs::write(&file, text).expect("written");
        let (success, text) = run(&["serve", "--config", &file.display().to_string()]);
        assert!(!success && parts.iter().all(|part| text.contains(part)), "{parts:?}: {text}");
    }
}

/// An RSA key of 1024 bits and its certificate.
const SMALL_KEY: &str = "\
-----BEGIN PRIVATE KEY-----
MIICdwIBADANBgkqhkiG9w0BAQEFAASCAmEwggJdAgEAAoGBALFJ5zD12amwZpnD
pXB9OHqKfIguvkbHmhPKzzmjH0NRN4R1g++v9LbjsPt4qQar6d2H3Hn9xrHyjEv1
/Bk2mg9EDaRZjKjjnJCAxjWnQjerPL2JRfn+zeJnEyqJvmY3E7k/JPWh3VFTyQwf
Ck5ODRIi2AJR7s4bHoO6p/uWh+qJAgMBAAECgYEAqG6U5Y/83dkIcPdOGwPsf4dI
br0x6t7BRCJ/I7wU/IiRnRdkZHgfnw3M2+yzcPIs+lmUHpX6ip7rqVMm0fFtBJTN
8OtQ6IeaEfayREPVoDAMtRMdbx5+TMx0YqqXB7SYZeNZWYWdCn1STJqd2657x1Sl
/dgyXkxQhPfCdhUuRQECQQDcu8v37HWIgQg/WbNEPGECr/g+aXhGr1bdXnTB1Ouh
TWsMmilUfFiuAuGHhhigCaZCF8EZVxnYlDYsyC/mp0LhAkEAzZ0rtK9LfjGCr3Dd
GKgrC8iYBC1JQ2TFFKTfKgc2cOr7pE8WAK/kkbTOuyVFlglqt3o+o2HPvS55N9h6
SHlEqQJBAMnrZP+rqCyx1IiXFr0x+pBJxu3Y73TBytWAJZB2pQIOXwHNOEeX5Ety
STr/OSGVEijdr//tRLBxjElU6zS1ByECQBnpW6+qg6YEkUaQv5wy3THf9qBYIKp4
kYmXeXQvcoHqawn62Xf+spxWH9Nf0BQnXaZ/plMqqWZa6/XItyhY9/kCQFPC7wHJ
Jv1L+ruutX3Zw16eitgrB6T9WlnA0ddXnGyyPaLG0g7eyhiepVLgs8sdhB7K80gk
TyfO0Yr/fK1CVoo=
-----END PRIVATE KEY-----
";
const SMALL_CERTIFICATE: &str = "\
-----BEGIN CERTIFICATE-----
MIIB/jCCAWegAwIBAgIUZDtcNC0IlkFpUP+Wxwf9Fl32npAwDQYJKoZIhvcNAQEL
BQAwEDEOMAwGA1UEAwwFc21hbGwwIBcNMjYxMTI3MDM0NzIwWhgPMjEyNjExMDMw
MzQ3MjBaMBAxDjAMBgNVBAMMBXNtYWxsMIGfMA0GCSqGSIb3DQEBAQUAA4GNADCB
iQKBgQCxSecw9dmpsGaZw6VwfTh6inyILr5Gx5oTys85ox9DUTeEdYPvr/S247D7
eKkGq+ndh9x5/cax8oxL9fwZNpoPRA2kWYyo45yQgMY1p0I3qzy9iUX5/s3iZxMq
ib5mNxO5PyT1od1RU8kMHwpOTg0SItgCUe7OGx6Duqf7lofqiQIDAQABo1MwUTAd
BgNVHQ4EFgQUg+S+lrgrC/XD/Mt1rjsHwSJrKccwHwYDVR0jBBgwFoAUg+S+lrgr
C/XD/Mt1rjsHwSJrKccwDwYDVR0TAQH/BAUwAwEB/zANBgkqhkiG9w0BAQsFAAOB
gQBAR5YNE9L3mb0buTow347uONk9xPxikw4/dLDUXYcxKm7e8n+B+aosWA5mBpDA
/2UGlEonbKsaVReuqM3/wQTArZIFjZRseqWuDM7UDRsiLBfq1Qb3COv+HiQuMcj8
TmkD0MgEpYSDebV1mjRW8EjOCR1PfA64WvP+VIA0O250gw==
-----END CERTIFICATE-----
";

/// A name, the files of certificate and private key, how the message begins, and what is in it.
type BadFiles = (&'static str, Vec<u8>, Vec<u8>, &'static str, &'static [&'static str]);

/// What OpenSSL writes that the daemon cannot use, and what each message says.
#[test]
fn pem_files_that_cannot_be_used_are_refused_in_words_that_help() {
    const CHAIN: &str = "tls.certificate: ";
    const KEY: &str = "tls.private_key: ";
    let files = folder();
    let (good, _) = certificate(&files);
    let chain = std::fs::read_to_string(&good.certificate).expect("text");
    let key = std::fs::read_to_string(&good.private_key).expect("text");
    let other = folder();
    let others = std::fs::read_to_string(certificate(&other).0.private_key).expect("text");
    let base64 = |pem: &str| -> Vec<u8> {
        use base64::Engine;
        let lines: String = pem.lines().filter(|line| !line.starts_with('-')).collect();
        base64::engine::general_purpose::STANDARD.decode(lines).expect("base64")
    };
    let with_bom = |text: &str| [b"\xef\xbb\xbf", text.as_bytes()].concat();
    let relabelled = key.replace("PRIVATE KEY", "ENCRYPTED PRIVATE KEY");
    let old_encrypted = "-----BEGIN EC PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,F2787A88A707D78\n\n\
                         T7q/AOfqVE53CgzOrMFp\n-----END EC PRIVATE KEY-----\n";
    let cut = |text: &str| text.as_bytes()[..text.len() / 2].to_vec();
    let damaged = chain.replacen("\nMII", "\nM*I", 1);
    let utf_16: Vec<u8> = [0xff, 0xfe].into_iter().chain(chain.bytes().flat_map(|byte| [byte, 0])).collect();
    let rows: [BadFiles; 15] = [
        ("PKCS #8, encrypted", chain.clone().into(), relabelled.into(), KEY, &["encrypted", "openssl pkey -in"]),
        ("PEM, encrypted", chain.clone().into(), old_encrypted.into(), KEY, &["encrypted", "openssl pkey -in"]),
        ("small", SMALL_CERTIFICATE.into(), SMALL_KEY.into(), KEY, &["1024 bits", "2048", "openssl genpkey"]),
        ("another's key", chain.clone().into(), others.into(), "tls: ", &["do not go together", "openssl pkey -in"]),
        ("cut key", chain.clone().into(), cut(&key), KEY, &["cut", "-----END PRIVATE KEY-----"]),
        ("cut chain", cut(&chain), key.clone().into(), CHAIN, &["cut", "-----END CERTIFICATE-----"]),
        ("key in DER", chain.clone().into(), base64(&key), KEY, &["DER", "openssl pkey -inform DER"]),
        ("chain in DER", base64(&chain), key.clone().into(), CHAIN, &["DER", "openssl x509 -inform DER"]),
        ("no certificate", key.clone().into(), key.clone().into(), CHAIN, &["no certificate", "a private key"]),
        ("no key", chain.clone().into(), chain.clone().into(), KEY, &["no private key", "a certificate"]),
        ("empty", Vec::new(), key.clone().into(), CHAIN, &["no certificate", "it is empty"]),
        ("text", b"hello\n".to_vec(), key.clone().into(), CHAIN, &["no certificate", "-----BEGIN CERTIFICATE-----"]),
        ("not base64", damaged.into(), key.clone().into(), CHAIN, &["line 2", "base64"]),
        ("UTF-16", utf_16, key.clone().into(), CHAIN, &["UTF-16", "ASCII"]),
        (
            "public key",
            chain.clone().into(),
            key.replace("PRIVATE", "PUBLIC").into(),
            KEY,
            &["no private key", "a public key"],
        ),
    ];
    for (name, certificate, private_key, starts, parts) in rows {
        std::fs::write(&good.certificate, certificate).expect("written");
        write_secret(&good.private_key, private_key);
        let refused = selfsame_interfaces::http::Certificate::load(&good.certificate, &good.private_key);
        let text = refused.err().unwrap_or_else(|| panic!("{name} was accepted")).to_string();
        assert!(text.starts_with(starts) && parts.iter().all(|part| text.contains(part)), "{name}: {text}");
        let file = if starts == CHAIN { &good.certificate } else { &good.private_key };
        assert!(text.contains(&file.display().to_string()), "{name}: {text}");
    }
    // What editors and `openssl ecparam -genkey` add does not matter.
    for (certificate, private_key) in [
        (with_bom(&chain), with_bom(&key)),
        (
            [b"Bag Attributes\n    friendlyName: x\n", chain.as_bytes()].concat(),
            [b"-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n", key.as_bytes()]
                .concat(),
        ),
        (chain.replace('\n', "\r\n").into(), key.replace('\n', "\r\n").into()),
    ] {
        std::fs::write(&good.certificate, certificate).expect("written");
        write_secret(&good.private_key, private_key);
        selfsame_interfaces::http::Certificate::load(&good.certificate, &good.private_key).expect("a certificate");
    }
}
