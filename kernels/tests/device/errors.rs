//! What makes no sense is refused, by name, and without a panic.

use lynx_kernels::{
    cube::{
        CubeError,
        attention::{AttentionBlueprint, AttentionOptions, attention, attention_backward},
        cross_entropy::{cross_entropy, cross_entropy_backward, cross_entropy_backward_in_place},
        cubecl::std::tensor::TensorHandle,
        dropout_add::{dropout_add, dropout_add_backward},
        gelu::{GeluKind, bias_gelu, bias_gelu_backward},
        layer_norm::{layer_norm, layer_norm_backward, layer_norm_recompute},
    },
    random::{DropoutMask, KeepProbability, StreamKey},
};

use crate::harness::{BF16, F16, F32, I32, client, dtypes, upload};

const KEY: StreamKey = StreamKey {
    seed: 0,
    step: 0,
    micro_batch: 0,
    segment: 0,
    site: 0,
};

/// The message of an error, which must name what is wrong with which operand.
fn message<T>(result: Result<T, CubeError>) -> String {
    match result {
        Ok(_) => panic!("accepted"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn shapes_that_do_not_fit_are_refused() {
    let Some(client) = client() else { return };
    let tensor = |shape: &[usize]| {
        let elements = shape.iter().product();
        upload(&client, F32, shape, &vec![0.0; elements])
    };
    let keep = KeepProbability::from_drop(0.1).expect("a probability");
    let x = tensor(&[2, 6]);
    let bad = tensor(&[5]);
    let good = tensor(&[6]);
    let rows = tensor(&[2]);
    let erf = GeluKind::Erf;
    let messages = [
        message(dropout_add(
            &client,
            &x,
            Some(&bad),
            None,
            DropoutMask::new(KEY, keep),
        )),
        message(dropout_add(
            &client,
            &x,
            None,
            Some(&bad),
            DropoutMask::new(KEY, keep),
        )),
        message(bias_gelu(&client, &x, Some(&bad), erf)),
        message(bias_gelu_backward(&client, &bad, &x, None, erf)),
        message(layer_norm(&client, &x, &bad, None, 1e-5)),
        message(layer_norm(&client, &x, &good, Some(&bad), 1e-5)),
        message(layer_norm_recompute(&client, &x, &good, None, &bad, &rows)),
        message(layer_norm_backward(&client, &x, &x, &good, &rows, &bad)),
    ];
    let expected = [
        "residual has shape [5] instead of [2, 6]",
        "bias has shape [5] instead of [6]",
        "bias has shape [5] instead of [6]",
        "gradient has shape [5] instead of [2, 6]",
        "gamma has shape [5] instead of [6]",
        "beta has shape [5] instead of [6]",
        "mean has shape [5] instead of [2]",
        "rstd has shape [5] instead of [2]",
    ];
    assert_eq!(messages, expected);

    let classes = upload(&client, I32, &[2], &[0.0; 2]);
    let few = upload(&client, I32, &[1], &[0.0]);
    let q = tensor(&[1, 2, 3, 4]);
    let k = tensor(&[1, 2, 4, 4]);
    let sums = tensor(&[1, 2, 4]);
    let options = AttentionOptions::default();
    let messages = [
        message(cross_entropy(&client, &good, &classes)),
        message(cross_entropy(&client, &x, &few)),
        message(cross_entropy_backward(&client, &x, &classes, &bad, &rows)),
        message(attention(&client, &x, &x, &x, options)),
        message(attention(&client, &q, &k, &q, options)),
        message(attention_backward(
            &client, &q, &q, &q, &q, &q, &sums, options,
        )),
    ];
    let expected = [
        "logits of shape [6] does not have 2 dimensions",
        "targets has shape [1] instead of [2]",
        "log_sum_exp has shape [5] instead of [2]",
        "query of shape [2, 6] does not have 4 dimensions",
        "key has shape [1, 2, 4, 4] instead of [1, 2, 3, 4]",
        "log_sum_exp has shape [1, 2, 4] instead of [1, 2, 3]",
    ];
    assert_eq!(messages, expected);
}

#[test]
fn elements_that_do_not_fit_are_refused() {
    let Some(client) = client() else { return };
    let x = upload(&client, F32, &[2, 4], &[0.0; 8]);
    let integers = upload(&client, I32, &[2, 4], &[0.0; 8]);
    let refused = bias_gelu(&client, &integers, None, GeluKind::Erf);
    assert!(
        matches!(refused, Err(CubeError::DType { operand: "input", found, .. }) if found == I32)
    );
    let refused = cross_entropy(&client, &x, &upload(&client, F32, &[2], &[0.0; 2]));
    assert!(
        matches!(refused, Err(CubeError::DType { operand: "targets", found, .. }) if found == F32)
    );
    for dtype in [F16, BF16] {
        let half = upload(&client, dtype, &[2, 4], &[0.0; 8]);
        let keep = KeepProbability::from_drop(0.1).expect("a probability");
        let mixed = dropout_add(&client, &x, Some(&half), None, DropoutMask::new(KEY, keep));
        assert!(matches!(
            mixed,
            Err(CubeError::DType {
                operand: "residual",
                ..
            })
        ));
        let alone = dropout_add_backward(&client, &half, true, DropoutMask::new(KEY, keep));
        if dtypes(&client).contains(&dtype) {
            assert!(alone.is_ok(), "{dtype}");
        } else {
            assert!(
                matches!(alone, Err(CubeError::Unsupported { .. })),
                "{dtype}"
            );
        }
    }
}

#[test]
fn empty_operands_and_senseless_numbers_are_refused() {
    let Some(client) = client() else { return };
    let x = upload(&client, F32, &[2, 4], &[0.0; 8]);
    let row = upload(&client, F32, &[4], &[0.0; 4]);
    let none = TensorHandle::new_contiguous([0, 4], x.handle.clone(), F32);
    let refused = bias_gelu(&client, &none, None, GeluKind::Tanh);
    assert!(matches!(
        refused,
        Err(CubeError::Empty {
            operand: "input",
            ..
        })
    ));
    for epsilon in [-1.0, f32::NAN, f32::INFINITY] {
        let refused = layer_norm(&client, &x, &row, None, epsilon);
        assert!(
            matches!(
                refused,
                Err(CubeError::Value {
                    what: "epsilon",
                    ..
                })
            ),
            "{epsilon}"
        );
    }
    let q = upload(&client, F32, &[1, 1, 2, 4], &[0.0; 8]);
    let with = |scale, blueprint| AttentionOptions {
        scale,
        blueprint,
        ..AttentionOptions::default()
    };
    let refused = attention(&client, &q, &q, &q, with(Some(f32::NAN), None));
    assert!(matches!(
        refused,
        Err(CubeError::Value { what: "scale", .. })
    ));
    for (tile, micro) in [(8, 3), (0, 1), (8, 0)] {
        let odd = with(None, Some(AttentionBlueprint { tile, micro }));
        let refused = attention(&client, &q, &q, &q, odd);
        assert!(
            matches!(refused, Err(CubeError::Value { .. })),
            "{tile} {micro}"
        );
    }
}

#[test]
fn what_exceeds_the_device_is_refused_with_its_limit() {
    let Some(client) = client() else { return };
    let width = 1 << 20;
    let row = upload(&client, F32, &[width], &vec![0.0; width]);
    let refused = layer_norm(&client, &row, &row, None, 1e-5);
    let Err(CubeError::TooLarge { found, limit, .. }) = refused else {
        panic!("a row of {width} was not refused: {refused:?}");
    };
    assert!(
        found == width && (1 << 14..width).contains(&limit),
        "{limit}"
    );

    let head_dim = 1 << 16;
    let q = upload(&client, F32, &[1, 1, 1, head_dim], &vec![0.0; head_dim]);
    let refused = attention(&client, &q, &q, &q, AttentionOptions::default());
    let Err(CubeError::TooLarge { found, limit, .. }) = refused else {
        panic!("a head of {head_dim} was not refused");
    };
    assert_eq!(found, head_dim);
    assert!(AttentionBlueprint::TINY.check(&client, limit).is_ok());
    assert!(AttentionBlueprint::TINY.check(&client, limit + 1).is_err());
}

#[test]
fn strides_are_followed_copied_or_refused() {
    let Some(client) = client() else { return };
    let x = upload(&client, F32, &[3, 2], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let turned = TensorHandle::new(x.handle.clone(), [2, 3], [1, 2].as_slice(), F32);
    let straight = upload(&client, F32, &[2, 3], &[1.0, 3.0, 5.0, 2.0, 4.0, 6.0]);
    let [a, b] = [&turned, &straight].map(|x| {
        let made = bias_gelu(&client, x, None, GeluKind::Erf).expect("valid");
        crate::harness::bytes(&client, &made)
    });
    assert_eq!(a, b);

    let classes = upload(&client, I32, &[2], &[0.0; 2]);
    let made = cross_entropy(&client, &turned, &classes).expect("copied");
    let refused =
        cross_entropy_backward_in_place(&client, turned, &classes, &made.log_sum_exp, &made.loss);
    assert!(matches!(
        refused,
        Err(CubeError::Strides {
            operand: "logits",
            ..
        })
    ));

    let q = TensorHandle::new(x.handle.clone(), [1, 1, 2, 3], [6, 6, 1, 2].as_slice(), F32);
    let refused = attention(&client, &q, &q, &q, AttentionOptions::default());
    assert!(matches!(
        refused,
        Err(CubeError::Strides {
            operand: "query",
            ..
        })
    ));
}
