//! The interfaces of the daemon: the one list that configuration, binding, URLs and logs iterate.

use std::ops::{Index, IndexMut};

/// An interface of the daemon. Interfaces that are given the same address share it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Interface {
    /// The OpenID Connect provider.
    SignIn,
    /// Verification: checks proofs for relying parties.
    Verification,
    /// The registry gateway.
    Gateway,
    /// The registry indexer.
    Indexer,
    /// The message bridge between applications and authenticators.
    Bridge,
    /// Groups and sealed copies, for wallets of members.
    Wallet,
    /// The operator interface.
    Operator,
}

impl Interface {
    /// All interfaces. At a shared address, the first one that has a path serves it.
    pub const ALL: [Self; 7] =
        [Self::SignIn, Self::Verification, Self::Gateway, Self::Indexer, Self::Bridge, Self::Wallet, Self::Operator];

    /// Its name in logs, metrics and documents.
    pub const fn name(self) -> &'static str {
        match self {
            Self::SignIn => "sign-in",
            Self::Verification => "verification",
            Self::Gateway => "gateway",
            Self::Indexer => "indexer",
            Self::Bridge => "bridge",
            Self::Wallet => "wallet",
            Self::Operator => "operator",
        }
    }

    /// Its key in `[listen]`. The keys are fixed, because configuration files contain them.
    pub const fn listen_key(self) -> &'static str {
        match self {
            Self::SignIn => "sign_in",
            Self::Verification => "verify",
            Self::Gateway => "gateway",
            Self::Indexer => "indexer",
            Self::Bridge => "bridge",
            Self::Wallet => "wallet",
            Self::Operator => "operator",
        }
    }

    /// Its key in `[urls]`; `None` for the operator interface, which has no public URL.
    pub const fn url_key(self) -> Option<&'static str> {
        match self {
            Self::SignIn => Some("id_url"),
            Self::Verification => Some("portal_url"),
            Self::Gateway => Some("gateway_url"),
            Self::Indexer => Some("indexer_url"),
            Self::Bridge => Some("bridge_url"),
            Self::Wallet => Some("wallet_url"),
            Self::Operator => None,
        }
    }

    /// The port that it listens on by default.
    pub const fn default_port(self) -> u16 {
        match self {
            Self::SignIn => 8080,
            Self::Verification => 8081,
            Self::Gateway => 8082,
            Self::Indexer => 8083,
            Self::Operator => 8084,
            Self::Bridge => 8085,
            Self::Wallet => 8086,
        }
    }

    /// Whether clients other than the operator call it.
    pub fn is_public(self) -> bool {
        self != Self::Operator
    }
}

/// A value for each interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PerInterface<T> {
    values: [T; Interface::ALL.len()],
}

impl<T> PerInterface<T> {
    /// Calls `value` for each interface, in the order of [`Interface::ALL`].
    pub fn from_fn(value: impl FnMut(Interface) -> T) -> Self {
        Self { values: Interface::ALL.map(value) }
    }

    /// The interfaces with their values.
    pub fn iter(&self) -> impl Iterator<Item = (Interface, &T)> {
        Interface::ALL.into_iter().zip(&self.values)
    }
}

impl<T> Index<Interface> for PerInterface<T> {
    type Output = T;

    fn index(&self, interface: Interface) -> &T {
        &self.values[interface as usize]
    }
}

impl<T> IndexMut<Interface> for PerInterface<T> {
    fn index_mut(&mut self, interface: Interface) -> &mut T {
        &mut self.values[interface as usize]
    }
}

/// The base URL of each public interface as clients see it, without a trailing slash; the operator
/// interface's own address.
pub type PublicUrls = PerInterface<String>;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_interface_has_its_own_value_name_keys_and_port() {
        let per_interface = PerInterface::from_fn(|interface| interface);
        assert!(
            per_interface.iter().all(|(interface, value)| interface == *value && per_interface[interface] == interface)
        );
        let distinct =
            |text: fn(Interface) -> String| Interface::ALL.map(text).into_iter().collect::<BTreeSet<_>>().len();
        assert_eq!(distinct(|interface| interface.name().to_owned()), Interface::ALL.len());
        assert_eq!(distinct(|interface| interface.listen_key().to_owned()), Interface::ALL.len());
        assert_eq!(distinct(|interface| interface.default_port().to_string()), Interface::ALL.len());
        assert!(Interface::ALL.into_iter().all(|interface| interface.url_key().is_some() == interface.is_public()));
    }
}
