//! Ranks that are threads of one process: sums in the process's memory, for any backend.
//!
//! Every rank leaves a copy of its parts, and adds up all ranks' copies itself, in order of rank: so
//! all ranks get the same bits, whoever came first. A copy stays until its rank leaves the next but
//! one in its place, so that no memory that one thread has taken is freed by another, which would
//! upset both threads' [books](crate::memory). Ranks cannot be more than one sum apart, so two places
//! are enough.
//!
//! Numbers are added in the wider of `f32` and their own type, and rounded once.

use std::borrow::Cow;
use std::ops::Add;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Instant;

use burn::tensor::{DType, Element, TensorData};
use crossbeam_channel::{Receiver, Sender, TryRecvError, at, bounded, never, select_biased};

use super::collective::{Collective, CollectiveError, Parts};
use super::link::Way;
use super::mailbox::StopSignal;
use crate::runtime::gradient::Gradient;

/// One rank's end.
pub(crate) struct GroupMember {
    rank: usize,
    shared: Arc<Shared>,
    /// Sums that were taken.
    done: u64,
    /// What was handed over, to make sums of its kind.
    pending: Option<Parts>,
    /// There is news since this rank last looked.
    news: Receiver<()>,
    stop: StopSignal,
}

struct Shared {
    state: Mutex<State>,
    /// By turn, then by rank.
    buffers: [Vec<RwLock<Vec<TensorData>>>; 2],
    tell: Vec<Sender<()>>,
}

/// By turn.
#[derive(Clone, Copy, Default)]
struct Turn {
    arrived: usize,
    taken: usize,
    /// When the last rank came.
    complete: Option<Instant>,
}

struct State {
    turns: [Turn; 2],
    somebody_is_gone: bool,
}

/// A group of so many ranks.
pub(crate) fn group(ranks: usize, stop: &StopSignal) -> Vec<GroupMember> {
    let (tell, news): (Vec<_>, Vec<_>) = (0..ranks).map(|_| bounded(1)).unzip();
    let buffers = || (0..ranks).map(|_| RwLock::default()).collect();
    let shared = Arc::new(Shared {
        state: Mutex::new(State {
            turns: [Turn::default(); 2],
            somebody_is_gone: false,
        }),
        buffers: [buffers(), buffers()],
        tell,
    });
    let members = news.into_iter().enumerate();
    members
        .map(|(rank, news)| GroupMember {
            rank,
            shared: shared.clone(),
            done: 0,
            pending: None,
            news,
            stop: stop.clone(),
        })
        .collect()
}

impl GroupMember {
    fn turn(&self) -> usize {
        (self.done % 2) as usize
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing that can panic happens under the lock.
        self.shared
            .state
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn tell_others(&self) {
        for (rank, tell) in self.shared.tell.iter().enumerate() {
            if rank != self.rank {
                // A token that is there already says the same.
                let _ = tell.try_send(());
            }
        }
    }

    /// All ranks' parts of the sum, added up.
    fn sums(&self, own: Parts) -> Result<Parts, CollectiveError> {
        let buffers = &self.shared.buffers[self.turn()];
        let parts: Vec<_> = buffers
            .iter()
            .map(|buffer| buffer.read().unwrap_or_else(PoisonError::into_inner))
            .collect();
        let shapes = |parts: &[TensorData]| -> Vec<Vec<usize>> {
            parts.iter().map(|part| part.shape().to_vec()).collect()
        };
        for other in &parts {
            let same = other.len() == parts[0].len()
                && other
                    .iter()
                    .zip(parts[0].iter())
                    .all(|(a, b)| a.shape() == b.shape());
            if !same {
                return Err(CollectiveError::Mismatch {
                    expected: shapes(&parts[0]),
                    found: shapes(other),
                });
            }
        }
        let sums = own.into_iter().enumerate().map(|(index, own)| {
            let ranks: Vec<&TensorData> = parts.iter().map(|rank| &rank[index]).collect();
            own.replaced(add(&ranks))
        });
        Ok(sums.collect())
    }
}

impl Collective for GroupMember {
    fn start(&mut self, parts: Parts) -> Result<(), CollectiveError> {
        let turn = self.turn();
        {
            let buffer = &self.shared.buffers[turn][self.rank];
            let mut buffer = buffer.write().unwrap_or_else(PoisonError::into_inner);
            *buffer = parts.iter().map(Gradient::data).collect();
        }
        self.pending = Some(parts);
        let ranks = self.shared.tell.len();
        let mut state = self.lock();
        if state.somebody_is_gone {
            return Err(CollectiveError::Gone);
        }
        state.turns[turn].arrived += 1;
        if state.turns[turn].arrived == ranks {
            state.turns[turn].complete = Some(Instant::now());
            drop(state);
            self.tell_others();
        }
        Ok(())
    }

