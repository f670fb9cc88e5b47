//! Recompute while a stage waits: nothing changes but when it happens.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use burn::optim::{AdamWConfig, SgdConfig};
use burn::prelude::*;
use lynx_burn::memory::{TrackingAllocator, live_bytes};
use lynx_burn::plan::advance::Advance;
use lynx_burn::plan::layout::ChainLayout;
use lynx_burn::plan::partition::Partition;
use lynx_burn::plan::policy::{Choice, Policy};
use lynx_burn::plan::schedule::Kind;
use lynx_burn::plan::sim::Window;
use lynx_burn::plan::sim::timeline::{Span, SpanKind};
use lynx_burn::units::{Bytes, Nanos};
use lynx_burn::{
    BuildError, Chain, MicroBatch, Observer, Overlap, RecomputeSpan, Recorder, StageReport,
    TrainerBuilder,
};
use lynx_tests::chains::{Net, NetSpec, Step};
use lynx_tests::oracle::{Plain, assert_same_bytes, gradient_bytes, parameter_values};
use lynx_tests::watchdog::within;

#[global_allocator]
static ALLOCATOR: TrackingAllocator = TrackingAllocator;

/// Tests that read counters of the whole process, or the clock, run one at a time.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn alone<R: Send + 'static>(test: impl FnOnce() -> R + Send + 'static) -> R {
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(|e| e.into_inner());
    within(Duration::from_secs(240), test)
}

fn device() -> Device {
    Device::flex().autodiff()
}

fn batches(spec: &NetSpec, sizes: &[usize]) -> Vec<MicroBatch<Net>> {
    sizes.iter().map(|&n| spec.batch(n, &device())).collect()
}

/// Numbers that come out the same in every run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % sides
    }

    fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.roll(from.len())]
    }
}

/// The chain of most tests here: four layers of two segments, every kind of use of a tensor.
fn spec() -> NetSpec {
    use Step::{Close, Dense, Drop, Gate, Norm, Open};
    let mut spec = NetSpec::new([Dense, Open, Norm, Drop, Gate, Dense, Close, Dense]);
    spec.per_layer = 2;
    spec
}

/// Wide enough for tensors to be seen by the ledger and for recompute to take time.
fn wide() -> NetSpec {
    let mut spec = NetSpec::new([Step::Dense, Step::Norm].repeat(4));
    spec.per_layer = 2;
    spec.width = 64;
    spec
}

fn even(spec: &NetSpec, stages: usize) -> Partition {
    let layout = ChainLayout::new(spec.init(&device()).segments()).expect("a chain");
    Partition::even(&layout, stages).expect("as many layers as stages")
}

/// One list per stage, filled by `make`.
fn per_segment<T>(partition: &Partition, mut make: impl FnMut() -> T) -> Vec<Vec<T>> {
    partition
        .ranges()
        .map(|range| range.map(|_| make()).collect())
        .collect()
}

