use std::collections::BTreeMap;

use burn::module::{ModuleVisitor, Param};
use lynx_burn::Mode;
use lynx_burn::ids::{MicroBatchId, SegmentId};
use lynx_burn::plan::layout::ChainLayout;

use super::*;
use crate::GptConfig;

const LAYERS: usize = 2;

fn config() -> GptConfig {
    GptConfig {
        layers: LAYERS,
        d_model: 8,
        heads: 2,
        context: 6,
        vocabulary: 11,
        dropout: 0.1,
        ..GptConfig::NANO
    }
}

fn gpt() -> Gpt {
    Gpt::new(&config(), 3, &Device::default()).expect("valid")
}

/// The values of all parameters, by path.
fn values(gpt: &Gpt) -> BTreeMap<String, Vec<f32>> {
    #[derive(Default)]
    struct Values {
        path: Vec<String>,
        found: BTreeMap<String, Vec<f32>>,
    }
    impl ModuleVisitor for Values {
        fn enter_module(&mut self, name: &str, _container: &str) {
            self.path.push(name.to_owned());
        }
        fn exit_module(&mut self, _name: &str, _container: &str) {
            self.path.pop();
        }
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            let values = param.val().into_data().iter().collect();
            self.found.insert(self.path.join("."), values);
        }
    }
    let mut visitor = Values::default();
    gpt.visit(&mut visitor);
    visitor.found
}

#[test]
fn the_segments_form_a_chain_of_the_models_layers() {
    let layout = ChainLayout::new(gpt().segments()).expect("sound");
    assert_eq!(layout.layers(), LAYERS);
    assert_eq!(layout.len(), 2 + 5 * LAYERS);
}

#[test]
fn each_segment_keeps_what_it_uses_and_nothing_else() {
    let both = |name: &str| [format!("{name}.weight"), format!("{name}.bias")];
    let norm = |name: &str| [format!("{name}.gamma"), format!("{name}.beta")];
    let mut expected: Vec<Vec<String>> = vec![vec![
        "token_embedding.weight".to_owned(),
        "position_embedding.weight".to_owned(),
    ]];
    for layer in 0..LAYERS {
        let name = |part: &str| format!("layers.{layer}.{part}");
        expected.extend([
            [norm(&name("attention_norm")), both(&name("qkv"))].concat(),
            vec![],
            both(&name("projection")).to_vec(),
            [norm(&name("mlp_norm")), both(&name("expand"))].concat(),
            both(&name("contract")).to_vec(),
        ]);
    }
    let mut head = norm("final_norm").to_vec();
    head.push("token_embedding.weight".to_owned());
    expected.push(head);
    for (segment, mut expected) in expected.into_iter().enumerate() {
        let kept = gpt().keep(segment..segment + 1);
        expected.sort();
        assert_eq!(
            values(&kept).into_keys().collect::<Vec<_>>(),
            expected,
            "segment {segment}"
        );
        assert_eq!(kept.segments(), gpt().segments());
    }
}

#[test]
fn a_parameter_has_the_same_values_whichever_stage_makes_it() {
    let whole = values(&gpt());
    let segments = gpt().segments().len();
    for cut in 1..segments {
        for range in [0..cut, cut..segments] {
            for (path, part) in values(&gpt().keep(range)) {
                assert_eq!(part, whole[&path], "{path}, cut at {cut}");
            }
        }
    }
}

#[test]
fn initial_values_differ_between_parameters_and_have_gpt_2s_spread() {
    let config = GptConfig {
        d_model: 64,
        ..config()
    };
    let gpt = Gpt::new(&config, 3, &Device::default()).expect("valid");
    let values = values(&gpt);
    let weights = values.iter().filter(|(path, _)| path.ends_with(".weight"));
    let mut firsts: Vec<u32> = weights.clone().map(|(_, v)| v[0].to_bits()).collect();
    firsts.sort_unstable();
    let all = firsts.len();
    firsts.dedup();
    assert_eq!(firsts.len(), all);
    for (path, weight) in weights {
        let squares: f64 = weight.iter().map(|&w| f64::from(w).powi(2)).sum();
        let deviation = (squares / weight.len() as f64).sqrt();
        let residual = path.contains("projection") || path.contains("contract");
        let wanted = if residual { 0.01 } else { 0.02 };
        // The smallest has 384 elements: four standard errors are 15 %.
        assert!(
            (deviation / wanted - 1.0).abs() < 0.15,
            "{path}: {deviation}"
        );
    }
}

