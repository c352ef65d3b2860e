//! The codes that an authenticator on another device scans.

use maud::{Markup, PreEscaped, html};
use qrcode::QrCode;
use qrcode::render::svg;

use super::words::Words;

/// The longest text that is drawn, in bytes. A connector URI has some 250. Longer ones make codes
/// that a camera hardly reads, and cost the more to draw.
const LONGEST: usize = 600;

/// The QR code of a text with its explanation; `None` for a text that is too long for one.
pub fn figure(words: &Words, text: &str) -> Option<Markup> {
    if text.len() > LONGEST {
        return None;
    }
    let code = QrCode::new(text).ok()?;
    let image = code.render::<svg::Color<'_>>().min_dimensions(220, 220).quiet_zone(true).build();
    // Only the element: the XML declaration before it is not allowed in HTML.
    let image = &image[image.find("<svg")?..];
    Some(html! {
        figure {
            div role="img" aria-label=(words.say("code-label")) { (PreEscaped(image)) }
            figcaption { (words.say("code-hint")) }
        }
    })
}
