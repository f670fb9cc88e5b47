//! The threads of a pipeline.
//!
//! Threads live as long as the crew: Burn gives every thread a stream of its own, with memory
//! pools and a place in queues, which a thread per step would make anew each time.
//!
//! A crew that failed is over. A job that is stuck in the user's model cannot be ended from
//! outside, so the crew does not wait for that one thread: it ends by itself when it comes back.
//! All others have ended when the error is returned.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use burn::prelude::Device;
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded, unbounded};

use super::error::{Cause, StageFailure};
use super::grid::{Grid, ThreadName};
use super::position::{Activity, Place, Position};
use crate::runtime::chain::Chain;
use crate::runtime::comm::mailbox::StopSignal;
use crate::runtime::stage::Stage;
use crate::runtime::streams::Fenced;

/// How often the crew looks whether somebody is stuck.
const WATCH: Duration = Duration::from_millis(20);

type Work<C> = Box<dyn FnOnce(&mut Stage<C>) + Send>;

/// One thread for each worker.
pub(crate) struct Crew<C: Chain> {
    grid: Grid,
    /// Nothing once the crew has failed.
    workers: Option<Vec<Worker<C>>>,
    positions: Vec<Arc<Position>>,
    devices: Vec<Device>,
    stall: Duration,
    stop: Option<Sender<std::convert::Infallible>>,
    stop_signal: StopSignal,
}

/// What one stage's job came to.
struct Reply<R> {
    stage: usize,
    result: Result<Fenced<R>, StageFailure>,
}

/// A run that failed, and the stages that have not replied.
struct Broken {
    failure: StageFailure,
    missing: Vec<usize>,
}

struct Worker<C: Chain> {
    work: Sender<Work<C>>,
    thread: JoinHandle<()>,
}

impl<C: Chain> Crew<C> {
    /// Starts a thread for each worker.
    ///
    /// # Errors
    ///
    /// If the system gives no thread.
    pub(crate) fn start(
        stages: Vec<Stage<C>>,
        grid: Grid,
        positions: Vec<Arc<Position>>,
        (stall, single_threaded): (Duration, bool),
    ) -> std::io::Result<Self> {
        let mut workers = Vec::with_capacity(stages.len());
        let devices = stages.iter().map(|stage| stage.device().clone()).collect();
        for (index, mut stage) in stages.into_iter().enumerate() {
            let (work, jobs) = unbounded::<Work<C>>();
            let alone = match single_threaded {
                true => Some(pool_of_one()?),
                false => None,
            };
            let thread = std::thread::Builder::new()
                .name(ThreadName(grid, grid.seat(index)).to_string())
                .spawn(move || {
                    for job in jobs {
                        match &alone {
                            Some(pool) => pool.install(|| job(&mut stage)),
                            None => job(&mut stage),
                        }
                    }
                    // Where its tensors were made.
                    if let Some(pool) = alone {
                        pool.install(|| drop(stage));
                    }
                })?;
            workers.push(Worker { work, thread });
        }
        let (stop, stop_signal) = bounded(0);
        Ok(Self {
            grid,
            workers: Some(workers),
            positions,
            devices,
            stall,
            stop: Some(stop),
            stop_signal,
        })
    }

    /// Ends waits in mailboxes when the crew fails.
    pub(crate) fn stop_signal(&self) -> &StopSignal {
        &self.stop_signal
    }

    pub(crate) fn position(&self, stage: usize) -> Arc<Position> {
        self.positions[stage].clone()
    }

    /// Whose thread it is that failed, and how.
    fn failure(grid: Grid, index: usize, place: Place, cause: Cause) -> StageFailure {
        let seat = grid.seat(index);
        StageFailure {
            replica: (grid.replicas > 1).then_some(seat.replica),
            stage: seat.stage,
            rank: (grid.ranks > 1).then_some(seat.rank),
            place,
            cause,
        }
    }

    /// Whether an earlier job failed.
    pub(crate) fn is_over(&self) -> bool {
        self.workers.is_none()
    }