/// Cases 9, 10, 11 and 17, in one: whatever the link, the mailboxes and what is recomputed when.
#[test]
fn losses_and_gradients_are_plain_burns_whatever_is_recomputed_in_whichever_wait() {
    alone(|| {
        let spec = spec();
        let model = spec.init(&device());
        let mut dice = Dice(5);
        for m in 1..=8 {
            // The last micro-batch is smaller: what is known of the others' sizes is wrong for it.
            let mut sizes = vec![3; m];
            sizes[m - 1] = 2;
            let steps: Vec<_> = (0..3).map(|_| batches(&spec, &sizes)).collect();
            let mut plain = Plain::new(model.clone(), AdamWConfig::new().init(), 7);
            let mut expected = Vec::new();
            for step in &steps {
                let found = plain.backward(step);
                let gradients = gradient_bytes(&plain.model, &found.gradients);
                let losses = plain.step(0.01, step);
                expected.push((losses, gradients));
            }
            let last = parameter_values(&plain.model);
            for p in 1..=4 {
                let partition = even(&spec, p);
                for kind in [Kind::GPipe, Kind::OneFOneB] {
                    for overlap in [Overlap::Never, Overlap::Planned, Overlap::Opportunistic] {
                        let by_hand = per_segment(&partition, || {
                            *dice.pick(&[Choice::Retain, Choice::Recompute])
                        });
                        let policy = match dice.roll(4) {
                            0 => Policy::RecomputeAll,
                            1 => "every:2".parse().expect("a policy"),
                            2 => "selective:dense,drop".parse().expect("a policy"),
                            _ => Policy::ByHand(by_hand),
                        };
                        let allowed = [Advance::Never, Advance::CoolDown, Advance::Always];
                        let mut builder = TrainerBuilder::new()
                            .stages(p)
                            .schedule(kind)
                            .policy(policy.clone())
                            .overlap(overlap)
                            .ahead(per_segment(&partition, || *dice.pick(&allowed)))
                            .mailbox_capacity(dice.roll(3))
                            .seed(7);
                        if dice.roll(3) == 0 {
                            builder = builder.memory_budget(Bytes(dice.roll(100_000) as u64));
                        }
                        let link = *dice.pick(&["", "1GB/s,20us", "2MB/s,100us", "100kB/s,0ns"]);
                        if !link.is_empty() {
                            builder = builder.link(link.parse().expect("a speed"));
                        }
                        let what = format!("{kind} p={p} m={m} {overlap:?} {policy} {link}");
                        let stages = policy
                            .resolve(
                                &ChainLayout::new(model.segments()).expect("a chain"),
                                &partition,
                            )
                            .expect("it fits");
                        let mut trainer = builder
                            .train(model.clone(), AdamWConfig::new().init())
                            .expect("it fits");
                        for (step, (losses, gradients)) in steps.iter().zip(&expected) {
                            let report = trainer.backward(step.clone()).expect("a backward");
                            assert_eq!(&report.losses, losses, "{what}");
                            let found = trainer.gradients().expect("gradients");
                            assert_same_bytes(&what, &found, gradients);
                            for (stage, policy) in report.stages.iter().zip(&stages) {
                                assert_eq!(stage.retained, Bytes(0), "{what}");
                                for &(segment, count) in &stage.recomputed {
                                    let recomputed =
                                        policy.choice(segment.0) == Some(Choice::Recompute);
                                    let once = if recomputed { m as u64 } else { 0 };
                                    assert_eq!(count, once, "{what} {segment}");
                                }
                                let never = overlap == Overlap::Never || p == 1;
                                assert!(!never || stage.times.hidden() == Nanos(0), "{what}");
                            }
                            trainer.update(0.01).expect("an update");
                        }
                        let found = trainer.parameters().expect("parameters");
                        assert_same_bytes(&what, &found, &last);
                    }
                }
            }
        }
    });
}

/// Case 10: a tensor freed or changed too early shows in the long run.
#[test]
fn two_hundred_overlapped_steps_end_where_plain_burn_does() {
    alone(|| {
        let spec = spec();
        let model = spec.init(&device());
        let batches = batches(&spec, &[2, 2, 2, 2]);
        let mut plain = Plain::new(model.clone(), AdamWConfig::new().init(), 3);
        let mut trainer = TrainerBuilder::new()
            .stages(4)
            .policy(Policy::RecomputeAll)
            .overlap(Overlap::Opportunistic)
            .link("1GB/s,100us".parse().expect("a speed"))
            .seed(3)
            .train(model, AdamWConfig::new().init())
            .expect("it fits");
        let mut hidden = Nanos(0);
        for _ in 0..200 {
            let expected = plain.step(0.003, &batches);
            let report = trainer.step(0.003, batches.clone()).expect("a step");
            assert_eq!(report.backward.losses, expected);
            hidden = hidden.saturating_add(report.backward.hidden());
        }
        assert!(hidden > Nanos(0));
        let found = trainer.parameters().expect("parameters");
        assert_same_bytes("after 200 steps", &found, &parameter_values(&plain.model));
    });
}

