//! The pages that end users see. They have no external resources and no inline styles; the
//! Content-Security-Policy of each page names its scripts.
//!
//! | module | what it has |
//! |---|---|
//! | this one | what the pages know of an application and of a sign-in's state |
//! | [`frame`] | what all pages have: whose page it is, the footer, the headers, the files; the front page |
//! | [`sign_in`] | the page of a sign-in in each of its states |
//! | [`short`] | the page behind the code and the button, and the page for another browser |
//! | [`pointers`] | sign-in codes, shown once, and typed; links for another device |
//! | [`passkeys`] | the page that makes a passkey, and the form that uses one |
//! | [`attaching`] | current proofs for an account of legacy proofs, and the question about an older credential |
//! | [`problems`] | what went wrong |
//! | [`others`] | the pages at the address for authenticators, of a connector URI, of a response by form, about signing out |
//! | [`session`] | where the browser is signed in, and what leads to the accounts there |
//! | [`words`] | the texts in their languages |

mod attaching;
mod frame;
mod others;
mod passkeys;
mod pointers;
mod problems;
mod session;
mod short;
mod sign_in;
mod words;

pub use attaching::{ShownSecrets, about_attached, older_credential};
#[cfg(test)]
pub(super) use frame::STYLE;
pub use frame::{Frame, address_script, front, logo, passkey_script, script, style};
pub use others::{
    Asked, Shown, connect, form_post, incomplete_connector, sign_out, sign_out_error, sign_out_from_elsewhere,
    signed_out, unknown_connector,
};
pub use passkeys::{PasskeyForm, passkey_made};
pub use pointers::{
    CodeProblem, CodeQuestion, code_made, code_question, link_ended, link_made, link_question, link_used,
};
pub use problems::{
    Again, account_found, ask_to_remember, cannot_continue, error, failed, no_proof, not_found, too_many, unknown_code,
};
pub use session::{SessionPage, session};
pub use short::{ShortPage, WalletOffer, elsewhere, short};
pub use sign_in::{SignInPage, sign_in};
pub use words::Words;

use super::appearance::AppLinks;

/// The application that a page is about.
#[derive(Clone, Debug)]
pub struct Application<'a> {
    /// The application's id.
    pub id: &'a str,
    /// The application's name.
    pub name: &'a str,
    /// Its `home_url`.
    pub home: Option<&'a str>,
    /// Its `initiate_login_uri`, with `iss`: a sign-in that it begins there (OpenID Connect Core
    /// 1.0, section 4).
    pub initiate: Option<String>,
    /// Its `fallback_url`: where people go who cannot give a proof.
    pub fallback: Option<&'a str>,
}

impl<'a> Application<'a> {
    /// An application by the addresses of the configuration, for sign-ins with this issuer.
    pub fn new(id: &'a str, name: &'a str, links: &'a AppLinks, issuer: &str) -> Self {
        Self {
            id,
            name,
            home: links.home_url.as_deref(),
            initiate: links.initiation(issuer),
            fallback: links.fallback_url.as_deref(),
        }
    }

    /// Where a person goes who is done here, or cannot go on.
    pub fn address(&self) -> Option<&str> {
        self.home.or(self.initiate.as_deref())
    }

    /// Where a person begins a sign-in anew.
    pub fn beginning(&self) -> Option<&str> {
        self.initiate.as_deref().or(self.home)
    }
}

/// How far a sign-in is, for the person at its page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// No authenticator has fetched the request.
    Waiting,
    /// An authenticator has fetched the request.
    Opened,
    /// A proof was not accepted; the authenticator may give another one.
    Refused,
    /// Answered: the person types the digits that the authenticator shows.
    Digits {
        /// Whether other digits were typed before.
        was_wrong: bool,
    },
    /// Answered: the authenticator on this device opens the way back.
    AnsweredHere,
    /// Expired, cancelled, or ended by wrong digits.
    Over,
    /// The response was given out.
    Done,
}

impl State {
    /// The names of the states in which an authenticator may answer.
    const ASKING: &'static str = "waiting opened refused";

