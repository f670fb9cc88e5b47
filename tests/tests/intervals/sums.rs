//! Two ranks over slow links: recompute beside their sums.

use std::collections::BTreeSet;
use std::time::Duration;

use lynx_burn::ids::{RankId, SegmentId, StageId};
use lynx_burn::plan::advance::Advance;
use lynx_burn::plan::cluster::Link;
use lynx_burn::plan::schedule::Kind;
use lynx_burn::plan::sim::Window;
use lynx_burn::plan::sim::Window::{B1, B2, F1, F2};
use lynx_burn::{LinkSpeed, Overlap, SumSpan, TrainerBuilder};
use lynx_tests::shares::{PER_LAYER, SharesSpec};

use super::checks::{hold, shared};
use super::seen::Run;
use super::{alone, device, kinds, steps};

const LAYERS: usize = 4;
/// 64 KiB a sum: two thirds of a millisecond for two ranks, a group's recompute or two. So one window
/// does not hold all there is.
const SPEED: &str = "1GB/s,300us";

fn spec() -> SharesSpec {
    let mut spec = SharesSpec::new(LAYERS);
    spec.width = 64;
    spec
}

fn builder(stages: usize, kind: Kind, overlap: Overlap) -> TrainerBuilder {
    TrainerBuilder::new()
        .stages(stages)
        .ranks(2)
        .schedule(kind)
        .policy("recompute".parse().expect("a policy"))
        .overlap(overlap)
        .collective_link(SPEED.parse().expect("a speed"))
}

/// Steps of three micro-batches that pass all checks; the windows that hid something.
fn checked(builder: TrainerBuilder, link: bool) -> BTreeSet<Window> {
    let spec = spec();
    let batches: Vec<_> = (0..3).map(|_| spec.batch(256, &device())).collect();
    let builder = match link {
        true => builder.link("20MB/s,100us".parse().expect("a speed")),
        false => builder,
    };
    let mut found = BTreeSet::new();
    for (report, run, timeline) in steps(builder, spec.init(&device()), &batches) {
        hold(&report, &run, &timeline);
        sums_take_the_time_of_the_link(&run);
        found.extend(kinds(&report));
    }
    found
}

/// Every rank sees the same sums at the same instants, no sooner than the link can; recompute that
/// they hide is under way while they are.
fn sums_take_the_time_of_the_link(run: &Run) {
    let link = Link::from(SPEED.parse::<LinkSpeed>().expect("a speed"));
    let mut beside = Duration::ZERO;
    for stage in run
        .sums
        .iter()
        .map(|sum| sum.stage)
        .collect::<BTreeSet<StageId>>()
    {
        let [own, other] = [0, 1].map(|rank| run.of((stage, RankId(rank))));
        assert_eq!(own.sums.len(), other.sums.len());
        let what = |sum: &SumSpan| (sum.micro_batch, sum.behind, sum.window, sum.complete);
        for (a, b) in own.sums.iter().zip(&other.sums) {
            assert_eq!(what(a), what(b));
            let last = a.begin.max(b.begin);
            assert!(a.complete >= last, "both have handed over their parts");
            let takes = Duration::from_nanos(link.all_reduce_time(a.bytes, 2).0);
            let under_way = a.complete..a.complete + takes;
            for (rank, sum) in [(&own, a), (&other, b)] {
                assert!(sum.end >= under_way.end, "{sum:?} was there too soon");
                let all = rank.recomputes.iter();
                let times = all.map(|one| shared(&(one.begin..one.end), &under_way));
                beside += times.sum::<Duration>();
            }
        }
    }
    assert!(beside > Duration::ZERO, "something ran beside sums");
}

#[test]
fn opportunistic_recompute_lies_inside_sums_of_forwards_and_backwards() {
    alone(|| {
        let found = checked(builder(1, Kind::GPipe, Overlap::Opportunistic), false);
        assert_eq!(found, [F1, F2, B1, B2].into());
        // Here a backward follows its forward at once: nobody else's can be worked for.
        let found = checked(builder(1, Kind::OneFOneB, Overlap::Opportunistic), false);
        assert_eq!(found, [B1, B2].into());
    });
}

#[test]
fn planned_recompute_lies_inside_the_sums_it_was_planned_for() {
    alone(|| {
        let segments = LAYERS * PER_LAYER;
        // Every half of a layer beside the sum of its own output's gradient.
        let beside: Vec<_> = (0..segments)
            .map(|segment| Advance::Beside(SegmentId(segment | 1)))
            .collect();
        let planned = builder(1, Kind::OneFOneB, Overlap::Planned).ahead(vec![beside.clone()]);
        assert_eq!(checked(planned, false), [B1, B2].into());
        // The first halves only: sums inside layers.
        let first =
            beside
                .iter()
                .enumerate()
                .map(|(segment, advance)| match segment % PER_LAYER < 2 {
                    true => *advance,
                    false => Advance::Never,
                });
        let planned = builder(1, Kind::OneFOneB, Overlap::Planned).ahead(vec![first.collect()]);
        assert_eq!(checked(planned, false), [B1].into());
        // In advance, during later forwards, too.
        let always = vec![vec![Advance::Always; segments]];
        let planned = builder(1, Kind::GPipe, Overlap::Planned).ahead(always);
        let found = checked(planned, false);
        assert!(found.is_superset(&[F1, F2].into()), "{found:?}");
    });
}

#[test]
fn what_two_stages_of_two_ranks_hide_lies_in_sums_and_waits() {
    alone(|| {
        for kind in [Kind::GPipe, Kind::OneFOneB] {
            let found = checked(builder(2, kind, Overlap::Opportunistic), true);
            let of_sums = found.iter().any(|kind| [F1, F2, B1, B2].contains(kind));
            assert!(of_sums, "{kind}: {found:?}");
        }
    });
}
