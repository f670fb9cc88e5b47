//! Who works on what: replicas of a pipeline, its stages, their ranks, and the numbers of threads.

use std::fmt;

use crate::ids::{RankId, ReplicaId, StageId};

/// How many workers there are in each direction.
///
/// They are numbered replica by replica, stage by stage, rank by rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Grid {
    pub(crate) replicas: usize,
    /// Of each replica.
    pub(crate) stages: usize,
    /// Of each stage.
    pub(crate) ranks: usize,
}

/// One worker's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seat {
    pub(crate) replica: ReplicaId,
    pub(crate) stage: StageId,
    pub(crate) rank: RankId,
}

impl Grid {
    /// All workers.
    pub(crate) fn workers(self) -> usize {
        self.replicas * self.pipeline()
    }

    /// The workers of one replica.
    pub(crate) fn pipeline(self) -> usize {
        self.stages * self.ranks
    }

    pub(crate) fn seat(self, worker: usize) -> Seat {
        Seat {
            replica: ReplicaId(worker / self.pipeline()),
            stage: StageId(worker / self.ranks % self.stages),
            rank: RankId(worker % self.ranks),
        }
    }

    /// All workers in order, each with its place.
    pub(crate) fn seats(self) -> impl Iterator<Item = (usize, Seat)> {
        (0..self.workers()).map(move |worker| (worker, self.seat(worker)))
    }
}

/// The name of a worker's thread: replica and rank only where there are several.
pub(crate) struct ThreadName(pub(crate) Grid, pub(crate) Seat);

impl fmt::Display for ThreadName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(grid, seat) = self;
        f.write_str("lynx-stage-")?;
        if grid.replicas > 1 {
            write!(f, "r{}.", seat.replica.0)?;
        }
        write!(f, "{}", seat.stage.0)?;
        match grid.ranks {
            1 => Ok(()),
            _ => write!(f, ".{}", seat.rank.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_worker_has_a_place_of_its_own_and_places_ascend() {
        let grid = Grid {
            replicas: 2,
            stages: 3,
            ranks: 2,
        };
        let places = grid.seats().map(|(worker, seat)| {
            let Seat {
                replica,
                stage,
                rank,
            } = seat;
            assert_eq!(worker, (replica.0 * 3 + stage.0) * 2 + rank.0);
            (replica.0, stage.0, rank.0)
        });
        let places: Vec<_> = places.collect();
        assert_eq!(places.len(), 12);
        assert!(places.is_sorted_by(|a, b| a < b));
        let name = |worker| ThreadName(grid, grid.seat(worker)).to_string();
        assert_eq!(name(11), "lynx-stage-r1.2.1");
        let grid = Grid {
            replicas: 1,
            stages: 3,
            ranks: 1,
        };
        assert_eq!(ThreadName(grid, grid.seat(2)).to_string(), "lynx-stage-2");
    }
}