    /// The name of the state in the page, for its style sheet and its script.
    const fn name(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Opened => "opened",
            Self::Refused => "refused",
            Self::Digits { .. } => "digits",
            Self::AnsweredHere => "here",
            Self::Over => "over",
            Self::Done => "done",
        }
    }

    /// Whether the state is one of those in a list of names, as the attribute `data-for` has it.
    fn is_in(self, names: &str) -> bool {
        names.split(' ').any(|name| name == self.name())
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;
    use hyper::StatusCode;
    use selfsame_actors::Remembering;
    use selfsame_protocol::sign_in::Language;
    use selfsame_protocol::sign_in::claims::Scopes;
    use selfsame_protocol::sign_in::proof_request::Initiator;
    use selfsame_protocol::sign_in::response::{ErrorKind, SignInRejection};
    use selfsame_protocol::time::{RetryAfter, UnixSeconds};

    use super::*;
    use crate::http::Response;
    use crate::sign_in::appearance::Appearance;

    const BEGUN: UnixSeconds = UnixSeconds(1_800_000_000);
    const STATES: [State; 8] = [
        State::Waiting,
        State::Opened,
        State::Refused,
        State::Digits { was_wrong: false },
        State::Digits { was_wrong: true },
        State::AnsweredHere,
        State::Over,
        State::Done,
    ];

    fn application() -> Application<'static> {
        Application {
            id: "app_a",
            name: "Example library",
            home: Some("https://library.example/"),
            initiate: Some("https://library.example/login?iss=https%3A%2F%2Fid.example".to_owned()),
            fallback: Some("https://library.example/desk"),
        }
    }

    fn initiator() -> Initiator {
        let user_agent = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0";
        Initiator::new("192.0.2.7".parse().ok(), Some(user_agent), BEGUN)
    }

    fn frame<'a>(appearance: &'a Appearance, language: Language) -> Frame<'a> {
        Frame { root: "/id", issuer: "https://id.example/id", appearance, words: Words::of(language), wished: None }
    }

    async fn text(response: Response) -> String {
        let body = response.into_body().collect().await.expect("a body").to_bytes();
        String::from_utf8(body.to_vec()).expect("text")
    }

    fn page(state: State) -> SignInPage<'static> {
        SignInPage {
            transaction: "0123",
            application: application(),
            scopes: Scopes { email: true, profile: false },
            short_link: "https://id.example/id/s/abcdefghijklmnop",
            state,
            expires_at: BEGUN.plus(300),
            now: BEGUN.plus(61),
            extensions_left: 2,
            allows_cross_device: true,
            scans_in_app: true,
            may_be_another_person: false,
            takes_codes: false,
            passkey: None,
            may_be_older: false,
            is_continued: false,
            attaches: false,
            joining_page: None,
        }
    }

    /// The texts of every language are formatted, which fails for one that is missing.
    #[tokio::test]
    async fn each_state_shows_its_parts_alone() {
        let appearance = Appearance::default();
        for (language, state) in Language::ALL.into_iter().flat_map(|language| STATES.map(|state| (language, state))) {
            let html = text(sign_in(&frame(&appearance, language), &page(state))).await;
            let parts: Vec<&str> = html.split("data-for=\"").skip(1).collect();
            assert!(parts.len() > 12, "{html}");
            for part in parts {
                let (states, rest) = part.split_once('"').expect("an attribute");
                let tag = rest.split('>').next().expect("the rest of a tag");
                assert_eq!(tag.contains(" hidden"), !state.is_in(states), "{state:?}: {part}");
            }
            assert!(html.contains(&format!("data-state=\"{}\"", state.name())), "{html}");
            assert!(html.contains("data-transaction=\"/id/authorize/0123\""), "{html}");
            let was_wrong = state == State::Digits { was_wrong: true };
            assert_eq!(html.contains("aria-invalid"), was_wrong, "{state:?}: {html}");
            assert_eq!(html.contains("autofocus"), matches!(state, State::Digits { .. }), "{state:?}: {html}");
        }
    }

    #[tokio::test]
    async fn the_page_of_a_sign_in_offers_what_there_is() {
        let appearance = Appearance::default();
        let frame = frame(&appearance, Language::English);
        let full = text(sign_in(&frame, &page(State::Waiting))).await;
        for part in [
            "<svg",
            "for another 3 min",
            "stand-ins",
            "href=\"https://library.example/desk\"",
            "href=\"https://library.example/\"",
            "action=\"/id/authorize/0123/more-time\">",
        ] {
            assert!(full.contains(part), "{part}: {full}");
        }
        let mut bare = page(State::Waiting);
        bare.application = Application { home: None, initiate: None, fallback: None, ..application() };
        bare.scopes = Scopes::default();
        (bare.allows_cross_device, bare.extensions_left, bare.now) = (false, 0, BEGUN.plus(299));
        let html = text(sign_in(&frame, &bare)).await;
        for part in ["<svg", "stand-ins", "library.example/desk", "library.example/\""] {
            assert!(!html.contains(part), "{part}: {html}");
        }
        assert!(html.contains("for another 1 min"), "{html}");
        assert!(html.contains("action=\"/id/authorize/0123/more-time\" hidden>"), "{html}");
        // A form's query gives way to its fields.
        let german = Frame { wished: Some(Language::German), ..frame };
        let html = text(sign_in(&german, &page(State::Digits { was_wrong: false }))).await;
        assert!(html.contains("<input type=\"hidden\" name=\"ui_locales\" value=\"de\">"), "{html}");
    }

    #[tokio::test]
    async fn the_short_page_knows_here_and_there() {
        let appearance = Appearance::default();
        let initiator = initiator();
        for (language, state, is_here, is_denied) in Language::ALL.into_iter().flat_map(|language| {
            STATES.into_iter().flat_map(move |state| {
                [(true, false), (false, false), (false, true)].map(|(here, denied)| (language, state, here, denied))
            })
        }) {
            let is_asked = state.is_in(State::ASKING) && !is_denied;
            let offer = |link: &str, is_ours| WalletOffer { link: link.to_owned(), is_ours };
            let both = || vec![offer("wallet://open#there", true), offer("https://wallet.example/?t=wld", false)];
            let shown = ShortPage {
                application: application(),
                redirect_host: "app.library.example",
                initiator: &initiator,
                is_here,
                state,
                wallets: if is_asked { both() } else { Vec::new() },
                address: None,
                is_denied,
                remembering: Remembering::None,
                own_path: "/s/aaaaaaaaaaaaaaaa",
                sign_in_page: "/id/authorize/0123",
            };
            let html = text(short(&frame(&appearance, language), &shown)).await;
            for (part, is_shown) in [
                ("href=\"wallet://open#there\"", is_asked),
                ("href=\"https://wallet.example/?t=wld\"", is_asked),
                ("app.library.example", is_asked && !is_here),
                ("192.0.2.0/24", is_asked && !is_here),
                ("href=\"/id/authorize/0123\"", is_here),
                ("class=\"warning\"", is_asked && !is_here),
            ] {
                assert_eq!(
                    html.contains(part),
                    is_shown,
                    "{state:?}, here {is_here}, denied {is_denied}: {part}: {html}"
                );
            }
        }
    }

    #[tokio::test]
    async fn a_page_about_a_problem_leads_to_the_application_that_is_known() {
        let appearance = Appearance::default();
        let frame = frame(&appearance, Language::English);
        let wrong = SignInRejection::new(ErrorKind::NotFound, "no such sign-in");
        let (not_found, application) = (StatusCode::NOT_FOUND, application());
        let pages = |known: Option<&Application<'_>>| {
            [
                error(&frame, StatusCode::BAD_REQUEST, &wrong, known),
                cannot_continue(&frame, not_found, "problem-unanswered", &wrong, None, known),
                unknown_code(&frame, &wrong, known),
                too_many(&frame, RetryAfter::SOON, known),
            ]
        };
        let button = "<a href=\"https://library.example/\" rel=\"noreferrer\">Back to Example library</a>";
        for response in pages(Some(&application)) {
            let html = text(response).await;
            assert!(html.contains(button) && !html.contains("begin again"), "{html}");
        }
        let unknown = Application { home: None, initiate: None, ..application.clone() };
        for response in pages(None).into_iter().chain(pages(Some(&unknown))) {
            let html = text(response).await;
            assert!(!html.contains("class=\"onward\""), "{html}");
        }
        // In another browser the sign-in begins anew, with the application's own request.
        let began = initiator();
        let there = text(elsewhere(&frame, not_found, Some(&application), Some(&began), BEGUN.plus(130))).await;
        for part in [
            "It began 2 min ago in Firefox on Linux, in the network 192.0.2.0/24.",
            "<a href=\"https://library.example/login?iss=https%3A%2F%2Fid.example\" rel=\"noreferrer\">Begin again here</a>",
        ] {
            assert!(there.contains(part), "{part}: {there}");
        }
        let unknown = text(elsewhere(&frame, not_found, None, None, BEGUN)).await;
        assert!(unknown.contains("begin again") && !unknown.contains("It began"), "{unknown}");
    }

    /// Of its own requests the service can say more than of those that any page can make.
    #[tokio::test]
    async fn the_page_of_a_connector_uri_knows_the_services_own_requests() {
        let appearance = Appearance::default();
        for language in Language::ALL {
            for is_own in [true, false] {
                let asked = Asked {
                    application: "Example library".to_owned(),
                    description: "Sign in there".to_owned(),
                    action: String::new(),
                    is_own,
                };
                let frame = frame(&appearance, language);
                let html = text(connect(&frame, "https://id.example/connect?t=wld", &super::Shown::Asked(asked))).await;
                let is_described = !is_own || language == Language::English;
                assert_eq!(html.contains("Sign in there"), is_described, "{language:?}, own {is_own}: {html}");
                let warning = frame.words.say(if is_own { "connect-own" } else { "connect-unchecked" });
                assert!(html.contains(&*warning), "{language:?}, own {is_own}: {html}");
            }
        }
    }

    #[tokio::test]
    async fn pages_about_failures_name_no_details() {
        let appearance = Appearance::default();
        for language in Language::ALL {
            let frame = frame(&appearance, language);
            for status in [400, 405, 408, 413, 429, 500, 503].map(|code| StatusCode::from_u16(code).expect("a status"))
            {
                let response = failed(&frame, status, None);
                assert_eq!(response.status(), status);
                let html = text(response).await;
                assert!(html.contains("<h1>") && !html.contains("class=\"details\""), "{html}");
            }
            assert_eq!(super::not_found(&frame).status(), StatusCode::NOT_FOUND);
        }
    }
}
