//! Parameters of a query or a form.

use std::collections::BTreeMap;

/// Parameters by name. A parameter without a value counts as absent (RFC 6749, section 3.1).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parameters {
    values: BTreeMap<String, Vec<String>>,
}

impl<Name: Into<String>, Value: Into<String>> FromIterator<(Name, Value)> for Parameters {
    fn from_iter<T: IntoIterator<Item = (Name, Value)>>(pairs: T) -> Self {
        let mut parameters = Self::default();
        for (name, value) in pairs {
            let value: String = value.into();
            if !value.is_empty() {
                parameters.values.entry(name.into()).or_default().push(value);
            }
        }
        parameters
    }
}

impl Parameters {
    /// Reads `application/x-www-form-urlencoded` text.
    pub fn parse(text: &[u8]) -> Self {
        form_urlencoded::parse(text).collect()
    }

    /// The value of a parameter; the first value when it occurs several times
    /// ([`Parameters::find_repeated`] finds such parameters).
    pub fn get(&self, name: &str) -> Option<&str> {
        self.values.get(name)?.first().map(String::as_str)
    }

    /// The first of these names that occurs more than once.
    pub fn find_repeated<'n>(&self, names: &[&'n str]) -> Option<&'n str> {
        names.iter().copied().find(|name| self.values.get(*name).is_some_and(|values| values.len() > 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_parameter_is_absent_and_a_repeated_one_is_found() {
        let parameters = Parameters::parse(b"a=1&b=&c=x+y%26&d=1&d=1&e&a%3D=2");
        let get = |name| parameters.get(name);
        assert_eq!(
            (get("a"), get("b"), get("c"), get("e"), get("a=")),
            (Some("1"), None, Some("x y&"), None, Some("2"))
        );
        assert_eq!(parameters.find_repeated(&["a", "d"]), Some("d"));
        assert_eq!(parameters.find_repeated(&["a", "b", "f"]), None);
    }
}
