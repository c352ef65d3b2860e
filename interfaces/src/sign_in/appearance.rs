//! Whose pages end users see, and the colours around the accent colour.

use std::collections::HashMap;
use std::fmt::{self, Display};
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arc_swap::ArcSwap;
use bytes::Bytes;
use form_urlencoded::Serializer;

/// The longest logo, in bytes. Logos are kept in memory.
pub const LONGEST_LOGO: u64 = 256 * 1024;

/// Whose pages end users see. The texts are checked: the links are those of mail or https.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PageSettings {
    /// The name of the service, or of the organization that runs it.
    pub service_name: Option<String>,
    /// Where people get help: a `mailto:` address or an `https` URL.
    pub contact: Option<String>,
    /// The `https` URL of the statement on privacy.
    pub privacy_url: Option<String>,
    /// The `https` URL of the terms of use.
    pub terms_url: Option<String>,
    /// The colour of buttons and links.
    pub accent_colour: Option<Colour>,
    /// The authenticator that the pages name and offer.
    pub authenticator: Option<AuthenticatorApp>,
}

/// The app that people sign in with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthenticatorApp {
    /// Its name.
    pub name: String,
    /// The page where people get it.
    pub get_url: Option<String>,
    /// The page that helps people with it.
    pub help_url: Option<String>,
}

/// The settings of the pages, and the logos.
#[derive(Default)]
pub struct Appearance {
    /// The settings of the service.
    pub page: PageSettings,
    /// The logo of the service.
    pub logo: Option<Logo>,
    /// The logo of the authenticator that the pages name.
    pub authenticator_logo: Option<Logo>,
    /// The applications, by their ids. A reload replaces them.
    apps: ArcSwap<HashMap<String, AppAppearance>>,
}

/// One application's part of the pages.
pub struct AppAppearance {
    /// Its logo.
    pub logo: Option<Logo>,
    /// Where its pages are.
    pub links: Arc<AppLinks>,
}

/// Addresses of an application that pages lead to.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct AppLinks {
    /// Where people go back to.
    pub home_url: Option<String>,
    /// Where the application begins a sign-in.
    pub initiate_login_uri: Option<String>,
    /// Where people go who have no authenticator.
    pub fallback_url: Option<String>,
}

impl AppLinks {
    /// The address that makes the application begin a sign-in with this service, whose issuer is
    /// `issuer` (OpenID Connect Core 1.0, section 4).
    pub fn initiation(&self, issuer: &str) -> Option<String> {
        let uri = self.initiate_login_uri.as_ref()?;
        let parameter = Serializer::new(String::new()).append_pair("iss", issuer).finish();
        let separator = match uri.split_once('?') {
            None => "?",
            Some((_, query)) if query.is_empty() || query.ends_with('&') => "",
            Some(_) => "&",
        };
        Some(format!("{uri}{separator}{parameter}"))
    }
}

impl Appearance {
    /// The settings of the pages with the logos of the service and of the authenticator, and the
    /// applications by their ids.
    pub fn new(
        page: PageSettings,
        logo: Option<Logo>,
        authenticator_logo: Option<Logo>,
        apps: HashMap<String, AppAppearance>,
    ) -> Self {
        Self { page, logo, authenticator_logo, apps: ArcSwap::from_pointee(apps) }
    }

    /// Takes over the applications of a configuration that was read again.
    pub fn replace_apps(&self, new: &Self) {
        self.apps.store(new.apps.load_full());
    }

    /// The logo of an application.
    pub fn app_logo(&self, app_id: &str) -> Option<Logo> {
        self.apps.load().get(app_id)?.logo.clone()
    }

    /// The addresses of an application that pages lead to.
    pub fn app_links(&self, app_id: &str) -> Arc<AppLinks> {
        self.apps.load().get(app_id).map(|app| Arc::clone(&app.links)).unwrap_or_default()
    }

