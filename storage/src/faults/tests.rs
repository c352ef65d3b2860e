//! Scopes and steps. No fault strikes in these tests: what strikes counts as coverage of the points
//! of a service, and the services are tested in `actors/tests/supervision`.

use std::sync::Arc;

use super::*;

const POINT: FaultPoint = FaultPoint::SignToken;

#[test]
fn a_visit_counts_for_its_instance_and_for_the_process() {
    let (first, second) = (FaultScope::of_instance("visits-1"), FaultScope::of_instance("visits-2"));
    let before = FaultScope::PROCESS.visits(POINT);
    pass_blocking(&first, POINT).expect("no step is in force");
    pass_blocking(&FaultScope::of_instance("visits-1"), POINT).expect("no step is in force");
    pass_blocking(&FaultScope::PROCESS, POINT).expect("no step is in force");
    assert_eq!((first.visits(POINT), second.visits(POINT)), (2, 0));
    assert_eq!(FaultScope::PROCESS.visits(POINT), before + 3);
}

/// A process may start services under ever new names.
#[test]
fn an_instance_is_forgotten_with_its_last_scope() {
    let scope = FaultScope::of_instance("forgotten");
    pass_blocking(&scope, POINT).expect("no step is in force");
    let clone = scope.clone();
    drop(scope);
    assert_eq!(FaultScope::of_instance("forgotten").visits(POINT), 1);
    drop(clone);
    assert_eq!(FaultScope::of_instance("forgotten").visits(POINT), 0);
}

#[test]
fn a_step_that_ends_or_is_replaced_lets_its_stalls_go() {
    let scope = FaultScope::of_instance("replaced");
    let begin = || scope.begin_step(POINT, "off").expect("well formed");
    let (first, second) = (begin(), begin());
    first.block_until_ended();
    let waiting = {
        let second = Arc::clone(&second);
        std::thread::spawn(move || second.block_until_ended())
    };
    // The end of a step that has been replaced leaves the other one in its place.
    scope.end_step(POINT, &first);
    assert!(scope.points().step(POINT).is_some_and(|step| Arc::ptr_eq(&step, &second)));
    scope.end_step(POINT, &second);
    waiting.join().expect("no panic");
    assert!(first.has_ended() && second.has_ended());
    assert!(scope.points().step(POINT).is_none());
}

#[test]
fn actions_that_return_something_else_than_a_fault_are_refused() {
    let scope = FaultScope::of_instance("malformed");
    let begin = |actions| scope.begin_step(POINT, actions).map(|_| ());
    for actions in ["return(error)", "2*off->3%return(panic)", "5%2*return(delay:7)->off", "sleep(1)"] {
        assert_eq!(begin(actions), Ok(()), "{actions}");
    }
    for actions in ["return", "return()", "2*off->return(explode)", "1%return(delay:x)", "sometimes", "return(error"] {
        assert!(begin(actions).is_err(), "{actions}");
    }
}

#[test]
fn the_coverage_has_a_line_for_each_point() {
    let table = coverage().to_string();
    let lines: Vec<_> = table.lines().collect();
    assert_eq!(lines.len(), FaultPoint::ALL.len() + 1);
    let heading: Vec<_> = lines[0].split_whitespace().collect();
    assert_eq!(heading, ["point", "visits", "error", "panic", "delay", "stall", "crash"]);
    for (line, point) in std::iter::zip(&lines[1..], FaultPoint::ALL) {
        let words: Vec<_> = line.split_whitespace().collect();
        assert_eq!((words.len(), words[0]), (7, point.name()));
    }
}

#[test]
fn the_guide_has_every_point() {
    let guide = include_str!("../../../docs/fault-injection.md");
    for point in FaultPoint::ALL {
        assert!(guide.contains(&format!("`{}`", point.name())), "{}", point.name());
    }
}
