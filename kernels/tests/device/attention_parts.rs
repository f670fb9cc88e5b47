//! Attention on parts of larger tensors: views of one projection, and some heads of many.

use lynx_kernels::{
    cube::{
        attention::{AttentionOptions, attention, attention_backward},
        cubecl::std::tensor::TensorHandle,
    },
    random::{DropoutMask, KeepProbability, RowSlice},
};

use crate::attention::{KEY, by_head};
use crate::harness::{Data, F32, bytes, client, download, upload};

#[test]
fn views_of_one_projection_give_the_bits_of_separate_operands() {
    let Some(client) = client() else { return };
    let [batch, heads, seq, head_dim] = [2, 3, 37, 8];
    let width = heads * head_dim;
    let joint = Data(9).floats(F32, batch * seq * 3 * width, 0.0, 1.0);
    let buffer = upload(&client, F32, &[batch, seq, 3 * width], &joint);
    let views = [0, 1, 2].map(|part| {
        let handle = buffer
            .handle
            .clone()
            .offset_start((part * width * 4) as u64);
        let strides = [seq * 3 * width, head_dim, 3 * width, 1];
        TensorHandle::new(
            handle,
            [batch, heads, seq, head_dim],
            strides.as_slice(),
            F32,
        )
    });
    let apart = [0, 1, 2].map(|part| {
        let mut numbers = Vec::new();
        for b in 0..batch {
            for h in 0..heads {
                for s in 0..seq {
                    let start = ((b * seq + s) * 3 + part) * width + h * head_dim;
                    numbers.extend_from_slice(&joint[start..start + head_dim]);
                }
            }
        }
        upload(&client, F32, &[batch, heads, seq, head_dim], &numbers)
    });
    let run = |[q, k, v]: &[TensorHandle; 3]| {
        let made = attention(&client, q, k, v, AttentionOptions::default()).expect("valid");
        bytes(&client, &made.output)
    };
    assert_eq!(run(&views), run(&apart));
}

/// Two ranks with two of four heads each make what one with all of them makes, bit for bit: a head
/// depends on no other, and its mask is that of the whole.
#[test]
fn a_ranks_heads_are_those_of_the_whole() {
    let Some(client) = client() else { return };
    let keep = KeepProbability::from_drop(0.3).expect("a probability");
    // In blocks of four of the counter and beside them.
    for (seq, head_dim) in [(16, 8), (37, 5)] {
        let [batch, heads] = [2, 4];
        let head = seq * head_dim;
        let mut data = Data(13);
        let [q, k, v, g] = [0; 4].map(|_| data.floats(F32, batch * heads * head, 0.0, 1.0));
        let run = |of: std::ops::Range<usize>, mask: DropoutMask| {
            let own = |numbers: &[f64]| {
                let batches = numbers.chunks(heads * head);
                let own: Vec<f64> = batches
                    .flat_map(|b| b[of.start * head..of.end * head].to_vec())
                    .collect();
                upload(&client, F32, &[batch, of.len(), seq, head_dim], &own)
            };
            let [q, k, v, g] = [&q, &k, &v, &g].map(|numbers| own(numbers));
            let options = AttentionOptions {
                dropout: Some(mask),
                ..AttentionOptions::default()
            };
            let made = attention(&client, &q, &k, &v, options).expect("valid");
            let (out, lse) = (&made.output, &made.log_sum_exp);
            let gradients = attention_backward(&client, &g, &q, &k, &v, out, lse, options);
            let gradients = gradients.expect("valid");
            [out, &gradients.query, &gradients.key, &gradients.value]
                .map(|tensor| by_head(&download(&client, tensor), [batch, of.len(), seq, head_dim]))
        };
        let mask = DropoutMask::new(KEY, keep);
        let whole = run(0..heads, mask);
        for rank in 0..2 {
            let of = 2 * rank..2 * rank + 2;
            let slice = RowSlice {
                whole: heads * seq * seq,
                first: of.start * seq * seq,
                length: of.len() * seq * seq,
            };
            let part = run(of.clone(), mask.of(slice));
            for (what, (whole, part)) in whole.iter().zip(&part).enumerate() {
                let expected: Vec<f64> = whole
                    .chunks(heads * head)
                    .flat_map(|b| b[of.start * head..of.end * head].to_vec())
                    .collect();
                assert_eq!(
                    part, &expected,
                    "result {what} of rank {rank}, {seq} positions"
                );
            }
        }
    }
}

#[test]
fn a_mask_of_other_parts_than_heads_is_refused() {
    let Some(client) = client() else { return };
    let keep = KeepProbability::from_drop(0.3).expect("a probability");
    let q = upload(&client, F32, &[1, 2, 4, 1], &[0.0; 8]);
    for (whole, first, length) in [(64, 0, 16), (64, 2, 32), (66, 0, 32), (64, 48, 32)] {
        let slice = RowSlice {
            whole,
            first,
            length,
        };
        let options = AttentionOptions {
            dropout: Some(DropoutMask::new(KEY, keep).of(slice)),
            ..AttentionOptions::default()
        };
        let refused = attention(&client, &q, &q, &q, options).expect_err("no heads");
        let message = refused.to_string();
        assert!(
            message.contains("is not a run of each batch's heads"),
            "{message}"
        );
    }
}

/// The alignment of a device's bindings is 256 bytes at most; a view may begin at any element.
#[test]
fn views_may_begin_where_the_device_cannot_bind() {
    let Some(client) = client() else { return };
    let [seq, head_dim] = [5, 3];
    let numbers = Data(4).floats(F32, seq * head_dim + 1, 0.0, 1.0);
    let shape = [1, 1, seq, head_dim];
    let buffer = upload(&client, F32, &[seq * head_dim + 1], &numbers);
    let strides = [seq * head_dim, seq * head_dim, head_dim, 1];
    let handle = buffer.handle.clone().offset_start(4);
    let view = TensorHandle::new(handle, shape, strides.as_slice(), F32);
    let apart = upload(&client, F32, &shape, &numbers[1..]);
    let run = |q: &TensorHandle| {
        let made = attention(&client, q, q, q, AttentionOptions::default()).expect("valid");
        bytes(&client, &made.output)
    };
    assert_eq!(run(&view), run(&apart));
}