#[test]
fn the_count_of_parameters_is_the_modules() {
    assert_eq!(gpt().num_params(), config().parameters());
}

fn logits(gpt: &Gpt, tokens: [[i32; 6]; 1]) -> Vec<f32> {
    let logits = scores(gpt, tokens);
    assert_eq!(logits.dims(), [1, 6, 11]);
    logits.into_data().iter().collect()
}

fn scores(gpt: &Gpt, tokens: [[i32; 6]; 1]) -> Tensor<3> {
    let tokens = Tensor::from_data(tokens, &Device::default());
    let mut boundary = Activations::Tokens(tokens);
    for segment in 0..gpt.segments().len() {
        let (batch, id) = (MicroBatchId(0), SegmentId(segment));
        let context = Context::new(Mode::Evaluation, 0, 0, batch, id);
        boundary = gpt.forward_segment(segment, boundary, &context);
    }
    let Activations::Logits(logits) = boundary else {
        panic!("{boundary:?}");
    };
    logits
}

#[test]
fn a_prediction_depends_on_earlier_tokens_only() {
    let gpt = gpt();
    let one = logits(&gpt, [[1, 2, 3, 4, 5, 6]]);
    let other = logits(&gpt, [[1, 2, 3, 9, 5, 6]]);
    assert_eq!(one[..3 * 11], other[..3 * 11]);
    for position in 3..6 {
        let row = position * 11..(position + 1) * 11;
        assert_ne!(one[row.clone()], other[row], "position {position}");
    }
}

#[test]
fn rows_that_are_no_tokens_leave_all_other_scores_and_the_loss_as_they_are() {
    let padded = GptConfig {
        vocabulary: 16,
        padding: 5,
        ..config()
    };
    let padded = Gpt::new(&padded, 3, &Device::default()).expect("valid");
    let both = [gpt(), padded].map(|gpt| {
        // The same values in all rows that are tokens: a row's are drawn after those before it.
        let scores = scores(&gpt, [[1, 2, 3, 4, 5, 6]]);
        let targets = Tensor::from_data([[2, 3, 4, 5, 6, 7]], &Device::default());
        let context = Context::new(Mode::Evaluation, 0, 0, MicroBatchId(0), SegmentId(12));
        let loss = gpt.loss(Activations::Logits(scores.clone()), targets, &context);
        (scores, loss.into_scalar::<f32>())
    });
    let [(plain, loss), (padded, padded_loss)] = both;
    let tokens = padded.clone().slice_dim(2, 0..11).into_data();
    assert_eq!(plain.into_data().as_bytes(), tokens.as_bytes());
    assert_eq!(loss, padded_loss);
    let never = padded.slice_dim(2, 11..16).max().into_scalar::<f32>();
    assert!(never < -1e8, "{never}");
}

#[test]
fn an_untrained_model_finds_all_tokens_about_equally_likely() {
    let gpt = gpt();
    let output = Tensor::<1>::from_floats(
        logits(&gpt, [[1, 2, 3, 4, 5, 6]]).as_slice(),
        &Device::default(),
    );
    let target = Tensor::from_data([[2, 3, 4, 5, 6, 7]], &Device::default());
    let loss: f32 = gpt
        .loss(
            Activations::Logits(output.reshape([1, 6, 11])),
            target,
            &Context::new(Mode::Evaluation, 0, 0, MicroBatchId(0), SegmentId(12)),
        )
        .into_scalar();
    assert!((loss - 11f32.ln()).abs() < 0.05, "{loss}");
}
