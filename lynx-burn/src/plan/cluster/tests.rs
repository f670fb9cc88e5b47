//! Presets, files and refusals.

use proptest::prelude::*;

use super::*;

/// A valid cluster with nodes of this size.
pub(super) fn small(devices_per_node: usize) -> Cluster {
    let mut cluster: Cluster = "a100-40-nvlink".parse().unwrap();
    cluster.devices_per_node = devices_per_node;
    cluster
}

#[test]
fn every_preset_is_valid_carries_its_name_and_survives_a_file() {
    for name in PRESETS {
        let cluster: Cluster = name.parse().unwrap();
        assert_eq!(cluster.name, name);
        assert_eq!(cluster.validate(), Ok(()));
        let text = cluster.to_json().unwrap();
        assert_eq!(Cluster::from_json(&text).unwrap(), cluster, "{text}");
    }
}

#[test]
fn an_unknown_cluster_is_answered_with_the_known_ones() {
    let error = "a100".parse::<Cluster>().unwrap_err().to_string();
    for name in PRESETS {
        assert!(error.contains(name), "{error}");
    }
}

#[test]
fn a_figure_that_is_none_is_refused_with_its_place() {
    type Spoil = fn(&mut Cluster);
    let cases: [(&str, Spoil); 9] = [
        ("device.tflops.bf16", |c| c.device.tflops.bf16 = f64::NAN),
        ("device.memory_gb_s", |c| c.device.memory_gb_s = 0.0),
        ("device.efficiency.best", |c| {
            c.device.efficiency.best = 1.01
        }),
        ("device.memory_bytes", |c| c.device.memory = Bytes(u64::MAX)),
        ("intra_node.gb_s", |c| c.intra_node.gb_s = f64::INFINITY),
        ("inter_node.latency_ns", |c| {
            c.inter_node.latency = Nanos(u64::MAX)
        }),
        ("devices_per_node", |c| c.devices_per_node = 0),
        ("contention.B2", |c| c.contention.b2 = -0.1),
        ("name", |c| c.name.clear()),
    ];
    for (field, spoil) in cases {
        let mut cluster = small(8);
        spoil(&mut cluster);
        let error = cluster.validate().unwrap_err().to_string();
        assert!(error.starts_with(field), "{error}");
        assert!(cluster.to_json().is_err(), "{field}");
    }
}

#[test]
fn a_misspelt_or_missing_field_is_refused_with_its_name() {
    let text = small(8).to_json().unwrap();
    let misspelt = text.replace("\"intra_node\"", "\"intranode\"");
    let error = Cluster::from_json(&misspelt).unwrap_err().to_string();
    assert!(
        error.contains("intranode") && error.contains("line"),
        "{error}"
    );
    let error = Cluster::from_json("{}").unwrap_err().to_string();
    assert!(error.contains("name"), "{error}");
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let error = Cluster::read("/nowhere/cluster.json").unwrap_err();
    assert!(matches!(error, FileError::Read { .. }));
    assert!(error.to_string().contains("/nowhere/cluster.json"));
}

proptest! {
    #[test]
    fn nothing_in_a_file_makes_the_reader_or_the_costs_panic(
        text in ".{0,200}",
        field in 0_usize..40,
        value in prop_oneof![
            Just("null".to_owned()), Just("-1".to_owned()), Just("1e400".to_owned()),
            Just("[]".to_owned()), Just("0".to_owned()), any::<f64>().prop_map(|x| format!("{x}")),
            any::<u64>().prop_map(|x| x.to_string()), ".{0,8}",
        ],
        from in any::<usize>(), to in any::<usize>(), ranks in any::<usize>(),
    ) {
        let _ = Cluster::from_json(&text);
        // One value of a good file is replaced.
        let good = small(8).to_json().unwrap();
        let mut lines: Vec<String> = good.lines().map(str::to_owned).collect();
        let line = field % lines.len();
        if let Some((key, _)) = lines[line].clone().split_once(':') {
            let comma = if lines[line].ends_with(',') { "," } else { "" };
            lines[line] = format!("{key}: {value}{comma}");
        }
        if let Ok(cluster) = Cluster::from_json(&lines.join("\n")) {
            let bytes = Bytes(u64::MAX);
            let time = cluster.transfer_time(bytes, from, to, ranks);
            prop_assert!(from == to || time > Nanos::ZERO);
            let collective = Collective { kind: CollectiveKind::AllReduce, size: bytes };
            let _ = cluster.collective_time(&collective, ranks);
        }
    }

    #[test]
    fn a_cluster_built_by_hand_does_not_panic_either(
        figure in any::<f64>(), count in any::<usize>(), long in any::<u64>(), stage in any::<usize>(),
    ) {
        let mut cluster = small(count);
        cluster.intra_node.gb_s = figure;
        cluster.inter_node.latency = Nanos(long);
        cluster.device.efficiency.best = figure;
        cluster.contention.f1 = figure;
        let _ = cluster.validate();
        let _ = cluster.transfer_time(Bytes(long), stage, count, stage);
        let _ = cluster.device.kernel_time(figure, figure, Precision::F16);
        let _ = cluster.device.efficiency.at(figure);
        prop_assert!(cluster.contention.capacity(Window::F1, Nanos(long)) <= Nanos(long));
    }
}

#[test]
fn with_other_links_ranks_meet_on_one_and_stages_on_the_other() {
    let cluster: Cluster = "cpu-2-core".parse().unwrap();
    let link = |gb_s| Link {
        gb_s,
        ..cluster.intra_node
    };
    let joined = cluster.clone().with_links(2, link(3.0), link(5.0));
    assert!(joined.validate().is_ok());
    assert_eq!(joined.collective_link(2).gb_s, 3.0);
    for (from, to) in [(0, 1), (1, 2), (2, 1)] {
        assert_eq!(joined.pipeline_link(from, to, 2).gb_s, 5.0);
    }
    let alone = cluster.clone().with_links(1, link(3.0), link(5.0));
    assert_eq!(alone.pipeline_link(0, 1, 1).gb_s, 5.0);
}
