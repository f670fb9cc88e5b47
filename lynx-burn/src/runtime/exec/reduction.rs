//! What a stage does where its replicas meet: hands over the gradients of its share of the step, and
//! takes those of the whole step.
//!
//! Gradients go bucket by bucket, so what lies about in copies is two buckets and not as much as all
//! gradients once more. Nothing is recomputed beside it: it stands at the end of the stage's list.

use super::error::Cause;
use super::position::Position;
use super::sum::sum;
use crate::runtime::chain::Chain;
use crate::runtime::comm::collective::{Collective, CollectiveError, Parts};
use crate::runtime::gradient::Gradient;
use crate::runtime::stage::Stage;

/// Bytes after which a bucket is full. A larger gradient has one to itself.
const BUCKET: u64 = 16 << 20;

impl From<CollectiveError> for Cause {
    fn from(error: CollectiveError) -> Self {
        match error {
            CollectiveError::Gone => Self::ReplicaEnded,
            CollectiveError::Mismatch { expected, found } => {
                Self::ReplicasDiffer { expected, found }
            }
        }
    }
}

/// Replaces the stage's gradients by the sum of all replicas'.
pub(super) fn reduce<C: Chain>(
    stage: &mut Stage<C>,
    group: &mut dyn Collective,
    position: &Position,
) -> Result<(), Cause> {
    let (owners, parts) = stage.gradients_to_reduce();
    let mut sums = Vec::with_capacity(parts.len());
    for bucket in buckets(parts) {
        let (sum, _) = sum::<Cause>(bucket, group, position, || Ok(false))?;
        sums.extend(sum);
    }
    stage.take_reduced(&owners, sums);
    Ok(())
}

/// The same parts in order, some at a time.
fn buckets(parts: Parts) -> Vec<Parts> {
    let mut buckets: Vec<Parts> = Vec::new();
    let mut room = 0;
    for part in parts {
        let bytes = Gradient::bytes(&part);
        match buckets.last_mut() {
            Some(bucket) if bytes <= room => {
                room -= bytes;
                bucket.push(part);
            }
            _ => {
                room = BUCKET.saturating_sub(bytes);
                buckets.push(vec![part]);
            }
        }
    }
    buckets
}

#[cfg(all(test, feature = "flex"))]
mod tests {
    use burn::prelude::*;

    use super::*;

    #[test]
    fn buckets_keep_the_order_and_are_as_full_as_they_may_be() {
        let mebibytes = [10, 6, 1, 20, 3, 13, 1];
        let parts = mebibytes.map(|size| {
            let numbers = Tensor::<1>::zeros([size << 18], &Device::flex());
            Gradient::new(numbers)
        });
        let buckets = buckets(parts.into());
        let sizes: Vec<Vec<u64>> = buckets
            .iter()
            .map(|bucket| bucket.iter().map(|part| part.bytes() >> 20).collect())
            .collect();
        assert_eq!(
            sizes,
            [vec![10, 6], vec![1], vec![20], vec![3, 13], vec![1]]
        );
        assert!(super::buckets(Vec::new()).is_empty());
    }
}
