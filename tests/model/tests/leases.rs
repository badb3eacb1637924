//! The protocol of claims and settles, searched to the end of its bounds.

use outbox_model::{
    leases::Leases,
    row::{Fault, Rules},
};
use stateright::{Checker as _, Model as _};

/// Small enough for seconds, large enough for each fault: a redrive, a crash, and claims enough for one
/// relay to come back too late.
fn leases(fault: Option<Fault>) -> Leases {
    Leases {
        rules: Rules {
            max_attempts: 2,
            fault,
        },
        relays: 2,
        messages: 1,
        claims: 4,
        crashes: 1,
        redrives: 1,
    }
}

#[test]
fn the_protocol_holds() {
    for model in [
        leases(None),
        Leases {
            messages: 2,
            claims: 3,
            crashes: 0,
            redrives: 1,
            ..leases(None)
        },
        Leases {
            relays: 3,
            claims: 3,
            ..leases(None)
        },
    ] {
        let bounds = format!("{model:?}");
        let checker = model.checker().threads(2).spawn_bfs().join();
        println!("{} states of {bounds}", checker.unique_state_count());
        checker.assert_properties();
        assert!(checker.unique_state_count() > 1_000, "{bounds}");
    }
}

/// The search must find what is wrong with these, and by which property.
fn found(fault: Fault, property: &'static str) {
    let checker = leases(Some(fault)).checker().threads(1).spawn_bfs().join();
    let path = checker.discovery(property);
    let path = path.unwrap_or_else(|| panic!("{fault:?} breaks no \"{property}\""));
    println!("{fault:?}: {:?}", path.into_actions());
}

#[test]
fn attempts_are_no_fence() {
    found(Fault::AttemptsAsFence, "no stale claim changes a row");
}

#[test]
fn a_token_without_the_state_is_no_fence() {
    found(Fault::NoStateCheck, "no stale claim changes a row");
}

#[test]
fn a_purge_has_to_look_again() {
    found(Fault::PurgeWithoutRecheck, "nothing is lost");
}
