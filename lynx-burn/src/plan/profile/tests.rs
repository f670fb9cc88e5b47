use proptest::prelude::*;

use super::*;
use crate::plan::cluster::{Cluster, Collective, CollectiveKind, FileError};
use crate::units::{Bytes, Nanos};

fn segment(name: &str, weight: Option<u64>) -> SegmentProfile {
    SegmentProfile {
        name: name.to_owned(),
        forward: Nanos(10),
        backward_input: Nanos(20),
        backward_weight: weight.map(Nanos),
        recompute: Nanos(9),
        tape: Bytes(100),
        kept_input: Bytes(30),
        notes: Bytes(3),
        boundary: Bytes(40),
        workspace: Bytes(5),
        after_forward: vec![Collective {
            kind: CollectiveKind::AllReduce,
            size: Bytes(7),
        }],
        after_backward: Vec::new(),
        weights: WeightBytes {
            parameters: Bytes(2),
            gradients: Bytes(4),
            optimizer: Bytes(12),
        },
    }
}

fn kind(name: &str, segments: usize) -> LayerKind {
    let names = (0..segments).map(|index| format!("{name}{index}"));
    LayerKind {
        name: name.to_owned(),
        segments: names.map(|name| segment(&name, Some(15))).collect(),
    }
}

fn run(kind: &str, count: usize) -> LayerRun {
    let kind = kind.to_owned();
    LayerRun { kind, count }
}

/// An embedding, layers a a b a, and a head.
fn model() -> ModelProfile {
    ModelProfile {
        name: "toy".to_owned(),
        tensor_parallel: 1,
        tokens: None,
        embedding: vec![segment("embed", None)],
        kinds: vec![kind("a", 2), kind("b", 1)],
        layers: vec![run("a", 2), run("b", 1), run("a", 1)],
        head: vec![segment("head", None)],
        tied: WeightBytes::default(),
    }
}

#[test]
fn layers_find_their_kind_and_the_chain_its_segments() {
    let model = model();
    assert_eq!(model.validate(), Ok(()));
    assert_eq!(model.layer_count(), 4);
    let kinds: Vec<_> = (0..5).map(|layer| model.kind_index(layer)).collect();
    assert_eq!(kinds, [Some(0), Some(0), Some(1), Some(0), None]);
    let names: Vec<_> = model.layer_kinds().map(|kind| &kind.name[..]).collect();
    assert_eq!(names, ["a", "a", "b", "a"]);
    let layout = model.layout().unwrap();
    let layers: Vec<_> = layout.segments().iter().map(|s| s.layer).collect();
    let expected = [
        None,
        Some(0),
        Some(0),
        Some(1),
        Some(1),
        Some(2),
        Some(3),
        Some(3),
        None,
    ];
    assert_eq!(layers, expected);
    let chain = layout.segments().iter().map(|segment| &segment.name);
    assert!(chain.eq(model.segments().map(|segment| &segment.name)));
}

#[test]
fn sums_are_those_of_the_parts() {
    let mut model = model();
    model.tied.optimizer = Bytes(12);
    // Nine segments, of which the embedding's optimizer state is shared with the head.
    assert_eq!(model.weights().total(), Bytes(9 * 18 - 12));
    let layer = &model.kinds[0];
    assert_eq!(layer.forward(), Nanos(20));
    assert_eq!(layer.backward(), Nanos(70));
    assert_eq!(layer.tape(), Bytes(200));
    assert_eq!(segment("whole", None).backward(), Nanos(20));
}

#[test]
fn a_profile_survives_a_file_and_reads_like_a_description() {
    let text = model().to_json().unwrap();
    assert_eq!(ModelProfile::from_json(&text).unwrap(), model());
    for words in [
        "\"forward_ns\": 10",
        "\"tape_bytes\": 100",
        "\"all-reduce\"",
    ] {
        assert!(text.contains(words), "{text}");
    }
    assert!(!text.contains("null"), "{text}");
}

#[test]
fn the_smallest_file_of_the_documentation_is_read() {
    let source = include_str!("file.rs");
    let lines = source.lines().map(|line| line.trim_start_matches("//!"));
    let inside = lines.skip_while(|line| !line.contains("```json")).skip(1);
    let text: String = inside.take_while(|line| !line.contains("```")).collect();
    let model = ModelProfile::from_json(&text).unwrap();
    assert_eq!(model.layer_count(), 24);
}

