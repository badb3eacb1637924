//! The protocol of arming and notifying, searched to the end of its bounds.

use outbox_model::wake::{Wake, WakeFault};
use stateright::{Checker as _, Model as _};

fn wake(fault: Option<WakeFault>) -> Wake {
    Wake {
        relays: 2,
        messages: 3,
        crashes: 1,
        lost_notes: 1,
        fault,
    }
}

#[test]
fn no_wake_is_lost_for_longer_than_a_poll() {
    let checker = wake(None).checker().threads(2).spawn_bfs().join();
    println!("{} states", checker.unique_state_count());
    checker.assert_properties();
    assert!(checker.unique_state_count() > 1_000);
}

fn found(fault: WakeFault, property: &'static str) {
    let checker = wake(Some(fault)).checker().threads(1).spawn_bfs().join();
    let path = checker.discovery(property);
    let path = path.unwrap_or_else(|| panic!("{fault:?} breaks no \"{property}\""));
    println!("{fault:?}: {:?}", path.into_actions());
}

#[test]
fn one_has_to_look_after_arming() {
    found(
        WakeFault::NoLookAfterArming,
        "an armed relay does not sleep over a message",
    );
}

#[test]
fn a_publisher_has_to_hold_off_who_arms() {
    found(
        WakeFault::AskWithoutHolding,
        "an armed relay does not sleep over a message",
    );
}

#[test]
fn who_disarms_has_to_say_so() {
    found(
        WakeFault::DisarmInSilence,
        "who stood aside is told when nobody is armed",
    );
}
