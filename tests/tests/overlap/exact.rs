//! Losses, gradients and parameters are plain Burn's.

use burn::optim::AdamWConfig;
use lynx_burn::ids::SegmentId;
use lynx_burn::plan::advance::Advance;
use lynx_burn::plan::layout::ChainLayout;
use lynx_burn::plan::policy::{Choice, Policy};
use lynx_burn::plan::schedule::Kind;
use lynx_burn::units::{Bytes, Nanos};
use lynx_burn::{Chain, Overlap, TrainerBuilder};
use lynx_tests::oracle::{Plain, assert_same_bytes, gradient_bytes, parameter_values};
use lynx_tests::overlap::{Dice, batches, even, mixed, per_segment};

use super::{alone, device};

/// Cases 9, 10, 11 and 17, in one: whatever the link, the mailboxes and what is recomputed when.
#[test]
fn losses_and_gradients_are_plain_burns_whatever_is_recomputed_in_whichever_wait() {
    alone(|| {
        let spec = mixed();
        let model = spec.init(&device());
        let mut dice = Dice(5);
        let mut hidden = Nanos(0);
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
                        // Of every segment, how often it is recomputed, and how often computed.
                        let again: Vec<(SegmentId, u64)> = partition
                            .ranges()
                            .zip(&stages)
                            .flat_map(|(range, policy)| range.map(|s| (s, policy.choice(s))))
                            .map(|(segment, choice)| match choice {
                                Some(Choice::Recompute) => (SegmentId(segment), m as u64),
                                _ => (SegmentId(segment), 0),
                            })
                            .collect();
                        assert_eq!(again.len(), spec.steps.len(), "{what}");
                        let calls: Vec<u64> = again.iter().map(|(_, n)| m as u64 + n).collect();
                        let mut trainer = builder
                            .train(model.clone(), AdamWConfig::new().init())
                            .expect("it fits");
                        for (step, (losses, gradients)) in steps.iter().zip(&expected) {
                            model.calls.take();
                            let report = trainer.backward(step.clone()).expect("a backward");
                            assert_eq!(&report.losses, losses, "{what}");
                            let found = trainer.gradients().expect("gradients");
                            assert_same_bytes(&what, &found, gradients);
                            let told = report.stages.iter().flat_map(|stage| &stage.recomputed);
                            assert!(told.eq(&again), "{what}");
                            assert_eq!(model.calls.take(), calls, "{what}");
                            let time = report.hidden();
                            if overlap == Overlap::Never || p == 1 {
                                assert_eq!(time, Nanos(0), "{what}");
                            }
                            hidden = hidden.saturating_add(time);
                            trainer.update(0.01).expect("an update");
                        }
                        let found = trainer.parameters().expect("parameters");
                        assert_same_bytes(&what, &found, &last);
                    }
                }
            }
        }
        assert!(hidden > Nanos(0), "no wait was used");
    });
}

/// Case 10: a tensor freed or changed too early shows in the long run.
#[test]
fn two_hundred_overlapped_steps_end_where_plain_burn_does() {
    alone(|| {
        let spec = mixed();
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
