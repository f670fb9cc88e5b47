//! What is refused when a trainer is made.

use burn::optim::SgdConfig;
use burn::prelude::*;
use gpt_example::config::GptConfig;
use gpt_example::model::Gpt;
use lynx_burn::{BuildError, ShardingError, TrainerBuilder};
use lynx_tests::chains::{NetSpec, Step};
use lynx_tests::shares::SharesSpec;

use super::{device, stage_threads};

fn refused(builder: TrainerBuilder) -> BuildError {
    let model = SharesSpec::new(2).init(&device());
    let made = builder.train(model, SgdConfig::new().init());
    made.map(drop).expect_err("refused")
}

#[test]
fn heads_that_the_ranks_do_not_divide_are_named_by_their_parameter() {
    super::alone(|| {
        // All else is a multiple of three: 48 wide, 258 in the vocabulary.
        let config = GptConfig {
            layers: 1,
            d_model: 48,
            heads: 4,
            context: 8,
            vocabulary: 258,
            dropout: 0.0,
            ..GptConfig::NANO
        };
        let gpt = Gpt::new(&config, 1, &device()).expect("a valid configuration");
        let made = TrainerBuilder::new()
            .ranks(3)
            .train(gpt, SgdConfig::new().init());
        let error = made.map(drop).expect_err("four heads for three ranks");
        let BuildError::Sharding(ShardingError::Uneven {
            path,
            size,
            blocks,
            grain,
            ranks,
            ..
        }) = &error
        else {
            panic!("{error}");
        };
        assert!(path.ends_with("qkv.weight"), "{path}");
        assert_eq!((*size, *blocks, *grain, *ranks), (3 * 48, 3, 12, 3));
        let text = error.to_string();
        assert!(
            text.contains(path.as_str()) && text.contains("3 ranks"),
            "{text}"
        );
        assert_eq!(stage_threads(), 0);
    });
}

#[test]
fn a_width_that_the_ranks_do_not_divide_is_refused_with_its_path() {
    super::alone(|| {
        let error = refused(TrainerBuilder::new().ranks(3));
        let BuildError::Sharding(found) = error else {
            panic!("{error}");
        };
        let expected = ShardingError::Uneven {
            path: "products.0.weight".to_owned(),
            dim: 1,
            size: 16,
            blocks: 1,
            grain: 1,
            ranks: 3,
        };
        assert_eq!(found, expected);
    });
}

#[test]
fn ranks_cannot_share_a_chain_that_slices_nothing() {
    super::alone(|| {
        let net = NetSpec::new([Step::Dense, Step::Norm, Step::Dense]).init(&device());
        let made = TrainerBuilder::new()
            .ranks(2)
            .train(net, SgdConfig::new().init());
        let error = made.map(drop).expect_err("every rank would do all of it");
        let nothing = ShardingError::NothingSplit { ranks: 2 };
        assert!(
            matches!(&error, BuildError::Sharding(found) if *found == nothing),
            "{error}"
        );
        assert_eq!(stage_threads(), 0);
    });
}

#[test]
fn a_stage_without_ranks_is_refused() {
    super::alone(|| {
        for stages in [1, 2] {
            let error = refused(TrainerBuilder::new().stages(stages).ranks(0));
            assert!(matches!(error, BuildError::NoRanks), "{error}");
        }
    });
}

#[test]
fn devices_are_one_or_one_for_each_stage_or_one_for_each_rank() {
    super::alone(|| {
        let with = |count: usize| {
            let devices = (0..count).map(|_| Device::flex());
            let builder = TrainerBuilder::new().stages(2).ranks(2);
            builder.devices(devices.collect::<Vec<_>>())
        };
        for count in [0, 1, 2, 4] {
            let model = SharesSpec::new(2).init(&device());
            let made = with(count).train(model, SgdConfig::new().init());
            made.map(drop).expect("it fits");
        }
        for count in [3, 5, 8] {
            let error = refused(with(count));
            let BuildError::Devices {
                devices,
                stages,
                ranks,
                replicas: 1,
            } = error
            else {
                panic!("{error}");
            };
            assert_eq!((devices, stages, ranks), (count, 2, 2));
        }
        assert_eq!(stage_threads(), 0);
    });
}
