//! fieldcache through faults: what can go wrong around it goes wrong, and a checker that knows the true history says what clients were told.

mod checker;
mod history;