    /// Runs one job on every worker, or on the first ones if there are fewer jobs, and waits for all
    /// of them.
    ///
    /// # Errors
    ///
    /// The first failure that is not a consequence of another. Nothing if the crew was over
    /// before.
    pub(crate) fn run<R: Send + 'static>(
        &mut self,
        jobs: Vec<impl FnOnce(&mut Stage<C>) -> Result<R, Cause> + Send + 'static>,
    ) -> Result<Vec<R>, Option<Box<StageFailure>>> {
        let workers = self.workers.as_ref().ok_or(None)?;
        let (done, replies) = unbounded::<Reply<R>>();
        let stages = jobs.len();
        for (index, job) in jobs.into_iter().enumerate() {
            let done = done.clone();
            let position = self.positions[index].clone();
            let grid = self.grid;
            // What a job brings was made on this thread, and what it yields is used on it.
            let job = Fenced::new(job, &self.devices[index]);
            let work: Work<C> = Box::new(move |stage| {
                position.begin();
                let job = AssertUnwindSafe(|| {
                    let yielded = job.open()(stage)?;
                    Ok(Fenced::new(yielded, stage.device()))
                });
                let result = catch_unwind(job)
                    .unwrap_or_else(|panic| Err(Cause::Panic(message(panic.as_ref()))));
                let result =
                    result.map_err(|cause| Self::failure(grid, index, position.place(), cause));
                position.end();
                // Nobody listens any more after a failure.
                let _ = done.send(Reply {
                    stage: index,
                    result,
                });
            });
            // A thread ends only with its crew, and panics are caught: it is there.
            let _ = workers[index].work.send(work);
        }
        drop(done);
        self.collect(stages, &replies).map_err(|broken| {
            self.end(&replies, broken.missing);
            Some(Box::new(broken.failure))
        })
    }

    /// Waits for every reply, watching for stages that do not move.
    fn collect<R>(
        &mut self,
        stages: usize,
        replies: &Receiver<Reply<R>>,
    ) -> Result<Vec<R>, Box<Broken>> {
        let mut results: Vec<Option<R>> = (0..stages).map(|_| None).collect();
        let mut first: Option<StageFailure> = None;
        let mut missing: Vec<usize> = (0..stages).collect();
        let mut last_reply = Instant::now();
        while !missing.is_empty() {
            match replies.recv_timeout(WATCH) {
                Ok(reply) => {
                    missing.retain(|&stage| stage != reply.stage);
                    last_reply = Instant::now();
                    match reply.result {
                        Ok(result) => results[reply.stage] = Some(result.open()),
                        Err(failure) => {
                            // Neighbours must not wait for it.
                            self.stop = None;
                            if first.as_ref().is_none_or(|f| f.cause.is_secondary()) {
                                first = Some(failure);
                            }
                        }
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if let Some(stuck) = self.stuck(&missing, last_reply) {
                self.stop = None;
                let failure = first.filter(|f| !f.cause.is_secondary()).unwrap_or(stuck);
                return Err(Box::new(Broken { failure, missing }));
            }
        }
        match first {
            Some(failure) => Err(Box::new(Broken { failure, missing })),
            None => Ok(results.into_iter().flatten().collect()),
        }
    }

    /// A stage that has been in one action for too long, rather one that computes than one that
    /// waits for it.
    fn stuck(&self, missing: &[usize], last_reply: Instant) -> Option<StageFailure> {
        let mut stuck: Vec<(Activity, Duration, usize)> = missing
            .iter()
            .map(|&stage| {
                let (activity, time) = self.positions[stage].activity();
                (activity, time, stage)
            })
            .filter(|&(activity, time, _)| activity != Activity::Idle && time > self.stall)
            .collect();
        stuck.sort_by_key(|&(activity, time, _)| {
            (activity == Activity::Waiting, std::cmp::Reverse(time))
        });
        // Somebody who waits may wait for a stage that is not late yet: one that computes, one that
        // went on to its next action just now, or one that is done and has sent its last message.
        let moving = missing.iter().any(|&stage| {
            let (activity, time) = self.positions[stage].activity();
            activity != Activity::Idle && time <= self.stall
        });
        let &(activity, time, stage) = stuck.first()?;
        let moving = moving || last_reply.elapsed() <= self.stall;
        if activity == Activity::Waiting && moving {
            return None;
        }
        let place = self.positions[stage].place();
        Some(Self::failure(self.grid, stage, place, Cause::Stalled(time)))
    }

    /// Ends every thread, waiting for those that can end.
    fn end<R>(&mut self, replies: &Receiver<Reply<R>>, mut missing: Vec<usize>) {
        let Some(workers) = self.workers.take() else {
            return;
        };
        // A thread that waits for a neighbour gives up at once; one inside the model may not.
        let deadline = Instant::now() + self.stall.min(Duration::from_secs(1));
        while !missing.is_empty() {
            match replies.recv_deadline(deadline) {
                Ok(reply) => missing.retain(|&stage| stage != reply.stage),
                Err(_) => break,
            }
        }
        for (index, worker) in workers.into_iter().enumerate() {
            drop(worker.work);
            if !missing.contains(&index) {
                // It catches panics, so there is no panic to hear of.
                let _ = worker.thread.join();
            }
        }
    }
}

impl<C: Chain> Drop for Crew<C> {
    fn drop(&mut self) {
        for worker in self.workers.take().into_iter().flatten() {
            drop(worker.work);
            let _ = worker.thread.join();
        }
    }
}

/// A pool of one thread: what runs in it finds a machine of one core, and shares no thread with
/// anybody.
fn pool_of_one() -> std::io::Result<rayon::ThreadPool> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build();
    pool.map_err(std::io::Error::other)
}

/// What a caught panic said.
pub(crate) fn message(panic: &(dyn Any + Send)) -> String {
    panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "of unknown kind".to_owned())
}
