//! The page of a sign-in. The service renders it in each of its states; the script of the page
//! shows and hides the same parts when the state changes: those whose `data-for` names the state.

use hyper::StatusCode;
use maud::{Markup, PreEscaped, html};
use qrcode::QrCode;
use qrcode::render::svg;
use selfsame_protocol::sign_in::claims::Scopes;
use selfsame_protocol::time::UnixSeconds;

use super::attaching::not_now;
use super::frame::{Authenticator, Frame, LOADS, own_form};
use super::passkeys::{self, PasskeyForm, allow_use};
use super::words::Words;
use super::{Application, State};
use crate::http::Response;

/// What stands in a text for the time that the script of the page fills in.
const TIME: &str = "{time}";

/// What the page of a sign-in says.
pub struct SignInPage<'a> {
    /// The transaction's id.
    pub transaction: &'a str,
    /// The application.
    pub application: Application<'a>,
    /// What the application will receive.
    pub scopes: Scopes,
    /// The link of the code and of the button.
    pub short_link: &'a str,
    /// How far the sign-in is.
    pub state: State,
    /// When it expires.
    pub expires_at: UnixSeconds,
    /// The time of the page.
    pub now: UnixSeconds,
    /// How often the person may still ask for more time.
    pub extensions_left: u8,
    /// Whether the person may scan the code with another device.
    pub allows_cross_device: bool,
    /// Whether the scanner of every authenticator that may answer follows the link of the code. A
    /// camera always does.
    pub scans_in_app: bool,
    /// Whether the person of an account is asked, and another person may answer in their place.
    pub may_be_another_person: bool,
    /// Whether a sign-in code can say which account is asked for.
    pub takes_codes: bool,
    /// The form that says it by a passkey, where there are passkeys.
    pub passkey: Option<PasskeyForm>,
    /// Whether the person may say that the credential is an older one.
    pub may_be_older: bool,
    /// Whether it follows another proof of the same sign-in.
    pub is_continued: bool,
    /// Whether it asks for a proof that is attached to the account of an accepted legacy proof: the
    /// person can sign in without.
    pub attaches: bool,
    /// Where people get the authenticator, unless the configuration names a page for that.
    pub joining_page: Option<&'a str>,
}

impl SignInPage<'_> {
    fn base(&self) -> String {
        format!("/authorize/{}", self.transaction)
    }

    /// The whole minutes until the page expires, at least one.
    fn minutes_left(&self) -> u64 {
        (self.expires_at.since(self.now) / 60).max(1)
    }
}

/// The page of a sign-in: what the application will receive, how to answer, and what comes after.
pub fn sign_in(frame: &Frame<'_>, page: &SignInPage<'_>) -> Response {
    let (root, words) = (frame.root, frame.words);
    let Application { id, name, .. } = page.application;
    let base = page.base();
    let title = words.say_with("sign-in-title", &[("application", name)]);
    let body = html! {
        main.sign-in
            data-state=(page.state.name())
            data-transaction={ (root) (base) }
            data-page=(frame.path(&base))
            data-complete=(frame.path(&format!("{base}/complete")))
            data-expires=(page.expires_at)
            data-now=(page.now)
            data-extensions=(page.extensions_left)
            data-waiting=(words.say("status-waiting"))
            data-opened=(words.say("status-opened"))
            data-refused=(words.say("status-refused"))
            data-digits=(words.say("status-digits"))
            data-here=(words.say("status-here"))
            data-answered=(words.say("status-answered"))
            data-over=(words.say("status-over"))
            data-done=(words.say("status-done"))
            data-offline=(words.say("status-offline"))
            data-ending=(words.say("status-ending"))
            data-until=(words.say_with("good-until", &[("time", TIME)]))
        {
            section.purpose {
                @if frame.appearance.app_logo(id).is_some() {
                    img.application src={ (root) "/sign-in-logo/" (id) } alt="";
                }
                h1 { (title) }
                @if page.is_continued {
                    p data-for=(State::ASKING) hidden[!page.state.is_in(State::ASKING)] {
                        (words.say(if page.attaches { "attach-code" } else { "one-more-proof" }))
                    }
                }
                div.receives data-for=(State::ASKING) hidden[!page.state.is_in(State::ASKING)] {
                    (receives(frame))
                }
            }
            section.answer { (answer(frame, page)) }
            // Last, so that a phone shows its button without scrolling.
            p.quiet.not-received data-for=(State::ASKING) hidden[!page.state.is_in(State::ASKING)] {
                (words.say("receives-nothing-else"))
                @if page.scopes.email || page.scopes.profile { " " (words.say("receives-stand-ins")) }
            }
        }
        script src={ (root) "/sign-in.js" } defer {}
        @if page.passkey.is_some() { (passkeys::script(frame)) }
    };
    // No `form-action`: the answers to the forms redirect to a registered URI of the application.
    let policy = format!("script-src 'self'; connect-src 'self'; {LOADS}");
    allow_use(own_form(frame.respond(StatusCode::OK, &title, &body, &policy)), page.passkey.as_ref())
}