    fn poll(&mut self) -> Result<Option<Way>, CollectiveError> {
        if matches!(self.stop.try_recv(), Err(TryRecvError::Disconnected)) {
            return Err(CollectiveError::Gone);
        }
        let turn = self.turn();
        let state = self.lock();
        match state.turns[turn].complete {
            None if state.somebody_is_gone => Err(CollectiveError::Gone),
            complete => Ok(complete.map(Way::at_once)),
        }
    }

    fn wait(&self, until: Option<Instant>) -> Result<(), CollectiveError> {
        let over = until.map_or_else(never, at);
        select_biased! {
            recv(self.stop) -> _ => Err(CollectiveError::Gone),
            recv(self.news) -> _ => Ok(()),
            recv(over) -> _ => Ok(()),
        }
    }

    fn take(&mut self) -> Result<Parts, CollectiveError> {
        let turn = self.turn();
        let own = self.pending.take().ok_or(CollectiveError::Gone)?;
        let sums = self.sums(own)?;
        let ranks = self.shared.tell.len();
        let mut state = self.lock();
        state.turns[turn].taken += 1;
        if state.turns[turn].taken == ranks {
            state.turns[turn] = Turn::default();
        }
        drop(state);
        self.done += 1;
        Ok(sums)
    }
}

impl Drop for GroupMember {
    fn drop(&mut self) {
        self.lock().somebody_is_gone = true;
        self.tell_others();
    }
}

/// The elementwise sum, in order.
fn add(parts: &[&TensorData]) -> TensorData {
    let dtype = parts[0].dtype();
    match dtype {
        DType::F32 => TensorData::new(fold::<f32>(parts), parts[0].shape().clone()),
        DType::F64 => TensorData::new(fold::<f64>(parts), parts[0].shape().clone()),
        other => {
            let wide: Vec<TensorData> = parts
                .iter()
                .map(|part| (*part).clone().convert_dtype(DType::F32))
                .collect();
            let wide: Vec<&TensorData> = wide.iter().collect();
            TensorData::new(fold::<f32>(&wide), parts[0].shape().clone()).convert_dtype(other)
        }
    }
}

fn fold<E: Element + Add<Output = E>>(parts: &[&TensorData]) -> Vec<E> {
    // Borrowed where they can be.
    let all: Vec<Cow<'_, [E]>> = parts
        .iter()
        .map(|part| match part.as_slice::<E>() {
            Ok(numbers) => Cow::Borrowed(numbers),
            Err(_) => Cow::Owned(part.iter::<E>().collect()),
        })
        .collect();
    match &all[..] {
        [] => Vec::new(),
        [one] => one.to_vec(),
        [one, two, others @ ..] => {
            let pairs = one.iter().zip(two.iter());
            let mut sum: Vec<E> = pairs.map(|(&a, &b)| a + b).collect();
            for other in others {
                for (sum, &part) in sum.iter_mut().zip(other.iter()) {
                    *sum = *sum + part;
                }
            }
            sum
        }
    }
}
