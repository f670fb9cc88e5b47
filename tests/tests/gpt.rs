//! The example's GPT is a chain like any other: exact, and lighter when recomputed.

use std::time::Duration;

use burn::optim::AdamWConfig;
use gpt_example::config::Modules;
use gpt_example::model::Gpt;
use lynx_burn::TrainerBuilder;
use lynx_burn::memory::TrackingAllocator;
use lynx_burn::plan::policy::Policy;
use lynx_burn::plan::schedule::Kind;
use lynx_tests::gpts::{batches, config, gpt};
use lynx_tests::oracle::{Plain, assert_close, assert_same_bytes, gradient_bytes};
use lynx_tests::watchdog::within;

#[global_allocator]
static ALLOCATOR: TrackingAllocator = TrackingAllocator::new();

#[test]
fn its_gradients_are_plain_burns_whatever_is_recomputed() {
    within(Duration::from_secs(200), || {
        for dropout in [0.0, 0.1] {
            let config = config(3, dropout);
            let batches = batches(&config, 5, 3);
            let plain = Plain::new(gpt(&config), AdamWConfig::new().init(), 9);
            let step = plain.backward(&batches);
            let expected = gradient_bytes(&plain.model, &step.gradients);
            for text in [
                "retain",
                "recompute",
                "uniform:3",
                "every:2",
                "selective:attention,mlp-out",
            ] {
                for (stages, kind) in [(1, Kind::OneFOneB), (2, Kind::OneFOneB), (3, Kind::GPipe)] {
                    let what = format!("{text} p={stages} dropout={dropout}");
                    let mut trainer = TrainerBuilder::new()
                        .stages(stages)
                        .schedule(kind)
                        .policy(text.parse::<Policy>().expect("a policy"))
                        .seed(9)
                        .train(gpt(&config), AdamWConfig::new().init())
                        .expect("it fits");
                    let report = trainer.backward(batches.clone()).expect("a backward");
                    assert_eq!(report.losses, step.losses, "{what}");
                    let mut found = trainer.gradients().expect("gradients");
                    let mut expected = expected.clone();
                    if stages > 1 {
                        // Tied across stages: added in another order by nature.
                        let name = "token_embedding.weight";
                        assert_eq!(trainer.tied_parameters().collect::<Vec<_>>(), [name]);
                        assert_close(&what, &found[name], &expected[name], 1e-6);
                        found.remove(name);
                        expected.remove(name);
                    }
                    assert_same_bytes(&what, &found, &expected);
                }
            }
        }
    });
}

/// Case 2: whatever set of segments a planner might choose, random ones among them.
#[test]
fn every_choice_of_segments_gives_the_same_gradients() {
    within(Duration::from_secs(200), || {
        let config = config(1, 0.2);
        let batches = batches(&config, 2, 2);
        let plain = Plain::new(gpt(&config), AdamWConfig::new().init(), 9);
        let expected = gradient_bytes(&plain.model, &plain.backward(&batches).gradients);
        let segments = Gpt::segments_of(1).len();
        for choice in 0..1u32 << segments {
            let letters: String = (0..segments)
                .map(|segment| if choice >> segment & 1 == 1 { 'R' } else { 'K' })
                .collect();
            let mut trainer = TrainerBuilder::new()
                .policy(
                    format!("hand:{letters}")
                        .parse::<Policy>()
                        .expect("a policy"),
                )
                .seed(9)
                .train(gpt(&config), AdamWConfig::new().init())
                .expect("it fits");
            trainer.backward(batches.clone()).expect("a backward");
            assert_same_bytes(
                &letters,
                &trainer.gradients().expect("gradients"),
                &expected,
            );
        }
    });
}

#[test]
fn recomputing_twelve_layers_keeps_at_most_a_sixth_of_the_bytes() {
    within(Duration::from_secs(200), || {
        let mut config = config(12, 0.1);
        config.d_model = 64;
        config.context = 64;
        // Fused modules retain less to begin with.
        let peak = |text: &str| {
            let batches = batches(&config, 4, 2);
            let mut trainer = TrainerBuilder::new()
                .policy(text.parse::<Policy>().expect("a policy"))
                .train(
                    gpt(&config).with_modules(Modules::Burn),
                    AdamWConfig::new().init(),
                )
                .expect("it fits");
            trainer.step(1e-3, batches.clone()).expect("a step");
            let report = trainer.step(1e-3, batches).expect("a step");
            assert!(report.backward.stages[0].tapes_measured);
            report.backward.retained_peak().0
        };
        let (all, none) = (peak("retain"), peak("recompute"));
        assert!(6 * none <= all, "{none} of {all}");
    });
}