/// What the person shows, and what the application receives.
fn receives(frame: &Frame<'_>) -> Markup {
    let words = frame.words;
    html! {
        p { (words.say("sign-in-purpose")) }
        ul {
            li { (words.say("receives-identifier")) }
            li { (words.say("receives-level")) }
        }
        @if frame.authenticator().is_none() { p.quiet { (words.say("authenticator-hint")) } }
    }
}

/// How the person answers, how far the sign-in is, and the controls of its state.
fn answer(frame: &Frame<'_>, page: &SignInPage<'_>) -> Markup {
    let words = frame.words;
    let base = page.base();
    let at = |path: &str| frame.path(&format!("{base}{path}"));
    let hides = |states: &str| !page.state.is_in(states);
    let (asking, asking_or_over) = (State::ASKING, "waiting opened refused over");
    let (with_cancel, with_way_out) = ("waiting opened refused digits here", "waiting opened refused digits here over");
    let home = page.application.address();
    let back = words.say_with("to-application", &[("application", page.application.name)]);
    html! {
        div.way data-for=(asking) hidden[hides(asking)] { (open_button(frame, &in_language(frame, page.short_link))) }
        p #progress role="status" aria-live="polite" { (status(words, page.state)) }
        div.time data-for=(asking) hidden[hides(asking)] {
            p.quiet #countdown tabindex="-1" {
                (words.say_with("minutes-left", &[("minutes", &page.minutes_left().to_string())]))
            }
            p #ending role="status" aria-live="polite" {}
            // Only without scripts it stands there from the beginning.
            form #more-time method="post" action=(at("/more-time")) hidden[page.extensions_left == 0] {
                button.plain type="submit" { (words.say("more-time")) }
            }
        }
        p #offline role="status" aria-live="polite" {}
        p.quiet data-for="here" hidden[hides("here")] { (words.say("here-hint")) }
        p.quiet data-for="over" hidden[hides("over")] { (words.say("over-hint")) }
        (digits(frame, page))
        @if let Some(code) = qr_code(words, page.short_link).filter(|_| page.allows_cross_device) {
            // A phone shows its button first, a large screen the code.
            details.code data-for=(asking) hidden[hides(asking)] {
                summary { (words.say("use-another-device")) }
                figure {
                    (code)
                    figcaption { (code_caption(frame, page.scans_in_app)) }
                }
            }
        }
        p #continue data-for="waiting opened refused answered" hidden[hides(asking)] {
            a href=(at("/complete")) { (words.say("continue-when-answered")) }
        }
        form #new-code method="post" action=(at("/new-code")) data-for="over" hidden[hides("over")] {
            button type="submit" { (words.say("new-code")) }
        }
        @if page.attaches {
            div data-for=(asking) hidden[hides(asking)] { (not_now(frame, &at("/go-on"))) }
        }
        @if page.may_be_another_person {
            form method="post" action=(at("/another-person")) data-for=(asking_or_over) hidden[hides(asking_or_over)] {
                button.plain type="submit" { (words.say("another-person")) }
            }
        }
        form method="post" action=(at("/cancel")) data-for=(with_way_out) hidden[hides(with_way_out)] {
            button.plain type="submit" {
                span data-for=(with_cancel) hidden[hides(with_cancel)] { (words.say("cancel")) }
                span data-for="over" hidden[hides("over")] { (back) }
            }
        }
        @if let Some(home) = home {
            p.onward data-for="done here" hidden[hides("done here")] {
                a href=(home) rel="noreferrer" { (back) }
            }
        }
        @if let Some(ways) = other_ways(frame, page) {
            ul.ways data-for=(asking_or_over) hidden[hides(asking_or_over)] { (ways) }
        }
    }
}

fn status(words: &Words, state: State) -> std::borrow::Cow<'_, str> {
    words.say(match state {
        State::Waiting => "status-waiting",
        State::Opened => "status-opened",
        State::Refused => "status-refused",
        State::Digits { .. } => "status-digits",
        State::AnsweredHere => "status-here",
        State::Over => "status-over",
        State::Done => "status-done",
    })
}

