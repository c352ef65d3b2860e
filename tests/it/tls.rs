//! TLS on the public listeners.

use reqwest::header::{ACCEPT, SET_COOKIE};
use reqwest::{Certificate, Version};
use selfsame::config::Tls;
use selfsame::interface::Interface;
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::harness::{TestDaemon, folder, run};

/// A certificate for the addresses of the tests and its key, in files; and the certificate for
/// clients that trust it.
pub fn certificate(folder: &TempDir) -> (Tls, Certificate) {
    let addresses: Vec<String> = (1..=5).map(|host| format!("127.0.0.{host}")).collect();
    let made = rcgen::generate_simple_self_signed(addresses).expect("a certificate");
    let tls = Tls { certificate: folder.path().join("chain.pem"), private_key: folder.path().join("key.pem") };
    std::fs::write(&tls.certificate, made.cert.pem()).expect("written");
    std::fs::write(&tls.private_key, made.signing_key.serialize_pem()).expect("written");
    (tls, Certificate::from_pem(made.cert.pem().as_bytes()).expect("a certificate"))
}

#[tokio::test]
async fn public_listeners_speak_tls_and_the_operator_listener_does_not() {
    let folder = folder();
    let (tls, trusted) = certificate(&folder);
    let daemon = TestDaemon::start_with(folder.path(), |config| config.tls = Some(tls)).await;
    let http = reqwest::Client::builder().no_proxy().tls_certs_only([trusted]).build().expect("a client");
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
    let (tls, trusted) = certificate(&folder);
    let data = tempfile::tempdir().expect("a folder for temporary files");
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
    let folder = folder();
    let (tls, first) = certificate(&folder);
    let served = selfsame::http::Certificate::load(&tls.certificate, &tls.private_key).expect("a certificate");
    assert!(!served.reload_if_changed().expect("the files are good"));

    let daemon = TestDaemon::start_with(folder.path(), |config| config.tls = Some(tls.clone())).await;
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
    let (_, second) = certificate(&folder);
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
    let folder = folder();
    let (tls, _) = certificate(&folder);
    let served = selfsame::http::Certificate::load(&tls.certificate, &tls.private_key).expect("a certificate");
    certificate(&folder);
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
    let folder = folder();
    let (tls, _) = certificate(&folder);
    let other = tempfile::tempdir().expect("a folder for temporary files");
    let (others, _) = certificate(&other);
    let nothing = folder.path().join("nothing.pem");
    std::fs::write(&nothing, "").expect("written");
    for (certificate, private_key, parts) in [
        (&folder.path().join("missing.pem"), &tls.private_key, ["tls.certificate", "missing.pem"]),
        (&nothing, &tls.private_key, ["tls.certificate", "no certificate"]),
        (&tls.certificate, &nothing, ["tls.private_key", "nothing.pem"]),
        (&tls.certificate, &others.private_key, ["tls: ", "do not go together"]),
    ] {
        let data = tempfile::tempdir().expect("a folder for temporary files");
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