/// Adds up the time of recompute, and keeps what was hidden.
#[derive(Default)]
struct Recomputes(Mutex<Vec<RecomputeSpan>>);

impl Observer for Recomputes {
    fn recompute(&self, span: &RecomputeSpan) {
        self.0.lock().expect("no panic inside").push(span.clone());
    }
}

fn length(span: &Span) -> u64 {
    span.end.0 - span.begin.0
}

#[test]
fn over_a_slow_link_recompute_is_hidden_and_lies_inside_the_waits_of_its_stage() {
    alone(|| {
        let spec = wide();
        // 200 kB at 20 MB/s: 10 ms, several times a recompute of a stage.
        for kind in [Kind::GPipe, Kind::OneFOneB] {
            let recorder = Arc::new(Recorder::new());
            let mut trainer = TrainerBuilder::new()
                .stages(2)
                .schedule(kind)
                .policy(Policy::RecomputeAll)
                .overlap(Overlap::Opportunistic)
                .link("20MB/s,100us".parse().expect("a speed"))
                .observer(recorder.clone())
                .train(spec.init(&device()), SgdConfig::new().init())
                .expect("it fits");
            let batches = batches(&spec, &[256; 4]);
            let mut reports = Vec::new();
            for _ in 0..3 {
                let report = trainer.step(0.1, batches.clone()).expect("a step");
                reports.push(report.backward);
            }
            let runs = recorder.take();
            assert_eq!(runs.len(), 3);
            for (report, run) in reports.iter().zip(&runs) {
                let share = report.hidden_fraction().expect("there is recompute");
                assert!(share > 0.3, "{kind}: {share}");
                for (stage, track) in report.stages.iter().zip(&run.timeline.stages) {
                    lies_inside(stage, &track.main, &track.beside);
                }
                let picture = lynx_burn::plan::sim::svg::draw(&run.timeline, &Default::default());
                assert!(picture.contains("recompute of"), "{kind}");
                let trace = lynx_burn::plan::sim::trace::to_string(&run.timeline);
                assert!(trace.contains("hidden recompute"), "{kind}");
            }
        }
    });
}

/// Hidden recompute lies inside waits, and the track adds up to the report.
fn lies_inside(stage: &StageReport, main: &[Span], beside: &[Span]) {
    for span in beside {
        let SpanKind::Hidden(hides) = span.kind else {
            panic!("{span:?}");
        };
        let inside = main.iter().any(|wait| {
            let of_kind = matches!(wait.kind, SpanKind::Wait { window, .. } if window == hides);
            of_kind && wait.begin <= span.begin && span.end <= wait.end
        });
        assert!(inside, "{span:?} lies in no wait of {main:?}");
    }
    for window in [Window::Recv, Window::Bubble] {
        let of_kind = |span: &&Span| span.kind == SpanKind::Hidden(window);
        let hidden: u64 = beside.iter().filter(of_kind).map(length).sum();
        assert_eq!(Nanos(hidden), stage.times.hidden[window], "{window}");
    }
    assert_eq!(stage.times.waiting.send, Nanos(0));
    let exposed = main.iter().filter(|span| span.kind == SpanKind::Exposed);
    assert_eq!(Nanos(exposed.map(length).sum()), stage.times.exposed);
    let waiting = main.iter().filter(|span| span.kind.is_wait());
    assert!(waiting.map(length).sum::<u64>() >= stage.times.waiting().0);
}

