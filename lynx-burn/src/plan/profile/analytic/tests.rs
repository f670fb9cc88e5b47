//! Parameters, collectives and refusals.

use proptest::prelude::*;

use super::*;
use crate::plan::cluster::Cluster;

pub(super) fn device() -> Device {
    let cluster: Cluster = "a100-80-nvlink".parse().unwrap();
    cluster.device
}

/// `a`, `h`, `s` and `b` of models in public papers and of a toy.
pub(super) const SHAPES: [[u64; 4]; 5] = [
    [2, 8, 4, 3],
    [16, 2048, 1024, 8],
    [64, 6144, 2048, 4],
    [96, 12_288, 2048, 1],
    [128, 20_480, 2048, 1],
];

pub(super) fn gpt([heads, hidden, sequence, micro_batch]: [u64; 4], tensor_parallel: u64) -> Gpt {
    let size = GptSize {
        heads,
        hidden,
        ..GptSize::from_toy()
    };
    Gpt {
        sequence,
        micro_batch,
        tensor_parallel,
        ..Gpt::new(size)
    }
}

impl GptSize {
    fn from_toy() -> Self {
        Self {
            name: "toy".to_owned(),
            layers: 3,
            hidden: 8,
            heads: 2,
            vocabulary: 1024,
            tied: true,
            learned_positions: true,
            context: 2048,
        }
    }
}

pub(super) fn layer(gpt: &Gpt) -> LayerKind {
    gpt.profile(&device()).unwrap().kinds[0].clone()
}

#[test]
fn named_models_have_the_parameters_that_their_names_say() {
    let mut said = 0;
    for name in GptSize::NAMES {
        let size: GptSize = name.parse().unwrap();
        let Ok(billions) = name.trim_end_matches('b').parse::<f64>() else {
            continue;
        };
        let parameters = size.parameters(2048) as f64 / 1e9;
        assert!(
            (parameters / billions - 1.0).abs() < 0.06,
            "{name}: {parameters}"
        );
        said += 1;
    }
    assert_eq!(said, 6);
}

/// Counted in the files of weights that were published under these names.
#[test]
fn gpt_2s_four_sizes_have_the_published_parameters() {
    for (name, parameters) in [
        ("gpt2", 124_439_808),
        ("gpt2-medium", 354_823_168),
        ("gpt2-large", 774_030_080),
        ("gpt2-xl", 1_557_611_200),
    ] {
        let size: GptSize = name.parse().unwrap();
        assert_eq!(size.parameters(size.context), parameters, "{name}");
    }
}

#[test]
fn the_segments_weights_are_the_models_parameters() {
    for name in GptSize::NAMES {
        let gpt = Gpt::new(name.parse().unwrap());
        let count = gpt.size.parameters(gpt.sequence);
        let weights = gpt.profile(&device()).unwrap().weights();
        assert_eq!(weights.parameters.0, 2 * count, "{name}");
        // Mixed-precision Adam: 16 bytes a parameter.
        assert_eq!(weights.total().0, 16 * count, "{name}");
    }
}

#[test]
fn ranks_share_the_weights_of_products_and_repeat_the_rest() {
    let mut gpt = Gpt::new("7b".parse().unwrap());
    let (h, v) = (gpt.size.hidden, gpt.size.vocabulary);
    gpt.tensor_parallel = 8;
    let profile = gpt.profile(&device()).unwrap();
    // Two norms of 2h and the biases behind the collectives are whole on every rank.
    let layer = 12 * h * h / 8 + 7 * h / 8 + 6 * h;
    assert_eq!(profile.kinds[0].weights().parameters.0, 2 * layer);
    let head = v * h / 8 + 2 * h;
    assert_eq!(profile.head[0].weights.parameters.0, 2 * head);
    assert_eq!(profile.tied.parameters.0, 2 * v * h / 8);
}

#[test]
fn one_rank_needs_no_collective_and_more_need_four_a_layer() {
    let count = |gpt: &Gpt, kind: CollectiveKind| {
        let layer = layer(gpt);
        let all = layer
            .segments
            .iter()
            .flat_map(|s| s.after_forward.iter().chain(&s.after_backward));
        all.filter(|one| one.kind == kind).count()
    };
    let mut gpt = gpt(SHAPES[2], 1);
    assert_eq!(count(&gpt, CollectiveKind::AllReduce), 0);
    gpt.tensor_parallel = 4;
    assert_eq!(count(&gpt, CollectiveKind::AllReduce), 4);
    gpt.sequence_parallel = true;
    assert_eq!(count(&gpt, CollectiveKind::AllReduce), 0);
    assert_eq!(count(&gpt, CollectiveKind::ReduceScatter), 4);
    assert_eq!(count(&gpt, CollectiveKind::AllGather), 4);
}

#[test]
fn an_unknown_model_is_answered_with_the_known_ones() {
    let error = "22b".parse::<GptSize>().unwrap_err().to_string();
    for name in GptSize::NAMES {
        assert!(error.contains(name), "{error}");
    }
}

#[test]
fn a_setup_that_cannot_be_is_refused_with_the_figure_at_fault() {
    type Spoil = fn(&mut Gpt);
    let cases: [(&str, Spoil); 7] = [
        ("layers is 0", |g| g.size.layers = 0),
        ("hidden is 8193", |g| g.size.hidden = 8193),
        ("heads is 64, which tensor_parallel = 3", |g| {
            g.tensor_parallel = 3
        }),
        ("sequence is 2047, which tensor_parallel = 2", |g| {
            g.sequence = 2047;
            g.tensor_parallel = 2;
            g.sequence_parallel = true;
        }),
        ("micro_batch is 1048577", |g| g.micro_batch = (1 << 20) + 1),
        ("state.optimizer is 4096", |g| g.state.optimizer = 4096),
        ("costs too much: kinds[0].segments[1].forward_ns", |g| {
            g.sequence = 1 << 22
        }),
    ];
    for (said, spoil) in cases {
        let mut gpt = gpt(SHAPES[2], 1);
        spoil(&mut gpt);
        let error = gpt.profile(&device()).unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
    }
}

proptest! {
    #[test]
    fn no_setup_makes_the_formulas_panic_and_what_they_give_is_valid(
        figures in prop::array::uniform8(prop_oneof![0_u64..70, any::<u64>(), Just(1 << 20)]),
        flags in any::<[bool; 5]>(),
        wide in any::<bool>(),
    ) {
        let [layers, hidden, heads, vocabulary, sequence, micro_batch, t, state] = figures;
        let [tied, learned_positions, sequence_parallel, stored_masks, flash] = flags;
        let size = GptSize {
            name: "any".to_owned(), layers, hidden, heads, vocabulary, tied, learned_positions,
            context: sequence,
        };
        let gpt = Gpt {
            size,
            sequence,
            micro_batch,
            tensor_parallel: t,
            sequence_parallel,
            precision: if wide { Precision::F32 } else { Precision::F16 },
            attention: if flash { Attention::Flash } else { Attention::Stored },
            stored_masks,
            state: StatePerParameter { gradient: state, optimizer: state },
        };
        let _ = gpt.size.parameters(sequence);
        if let Ok(profile) = gpt.profile(&device()) {
            prop_assert_eq!(profile.validate(), Ok(()));
        }
    }
}
