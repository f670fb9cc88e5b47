//! Two stages over a slow link: recompute beside their waits.

use std::collections::BTreeSet;
use std::time::Duration;

use lynx_burn::plan::advance::Advance;
use lynx_burn::plan::schedule::Kind;
use lynx_burn::plan::sim::Window;
use lynx_burn::plan::sim::timeline::Timeline;
use lynx_burn::units::Nanos;
use lynx_burn::{BackwardReport, Overlap, TrainerBuilder};
use lynx_tests::overlap::{batches, even, per_segment, wide};

use super::checks::{hold, shared};
use super::seen::Run;
use super::{alone, device, kinds, steps};

fn builder(kind: Kind, overlap: Overlap) -> TrainerBuilder {
    // 200 kB at 20 MB/s: 10 ms, several times a recompute of a stage.
    TrainerBuilder::new()
        .stages(2)
        .schedule(kind)
        .policy("recompute".parse().expect("a policy"))
        .overlap(overlap)
        .link("20MB/s,100us".parse().expect("a speed"))
}

/// Steps of four micro-batches.
fn run(builder: TrainerBuilder) -> Vec<(BackwardReport, Run, Timeline)> {
    let spec = wide();
    let batches = batches(&spec, &[256; 4]);
    steps(builder, spec.init(&device()), &batches)
}

#[test]
fn over_a_slow_link_recompute_is_hidden_and_lies_inside_the_waits_of_its_stage() {
    alone(|| {
        for kind in [Kind::GPipe, Kind::OneFOneB] {
            let steps = run(builder(kind, Overlap::Opportunistic));
            assert_eq!(steps.len(), 3);
            for (report, run, timeline) in steps {
                hold(&report, &run, &timeline);
                let share = report.hidden_fraction().expect("there is recompute");
                // How much is a matter of the machine.
                assert!(share > 0.0, "{kind}: {share}");
                for stage in &report.stages {
                    assert_eq!(stage.times.waiting.send, Nanos(0));
                }
                let picture = lynx_burn::plan::sim::svg::draw(&timeline, &Default::default());
                assert!(picture.contains("hidden recompute, beside"), "{kind}");
                let trace = lynx_burn::plan::sim::trace::to_string(&timeline);
                assert!(trace.contains("hidden recompute"), "{kind}");
            }
        }
    });
}

/// In the backwards of GPipe the wire is the bottleneck: with room for all gradients on it, the next one
/// is under way when a stage has done one.
#[test]
fn recompute_runs_while_messages_are_on_their_way_as_their_senders_tell() {
    alone(|| {
        // 33 ms a gradient, 100 ms a boundary.
        let slow = "2MB/s,100us".parse().expect("a speed");
        let builder = builder(Kind::GPipe, Overlap::Opportunistic).mailbox_capacity(4);
        let steps = run(builder.link(slow));
        let mut behind = Duration::ZERO;
        for (report, run, timeline) in steps {
            hold(&report, &run, &timeline);
            behind += behind_messages(&run);
        }
        assert!(behind > Duration::ZERO);
    });
}

/// Time in which a stage recomputed while the message it waited for was on its way.
fn behind_messages(run: &Run) -> Duration {
    let hidden = run.recomputes.iter();
    let hidden = hidden.filter(|one| one.window == Some(Window::Recv));
    let times = hidden.flat_map(|one| {
        let to_it = run.messages.iter();
        let to_it = to_it.filter(|message| message.to == one.stage);
        to_it.map(|message| shared(&(one.begin..one.end), &(message.begin..message.arrive)))
    });
    times.sum()
}

#[test]
fn planned_recompute_lies_inside_the_waits_of_its_stage() {
    alone(|| {
        let partition = even(&wide(), 2);
        for kind in [Kind::GPipe, Kind::OneFOneB] {
            let ahead = per_segment(&partition, || Advance::Always);
            let mut found = BTreeSet::new();
            for (report, run, timeline) in run(builder(kind, Overlap::Planned).ahead(ahead)) {
                hold(&report, &run, &timeline);
                assert!(report.hidden() > Nanos(0), "{kind}");
                found.extend(kinds(&report));
            }
            let all = [Window::Recv, Window::Bubble].into();
            assert!(found.is_subset(&all), "{kind}: {found:?}");
        }
    });
}

#[test]
fn on_demand_nothing_is_hidden_and_windows_are_empty() {
    alone(|| {
        for (report, run, timeline) in run(builder(Kind::OneFOneB, Overlap::Never)) {
            hold(&report, &run, &timeline);
            assert_eq!(report.hidden(), Nanos(0));
            assert!(report.exposed() > Nanos(0));
        }
    });
}

#[test]
fn hidden_and_exposed_are_all_the_recompute_there_is() {
    alone(|| {
        for overlap in [Overlap::Never, Overlap::Opportunistic] {
            let (report, run, _) = run(builder(Kind::OneFOneB, overlap)).remove(0);
            let all = run.recomputes.iter().map(|one| one.end - one.begin);
            let all = Nanos::from(all.sum::<Duration>());
            assert_eq!(all, report.exposed().saturating_add(report.hidden()));
            assert_eq!(report.hidden().0 > 0, overlap == Overlap::Opportunistic);
            // Every group of every micro-batch; a hidden one may be told in parts.
            let groups = run.recomputes.iter();
            let groups = groups.map(|one| (one.micro_batch, one.segments.start));
            let groups: BTreeSet<_> = groups.collect();
            assert_eq!(groups.len(), 4 * 4, "4 layers, 4 micro-batches");
        }
    });
}