#[test]
fn hidden_and_exposed_are_all_the_recompute_there_is() {
    alone(|| {
        let spec = wide();
        for overlap in [Overlap::Never, Overlap::Opportunistic] {
            let seen = Arc::new(Recomputes::default());
            let mut trainer = TrainerBuilder::new()
                .stages(2)
                .policy(Policy::RecomputeAll)
                .overlap(overlap)
                .link("20MB/s,100us".parse().expect("a speed"))
                .observer(seen.clone())
                .train(spec.init(&device()), SgdConfig::new().init())
                .expect("it fits");
            let report = trainer
                .backward(batches(&spec, &[256; 4]))
                .expect("a backward");
            let seen = seen.0.lock().expect("unlocked");
            let all: u128 = seen
                .iter()
                .map(|span| (span.end - span.begin).as_nanos())
                .sum();
            assert_eq!(all, u128::from(report.exposed().0 + report.hidden().0));
            assert_eq!(report.hidden().0 > 0, overlap == Overlap::Opportunistic);
            // Every group of every micro-batch; a hidden one may be told in parts.
            let mut groups: Vec<_> = seen
                .iter()
                .map(|span| (span.micro_batch, span.segments.start))
                .collect();
            groups.sort();
            groups.dedup();
            assert_eq!(groups.len(), 4 * 4, "4 layers, 4 micro-batches");
        }
    });
}

/// Case 9: what stands early must not break the budget that recomputation on demand would keep.
#[test]
fn a_budget_is_exceeded_only_where_recomputing_on_demand_exceeds_it_too() {
    alone(|| {
        let spec = wide();
        let model = spec.init(&device());
        let batches = batches(&spec, &[256; 6]);
        for (kind, stages) in [(Kind::OneFOneB, 2), (Kind::OneFOneB, 4), (Kind::GPipe, 2)] {
            let run = |overlap: Overlap, budget: Option<u64>| {
                let mut builder = TrainerBuilder::new()
                    .stages(stages)
                    .schedule(kind)
                    .policy(Policy::RecomputeAll)
                    .overlap(overlap)
                    .link("50MB/s,100us".parse().expect("a speed"));
                if let Some(budget) = budget {
                    builder = builder.memory_budget(Bytes(budget));
                }
                let mut trainer = builder
                    .train(model.clone(), SgdConfig::new().init())
                    .expect("it fits");
                // By step and stage. The first step is one of its own: it fills caches too.
                let mut peaks: Vec<Vec<u64>> = Vec::new();
                let mut hidden = Nanos(0);
                for _ in 0..3 {
                    let report = trainer.step(0.1, batches.clone()).expect("a step").backward;
                    let stages = report.stages.iter();
                    peaks.push(stages.map(|stage| stage.retained_peak.0).collect());
                    hidden = hidden.saturating_add(report.hidden());
                }
                (peaks, hidden)
            };
            let (on_demand, _) = run(Overlap::Never, None);
            let (unlimited, all) = run(Overlap::Opportunistic, None);
            assert!(all > Nanos(0));
            let mut budgets = vec![0];
            for (low, high) in on_demand[2].iter().zip(&unlimited[2]) {
                budgets.extend([low / 2, low * 9 / 10]);
                budgets.extend((0..=4).map(|quarters| low + (high - low) * quarters / 4));
            }
            let costs_memory = on_demand[2] != unlimited[2];
            assert!(costs_memory, "early recompute costs memory: {on_demand:?}");
            let (mut some, mut at_its_budget) = (0, 0);
            for budget in budgets {
                let (peaks, hidden) = run(Overlap::Opportunistic, Some(budget));
                for (peaks, on_demand) in peaks.iter().zip(&on_demand) {
                    for (peak, on_demand) in peaks.iter().zip(on_demand) {
                        let allowed = budget.max(*on_demand);
                        assert!(*peak <= allowed, "{kind} {budget}: {peak} {on_demand}");
                        at_its_budget += usize::from(*peak > *on_demand);
                    }
                }
                assert!(
                    budget > 0 || hidden == Nanos(0),
                    "nothing fits into nothing"
                );
                some += usize::from(hidden > Nanos(0));
            }
            assert!(at_its_budget > 0, "a budget is used");
            assert!(
                some >= 2,
                "a budget that is large enough lets recompute hide"
            );
        }
    });
}

