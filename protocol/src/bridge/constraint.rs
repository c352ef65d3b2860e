//! Which of the requested credentials an answer must have: an expression of `all`, `any` and
//! `enumerate`.

use std::collections::BTreeSet;

use serde::Deserialize;

/// The most nodes of an expression, credentials and operators together.
const MOST_NODES: usize = 12;

/// The most credentials under one operator.
pub const MOST_CREDENTIALS: usize = MOST_NODES - 1;

/// The most operators within each other.
const DEEPEST: usize = 2;

/// An expression over the identifiers of credentials.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
pub enum Constraint {
    /// One credential.
    Credential(String),
    /// All operands.
    All {
        /// The operands.
        all: Vec<Constraint>,
    },
    /// The first operand that can be satisfied.
    Any {
        /// The operands, the preferred one first.
        any: Vec<Constraint>,
    },
    /// Every operand that can be satisfied, and at least one.
    Enumerate {
        /// The operands.
        enumerate: Vec<Constraint>,
    },
}

impl Constraint {
    /// Checks the limits of the public protocol, and that the expression names requested
    /// credentials only.
    ///
    /// # Errors
    /// What is wrong, as a sentence.
    pub fn check(&self, is_requested: &impl Fn(&str) -> bool) -> Result<(), String> {
        let mut nodes = 0;
        self.check_node(0, &mut nodes, is_requested)
    }

    fn check_node(&self, depth: usize, nodes: &mut usize, is_requested: &impl Fn(&str) -> bool) -> Result<(), String> {
        *nodes += 1;
        if *nodes > MOST_NODES {
            return Err(format!("constraints have more than {MOST_NODES} nodes"));
        }
        match self {
            Self::Credential(identifier) if is_requested(identifier) => Ok(()),
            Self::Credential(identifier) => {
                Err(format!("constraints name {identifier:?}, which is not in proof_requests"))
            }
            Self::All { all: operands } | Self::Any { any: operands } | Self::Enumerate { enumerate: operands } => {
                if operands.is_empty() {
                    return Err("constraints have an operator without operands".to_owned());
                }
                if depth == DEEPEST {
                    return Err(format!("constraints have more than {DEEPEST} operators within each other"));
                }
                operands.iter().try_for_each(|operand| operand.check_node(depth + 1, nodes, is_requested))
            }
        }
    }

    /// The credentials to prove; `None` when the available ones do not satisfy the expression.
    pub fn select(&self, is_available: &impl Fn(&str) -> bool) -> Option<BTreeSet<&str>> {
        match self {
            Self::Credential(identifier) => is_available(identifier).then(|| BTreeSet::from([identifier.as_str()])),
            Self::All { all } => {
                let selected: Option<Vec<_>> = all.iter().map(|operand| operand.select(is_available)).collect();
                selected.map(|sets| sets.into_iter().flatten().collect())
            }
            Self::Any { any } => any.iter().find_map(|operand| operand.select(is_available)),
            Self::Enumerate { enumerate } => {
                let selected: BTreeSet<_> =
                    enumerate.iter().filter_map(|operand| operand.select(is_available)).flatten().collect();
                (!selected.is_empty()).then_some(selected)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(value: Value) -> Constraint {
        serde_json::from_value(value).expect("a constraint")
    }

    #[test]
    fn credentials_are_selected_by_the_operators() {
        let nested = json!({"all": ["human", {"any": ["passport", "mnc"]}]});
        let listed = json!({"all": ["human", {"enumerate": ["passport", "mnc"]}]});
        #[rustfmt::skip]
        let table = [
            (json!("human"), "human passport", Some("human")),
            (json!("human"), "passport", None),
            (json!({"any": ["passport", "human"]}), "human passport", Some("passport")),
            (json!({"any": ["passport", "human"]}), "human", Some("human")),
            (json!({"any": ["passport", "human"]}), "", None),
            (json!({"all": ["passport", "human"]}), "human passport", Some("human passport")),
            (json!({"all": ["passport", "human"]}), "human", None),
            (json!({"enumerate": ["passport", "mnc", "human"]}), "human mnc", Some("human mnc")),
            (json!({"enumerate": ["passport", "mnc"]}), "human", None),
            (nested.clone(), "human passport mnc", Some("human passport")),
            (nested.clone(), "human mnc", Some("human mnc")),
            (nested.clone(), "passport mnc", None),
            (nested, "human", None),
            (listed.clone(), "human passport mnc", Some("human mnc passport")),
            (listed, "human", None),
            (json!({"any": [{"all": ["passport", "mnc"]}, "human"]}), "human passport", Some("human")),
        ];
        for (constraint, available, expected) in table {
            let available: BTreeSet<_> = available.split_whitespace().collect();
            let constraint = read(constraint);
            let selected = constraint.select(&|identifier: &str| available.contains(identifier));
            let expected = expected.map(|expected| expected.split_whitespace().collect());
            assert_eq!(selected, expected, "{constraint:?} of {available:?}");
        }
    }

    #[test]
    fn expressions_beyond_the_limits_are_refused() {
        let all = |count: usize| json!({"all": vec!["human"; count]});
        #[rustfmt::skip]
        let table = [
            (all(11), None),
            (all(12), Some("more than 12 nodes")),
            (json!({"any": [{"all": [{"any": ["human"]}]}]}), Some("more than 2 operators")),
            (json!({"any": [{"all": ["human"]}]}), None),
            (json!({"any": []}), Some("without operands")),
            (json!({"any": ["human", "passport"]}), Some("\"passport\", which is not in proof_requests")),
        ];
        for (constraint, expected) in table {
            let checked = read(constraint.clone()).check(&|identifier| identifier == "human");
            match expected {
                None => assert_eq!(checked, Ok(()), "{constraint}"),
                Some(expected) => assert!(checked.is_err_and(|error| error.contains(expected)), "{constraint}"),
            }
        }
    }

    #[test]
    fn other_shapes_are_not_constraints() {
        for value in [json!(1), json!({}), json!({"not": ["human"]}), json!({"any": ["a"], "all": ["b"]}), json!(["a"])]
        {
            assert!(serde_json::from_value::<Constraint>(value.clone()).is_err(), "{value}");
        }
    }
}
