//! The exact deal against all deals, and against one made by hand.

use super::*;
use crate::plan::cluster::{Cluster, Contention};
use crate::plan::forecast::Forecast;
use crate::plan::planner::Plan;
use crate::plan::planner::baselines::{AdaPipe, RetainAll};
use crate::plan::planner::brute::Dice;
use crate::plan::planner::choice::{LayerGroup, SegmentChoice, StagePlan};
use crate::plan::planner::evaluate::evaluate;
use crate::plan::planner::heu::Heu;
use crate::plan::planner::setup_error::StageSetupError;
use crate::plan::profile::{Gpt, LayerKind, LayerRun, ModelProfile, SegmentProfile, WeightBytes};

fn segment(name: &str, forward: u64, tape: u64, weights: u64) -> SegmentProfile {
    SegmentProfile {
        name: name.to_owned(),
        forward: Nanos(forward),
        backward_input: Nanos(2 * forward),
        recompute: Nanos(forward),
        tape: Bytes(tape),
        kept_input: Bytes(tape / 10),
        weights: WeightBytes {
            parameters: Bytes(weights),
            ..Default::default()
        },
        ..Default::default()
    }
}

fn model(layers: usize, embedding: SegmentProfile, head: SegmentProfile) -> ModelProfile {
    let parts = vec![segment("a", 40, 300, 10), segment("b", 60, 700, 20)];
    ModelProfile {
        name: "toy".to_owned(),
        tensor_parallel: 1,
        tokens: None,
        embedding: vec![embedding],
        kinds: vec![LayerKind {
            name: "layer".to_owned(),
            segments: parts,
        }],
        layers: vec![LayerRun {
            kind: "layer".to_owned(),
            count: layers,
        }],
        head: vec![head],
        tied: WeightBytes::default(),
    }
}

fn cluster() -> Cluster {
    let mut cluster: Cluster = "cpu-2-core".parse().unwrap();
    cluster.contention = Contention::uniform(0.5, 0.5, 0.5);
    for link in [&mut cluster.intra_node, &mut cluster.inter_node] {
        link.latency = Nanos(30);
    }
    cluster
}

/// Every way to deal layers to stages.
fn deals(layers: usize, stages: usize) -> Vec<Vec<usize>> {
    if stages == 1 {
        return vec![vec![layers]];
    }
    let mut all = Vec::new();
    for first in 1..=layers - (stages - 1) {
        for mut rest in deals(layers - first, stages - 1) {
            rest.insert(0, first);
            all.push(rest);
        }
    }
    all
}

#[test]
fn the_exact_deal_is_as_good_as_the_best_of_all_deals() {
    let cluster = cluster();
    for case in 0..60 {
        let mut dice = Dice(case);
        let layers = 2 + dice.below(8) as usize;
        let stages = 1 + dice.below(layers.min(4) as u64) as usize;
        let embedding = segment("embedding", dice.below(200), dice.below(900), 50);
        let head = segment("head", dice.below(300), dice.below(2000), 50);
        let profile = model(layers, embedding, head);
        let mut setup = Setup::new(&profile, &cluster, stages, 1 + dice.below(8));
        setup.budget = Bytes(500 + dice.below(9000));
        let heu = Heu::default();
        let planner: &dyn Planner = if case % 3 == 0 { &RetainAll } else { &heu };
        let dealer = Dealer::new(&setup, planner).unwrap();
        let fits = |deal: &Vec<usize>| {
            let badness = dealer.badness(deal).unwrap();
            (badness.0 == 0).then_some((badness.1, badness.2))
        };
        let all = deals(layers, stages);
        let best = all.iter().filter_map(fits).min();
        match dealer.exact() {
            Ok(found) => {
                assert_eq!(fits(&found), best, "case {case}: {found:?}");
                let greedy = dealer.greedy().unwrap();
                assert!(fits(&greedy).is_none_or(|greedy| best <= Some(greedy)));
            }
            Err(DealError::Infeasible { missing, .. }) => {
                assert_eq!(best, None, "case {case}");
                assert!(missing > Bytes(0));
            }
            Err(other) => panic!("case {case}: {other}"),
        }
    }
}