#[test]
fn a_plan_is_obeyed_to_the_segment_and_the_cool_down() {
    alone(|| {
        let spec = wide();
        let partition = even(&spec, 4);
        let run = |allowed: Vec<Vec<Advance>>| {
            let seen = Arc::new(Recomputes::default());
            let mut trainer = TrainerBuilder::new()
                .stages(4)
                .policy(Policy::RecomputeAll)
                .overlap(Overlap::Planned)
                .ahead(allowed)
                .link("20MB/s,100us".parse().expect("a speed"))
                .observer(seen.clone())
                .train(spec.init(&device()), SgdConfig::new().init())
                .expect("it fits");
            trainer
                .backward(batches(&spec, &[256; 5]))
                .expect("a backward");
            let seen = seen.0.lock().expect("unlocked");
            let hidden = seen.iter().filter(|span| span.window.is_some());
            hidden.cloned().collect::<Vec<_>>()
        };
        assert!(run(per_segment(&partition, || Advance::Never)).is_empty());
        let cool_down = run(per_segment(&partition, || Advance::CoolDown));
        assert!(!cool_down.is_empty());
        for span in &cool_down {
            // Stage s of 4: its last 3 - s backwards.
            let first = 5 - (3 - span.stage.0);
            assert!(span.micro_batch.0 >= first, "{span:?}");
        }
        // Groups of two segments of which one may not be: the first may be by itself, the second
        // not without it.
        for (own, expected) in [(0, vec![(0, 1)]), (1, vec![])] {
            let mut one_of_two = per_segment(&partition, || Advance::Always);
            one_of_two[0] = vec![Advance::Never; 2];
            one_of_two[0][own] = Advance::Always;
            let found = run(one_of_two);
            let mut of_first: Vec<_> = found
                .iter()
                .filter(|span| span.stage.0 == 0)
                .map(|span| (span.segments.start, span.segments.end))
                .collect();
            of_first.dedup();
            assert_eq!(of_first, expected);
            let whole = found.iter().filter(|span| span.stage.0 > 0);
            assert!(whole.clone().count() > 0);
            assert!(
                whole.clone().all(|span| span.segments.len() == 2),
                "{found:?}"
            );
        }
    });
}

#[test]
fn planned_overlap_without_a_plan_that_fits_is_refused() {
    let spec = spec();
    let build = |ahead: Option<Vec<Vec<Advance>>>| {
        let mut builder = TrainerBuilder::new().stages(2).overlap(Overlap::Planned);
        if let Some(ahead) = ahead {
            builder = builder.ahead(ahead);
        }
        builder
            .train(spec.init(&device()), SgdConfig::new().init())
            .map(drop)
    };
    let fits = per_segment(&even(&spec, 2), || Advance::Always);
    build(Some(fits.clone())).expect("it fits");
    assert!(matches!(build(None), Err(BuildError::NothingPlanned)));
    let short = build(Some(fits[..1].to_vec()));
    assert!(matches!(
        short,
        Err(BuildError::AheadStages {
            given: 1,
            stages: 2
        })
    ));
    let mut narrow = fits;
    narrow[1].pop();
    let error = build(Some(narrow)).expect_err("three of four");
    assert!(
        error
            .to_string()
            .contains("3 segments of stage 1, which has 4"),
        "{error}"
    );
}

/// Case 11: what was rebuilt early must go with its backward.
#[test]
fn nothing_is_left_of_early_recompute_after_a_step() {
    alone(|| {
        let spec = wide();
        let mut trainer = TrainerBuilder::new()
            .stages(3)
            .policy(Policy::RecomputeAll)
            .overlap(Overlap::Opportunistic)
            .link("50MB/s,100us".parse().expect("a speed"))
            .train(spec.init(&device()), SgdConfig::new().init())
            .expect("it fits");
        let batches = batches(&spec, &[256; 4]);
        let mut live = Vec::new();
        for _ in 0..10 {
            trainer.step(0.1, batches.clone()).expect("a step");
            live.push(live_bytes() as i64);
        }
        let hidden_state = 256 * 64 * 4;
        // The first step fills caches of threads and tables.
        let grown = live[9] - live[1];
        assert!(grown.abs() < hidden_state / 2, "{live:?}");
    });
}
