//! The page behind the short link of a sign-in, which its code and its button carry; and the page
//! for a browser in which the sign-in did not begin.

use hyper::StatusCode;
use maud::{Markup, html};
use selfsame_actors::Remembering;
use selfsame_protocol::sign_in::proof_request::Initiator;
use selfsame_protocol::time::UnixSeconds;

use super::frame::{Frame, LOADS, LOADS_WITHOUT_FORM};
use super::others::{address, time};
use super::problems::begin_again;
use super::words::Words;
use super::{Application, State};
use crate::http::Response;

/// What the short page of a sign-in says.
pub struct ShortPage<'a> {
    /// The application.
    pub application: Application<'a>,
    /// The host that the response goes to.
    pub redirect_host: &'a str,
    /// Who began the sign-in.
    pub initiator: &'a Initiator,
    /// Whether this browser began it.
    pub is_here: bool,
    /// How far it is.
    pub state: State,
    /// The authenticators that may answer, the first one first; none when `is_denied`, or when
    /// there is nothing to answer.
    pub wallets: Vec<WalletOffer>,
    /// An address to copy into an authenticator, where no link is configured that opens one.
    pub address: Option<String>,
    /// Whether the application takes no answer from this device.
    pub is_denied: bool,
    /// What this browser can do about the account that was proved from it.
    pub remembering: Remembering,
    /// The path of the sign-in's page, for the browser that began it.
    pub sign_in_page: &'a str,
    /// The path of the short page itself.
    pub own_path: &'a str,
}

/// An authenticator that may answer.
pub struct WalletOffer {
    /// The link that opens it.
    pub link: String,
    /// Whether it knows the proof requests of this service, so that the configured link opens it.
    pub is_ours: bool,
}

/// The page behind the short link of a sign-in: the authenticators that may answer, in the browser
/// that began it, and in others, with what is known of who began it.
pub fn short(frame: &Frame<'_>, page: &ShortPage<'_>) -> Response {
    let words = frame.words;
    let title = words.say_with("sign-in-title", &[("application", page.application.name)]);
    let is_asked = page.state.is_in(State::ASKING) && !page.is_denied;
    let body = html! {
        main.short data-waits[is_asked && !page.is_here] {
            @if frame.appearance.app_logo(page.application.id).is_some() {
                img.application src={ (frame.root) "/sign-in-logo/" (page.application.id) } alt="";
            }
            h1 { (title) }
            @if is_asked {
                @if !page.is_here {
                    p.warning { (words.say("short-warning")) }
                    (begun(frame, page))
                } @else if frame.authenticator().is_none() {
                    p.quiet { (words.say("authenticator-hint")) }
                }
                @match &page.address {
                    Some(text) => { (address(frame, text, false)) }
                    None => { (offers(frame, &page.wallets)) }
                }
            } @else {
                p { (words.say(closed(page))) }
                (remembering(words, page))
                @if page.is_denied {
                    @if let Some(beginning) = page.application.beginning() {
                        p.onward { a href=(beginning) rel="noreferrer" { (words.say("begin-again-here")) } }
                    }
                }
            }
            @if page.is_here {
                p.quiet { a href=(page.sign_in_page) { (words.say("short-back")) } }
            } @else if !is_asked && !page.is_denied {
                p.quiet { (words.say("close-page")) }
            }
        }
        script src={ (frame.root) "/sign-in-address.js" } defer {}
    };
    let loads = if page.remembering == Remembering::Offered { LOADS } else { LOADS_WITHOUT_FORM };
    let policy = format!("script-src 'self'; connect-src 'self'; {loads}");
    frame.respond(StatusCode::OK, &title, &body, &policy)
}

/// What a browser elsewhere can do about the account that was proved from it.
fn remembering(words: &'static Words, page: &ShortPage<'_>) -> Markup {
    html! {
        @match page.remembering {
            Remembering::None => {}
            Remembering::Offered => {
                p { (words.say_with("remember-elsewhere-why", &[("application", page.application.name)])) }
                form method="post" action={ (page.own_path) "/remember" } {
                    button { (words.say("remember-elsewhere")) }
                }
            }
            Remembering::Remembers => { p { (words.say("remembers-elsewhere")) } }
        }
    }
}