    /// The URL of an application's logo at the sign-in interface, whose base is `id_url`; `None`
    /// when it has none.
    pub fn logo_url(&self, id_url: &str, app_id: &str) -> Option<String> {
        self.app_logo(app_id).map(|_| format!("{id_url}/sign-in-logo/{app_id}"))
    }
}

/// An image that the service serves itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Logo {
    /// What the image is.
    pub format: ImageFormat,
    /// The file. Clones share it.
    pub content: Bytes,
}

/// The formats of logos.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageFormat {
    /// Portable Network Graphics.
    Png,
    /// WebP.
    WebP,
    /// Scalable Vector Graphics, which can contain scripts.
    Svg,
}

impl ImageFormat {
    /// The format that the first bytes of a file show.
    fn of(content: &[u8]) -> Option<Self> {
        if content.starts_with(b"\x89PNG\r\n\x1a\n") {
            return Some(Self::Png);
        }
        if content.starts_with(b"RIFF") && content.get(8..12) == Some(b"WEBP") {
            return Some(Self::WebP);
        }
        let text = std::str::from_utf8(content).ok()?.trim_start_matches('\u{feff}').trim_start();
        let is_markup = ["<svg", "<?xml", "<!--", "<!DOCTYPE svg"].iter().any(|start| text.starts_with(start));
        (is_markup && text.contains("<svg")).then_some(Self::Svg)
    }

    /// The content type.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Png => "image/png",
            Self::WebP => "image/webp",
            Self::Svg => "image/svg+xml",
        }
    }
}

/// Why a file cannot be a logo.
#[derive(Debug, thiserror::Error)]
pub enum LogoProblem {
    /// It cannot be read.
    #[error("{}: {error}", path.display())]
    Unreadable {
        /// Path of the file.
        path: PathBuf,
        /// The operating system's error.
        error: io::Error,
    },
    /// It is longer than [`LONGEST_LOGO`].
    #[error("{} has more than {LONGEST_LOGO} bytes; give a smaller image", path.display())]
    TooLong {
        /// Path of the file.
        path: PathBuf,
    },
    /// It is no image, or one of another format.
    #[error("{} is neither PNG nor WebP nor SVG", path.display())]
    UnknownFormat {
        /// Path of the file.
        path: PathBuf,
    },
}

impl Logo {
    /// Reads a file.
    ///
    /// # Errors
    /// See [`LogoProblem`].
    pub fn read(path: &Path) -> Result<Self, LogoProblem> {
        let unreadable = |error| LogoProblem::Unreadable { path: path.to_owned(), error };
        let file = File::open(path).map_err(unreadable)?;
        let mut content = Vec::new();
        file.take(LONGEST_LOGO + 1).read_to_end(&mut content).map_err(unreadable)?;
        if content.len() as u64 > LONGEST_LOGO {
            return Err(LogoProblem::TooLong { path: path.to_owned() });
        }
        let format = ImageFormat::of(&content).ok_or_else(|| LogoProblem::UnknownFormat { path: path.to_owned() })?;
        Ok(Self { format, content: content.into() })
    }
}

// The colours of the pages around the accent colour of the configuration. Every text has a
// contrast of at least 4.5 with what is behind it (Web Content Accessibility Guidelines 2.2,
// criterion 1.4.3), in the light and in the dark scheme.

/// The least contrast of a text.
const LEAST_CONTRAST: f64 = 4.5;

/// A colour. Its text is `#` and six hex digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Colour {
    /// Red, green and blue.
    pub channels: [u8; 3],
}

impl Display for Colour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [red, green, blue] = self.channels;
        write!(f, "#{red:02x}{green:02x}{blue:02x}")
    }
}

const BLACK: Colour = Colour { channels: [0x00; 3] };
const WHITE: Colour = Colour { channels: [0xff; 3] };

/// What stands behind links in the light scheme: the darkest ground of the style sheet.
const LIGHT_GROUND: Colour = Colour { channels: [0xf1, 0xf3, 0xf6] };

