//! Random chains, splits, policies and schedules against plain Burn.

use std::collections::BTreeMap;
use std::time::Duration;

use burn::optim::SgdConfig;
use burn::prelude::*;
use lynx_burn::plan::policy::{Choice, Policy};
use lynx_burn::plan::schedule::Kind;
use lynx_burn::{Split, TrainerBuilder};
use lynx_tests::chains::{NetSpec, Step};
use lynx_tests::oracle::{Plain, assert_same_bytes, gradient_bytes};
use lynx_tests::watchdog::within;
use proptest::prelude::*;
use proptest::sample::subsequence;

/// A chain, where it is cut, what is recomputed, and micro-batches.
#[derive(Clone, Debug)]
struct Case {
    spec: NetSpec,
    starts: Vec<usize>,
    choices: Vec<Vec<Choice>>,
    sizes: Vec<usize>,
    kind: Kind,
    capacity: usize,
    seed: u64,
}

fn step() -> impl Strategy<Value = Step> {
    use Step::{Close, Dense, Drop, Gate, Mask, Norm, Open, Shared, Tanh};
    proptest::sample::select(vec![
        Dense, Tanh, Shared, Norm, Open, Close, Drop, Mask, Gate,
    ])
}

fn case() -> impl Strategy<Value = Case> {
    (1usize..10, 1usize..4)
        .prop_flat_map(|(segments, per_layer)| {
            (
                proptest::collection::vec(step(), segments),
                Just(per_layer),
                subsequence((0..segments).collect::<Vec<_>>(), 0..=segments / 2),
                subsequence((1..segments).collect::<Vec<_>>(), 0..segments.min(4)),
                proptest::collection::vec(any::<bool>(), segments),
                proptest::collection::vec(1usize..5, 1..6),
                any::<(bool, u64)>(),
                0usize..3,
            )
        })
        .prop_map(
            |(steps, per_layer, frozen, cuts, recompute, sizes, (gpipe, seed), capacity)| {
                let segments = steps.len();
                let mut spec = NetSpec::new(steps);
                spec.per_layer = per_layer;
                spec.frozen = frozen;
                let starts: Vec<usize> = std::iter::once(0).chain(cuts).collect();
                let ends = starts.iter().skip(1).copied().chain([segments]);
                let choices = starts
                    .iter()
                    .zip(ends)
                    .map(|(&start, end)| {
                        recompute[start..end]
                            .iter()
                            .map(|&yes| {
                                if yes {
                                    Choice::Recompute
                                } else {
                                    Choice::Retain
                                }
                            })
                            .collect()
                    })
                    .collect();
                Case {
                    spec,
                    starts,
                    choices,
                    sizes,
                    kind: if gpipe { Kind::GPipe } else { Kind::OneFOneB },
                    capacity,
                    seed,
                }
            },
        )
}

/// Whether the shared layer's contributions are added in another order than plain Burn adds them:
/// across stages by nature, and for three or more uses because Burn adds those of a bias in the
/// order in which it happens to walk the graph.
fn shared_in_another_order(case: &Case) -> bool {
    let stage_of = |segment: usize| {
        case.starts
            .iter()
            .filter(|&&start| start <= segment)
            .count()
    };
    let uses: Vec<usize> = (0..case.spec.steps.len())
        .filter(|&segment| case.spec.steps[segment] == Step::Shared)
        .map(stage_of)
        .collect();
    uses.len() > 2 || uses.windows(2).any(|pair| pair[0] != pair[1])
}

fn check(case: &Case) {
    let device = Device::flex().autodiff();
    let model = case.spec.init(&device);
    let batches: Vec<_> = case
        .sizes
        .iter()
        .map(|&samples| case.spec.batch(samples, &device))
        .collect();
    let trainer = TrainerBuilder::new()
        .split(Split::Starts(case.starts.clone()))
        .policy(Policy::ByHand(case.choices.clone()))
        .schedule(case.kind)
        .mailbox_capacity(case.capacity)
        .seed(case.seed)
        .train(model.clone(), SgdConfig::new().init());
    let mut trainer = match trainer {
        Ok(trainer) => trainer,
        Err(lynx_burn::BuildError::NothingTrainable) => return,
        Err(other) => panic!("{other}"),
    };
    let plain = Plain::new(model, SgdConfig::new().init(), case.seed);
    let expected = plain.backward(&batches);
    let report = trainer.backward(batches).expect("a backward");
    assert_eq!(report.losses, expected.losses);
    let found = trainer.gradients().expect("gradients");
    let expected = gradient_bytes(&plain.model, &expected.gradients);
    let shared = |path: &String| path.starts_with("shared") && shared_in_another_order(case);
    let (found_shared, found) = found.into_iter().partition(|(path, _)| shared(path));
    let (expected_shared, expected) = expected.into_iter().partition(|(path, _)| shared(path));
    assert_same_bytes("gradients", &found, &expected);
    assert_close(&found_shared, &expected_shared);
}

fn assert_close(found: &BTreeMap<String, TensorData>, expected: &BTreeMap<String, TensorData>) {
    assert_eq!(found.len(), expected.len());
    for (path, expected) in expected {
        let largest = expected.iter::<f64>().fold(0.0, |max, v| v.abs().max(max));
        for (a, b) in found[path].iter::<f64>().zip(expected.iter::<f64>()) {
            assert!(
                (a - b).abs() <= 1e-5 * largest,
                "{path}: {a} instead of {b}"
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: ProptestConfig::default().cases.max(400),
        max_shrink_iters: 2000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn any_chain_cut_anywhere_recomputing_anything_has_plain_burns_gradients(case in case()) {
        within(Duration::from_secs(60), move || check(&case));
    }
}