#[test]
fn a_profile_that_makes_no_sense_is_refused_with_its_place() {
    type Spoil = fn(&mut ModelProfile);
    let cases: [(&str, Spoil); 12] = [
        ("name is empty", |m| m.name.clear()),
        ("layers: ", |m| m.layers.clear()),
        ("layers[1].count is 0", |m| m.layers[1].count = 0),
        ("layers[2].kind", |m| m.layers[2].kind = "c".to_owned()),
        ("kinds[1].segments", |m| m.kinds[1].segments.clear()),
        ("kinds[1].name", |m| m.kinds[1].name = "a".to_owned()),
        ("kinds[0].segments[1].name", |m| {
            m.kinds[0].segments[1].name.clear()
        }),
        ("head[0].tape_bytes", |m| m.head[0].tape = Bytes(u64::MAX)),
        ("embedding[0].after_forward[0].bytes", |m| {
            m.embedding[0].after_forward[0].size = Bytes(u64::MAX)
        }),
        ("head[0].weights.optimizer_bytes", |m| {
            m.head[0].weights.optimizer = Bytes(u64::MAX)
        }),
        ("tensor_parallel is 0", |m| m.tensor_parallel = 0),
        ("the number of segments is 65544", |m| {
            // Six more of kind a and the two ends.
            m.layers[1].count = 1 << 16
        }),
    ];
    for (said, spoil) in cases {
        let mut model = model();
        spoil(&mut model);
        let error = model.validate().unwrap_err().to_string();
        assert!(error.starts_with(said), "{error}");
        assert!(model.to_json().is_err());
    }
}

#[test]
fn a_broken_file_is_named_with_the_field_and_the_line() {
    let path = std::env::temp_dir().join(format!("lynx-profile-{}.json", std::process::id()));
    let text = model().to_json().unwrap();
    let (before, after) = text.split_once("\"recompute_ns\"").unwrap();
    let line = format!("line {}", before.lines().count());
    std::fs::write(&path, format!("{before}\"recompute\"{after}")).unwrap();
    let error = ModelProfile::read(&path).unwrap_err();
    model().write(&path).unwrap();
    let read = ModelProfile::read(&path);
    std::fs::remove_file(&path).unwrap();
    assert_eq!(read.unwrap(), model());
    assert!(matches!(error, FileError::Content { .. }));
    let said = error.to_string();
    for part in ["lynx-profile-", "`recompute`", &line] {
        assert!(said.contains(part), "{said}");
    }
}

proptest! {
    #[test]
    fn nothing_in_a_file_makes_the_reader_or_the_sums_panic(
        text in ".{0,200}",
        line in 0_usize..200,
        value in prop_oneof![
            Just("null".to_owned()), Just("-1".to_owned()), Just("1e400".to_owned()),
            Just("NaN".to_owned()), Just("[]".to_owned()), Just("{}".to_owned()),
            any::<f64>().prop_map(|x| format!("{x}")), any::<u64>().prop_map(|x| x.to_string()),
            (0_u64..1 << 45).prop_map(|x| x.to_string()), ".{0,8}",
        ],
    ) {
        let _ = ModelProfile::from_json(&text);
        // One value of a good file is replaced.
        let good = model().to_json().unwrap();
        let mut lines: Vec<String> = good.lines().map(str::to_owned).collect();
        let line = line % lines.len();
        if let Some((key, _)) = lines[line].clone().split_once(':') {
            let comma = if lines[line].ends_with(',') { "," } else { "" };
            lines[line] = format!("{key}: {value}{comma}");
        }
        if let Ok(read) = ModelProfile::from_json(&lines.join("\n")) {
            prop_assert_eq!(read.validate(), Ok(()));
            prop_assert_eq!(read.layout().unwrap().layers(), read.layer_count());
            let all: Nanos = read.segments().map(|segment| segment.forward).sum();
            prop_assert!(all < Nanos(1 << 60));
            let _ = read.weights().total();
        }
    }

    #[test]
    fn sums_of_a_model_built_by_hand_do_not_panic_either(
        figure in any::<u64>(), count in any::<usize>(), layer in any::<usize>(),
    ) {
        let mut model = model();
        model.kinds[0].segments[0].forward = Nanos(figure);
        model.kinds[0].segments[1].tape = Bytes(figure);
        model.kinds[0].segments[1].weights.optimizer = Bytes(figure);
        model.layers[0].count = count;
        model.tied.gradients = Bytes(figure);
        let _ = model.validate();
        let _ = (model.layer_count(), model.kind_of(layer));
        let _ = (model.kinds[0].forward(), model.kinds[0].tape());
        let _ = model.kinds[0].weights().total();
    }

    /// Oracle: the presets and formulas promise valid files.
    #[test]
    fn every_named_model_on_every_preset_makes_a_file(
        size in 0_usize..GptSize::NAMES.len(),
        preset in 0_usize..crate::plan::cluster::PRESETS.len(),
        ranks in 0_u32..3,
        flash in any::<bool>(),
    ) {
        let mut gpt = Gpt::new(GptSize::NAMES[size].parse().unwrap());
        // 25 heads have no half.
        let ranks = 1 << ranks;
        gpt.tensor_parallel = if gpt.size.heads.is_multiple_of(ranks) { ranks } else { 1 };
        gpt.attention = if flash { Attention::Flash } else { Attention::Stored };
        let cluster: Cluster = crate::plan::cluster::PRESETS[preset].parse().unwrap();
        let profile = gpt.profile(&cluster.device).unwrap();
        let text = profile.to_json().unwrap();
        prop_assert_eq!(ModelProfile::from_json(&text).unwrap(), profile);
        prop_assert!(text.lines().count() < 300, "layers of one kind are described once");
    }
}