/// Two kinds in runs that alternate, the second one heavier.
fn mixed(runs: &[usize]) -> ModelProfile {
    let mut profile = model(
        1,
        segment("embedding", 90, 400, 50),
        segment("head", 120, 900, 50),
    );
    let mut heavy = profile.kinds[0].clone();
    heavy.name = "heavy".to_owned();
    for segment in &mut heavy.segments {
        segment.forward = Nanos(segment.forward.0 * 2);
        segment.recompute = segment.forward;
        segment.tape = Bytes(segment.tape.0 * 2);
    }
    profile.kinds.push(heavy);
    let run = |(index, &count): (usize, &usize)| LayerRun {
        kind: ["layer", "heavy"][index % 2].to_owned(),
        count,
    };
    profile.layers = runs.iter().enumerate().map(run).collect();
    profile
}

#[test]
fn layers_of_several_kinds_are_dealt_as_well_as_any_deal_that_mixes_none() {
    let cluster = cluster();
    let (mut dealt, mut refused) = (0, 0);
    for case in 0..60 {
        let mut dice = Dice(case);
        let runs: Vec<usize> = (0..1 + dice.below(3))
            .map(|_| 1 + dice.below(4) as usize)
            .collect();
        let layers: usize = runs.iter().sum();
        let profile = mixed(&runs);
        let stages = 1 + dice.below(layers.min(5) as u64) as usize;
        let mut setup = Setup::new(&profile, &cluster, stages, 1 + dice.below(8));
        setup.budget = Bytes(2000 + dice.below(9000));
        let heu = Heu::default();
        let dealer = Dealer::new(&setup, &heu).unwrap();
        let fits = |deal: &Vec<usize>| {
            let badness = dealer.badness(deal).ok()?;
            (badness.0 == 0).then_some((badness.1, badness.2))
        };
        let best = deals(layers, stages).iter().filter_map(fits).min();
        match dealer.exact() {
            Ok(found) => {
                assert_eq!(fits(&found), best, "case {case}: {runs:?} {found:?}");
                let greedy = dealer.greedy().unwrap();
                assert!(fits(&greedy).is_none_or(|greedy| best <= Some(greedy)));
                dealt += 1;
            }
            Err(error) => {
                assert_eq!(best, None, "case {case}: {error}");
                let mixes = matches!(error, DealError::Setup(StageSetupError::MixedKinds { .. }));
                assert_eq!(mixes, stages < runs.len(), "case {case}: {error}");
                refused += 1;
            }
        }
    }
    assert!(dealt >= 20 && refused >= 10, "{dealt} {refused}");
}

#[test]
fn stages_that_would_mix_kinds_are_refused_by_name() {
    let cluster = cluster();
    let profile = mixed(&[2, 3]);
    let setup = Setup::new(&profile, &cluster, 1, 4);
    let error = Dealer::new(&setup, &Heu::default())
        .unwrap()
        .exact()
        .unwrap_err();
    let text = error.to_string();
    assert!(text.contains("\"layer\" and \"heavy\""), "{text}");
    assert!(text.contains("mixed kinds are not planned yet"), "{text}");
}

#[test]
fn any_number_of_threads_finds_the_same_deal_and_plans() {
    let cluster: Cluster = "a100-40-pcie".parse().unwrap();
    let mut gpt = Gpt::new("7b".parse().unwrap());
    (gpt.tensor_parallel, gpt.micro_batch) = (4, 8);
    let profile = gpt.profile(&cluster.device).unwrap();
    let setup = Setup::new(&profile, &cluster, 8, 16);
    // No limit: it would depend on how fast the threads are.
    let heu = Heu {
        limit: None,
        ..Heu::default()
    };
    let with = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
        let find = || {
            let dealer = Dealer::new(&setup, &heu).unwrap();
            let deal = dealer.exact().unwrap();
            let stages = dealer.stages(&deal).unwrap().into_iter().map(|stage| {
                let found = stage.outcome.feasible().unwrap().clone();
                (
                    found.plan,
                    found.cost,
                    found.bound,
                    stage.steady,
                    stage.ramp,
                )
            });
            (stages.collect::<Vec<_>>(), dealer.greedy().unwrap(), deal)
        };
        pool.build().unwrap().install(find)
    };
    let one = with(1);
    for threads in [2, 5, 16] {
        assert_eq!(with(threads), one, "{threads} threads");
    }
}

#[test]
fn parameters_are_balanced_with_embedding_and_head() {
    let cluster = cluster();
    let profile = model(8, segment("embedding", 1, 1, 60), segment("head", 1, 1, 60));
    let setup = Setup::new(&profile, &cluster, 4, 4);
    let dealer = Dealer::new(&setup, &RetainAll).unwrap();
    // Layers have 30 each: 60 + 30, 90, 90, 30 + 60.
    assert_eq!(dealer.by_parameters(), [1, 3, 3, 1]);
    assert_eq!(dealer.even(), [2, 2, 2, 2]);
}

