//! The page that shows where the browser is signed in, and what leads to the accounts there.

use hyper::StatusCode;
use maud::{Markup, html};
use selfsame_actors::SessionSignIn;
use selfsame_protocol::sign_in::accounts::SignInAccount;
use selfsame_protocol::time::UnixSeconds;

use super::frame::{Frame, LOADS, own_form};
use super::others::time;
use crate::http::Response;

/// What the page of a browser's session says.
pub struct SessionPage<'a> {
    /// Where the browser is signed in.
    pub sign_ins: &'a [SessionSignIn],
    /// The value with which the forms show that they are of this session.
    pub confirmation: &'a str,
    /// The same for the accounts that the browser remembers, if it does.
    pub remembered: Option<&'a str>,
    /// The name of the application whose account was just forgotten by all others.
    pub forgotten_at: Option<&'a str>,
    /// Whether the service has passkeys.
    pub has_passkeys: bool,
    /// The time of the page.
    pub now: UnixSeconds,
}

/// The page that shows where the browser is signed in.
pub fn session(frame: &Frame<'_>, page: &SessionPage<'_>) -> Response {
    let words = frame.words;
    let title = words.say("sessions-title");
    let since = |time: &str| words.say_with("session-since", &[("time", time)]).into_owned();
    let body = html! {
        main {
            h1 { (title) }
            @if let Some(application) = page.forgotten_at {
                p.warning role="status" { (words.say_with("others-forgotten", &[("application", application)])) }
            }
            @if page.sign_ins.is_empty() {
                p { (words.say("sessions-none")) }
            } @else {
                p { (words.say("sessions-some")) }
                form method="post" action=(frame.path("/session")) {
                    input type="hidden" name="confirmation" value=(page.confirmation);
                    dl.sessions {
                        @for known in page.sign_ins {
                            @let label = words.say_with("sign-out-of", &[("application", &known.client_name)]);
                            dt { (known.client_name) }
                            dd {
                                (time(known.auth_time, since))
                                button.plain type="submit" name="application" value=(known.client_id) aria-label=(label) {
                                    (words.say("sign-out"))
                                }
                            }
                        }
                    }
                    button type="submit" { (words.say("sign-out-everywhere")) }
                }
            }
            @for known in page.sign_ins.iter().filter(|known| known.has_account) { (account(frame, page, known)) }
            @if let Some(remembered) = page.remembered {
                section.account {
                    p { (words.say("remembers-accounts")) }
                    form method="post" action=(frame.path("/session")) {
                        input type="hidden" name="forget" value=(remembered);
                        button.plain type="submit" { (words.say("forget-browser")) }
                    }
                }
            }
        }
        script src={ (frame.root) "/sign-in-address.js" } defer {}
    };
    let policy = format!("script-src 'self'; {LOADS}; form-action 'self'");
    own_form(frame.respond(StatusCode::OK, &title, &body, &policy))
}

/// What a person can do with the account that the browser is signed in to.
fn account(frame: &Frame<'_>, page: &SessionPage<'_>, known: &SessionSignIn) -> Markup {
    let words = frame.words;
    let form = |path: &str, button: &str| {
        html! {
            form method="post" action=(frame.path(path)) {
                input type="hidden" name="confirmation" value=(page.confirmation);
                input type="hidden" name="application" value=(known.client_id);
                button.plain type="submit" { (button) }
            }
        }
    };
    html! {
        section.account {
            h2 { (words.say_with("account-at", &[("application", &known.client_name)])) }
            p { (words.say("make-code-effect")) }
            (form("/session/code", &words.say("make-code")))
            @if page.has_passkeys {
                p { (words.say("make-passkey-effect")) }
                (form("/session/passkey", &words.say("make-passkey")))
            }
            p { (words.say("make-link-effect")) }
            (form("/session/link", &words.say("make-link")))
            @if known.can_be_forgotten {
                p { (words.say("forget-others-effect")) }
                @if SignInAccount::may_lose_pointers(known.auth_time, page.now) {
                    (form("/session/forget-others", &words.say("forget-others")))
                } @else {
                    p.quiet { (words.say("forget-others-later")) }
                }
            }
        }
    }
}