/// What stands behind links in the dark scheme: the lightest ground of the style sheet.
const DARK_GROUND: Colour = Colour { channels: [0x1d, 0x20, 0x26] };

/// How many steps lie between a colour and black or white.
const STEPS: u16 = 32;

/// The rules of a style sheet that make `accent` the colour of buttons and links. A button has the
/// colour itself, with black or white text. Its border and links have the colour made darker, or
/// lighter in the dark scheme, until it has enough contrast with the ground.
pub fn rules(accent: Colour) -> String {
    let on_accent = text_on(accent);
    let (light, dark) = (readable_on(LIGHT_GROUND, accent, BLACK), readable_on(DARK_GROUND, accent, WHITE));
    let rules = |link: Colour| format!(":root {{ --accent: {accent}; --on-accent: {on_accent}; --link: {link}; }}\n");
    format!("{}@media (prefers-color-scheme: dark) {{ {} }}\n", rules(light), rules(dark).trim_end())
}

/// Black or white, whichever has more contrast with a colour. That is at least 4.58 for every
/// colour.
fn text_on(colour: Colour) -> Colour {
    if contrast(WHITE, colour) >= contrast(BLACK, colour) { WHITE } else { BLACK }
}

/// The colour that is nearest to `colour`, on the way to `end`, and can be read on `ground`.
fn readable_on(ground: Colour, colour: Colour, end: Colour) -> Colour {
    let mut mixed = (0..=STEPS).map(|step| mix(colour, end, step));
    mixed.find(|mixed| contrast(*mixed, ground) >= LEAST_CONTRAST).unwrap_or(end)
}

/// The colour `step` steps on the way from `colour` to `end`.
fn mix(colour: Colour, end: Colour, step: u16) -> Colour {
    let mut channels = colour.channels;
    for (channel, end) in channels.iter_mut().zip(end.channels) {
        let sum = u16::from(*channel) * (STEPS - step) + u16::from(end) * step;
        *channel = u8::try_from(sum / STEPS).unwrap_or(u8::MAX);
    }
    Colour { channels }
}

/// The contrast of two colours, 1 to 21.
fn contrast(one: Colour, other: Colour) -> f64 {
    let (one, other) = (luminance(one), luminance(other));
    (one.max(other) + 0.05) / (one.min(other) + 0.05)
}

