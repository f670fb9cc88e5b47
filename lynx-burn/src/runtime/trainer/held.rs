//! Which parameters several workers hold, and what that means for gradients and values.
//!
//! Two stages may hold the same parameter (tied embeddings), and of several ranks each holds a slice
//! of a parameter, or all of it. One view serves both: a *piece* is a parameter, or a rank's slice of
//! one; all who hold the same piece hold the same values, and give it the sum of all their
//! gradients.

use std::collections::{BTreeMap, BTreeSet};

use burn::tensor::TensorData;

use crate::runtime::gradient::Gradient;
use crate::runtime::shard::{Sharding, unite};

/// Who holds what, of the workers of one replica.
#[derive(Debug)]
pub(super) struct Held {
    ranks: usize,
    /// Paths of parameters that several stages hold.
    tied: BTreeSet<String>,
    /// Paths of all parameters, with what a rank holds of each.
    sharding: BTreeMap<String, Sharding>,
}

/// A parameter, or one rank's slice of it.
type Piece = (String, Option<usize>);

impl Held {
    pub(super) fn new(
        ranks: usize,
        tied: BTreeSet<String>,
        sharding: BTreeMap<String, Sharding>,
    ) -> Self {
        Self {
            ranks,
            tied,
            sharding,
        }
    }

    pub(super) fn tied(&self) -> &BTreeSet<String> {
        &self.tied
    }

    /// Paths of parameters of which several workers hold the same piece.
    pub(super) fn shared(&self) -> Vec<String> {
        let whole = |(path, sharding): (&String, &Sharding)| {
            (*sharding == Sharding::Whole).then(|| path.clone())
        };
        let of_ranks = self.sharding.iter().filter_map(whole);
        let of_ranks = of_ranks.filter(|_| self.ranks > 1);
        let all: BTreeSet<String> = of_ranks.chain(self.tied.iter().cloned()).collect();
        all.into_iter().collect()
    }

    fn sharding_of(&self, path: &str) -> Sharding {
        let known = self.sharding.get(path).copied();
        known.filter(|_| self.ranks > 1).unwrap_or(Sharding::Whole)
    }

    /// The piece of a parameter that a worker holds.
    pub(super) fn piece(&self, path: String, worker: usize) -> Piece {
        let rank = match self.sharding_of(&path) {
            Sharding::Whole => None,
            Sharding::Split { .. } => Some(worker % self.ranks),
        };
        (path, rank)
    }

    /// The workers' gradients by piece; where several hold one, their sum from the first worker to
    /// the last.
    pub(super) fn sum(
        &self,
        workers: Vec<BTreeMap<String, Gradient>>,
    ) -> BTreeMap<Piece, Gradient> {
        let mut sums: BTreeMap<Piece, Gradient> = BTreeMap::new();
        for (worker, found) in workers.into_iter().enumerate() {
            for (path, gradient) in found {
                let piece = self.piece(path, worker);
                let sum = match sums.remove(&piece) {
                    Some(sum) => sum.plus(gradient),
                    None => gradient,
                };
                sums.insert(piece, sum);
            }
        }
        sums
    }

    /// All gradients by path, summed and whole.
    pub(super) fn unite_gradients(
        &self,
        workers: Vec<BTreeMap<String, Gradient>>,
    ) -> BTreeMap<String, TensorData> {
        let sums = self.sum(workers).into_iter();
        self.unite(sums.map(|(piece, gradient)| (piece, gradient.data())))
    }

    /// All values by path, whole.
    pub(super) fn unite_values(
        &self,
        workers: Vec<BTreeMap<String, TensorData>>,
    ) -> BTreeMap<String, TensorData> {
        let all = workers.into_iter().enumerate();
        let pieces: BTreeMap<Piece, TensorData> = all
            .flat_map(|(worker, found)| {
                let found = found.into_iter();
                found.map(move |(path, value)| (self.piece(path, worker), value))
            })
            .collect();
        self.unite(pieces.into_iter())
    }

    /// Puts slices together; pieces come in order of rank. A rank that has none counts as zeros.
    fn unite(
        &self,
        pieces: impl Iterator<Item = (Piece, TensorData)>,
    ) -> BTreeMap<String, TensorData> {
        let mut slices: BTreeMap<String, Vec<TensorData>> = BTreeMap::new();
        for ((path, rank), data) in pieces {
            let all = slices.entry(path).or_default();
            let rank = rank.unwrap_or(0);
            while all.len() < rank {
                all.push(zeros_like(&data));
            }
            all.push(data);
        }
        let whole = slices.into_iter().filter_map(|(path, mut slices)| {
            let sharding = self.sharding_of(&path);
            if sharding != Sharding::Whole
                && let Some(last) = slices.last().map(zeros_like)
            {
                slices.resize(self.ranks, last);
            }
            Some((path, unite(slices, sharding)?))
        });
        whole.collect()
    }
}

fn zeros_like(data: &TensorData) -> TensorData {
    TensorData::from_bytes_vec(
        vec![0; data.as_bytes().len()],
        data.shape().clone(),
        data.dtype(),
    )
}
