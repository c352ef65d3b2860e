//! The colours of the pages around the accent colour of the configuration. Every text has a
//! contrast of at least 4.5 with what is behind it (Web Content Accessibility Guidelines 2.2,
//! criterion 1.4.3), in the light and in the dark scheme.

use crate::config::Colour;

/// The least contrast of a text.
const LEAST_CONTRAST: f64 = 4.5;

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
    use crate::sign_in::page::files::STYLE;

    fn colour(text: &str) -> Colour {
        text.parse().unwrap()
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
                ["--accent: #ffd600; --on-accent: #000000; --link: #", "--on-accent: #000000; --link: #ffd600; } }"],
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
