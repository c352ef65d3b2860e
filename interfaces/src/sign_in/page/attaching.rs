//! The pages of a sign-in at an application whose people have had legacy proofs: whether current
//! ones are to be attached to the account, what is said when some were attached, and the question
//! about an older credential.

use hyper::StatusCode;
use maud::{Markup, html};
use selfsame_actors::{AboutAttached, ProofRequest};
use selfsame_protocol::time::{UnixMillis, UnixSeconds};

use super::frame::{Frame, LOADS, own_form};
use crate::http::Response;

/// What ties an accepted proof to the browser. The forms repeat it, because another proof needs it
/// as well.
pub struct ShownSecrets<'a> {
    /// The secret of the return URL, in the alphabet of base64url, or nothing.
    pub returned: &'a str,
    /// The digits that the person typed, or nothing.
    pub digits: &'a str,
}

impl ShownSecrets<'_> {
    /// The parameters of a URL with them, each with `&` behind it.
    pub fn query(&self) -> String {
        self.fields().map(|(name, value)| format!("{name}={value}&")).collect()
    }

    fn fields(&self) -> impl Iterator<Item = (&'static str, &str)> {
        [("return", self.returned), ("digits", self.digits)].into_iter().filter(|(_, value)| !value.is_empty())
    }
}

/// The page about attached proofs, before a sign-in at an application is completed. `action` is
/// where its form leads; `onward` the path that completes the sign-in.
pub fn about_attached(
    frame: &Frame<'_>,
    application: &str,
    about: AboutAttached,
    action: &str,
    onward: &str,
    shown: &ShownSecrets<'_>,
) -> Response {
    let words = frame.words;
    let (title, body) = match about {
        AboutAttached::Lately { attached_at, provisional_until, may_dispute } => {
            let days = [attached_at, provisional_until];
            let [on, until] = days.map(day);
            let values = [("application", application), ("day", &*on), ("until", &*until)];
            let body = html! {
                p { (with_days(&words.say_with("attached-why", &values), &days)) }
                p.action { a.button href=(onward) { (words.say("attached-mine")) } }
                @if may_dispute {
                    p { (words.say("attached-dispute")) }
                    (form(action, "attached", shown, html! {
                        button.plain type="submit" { (words.say("attached-not-mine")) }
                    }))
                } @else {
                    p { (with_days(&words.say_with("attached-elsewhere", &values), &days)) }
                }
            };
            (words.say("attached-title"), body)
        }
        AboutAttached::MayBe { legacy_ends_at } => {
            let ends = day(legacy_ends_at);
            let values = [("application", application), ("day", &*ends)];
            let body = html! {
                p { (with_days(&words.say_with("attach-why", &values), &[legacy_ends_at])) }
                (form(action, "attached", shown, html! {
                    button type="submit" { (words.say("attach-yes")) }
                }))
                p.onward { a.plain href=(onward) { (words.say("attach-no")) } }
            };
            (words.say("attach-title"), body)
        }
    };
    let body = html! {
        main { h1 { (title) } (body) }
        script src={ (frame.root) "/sign-in-address.js" } defer {}
    };
    // No `form-action`: the page of the new sign-in can lead on to the application.
    own_form(frame.respond(StatusCode::OK, &title, &body, &format!("script-src 'self'; {LOADS}")))
}

/// The form with which a person goes on without the proof that was to be attached.
pub fn not_now(frame: &Frame<'_>, action: &str) -> Markup {
    let none = ShownSecrets { returned: "", digits: "" };
    form(action, "without", &none, html! { button.plain type="submit" { (frame.words.say("attach-no")) } })
}

fn form(action: &str, next: &str, shown: &ShownSecrets<'_>, button: Markup) -> Markup {
    html! {
        form method="post" action=(action) {
            input type="hidden" name="next" value=(next);
            @for (name, value) in shown.fields() { input type="hidden" name=(name) value=(value); }
            (button)
        }
    }
}

/// The page that asks whether the person has an older credential. `action` is where its form leads.
pub fn older_credential(frame: &Frame<'_>, asked: &ProofRequest, action: &str, sign_in_page: &str) -> Response {
    let words = frame.words;
    let warning = if asked.older_makes_account { "older-warning-new" } else { "older-warning" };
    let title = words.say("older-title");
    let none = ShownSecrets { returned: "", digits: "" };
    let body = html! {
        main {
            h1 { (title) }
            p { (words.say_with("older-why", &[("application", &*asked.app_name)])) }
            p.warning { (words.say(warning)) }
            (form(action, "older", &none, html! { button type="submit" { (words.say("older-yes")) } }))
            p.quiet { a href=(sign_in_page) { (words.say("short-back")) } }
        }
    };
    // No `form-action`: the page of the new sign-in can lead on to the application.
    own_form(frame.respond(StatusCode::OK, &title, &body, LOADS))
}

/// A day as `2026-12-31`: what a page says without scripts.
fn day(time: UnixSeconds) -> String {
    let text = UnixMillis(time.0.saturating_mul(1000)).to_iso_8601();
    text.split('T').next().unwrap_or_default().to_owned()
}

/// A text with these days, each in an element of its own, which the script of the page puts into
/// the person's zone and language.
fn with_days(text: &str, days: &[UnixSeconds]) -> Markup {
    let part = |time: &UnixSeconds| {
        let (before, after) = text.split_once(&day(*time))?;
        Some((before, *time, after))
    };
    // The order of the days in the text is that of its language.
    let Some((before, time, after)) = days.iter().filter_map(part).min_by_key(|(before, ..)| before.len()) else {
        return html! { (text) };
    };
    let machine = UnixMillis(time.0.saturating_mul(1000)).to_iso_8601();
    html! { (before) time datetime=(machine) data-day { (day(time)) } (with_days(after, days)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_day_of_a_text_is_an_element() {
        let days = [UnixSeconds(1_800_000_000), UnixSeconds(1_802_592_000)];
        let html = with_days("until 2027-02-14, <since> 2027-01-15.", &days).into_string();
        let time = |day: &str| format!("<time datetime=\"{day}T08:00:00.000Z\" data-day>{day}</time>");
        assert_eq!(html, format!("until {}, &lt;since&gt; {}.", time("2027-02-14"), time("2027-01-15")));
        assert_eq!(with_days("no day", &days).into_string(), "no day");
    }
}
