//! Times of messages, collectives, products and windows.

use proptest::prelude::*;

use super::tests::small;
use super::*;

/// With figures that are easy to compute with by hand.
fn link(gb_s: f64, latency: u64) -> Link {
    Link {
        kind: LinkKind::Pcie,
        gb_s,
        latency: Nanos(latency),
    }
}

/// A ring, message by message: in every step each rank passes one part on, and the step takes as
/// long as one message.
fn ring_step_by_step(link: &Link, bytes: u64, ranks: u64, rounds: u64) -> Nanos {
    (0..rounds * (ranks - 1))
        .map(|_| link.transfer_time(Bytes(bytes / ranks)))
        .sum()
}

#[test]
fn a_ring_costs_its_messages_one_after_the_other() {
    let link = link(1.0, 1_000);
    for ranks in 2..9_u64 {
        let bytes = ranks * 1_000_000;
        let all_reduce = link.ring_all_reduce_time(Bytes(bytes), ranks as usize);
        assert_eq!(all_reduce, ring_step_by_step(&link, bytes, ranks, 2));
        let half = ring_step_by_step(&link, bytes, ranks, 1);
        assert_eq!(link.all_gather_time(Bytes(bytes), ranks as usize), half);
        assert_eq!(link.reduce_scatter_time(Bytes(bytes), ranks as usize), half);
    }
}

#[test]
fn a_tree_is_as_deep_as_its_ranks_need() {
    let link = link(1.0, 1_000);
    let depths = [(2, 1), (3, 2), (4, 2), (5, 3), (8, 3), (9, 4), (1024, 10)];
    for (ranks, depth) in depths {
        let time = link.tree_all_reduce_time(Bytes(500), ranks);
        assert_eq!(time, Nanos(2 * depth * 1_000 + 1_000), "{ranks} ranks");
    }
}

#[test]
fn small_tensors_take_the_tree_and_large_ones_the_ring() {
    let link = link(100.0, 5_000);
    let (small, large) = (Bytes(1_000), Bytes(1 << 30));
    assert_eq!(
        link.all_reduce_time(small, 16),
        link.tree_all_reduce_time(small, 16)
    );
    assert_eq!(
        link.all_reduce_time(large, 16),
        link.ring_all_reduce_time(large, 16)
    );
}

#[test]
fn one_rank_has_nothing_to_say_to_itself() {
    let cluster = small(8);
    for kind in [
        CollectiveKind::AllReduce,
        CollectiveKind::AllGather,
        CollectiveKind::ReduceScatter,
    ] {
        let collective = Collective {
            kind,
            size: Bytes(1 << 30),
        };
        for ranks in [0, 1] {
            assert_eq!(cluster.collective_time(&collective, ranks), Nanos::ZERO);
        }
    }
    assert_eq!(
        cluster.transfer_time(Bytes(1 << 30), 3, 3, 1),
        Nanos::ZERO,
        "a stage sends itself nothing"
    );
}

#[test]
fn half_of_the_best_rate_is_reached_at_the_half_point() {
    let efficiency = Efficiency {
        best: 0.8,
        half_gflop: 2.0,
    };
    assert_eq!(efficiency.at(2e9), 0.4);
    assert_eq!(efficiency.at(0.0), 0.0);
    assert!((efficiency.at(1e18) - 0.8).abs() < 1e-6);
}

#[test]
fn a_product_takes_its_operations_over_the_rate_that_the_curve_gives() {
    let device = small(8).device;
    for flops in [1e6, 1e9, 1e12] {
        let rate = 312e12 * device.efficiency.at(flops);
        let seconds = device.product_seconds(flops, Precision::Bf16);
        assert!((seconds * rate / flops - 1.0).abs() < 1e-12, "{flops}");
    }
    assert_eq!(device.product_seconds(0.0, Precision::Bf16), 0.0);
}

#[test]
fn a_kernel_takes_as_long_as_the_slower_of_its_two_halves() {
    let device = small(8).device;
    let copying = device.kernel_time(1.0e6, 1555e9 * 0.85, Precision::F32);
    assert_eq!(copying, Nanos(1_000_000_000));
    let flops = 19.5e12 * 0.859 - 2e9;
    let computing = device.kernel_time(flops, 1.0, Precision::F32);
    assert_eq!(computing, Nanos(1_000_000_000));
}

#[test]
fn a_window_hosts_its_factor_of_work_and_never_more_than_itself() {
    let contention = Contention::uniform(0.5, 0.9, 1.0);
    assert_eq!(
        contention.capacity(Window::B1, Nanos(1_000)),
        Nanos(500),
        "a collective"
    );
    let all = Nanos(u64::MAX);
    assert_eq!(contention.capacity(Window::Bubble, all), all);
}

proptest! {
    /// Oracle: every device and its node, one by one.
    #[test]
    fn a_link_is_the_slow_one_when_any_pair_of_devices_needs_it(
        from in 0_usize..12, to in 0_usize..12, ranks in 1_usize..9, per_node in 1_usize..9,
    ) {
        let cluster = small(per_node);
        let node = |stage: usize, rank: usize| (stage * ranks + rank) / per_node;
        let crosses = (0..ranks).any(|rank| node(from, rank) != node(to, rank));
        // A stage's own link is not asked for by transfers.
        prop_assume!(from != to);
        let link = cluster.pipeline_link(from, to, ranks);
        prop_assert_eq!(link.kind == LinkKind::Network, crosses);
        let straddles = (0..1_000).any(|group| node(group, 0) != node(group, ranks - 1));
        prop_assert_eq!(
            cluster.collective_link(ranks).kind == LinkKind::Network,
            straddles
        );
    }

    #[test]
    fn more_bytes_never_take_less_time(
        bytes in any::<u64>(), more in any::<u64>(), ranks in 0_usize..5_000,
    ) {
        let cluster = small(8);
        let (less, more) = (bytes.min(more), bytes.max(more));
        for kind in [
            CollectiveKind::AllReduce,
            CollectiveKind::AllGather,
            CollectiveKind::ReduceScatter,
        ] {
            let time = |size| cluster.collective_time(&Collective { kind, size: Bytes(size) }, ranks);
            prop_assert!(time(less) <= time(more));
        }
    }
}
