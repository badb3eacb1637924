//! Nothing to depend on: the tests stand in `tests/ui.rs`, and what they compile in `fail/` and `pass/`.