/// The form for the digits that an authenticator on another device shows.
fn digits(frame: &Frame<'_>, page: &SignInPage<'_>) -> Markup {
    let (root, words) = (frame.root, frame.words);
    let is_asked = page.state.is_in("digits");
    let was_wrong = page.state == State::Digits { was_wrong: true };
    html! {
        form #digits method="get" action={ (root) (page.base()) "/complete" } data-for="digits" hidden[!is_asked] {
            // The query of the action of such a form gives way to its fields.
            @if let Some(language) = frame.wished {
                input type="hidden" name="ui_locales" value=(language.tag());
            }
            @if was_wrong { p.wrong #wrong role="alert" { (words.say("digits-wrong")) } }
            label for="typed" { (words.say("digits-label")) }
            input #typed name="digits" type="text" inputmode="numeric" autocomplete="one-time-code"
                pattern="[0-9]{3}" maxlength="3" required autofocus[is_asked]
                aria-invalid=[was_wrong.then_some("true")] aria-describedby=[was_wrong.then_some("wrong")];
            button type="submit" { (words.say("continue")) }
        }
    }
}

/// A link to a page of the service, in the language that the request wished.
fn in_language(frame: &Frame<'_>, link: &str) -> String {
    match frame.wished {
        Some(language) => format!("{link}?ui_locales={}", language.tag()),
        None => link.to_owned(),
    }
}

/// The button that leads to the authenticators on this device. A large screen shows a link in its
/// place: there the app is most often on another device.
fn open_button(frame: &Frame<'_>, link: &str) -> Markup {
    let words = frame.words;
    html! {
        p.action {
            a.button href=(link) rel="nofollow" {
                @match frame.authenticator() {
                    Some(Authenticator { name, has_logo, .. }) => {
                        @if has_logo { img src={ (frame.root) "/sign-in-authenticator-logo" } alt=""; }
                        span.small-screen { (words.say_with("open-app", &[("name", name)])) }
                        span.large-screen { (words.say_with("open-app-here", &[("name", name)])) }
                    }
                    None => { (words.say("use-this-device")) }
                }
            }
        }
    }
}

/// With what the person scans the code.
fn code_caption(frame: &Frame<'_>, scans_in_app: bool) -> std::borrow::Cow<'static, str> {
    let words = frame.words;
    match frame.authenticator() {
        _ if !scans_in_app => words.say("scan-with-camera"),
        Some(Authenticator { name, .. }) => words.say_with("scan-with-camera-or-app", &[("name", name)]),
        None => words.say("scan-with-camera-or-authenticator"),
    }
}

/// Where a person goes who has no authenticator, or is not helped by it: items of a list.
fn other_ways(frame: &Frame<'_>, page: &SignInPage<'_>) -> Option<Markup> {
    let words = frame.words;
    let authenticator = frame.authenticator();
    let get =
        authenticator.as_ref().and_then(|app| Some((app.get_url?, words.say_with("get-app", &[("name", app.name)]))));
    let get = get.or_else(|| Some((page.joining_page?, words.say("get-authenticator"))));
    let code = page.takes_codes.then(|| frame.path(&format!("{}/code", page.base())));
    let fallback = page.application.fallback.map(|url| (url, words.say("another-way")));
    let help = authenticator.as_ref().and_then(|app| Some((app.help_url?, words.say("help"))));
    let ways: Vec<_> = [get, fallback, help].into_iter().flatten().collect();
    let older = page.may_be_older.then(|| frame.path(&format!("{}/older", page.base())));
    (!ways.is_empty() || code.is_some() || older.is_some()).then(|| {
        html! {
            @if let Some(older) = older { li { a href=(older) { (words.say("older-link")) } } }
            @if let Some(code) = code { li { a href=(code) { (words.say("have-code")) } } }
            @if let Some(passkey) = &page.passkey { li { (passkey.render(frame, page.application.name)) } }
            @for (url, text) in ways { li { a href=(url) rel="noreferrer" { (text) } } }
        }
    })
}

// The codes that an authenticator on another device scans.

/// The longest text that is drawn, in bytes. A connector URI has some 250. Longer ones make codes
/// that a camera hardly reads, and cost the more to draw.
const LONGEST: usize = 600;

/// The QR code of a text for authenticators; `None` for a text that is too long for one.
pub fn qr_code(words: &Words, text: &str) -> Option<Markup> {
    qr_code_of(&words.say("code-label"), text)
}

/// The QR code of a text, with what it is; `None` for a text that is too long for one.
pub fn qr_code_of(label: &str, text: &str) -> Option<Markup> {
    if text.len() > LONGEST {
        return None;
    }
    let code = QrCode::new(text).ok()?;
    let image = code.render::<svg::Color<'_>>().min_dimensions(220, 220).quiet_zone(true).build();
    // Only the element: the XML declaration before it is not allowed in HTML.
    let image = &image[image.find("<svg")?..];
    Some(html! { div role="img" aria-label=(label) { (PreEscaped(image)) } })
}
