//! The URL that leads back to the application. The page chooses it, so it is checked before it is
//! shown: a person at a terminal may open it with one click.

use reqwest::Url;

/// The longest URL that is shown, in bytes.
const LONGEST: usize = 2048;

/// The URL to show; `None` when the page names none.
///
/// It is an `http` or `https` URL, or one with the scheme that the person allowed: a URL with
/// another scheme starts a program on this machine. The link and the request may both name a URL;
/// the wallet shows none of two different ones.
///
/// # Errors
/// Why the URL is not shown.
pub fn return_url(
    of_link: Option<&str>,
    of_request: Option<&str>,
    allowed_scheme: Option<&str>,
) -> Result<Option<String>, &'static str> {
    // The client kit trims the URL in the link only.
    let given = |url: Option<&str>| url.map(|url| url.trim().to_owned()).filter(|url| !url.is_empty());
    let url = match (given(of_link), given(of_request)) {
        (Some(link), Some(request)) if link != request => return Err("the link and the request name different URLs"),
        (Some(url), _) | (None, Some(url)) => url,
        (None, None) => return Ok(None),
    };
    if url.len() > LONGEST {
        return Err("it has more than 2048 bytes");
    }
    if url.chars().any(|character| character.is_control() || character.is_whitespace()) {
        return Err("it contains control characters or white space");
    }
    let url = Url::parse(&url).map_err(|_| "it is not a URL")?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err("it contains a user name, which could be taken for the host");
    }
    match url.scheme() {
        "http" | "https" => Ok(Some(url.into())),
        scheme if Some(scheme) == allowed_scheme => Ok(Some(url.into())),
        _ => Err("it would open a program; allow its scheme with --return-scheme"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_urls_of_web_pages_and_of_the_allowed_scheme_are_shown() {
        #[rustfmt::skip]
        let table = [
            ("https://app.example/back?x=1#y", Ok("https://app.example/back?x=1#y")),
            ("http://localhost:3000/", Ok("http://localhost:3000/")),
            (" https://app.example/ ", Ok("https://app.example/")),
            ("https://аpp.example/", Ok("https://xn--pp-6kc.example/")),
            ("myapp://back", Ok("myapp://back")),
            ("other://back", Err("open a program")),
            ("javascript:alert(1)", Err("open a program")),
            ("https://app.example@evil.example/", Err("user name")),
            ("https://:secret@evil.example/", Err("user name")),
            ("https://app.example/\u{1b}[31m", Err("control characters")),
            ("https://app.example/a b", Err("white space")),
            ("https://", Err("not a URL")),
            ("/back", Err("not a URL")),
        ];
        for (given, expected) in table {
            let checked = return_url(None, Some(given), Some("myapp"));
            match expected {
                Ok(url) => assert_eq!(checked, Ok(Some(url.to_owned())), "{given:?}"),
                Err(reason) => assert!(checked.is_err_and(|error| error.contains(reason)), "{given:?}"),
            }
        }
        assert!(return_url(Some(&format!("https://a.example/{}", "x".repeat(LONGEST))), None, None).is_err());
    }

    #[test]
    fn link_and_request_must_name_the_same_url() {
        let (first, second) = (Some("https://a.example/"), Some("https://b.example/"));
        assert_eq!(return_url(first, first, None), Ok(first.map(str::to_owned)));
        assert_eq!(return_url(first, None, None), Ok(first.map(str::to_owned)));
        assert_eq!(return_url(None, None, None), Ok(None));
        assert_eq!(return_url(Some(""), first, None), Ok(first.map(str::to_owned)));
        assert!(return_url(first, second, None).is_err());
    }
}
