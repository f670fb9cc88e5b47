//! A worker's part in a sum, from handing over its own to taking everybody's.

use std::time::Instant;

use super::position::Position;
use crate::runtime::comm::collective::{Collective, CollectiveError, Parts};
use crate::runtime::comm::link::Way;

/// Hands over `parts` and waits for their sums; returns these and what their way was.
///
/// As long as they are not there, `instead` may do a piece of other work, and says whether it did; the
/// thread sleeps only where there is none.
pub(crate) fn sum<E: From<CollectiveError>>(
    parts: Parts,
    group: &mut dyn Collective,
    position: &Position,
    mut instead: impl FnMut() -> Result<bool, E>,
) -> Result<(Parts, Way), E> {
    let place = position.place();
    group.start(parts)?;
    position.waits();
    let way = loop {
        match group.poll()? {
            Some(way) if way.arrive <= Instant::now() => break way,
            Some(way) => {
                if !instead()? {
                    // It cannot be late before that: nobody is stuck until then.
                    position.expects(way.arrive);
                    group.wait(Some(way.arrive))?;
                    position.waits();
                }
            }
            None => {
                if !instead()? {
                    group.wait(None)?;
                }
            }
        }
    };
    position.resumes(place);
    Ok((group.take()?, way))
}