#[test]
fn a_heavy_head_takes_layers_from_the_last_stage() {
    let cluster = cluster();
    let profile = model(8, segment("embedding", 0, 1, 1), segment("head", 200, 1, 1));
    let setup = Setup::new(&profile, &cluster, 2, 4);
    let dealer = Dealer::new(&setup, &RetainAll).unwrap();
    assert_eq!(dealer.exact().unwrap(), [5, 3]);
    assert_eq!(dealer.greedy().unwrap(), [5, 3]);
}

#[test]
fn more_stages_than_layers_are_refused_with_both_numbers() {
    let cluster = cluster();
    let profile = model(2, segment("embedding", 0, 1, 1), segment("head", 0, 1, 1));
    for stages in [0, 3] {
        let setup = Setup::new(&profile, &cluster, stages, 4);
        let refused = DealError::Stages { stages, layers: 2 };
        assert_eq!(Dealer::new(&setup, &RetainAll).err(), Some(refused));
    }
}

#[test]
fn no_deal_fits_is_said_with_stage_bytes_and_a_way_out() {
    let cluster = cluster();
    let profile = model(8, segment("embedding", 0, 1, 1), segment("head", 0, 1, 1));
    let mut setup = Setup::new(&profile, &cluster, 2, 4);
    setup.budget = Bytes(900);
    let heu = Heu::default();
    let dealer = Dealer::new(&setup, &heu).unwrap();
    let error = dealer.exact().unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, DealError::Infeasible { .. }), "{text}");
    assert!(
        text.contains("stage ") && text.contains(" B short"),
        "{text}"
    );
}

/// Case 24 (ColossalAI#5509): 80 layers on 8 stages, dealt and recomputed by hand. The budget is
/// what that takes at its most loaded stage; nothing can be hidden.
#[test]
fn the_hand_made_balance_of_colossalai_is_reproduced_or_beaten() {
    let hand = [9, 9, 9, 10, 11, 10, 11, 11];
    let recomputed = [4, 4, 2, 2, 0, 0, 0, 0];
    let cluster = cluster();
    let profile = model(
        80,
        segment("embedding", 10, 100, 60),
        segment("head", 50, 900, 60),
    );
    let mut setup = Setup::new(&profile, &cluster, 8, 32);
    setup.windows.clear();
    let (mut peak, mut slowest, mut sum, mut start) = (0, 0, 0, 0);
    let mut by_hand = Vec::new();
    for stage in 0..8 {
        let problem = setup.problem(stage, start..start + hand[stage]).unwrap();
        start += hand[stage];
        let group = |layers, choice| LayerGroup::new(layers, vec![choice; 2]);
        let mut groups = vec![
            group(recomputed[stage], SegmentChoice::Exposed),
            group(hand[stage] - recomputed[stage], SegmentChoice::Retain),
        ];
        groups.retain(|group| group.layers > 0);
        let plan = StagePlan { groups };
        let cost = evaluate(&problem, &plan).unwrap();
        by_hand.push(plan);
        peak = peak.max(cost.peak.0);
        let time = problem.forward.0 + problem.backward.0 + cost.exposed.0;
        slowest = slowest.max(time);
        sum += time;
    }
    setup.budget = Bytes(peak);
    let by_hand: Vec<_> = by_hand.iter().collect();
    let by_hand = Forecast::new(&setup, &hand, &by_hand).unwrap();
    let by_hand = by_hand.report().unwrap().step;
    for planner in [&Heu::default() as &dyn Planner, &AdaPipe] {
        let dealer = Dealer::new(&setup, planner).unwrap();
        let deal = dealer.exact().unwrap();
        let (missing, ours, _) = dealer.badness(&deal).unwrap();
        assert_eq!(missing, 0);
        let ways: u64 = (0..8)
            .map(|stage| 2 * setup.transfer(stage, &(0..1)).0)
            .sum();
        let step = dealer.step(&deal).unwrap();
        assert!(ours <= slowest, "{deal:?}: {ours} > {slowest}");
        assert!(step.0 <= 31 * slowest + sum + ways, "{deal:?}: {step}");
        let simulated = Plan::with_layers(&setup, planner, &dealer, &deal).unwrap();
        assert!(simulated.step.time <= by_hand, "{deal:?}");
        let early: usize = deal[..4].iter().sum();
        assert!(
            early <= 40,
            "early stages hold more micro-batches: {deal:?}"
        );
    }
}
