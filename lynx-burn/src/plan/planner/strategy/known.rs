//! The strategies there are.

use std::time::Duration;

use super::{Deal, Strategy};
use crate::plan::planner::baselines::{
    AdaPipe, Block, Chen, FullByLayer, Greedy, RetainAll, Selective, Uniform,
};
use crate::plan::planner::heu::Heu;
use crate::plan::planner::milp::{Checkmate, Opt};
use crate::plan::planner::tight::Tight;

/// A name that no strategy has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no strategy is named {name:?}; there are {}", known.join(", "))]
pub struct UnknownStrategy {
    name: String,
    known: Vec<&'static str>,
}

impl Strategy {
    /// Every strategy, the baselines first. Those that solve programs may take this long for a
    /// stage.
    pub fn all(limit: Duration) -> Vec<Self> {
        let even = |name, about, planner| Self {
            name,
            about,
            planner,
            deal: Deal::Even,
            second: None,
            proves: false,
            deepens: false,
            rivals: Vec::new(),
        };
        let balanced = |name, about, planner| Self {
            deal: Deal::Balanced,
            ..even(name, about, planner)
        };
        let time_limit = limit;
        let rivals = || {
            vec![
                balanced("adapipe", "", Box::new(AdaPipe)),
                // It fits wherever anything does.
                balanced("tight", "", Box::<Tight>::default()),
            ]
        };
        vec![
            even("none", "nothing is recomputed", Box::new(RetainAll)),
            even(
                "full-uniform",
                "Megatron-LM, uniform: all layers, the best number at once, collectives repeated",
                Box::<Uniform>::default(),
            ),
            even(
                "full-block",
                "Megatron-LM, block: the best number of layers, collectives repeated",
                Box::<Block>::default(),
            ),
            even(
                "full",
                "every segment, collectives kept",
                Box::new(FullByLayer),
            ),
            even(
                "block",
                "the best number of layers, collectives kept",
                Box::new(Block { repeats: false }),
            ),
            even(
                "selective",
                "Megatron-LM, selective: the core of attention",
                Box::<Selective>::default(),
            ),
            even("chen", "square root of the layers at once", Box::new(Chen)),
            even("greedy", "least time per byte first", Box::new(Greedy)),
            even(
                "checkmate",
                "least recompute without overlap, as an integer program",
                Box::new(Checkmate { time_limit }),
            ),
            balanced(
                "adapipe",
                "least recompute without overlap, in the balance of the partition",
                Box::new(AdaPipe),
            ),
            Self {
                second: Some(Box::new(AdaPipe)),
                deepens: true,
                rivals: rivals(),
                ..balanced("heu", "recompute in windows", Box::<Heu>::default())
            },
            Self {
                second: Some(Box::new(Opt { time_limit })),
                proves: true,
                deepens: true,
                rivals: rivals(),
                ..balanced(
                    "opt",
                    "recompute in windows, every layer for itself, as an integer program",
                    Box::<Heu>::default(),
                )
            },
        ]
    }

    /// The strategy of this name.
    ///
    /// # Errors
    ///
    /// If there is none.
    pub fn named(name: &str, limit: Duration) -> Result<Self, UnknownStrategy> {
        let all = Self::all(limit);
        let known = all.iter().map(|strategy| strategy.name).collect();
        let mut all = all.into_iter();
        all.find(|strategy| strategy.name == name)
            .ok_or_else(|| UnknownStrategy {
                name: name.to_owned(),
                known,
            })
    }
}
