//! Planners that a solver decides: OPT and Checkmate, as mixed-integer linear programs.
//!
//! They exist to say how good the fast planners are. Both choose for every layer one of the
//! labels of `front` (its worthwhile lists of choices), so that everything about a single layer is
//! settled before a solver is asked, and the program only has to say which layer gets which. Both
//! have a time limit; when it is reached, the best plan so far is returned with the bound that is
//! proven ([`Feasible::gap`](super::Feasible::gap)). HEU's plan is where they start: they are
//! never worse. Neither knows [`Replay::Layers`](super::Replay::Layers).

mod checkmate;
mod counts;
mod opt;
mod positions;
mod search;
mod solver;
mod stage;

pub use checkmate::Checkmate;
pub use opt::Opt;

#[cfg(test)]
mod tests;
