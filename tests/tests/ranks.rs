//! Ranks that share a chain: the same gradients as one, and the same bytes whatever is recomputed.

use std::collections::BTreeMap;
use std::time::Duration;

use burn::optim::AdamWConfig;
use burn::prelude::*;
use gpt_example::config::GptConfig;
use gpt_example::model::Gpt;
use lynx_burn::ids::SegmentId;
use lynx_burn::memory::TrackingAllocator;
use lynx_burn::plan::advance::Advance;
use lynx_burn::plan::policy::Policy;
use lynx_burn::plan::schedule::Kind;
use lynx_burn::{BackwardReport, Chain, MicroBatch, Overlap, Sharding, Trainer, TrainerBuilder};
use lynx_tests::gpts::{batches, config, gpt};
use lynx_tests::oracle::{
    Plain, assert_close, assert_same_bytes, gradient_bytes, parameter_values,
};
use lynx_tests::watchdog::within;

#[global_allocator]
static ALLOCATOR: TrackingAllocator = TrackingAllocator::new();

type Bytes = BTreeMap<String, TensorData>;

fn builder(policy: &str) -> TrainerBuilder {
    let policy: Policy = policy.parse().expect("a policy");
    TrainerBuilder::new().policy(policy).seed(9)
}

fn trainer(config: &GptConfig, builder: TrainerBuilder) -> Trainer<Gpt> {
    let optimizer = AdamWConfig::new().init();
    builder.train(gpt(config), optimizer).expect("it fits")
}

fn backward(trainer: &mut Trainer<Gpt>, batches: &[MicroBatch<Gpt>]) -> (BackwardReport, Bytes) {
    let report = trainer.backward(batches.to_vec()).expect("a backward");
    (report, trainer.gradients().expect("gradients"))
}

/// The values of the parameters that every rank holds whole.
fn whole_values(gpt: &Gpt) -> Bytes {
    let mut values = parameter_values(gpt);
    values.retain(|path, _| gpt.sharding(path) == Sharding::Whole);
    values
}

#[test]
fn several_ranks_give_the_gradients_of_plain_burn_up_to_rounding() {
    within(Duration::from_secs(200), || {
        for dropout in [0.0, 0.1] {
            let config = config(3, dropout);
            let batches = batches(&config, 5, 3);
            let plain = Plain::new(gpt(&config), AdamWConfig::new().init(), 9);
            let step = plain.backward(&batches);
            let expected = gradient_bytes(&plain.model, &step.gradients);
            for (ranks, stages, policy) in [
                (2, 1, "retain"),
                (2, 2, "recompute"),
                (2, 3, "selective:attention"),
                (4, 1, "uniform:2"),
                (4, 2, "retain"),
            ] {
                let what = format!("tp={ranks} p={stages} {policy} dropout={dropout}");
                let builder = builder(policy).stages(stages).ranks(ranks);
                let mut trainer = trainer(&config, builder);
                let (report, found) = backward(&mut trainer, &batches);
                assert_eq!(report.losses.len(), step.losses.len(), "{what}");
                for (a, b) in report.losses.iter().zip(&step.losses) {
                    assert!((a - b).abs() <= 1e-6 * b.abs(), "{what}: {a} {b}");
                }
                assert!(found.keys().eq(expected.keys()), "{what}");
                for (path, expected) in &expected {
                    assert_close(&format!("{what}: {path}"), &found[path], expected, 1e-5);
                }
            }
        }
    });
}

#[test]
fn what_ranks_recompute_and_when_changes_no_bit() {
    within(Duration::from_secs(250), || {
        let config = config(2, 0.1);
        let batches = batches(&config, 4, 4);
        for stages in [1, 2] {
            for kind in [Kind::OneFOneB, Kind::GPipe] {
                let shape = || builder("retain").ranks(2).stages(stages).schedule(kind);
                // Twice, so that a second step would see what a first one left behind.
                let mut plain = trainer(&config, shape());
                let expected = [(); 2].map(|()| backward(&mut plain, &batches));
                for policy in [
                    "recompute",
                    "uniform:1",
                    "uniform:2",
                    "every:2",
                    "selective:attention,mlp-out",
                    "selective:qkv,attention,projection,mlp-in",
                ] {
                    for overlap in [Overlap::Never, Overlap::Opportunistic] {
                        for link in [None, Some("20MB/s,300us")] {
                            let what = format!("p={stages} {kind} {policy} {overlap:?} {link:?}");
                            let builder = shape().policy(policy.parse().expect("a policy"));
                            let builder = builder.overlap(overlap);
                            let builder = match link.map(|link| link.parse().expect("a speed")) {
                                Some(link) => builder.collective_link(link).link(link),
                                None => builder,
                            };
                            let mut trainer = trainer(&config, builder);
                            for (report, expected) in &expected {
                                let (again, found) = backward(&mut trainer, &batches);
                                assert_eq!(again.losses, report.losses, "{what}");
                                assert_same_bytes(&what, &found, expected);
                                let left: u64 = again.stages.iter().map(|s| s.retained.0).sum();
                                assert_eq!(left, 0, "{what}");
                            }
                        }
                    }
                }
            }
        }
    });
}

/// Every window of a backward, planned, over many steps (case 10); what all ranks hold whole stays
/// the same on all of them.
#[test]
fn two_hundred_planned_steps_are_those_without_recompute() {
    within(Duration::from_secs(250), || {
        let config = config(2, 0.1);
        let batches = batches(&config, 2, 2);
        // embed | qkv attention projection mlp-in mlp-out | .. | head
        let allowed = vec![vec![
            Advance::Never,
            Advance::Beside(SegmentId(3)),
            Advance::Beside(SegmentId(3)),
            Advance::Beside(SegmentId(3)),
            Advance::Beside(SegmentId(5)),
            Advance::Beside(SegmentId(8)),
            Advance::Beside(SegmentId(8)),
            Advance::Beside(SegmentId(10)),
            Advance::Beside(SegmentId(8)),
            Advance::Beside(SegmentId(10)),
            Advance::Never,
            Advance::Never,
        ]];
        let mut plain = trainer(&config, builder("retain").ranks(2));
        let planned = builder("hand:KRRRRSRSRRKK")
            .ranks(2)
            .overlap(Overlap::Planned)
            .ahead(allowed)
            .collective_link("1GB/s,200us".parse().expect("a speed"));
        let mut planned = trainer(&config, planned);
        let (mut hidden, mut exposed) = (0, 0);
        for step in 0..200 {
            let one = plain.step(1e-3, batches.clone()).expect("a step");
            let other = planned.step(1e-3, batches.clone()).expect("a step");
            assert_eq!(one.backward.losses, other.backward.losses, "step {step}");
            hidden += other.backward.hidden().0;
            exposed += other.backward.exposed().0;
        }
        assert!(hidden > 0, "nothing was hidden, {exposed} ns exposed");
        let (one, other) = (plain.parameters(), planned.parameters());
        assert_same_bytes("planned", &other.expect("values"), &one.expect("values"));
        let modules = planned.modules().expect("modules");
        let [one, other] = [0, 1].map(|rank: usize| whole_values(&modules[rank]));
        assert_eq!(
            one.len(),
            1 + 2 * 6 + 2,
            "positions, norms, biases behind sums"
        );
        assert_eq!(one, other);
    });
}
