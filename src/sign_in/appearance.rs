//! Whose pages end users see: names, links, colours and logos of the configuration.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use arc_swap::ArcSwap;
use bytes::Bytes;

use crate::config::{Config, SignInPage};

/// The longest logo, in bytes. Logos are kept in memory.
pub const LONGEST_LOGO: u64 = 256 * 1024;

/// What the configuration says about the pages.
#[derive(Default)]
pub struct Appearance {
    /// The settings of the service.
    pub page: SignInPage,
    /// The logo of the service.
    pub logo: Option<Logo>,
    /// The logos of applications, by their ids. A reload replaces them.
    app_logos: ArcSwap<HashMap<String, Logo>>,
}

impl Appearance {
    /// Reads the logos that a configuration names.
    ///
    /// # Errors
    /// All files that cannot be used.
    pub fn read(config: &Config) -> Result<Self, Vec<LogoError>> {
        let mut errors = Vec::new();
        let mut read = |key: String, path: &Option<PathBuf>| {
            let logo = path.as_deref().map(|path| Logo::read(path).map_err(|problem| LogoError { key, problem }));
            logo.transpose().map_err(|error| errors.push(error)).ok().flatten()
        };
        let logo = read("sign_in.page.logo_file".to_owned(), &config.sign_in.page.logo_file);
        let app_logos = config.apps.iter().enumerate().filter_map(|(index, app)| {
            let logo = read(format!("apps[{index}].logo_file"), &app.logo_file)?;
            Some((app.id.clone(), logo))
        });
        let app_logos = ArcSwap::from_pointee(app_logos.collect());
        let page = config.sign_in.page.clone();
        if errors.is_empty() { Ok(Self { page, logo, app_logos }) } else { Err(errors) }
    }

    /// Takes over the applications of a configuration that was read again.
    pub fn replace_apps(&self, new: &Self) {
        self.app_logos.store(new.app_logos.load_full());
    }

    /// The logo of an application.
    pub fn app_logo(&self, app_id: &str) -> Option<Logo> {
        self.app_logos.load().get(app_id).cloned()
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

/// A file that cannot be a logo.
#[derive(Debug, thiserror::Error)]
#[error("{key}: {problem}")]
pub struct LogoError {
    key: String,
    problem: LogoProblem,
}

/// Why a file cannot be a logo.
#[derive(Debug, thiserror::Error)]
enum LogoProblem {
    #[error("{}: {error}", path.display())]
    Unreadable { path: PathBuf, error: io::Error },
    #[error("{} has more than {LONGEST_LOGO} bytes; give a smaller image", path.display())]
    TooLong { path: PathBuf },
    #[error("{} is neither PNG nor WebP nor SVG", path.display())]
    UnknownFormat { path: PathBuf },
}

impl Logo {
    fn read(path: &Path) -> Result<Self, LogoProblem> {
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
    fn a_logo_that_is_missing_too_long_or_something_else_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let config = |service: &str, app: &str| {
            let path = |name: &str| Some(folder.path().join(name));
            let mut config = Config::default();
            config.sign_in.page.logo_file = path(service);
            let text = format!("apps = [{{ id = 'app_a', logo_file = {:?} }}]", path(app).unwrap());
            config.apps = toml::from_str::<Config>(&text).unwrap().apps;
            config
        };
        let svg = "<svg xmlns=\"http://www.w3.org/2000/svg\"/>";
        std::fs::write(folder.path().join("good.svg"), svg).unwrap();
        std::fs::write(folder.path().join("text"), "a logo").unwrap();
        let most = format!("{svg}{}", " ".repeat(LONGEST_LOGO as usize - svg.len()));
        std::fs::write(folder.path().join("most"), &most).unwrap();
        std::fs::write(folder.path().join("long"), format!("{most} ")).unwrap();
        let appearance = Appearance::read(&config("good.svg", "most")).ok().unwrap();
        assert_eq!(appearance.logo.as_ref().map(|logo| &logo.content[..]), Some(svg.as_bytes()));
        assert!(appearance.app_logo("app_a").is_some() && appearance.app_logo("app_b").is_none());
        for (service, app, expected) in [
            ("missing", "good.svg", vec![("sign_in.page.logo_file: ", "os error 2")]),
            ("good.svg", "text", vec![("apps[0].logo_file: ", "neither PNG nor WebP nor SVG")]),
            ("text", "long", vec![("sign_in.page.logo_file: ", "neither"), ("apps[0].logo_file: ", "262144 bytes")]),
        ] {
            let errors = Appearance::read(&config(service, app)).err().unwrap();
            assert_eq!(errors.len(), expected.len());
            for (error, (key, reason)) in errors.iter().zip(expected) {
                let text = error.to_string();
                assert!(text.starts_with(key) && text.contains(reason), "{text}");
            }
        }
    }
}