/// The relative luminance of a colour, 0 to 1.
fn luminance(colour: Colour) -> f64 {
    let [red, green, blue] = colour.channels.map(|channel| {
        let value = f64::from(channel) / 255.0;
        if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
    });
    0.2126 * red + 0.7152 * green + 0.0722 * blue
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_format_of_a_logo_is_that_of_its_content() {
        let png = b"\x89PNG\r\n\x1a\nrest".as_slice();
        let webp = b"RIFF\x10\0\0\0WEBPVP8 ".as_slice();
        for (content, expected) in [
            (png, Some(ImageFormat::Png)),
            (webp, Some(ImageFormat::WebP)),
            (b"<svg xmlns='http://www.w3.org/2000/svg'/>", Some(ImageFormat::Svg)),
            (b"\xef\xbb\xbf\n<?xml version='1.0'?><!-- a --><svg/>", Some(ImageFormat::Svg)),
            (b"<!DOCTYPE svg PUBLIC 'x'><svg/>", Some(ImageFormat::Svg)),
            (b"", None),
            (b"<html><svg/></html>", None),
            (b"<?xml version='1.0'?><html/>", None),
            (b"GIF89a", None),
            (b"\xff\xd8\xff\xe0", None),
            (b"RIFF\x10\0\0\0WAVE", None),
            (b"<svg \xff/>", None),
        ] {
            assert_eq!(ImageFormat::of(content), expected, "{}", String::from_utf8_lossy(content));
        }
    }

    #[test]
    fn an_application_begins_a_sign_in_with_this_issuer() {
        for (uri, expected) in [
            ("https://a.example/login", "https://a.example/login?iss=https%3A%2F%2Fid.example"),
            ("https://a.example/?", "https://a.example/?iss=https%3A%2F%2Fid.example"),
            ("https://a.example/?x=1", "https://a.example/?x=1&iss=https%3A%2F%2Fid.example"),
            ("https://a.example/?x=1&", "https://a.example/?x=1&iss=https%3A%2F%2Fid.example"),
        ] {
            let links = AppLinks { initiate_login_uri: Some(uri.to_owned()), ..AppLinks::default() };
            assert_eq!(links.initiation("https://id.example").as_deref(), Some(expected));
        }
        assert_eq!(AppLinks::default().initiation("https://id.example"), None);
    }

    mod colours {
        use super::super::*;
        use crate::sign_in::page::STYLE;

        fn colour(text: &str) -> Colour {
            let channels = alloy_primitives::hex::decode_to_array(&text[1..]).unwrap();
            Colour { channels }
        }

        #[test]
        fn contrasts_are_those_of_the_guidelines() {
            for (one, other, expected) in [
                ("#000000", "#ffffff", 21.0),
                ("#ffffff", "#ffffff", 1.0),
                ("#777777", "#ffffff", 4.478),
                ("#767676", "#ffffff", 4.542),
                ("#0000ff", "#ffffff", 8.592),
                ("#ff0000", "#000000", 5.252),
            ] {
                let found = contrast(colour(one), colour(other));
                assert!((found - expected).abs() < 0.001, "{one} on {other}: {found}");
            }
        }

        #[test]
        fn text_can_be_read_with_every_accent_colour() {
            let levels = (0..=255u8).step_by(15);
            for red in levels.clone() {
                for green in levels.clone() {
                    for blue in levels.clone() {
                        let accent = Colour { channels: [red, green, blue] };
                        assert!(contrast(text_on(accent), accent) >= LEAST_CONTRAST, "{accent}");
                        for (ground, end) in [(LIGHT_GROUND, BLACK), (DARK_GROUND, WHITE)] {
                            let link = readable_on(ground, accent, end);
                            assert!(contrast(link, ground) >= LEAST_CONTRAST, "{accent} as {link} on {ground}");
                        }
                    }
                }
            }
        }

        #[test]
        fn a_colour_that_can_be_read_stays_as_it_is() {
            for (accent, expected) in [
                ("#14507d", [":root { --accent: #14507d; --on-accent: #ffffff; --link: #14507d; }", "--link: #"]),
                (
                    "#ffd600",
                    [
                        "--accent: #ffd600; --on-accent: #000000; --link: #",
                        "--on-accent: #000000; --link: #ffd600; } }",
                    ],
                ),
            ] {
                let rules = rules(colour(accent));
                for part in expected {
                    assert!(rules.contains(part), "{rules}");
                }
            }
            let own = rules(colour("#ffd600"));
            let light = own.lines().next().unwrap();
            assert!(!light.contains("--link: #ffd600"), "{light}");
        }

        /// The grounds are those of the style sheet, and its own colours can be read on them.
        #[test]
        fn the_style_sheet_has_enough_contrast() {
            let (light, dark) = STYLE.split_once("@media (prefers-color-scheme: dark)").expect("two schemes");
            for (scheme, darkest_or_lightest) in [(light, LIGHT_GROUND), (dark, DARK_GROUND)] {
                let value = |name: &str| {
                    let rest = scheme.split_once(&format!("--{name}: ")).unwrap_or_else(|| panic!("{name}")).1;
                    colour(&rest[..7])
                };
                let grounds = [value("ground"), value("card")];
                assert!(grounds.contains(&darkest_or_lightest), "{grounds:?}");
                for ground in grounds {
                    for text in ["text", "quiet", "link"] {
                        let found = contrast(value(text), ground);
                        assert!(found >= LEAST_CONTRAST, "{text} on {ground}: {found}");
                    }
                }
                assert!(contrast(value("on-accent"), value("accent")) >= LEAST_CONTRAST);
            }
        }
    }
}