/// The key of the text that says why the page offers no authenticator.
fn closed(page: &ShortPage<'_>) -> &'static str {
    match page.state {
        State::Over => "short-over",
        State::Done => "short-done",
        State::Digits { .. } => "short-digits",
        State::AnsweredHere => "status-here",
        State::Waiting | State::Opened | State::Refused => "short-denied",
    }
}

/// The links to the authenticators. The one that the configuration names is the first.
fn offers(frame: &Frame<'_>, wallets: &[WalletOffer]) -> Markup {
    let words = frame.words;
    let first = match frame.authenticator() {
        Some(app) => words.say_with("open-app", &[("name", app.name)]),
        None => words.say("open-authenticator"),
    };
    html! {
        ul.offers {
            @for (number, wallet) in wallets.iter().enumerate() {
                li {
                    @if number == 0 {
                        a.button href=(wallet.link) rel="nofollow noreferrer" {
                            @if frame.authenticator().is_some_and(|app| app.has_logo) {
                                img src={ (frame.root) "/sign-in-authenticator-logo" } alt="";
                            }
                            (first)
                        }
                    } @else {
                        a.button.plain href=(wallet.link) rel="nofollow noreferrer" {
                            (words.say(if wallet.is_ours { "use-own-wallet" } else { "use-other-wallet" }))
                        }
                    }
                }
            }
        }
    }
}

/// Where the response goes, and who began the sign-in: what a person compares with the other
/// screen.
fn begun(frame: &Frame<'_>, page: &ShortPage<'_>) -> Markup {
    let (words, initiator) = (frame.words, page.initiator);
    html! {
        dl.facts {
            dt { (words.say("short-host")) } dd { (page.redirect_host) }
            dt { (words.say("short-browser")) } dd { (browser(words, &initiator.user_agent)) }
            @if !initiator.network.is_empty() {
                dt { (words.say("short-network")) } dd { (initiator.network) }
            }
            dt { (words.say("short-time")) } dd { (time(initiator.time, str::to_owned)) }
        }
    }
}

/// The page for a browser in which a sign-in did not begin: where it began, and how to begin anew
/// here. It says nothing of another browser's request.
pub fn elsewhere(
    frame: &Frame<'_>,
    status: StatusCode,
    application: Option<&Application<'_>>,
    initiator: Option<&Initiator>,
    now: UnixSeconds,
) -> Response {
    let words = frame.words;
    let title = words.say("elsewhere-title");
    let beginning = application.and_then(Application::beginning);
    let body = html! {
        main {
            h1 { (title) }
            @if let Some(initiator) = initiator {
                p { (began(words, initiator, now)) }
            }
            p { (words.say("elsewhere")) }
            @match beginning {
                Some(beginning) => {
                    p.onward { a href=(beginning) rel="noreferrer" { (words.say("begin-again-here")) } }
                }
                None => { (begin_again(frame, application)) }
            }
        }
    };
    frame.respond(status, &title, &body, LOADS_WITHOUT_FORM)
}

/// Where and when a sign-in began.
fn began(words: &'static Words, initiator: &Initiator, now: UnixSeconds) -> std::borrow::Cow<'static, str> {
    let minutes = (now.since(initiator.time) / 60).max(1).to_string();
    let browser = browser(words, &initiator.user_agent);
    let variables = [("browser", &*browser), ("minutes", &*minutes), ("network", &*initiator.network)];
    match initiator.network.is_empty() {
        true => words.say_with("elsewhere-began", &variables[..2]),
        false => words.say_with("elsewhere-began-in-network", &variables),
    }
}

// The words for a browser. The names are those that people know.

/// What the header `User-Agent` of a browser has, and the browser's name. The first one counts:
/// most browsers name others too.
const BROWSERS: [(&str, &str); 10] = [
    ("Edg", "Edge"),
    ("OPR/", "Opera"),
    ("SamsungBrowser/", "Samsung Internet"),
    ("Vivaldi/", "Vivaldi"),
    ("FxiOS/", "Firefox"),
    ("Firefox/", "Firefox"),
    ("CriOS/", "Chrome"),
    ("Chrome/", "Chrome"),
    ("Version/", "Safari"),
    ("AppleWebKit/", "Safari"),
];

/// What the header has for a system, and the system's name. The first one counts.
const SYSTEMS: [(&str, &str); 7] = [
    ("iPhone", "iPhone"),
    ("iPad", "iPad"),
    ("Android", "Android"),
    ("Windows", "Windows"),
    ("CrOS", "ChromeOS"),
    ("Macintosh", "macOS"),
    ("Linux", "Linux"),
];

/// A browser in words, from its `User-Agent`: `Firefox, Windows`.
fn browser(words: &'static Words, user_agent: &str) -> std::borrow::Cow<'static, str> {
    let find = |names: &[(&str, &'static str)]| {
        names.iter().find(|(part, _)| user_agent.contains(part)).map(|(_, name)| *name)
    };
    match (find(&BROWSERS), find(&SYSTEMS)) {
        (Some(browser), Some(system)) => {
            words.say_with("browser-on-system", &[("browser", browser), ("system", system)])
        }
        (Some(name), None) | (None, Some(name)) => name.into(),
        (None, None) => words.say("browser-unknown"),
    }
}

#[cfg(test)]
mod tests {
    use selfsame_protocol::sign_in::Language;

    use super::*;

    #[test]
    fn browsers_have_the_names_that_people_know() {
        let words = Words::of(Language::English);
        for (user_agent, expected) in [
            ("Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:140.0) Gecko/20100101 Firefox/140.0", "Firefox on Windows"),
            (
                "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/150.0.0.0 Safari/537.36",
                "Chrome on Linux",
            ),
            (
                "Mozilla/5.0 (Windows NT 10.0) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/150.0 Safari/537.36 Edg/150.0",
                "Edge on Windows",
            ),
            (
                "Mozilla/5.0 (iPhone; CPU iPhone OS 26_0 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) \
                 Version/26.0 Mobile/15E148 Safari/604.1",
                "Safari on iPhone",
            ),
            (
                "Mozilla/5.0 (Linux; Android 15; SM-S931B) AppleWebKit/537.36 (KHTML, like Gecko) SamsungBrowser/29.0 \
                 Chrome/136.0 Mobile Safari/537.36",
                "Samsung Internet on Android",
            ),
            (
                "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/26.0 \
                 Safari/605.1.15",
                "Safari on macOS",
            ),
            ("Dillo (Linux)", "Linux"),
            ("curl/8.9.1", "an unknown browser"),
            ("", "an unknown browser"),
        ] {
            assert_eq!(browser(words, user_agent), expected, "{user_agent}");
        }
    }
}
