use burn::module::ParamId;

use super::*;
use crate::plan::layout::Segment;
use crate::runtime::parameters::ParameterInfo;

/// A segment with one vector of parameters, which gets so many bytes.
fn facts(width: usize, trainable: bool, input_bytes: u64) -> Facts {
    Facts {
        summed_bytes: Vec::new(),
        noted_bytes: 0,
        parameters: vec![ParameterInfo {
            path: "weight".to_owned(),
            id: ParamId::new(),
            dims: vec![width],
            bytes: 4 * width as u64,
            trainable,
        }],
        input_bytes,
        output_bytes: 0,
    }
}

fn deal(segments: &[Option<usize>], facts: &[Facts], every: bool) -> Result<Deal, MeasureError> {
    let segment = |layer: &Option<usize>| Segment {
        layer: *layer,
        ..Segment::outside("s")
    };
    let layout = ChainLayout::new(segments.iter().map(segment).collect());
    Deal::new(&layout.expect("a chain"), facts, every)
}

#[test]
fn layers_differ_by_shapes_and_learning_and_the_one_that_gets_most_stands_for_all() {
    let layers = [None, Some(0), Some(1), Some(2), Some(3), Some(4), None];
    let facts = [
        facts(9, true, 1),
        facts(8, true, 10),
        facts(8, true, 20),
        facts(8, true, 20),
        facts(7, true, 20),
        facts(8, false, 20),
        facts(9, true, 5),
    ];
    let found = deal(&layers, &facts, false).expect("a deal");
    assert_eq!((found.embedding.clone(), found.head.clone()), (0..1, 6..7));
    let runs: Vec<_> = found
        .runs()
        .into_iter()
        .map(|r| (r.kind, r.count))
        .collect();
    let run = |name: &str, count| (name.to_owned(), count);
    assert_eq!(
        runs,
        [run("layer-0", 3), run("layer-3", 1), run("layer-4", 1)]
    );
    assert_eq!(found.measured_segments(), [0, 2, 4, 5, 6]);
    let every = deal(&layers, &facts, true).expect("a deal");
    assert_eq!(every.measured_segments(), [0, 1, 2, 3, 4, 5, 6]);
}

#[test]
fn the_layer_with_the_loss_is_like_no_other() {
    let facts = [facts(8, true, 1), facts(8, true, 1), facts(8, true, 1)];
    let found = deal(&[Some(0), Some(1), Some(2)], &facts, false).expect("a deal");
    assert_eq!(found.kinds.len(), 2);
    // Of the first two, the one whose input has a gradient.
    assert_eq!(found.measured_segments(), [1, 2]);
}

#[test]
fn a_segment_between_layers_is_refused_by_name_and_place() {
    let facts = [facts(8, true, 1), facts(8, true, 1), facts(8, true, 1)];
    let error = deal(&[Some(0), None, Some(1)], &facts, false).expect_err("a gap");
    assert!(
        error
            .to_string()
            .starts_with("segment 1 (s) lies between layers 0 and 1")
    );
}
