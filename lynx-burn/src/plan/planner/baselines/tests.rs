//! Every baseline against an example worked out by hand.

use super::*;
use crate::plan::planner::brute::{Dice, problem as random_problem};
use crate::plan::planner::choice::{LayerGroup, Replay, SegmentChoice};
use crate::plan::planner::evaluate::{Cost, evaluate};
use crate::plan::planner::heu::Heu;
use crate::plan::planner::outcome::Infeasible;
use crate::plan::planner::problem::{SegmentCost, Windows};
use crate::units::{Bytes, Nanos};

/// Four layers of three segments; a collective of 10 after each half; two in flight. A layer's
/// tapes are 60 and its kept inputs 5, 15 and 8. Retaining all takes 2 x 4 x 60 = 480 bytes.
fn example(budget: u64) -> StageProblem {
    let segment = |name: &str, (forward, recompute), (tape, kept), collective| SegmentCost {
        name: name.to_owned(),
        forward: Nanos(forward),
        recompute: Nanos(recompute),
        tape: Bytes(tape),
        kept_input: Bytes(kept),
        notes: Bytes(0),
        workspace: Bytes(0),
        collective,
    };
    StageProblem {
        stage: 0,
        layers: 4,
        segments: vec![
            segment("qkv", (8, 8), (10, 5), None),
            segment("attention", (6, 6), (30, 15), Some(Nanos(10))),
            segment("mlp", (21, 20), (20, 8), Some(Nanos(10))),
        ],
        split: 2,
        in_flight: 2,
        steady: 7,
        cool_down: 1,
        windows: Windows::default(),
        forward: Nanos(0),
        backward: Nanos(0),
        fixed: Bytes(0),
        before: Default::default(),
        after: Default::default(),
        budget: Bytes(budget),
    }
}

fn cost(planner: &dyn Planner, budget: u64) -> (u64, u64) {
    let problem = example(budget);
    let Outcome::Feasible(found) = planner.plan(&problem) else {
        panic!("{}: {:?}", planner.name(), planner.plan(&problem));
    };
    assert_eq!(evaluate(&problem, &found.plan), Ok(found.cost));
    (found.cost.exposed.0, found.cost.peak.0)
}

fn missing(planner: &dyn Planner, budget: u64) -> u64 {
    match planner.plan(&example(budget)) {
        Outcome::Infeasible(Infeasible { missing, .. }) => missing.0,
        other => panic!("{}: {other:?}", planner.name()),
    }
}

#[test]
fn retaining_all_holds_every_tape_of_every_micro_batch_in_flight() {
    assert_eq!(cost(&RetainAll, 480), (0, 480));
    assert_eq!(missing(&RetainAll, 479), 1);
}

#[test]
fn uniform_replays_whole_layers_with_their_collectives() {
    // A replayed layer takes 8 + 6 + 21 + 2 x 10 = 55; four take 220.
    // One at once: 2 x 4 x 5 = 40 inputs, and a layer's tapes less its input: 55.
    assert_eq!(cost(&Uniform { together: Some(1) }, 1000), (220, 95));
    // Two at once: two inputs for each micro-batch, 20, and 120 - 5.
    assert_eq!(cost(&Uniform { together: Some(2) }, 1000), (220, 135));
    // The same time for all: the fewest bytes are the best.
    assert_eq!(cost(&Uniform::default(), 1000), (220, 95));
    assert_eq!(missing(&Uniform::default(), 90), 5);
}

#[test]
fn block_replays_as_few_of_the_first_layers_as_fit() {
    // Two replayed: others 2 x 5 + 2 x 60 = 130; the current one holds as much when its last
    // layer's backward begins: 260. At the second layer's: 130 + 5 + 5 + 55.
    assert_eq!(cost(&Block { repeats: true }, 300), (110, 260));
    // Without collectives a layer keeps 5 + 8 (attention's input is made anew) and takes 34.
    assert_eq!(cost(&Block { repeats: false }, 300), (68, 292));
    assert_eq!(cost(&Block { repeats: true }, 480), (0, 480));
    // All four, as uniform of one.
    assert_eq!(cost(&Block { repeats: true }, 95), (220, 95));
}

#[test]
fn selective_recomputes_the_core_of_attention() {
    // A layer holds 10 + 15 + 20 = 45 and takes 6. The last layer's backward begins at 2 x 4 x 45;
    // its attention adds 15 when the 20 of its MLP are gone.
    assert_eq!(cost(&Selective::default(), 360), (24, 360));
    assert_eq!(missing(&Selective::default(), 350), 10);
    let unknown = Selective {
        segments: vec!["atention".to_owned()],
    };
    let Outcome::Refused { reason } = unknown.plan(&example(360)) else {
        panic!("accepted");
    };
    assert!(
        reason.contains("\"atention\"") && reason.contains("\"qkv\""),
        "{reason}"
    );
}

#[test]
fn full_without_collectives_keeps_what_comes_out_of_them() {
    // 13 a layer: 2 x 4 x 13 = 104. At the MLP: 12 more. At attention: 104 - 8 + 5 + 30.
    assert_eq!(cost(&FullByLayer, 1000), (136, 131));
}

#[test]
fn chen_replays_lots_of_the_square_root() {
    assert_eq!(cost(&Chen, 1000), (220, 135));
    // Notes of 4 a layer: they are in the tapes of two layers, and beside those of six.
    let mut noting = example(1000);
    for (segment, notes) in noting.segments.iter_mut().zip([1, 2, 1]) {
        segment.notes = Bytes(notes);
    }
    let outcome = Chen.plan(&noting);
    assert_eq!(outcome.feasible().unwrap().cost.peak, Bytes(135 + 6 * 4));
    let mut five = example(1000);
    five.layers = 5;
    let outcome = Chen.plan(&five);
    let plan = &outcome.feasible().unwrap().plan;
    assert_eq!(plan.groups[0].replay, Replay::Layers(3));
}

#[test]
fn greedy_gives_up_first_what_costs_least_per_byte() {
    // Time per byte: attention 6/15, qkv 8/5, MLP 20/12. Attention everywhere leaves 360; 300
    // needs qkv too, which also frees attention of its kept input: 28 a layer, 8 x 45 - 2 x 2 x 20
    // leaves 280 with two, 320 with one.
    assert_eq!(cost(&Greedy, 420), (12, 420));
    assert_eq!(cost(&Greedy, 360), (24, 360));
    assert_eq!(cost(&Greedy, 300).0, 24 + 16);
    assert_eq!(missing(&Greedy, 130), 1);
}

#[test]
fn the_knapsack_mixes_layers_freely() {
    // 450 is 30 less than all: attention in one layer saves just that.
    assert_eq!(cost(&AdaPipe, 450), (6, 450));
    assert_eq!(cost(&AdaPipe, 480), (0, 480));
    assert_eq!(missing(&AdaPipe, 130), 1);
}

#[test]
fn the_knapsack_is_as_good_as_every_list_of_layers() {
    for case in 0..150 {
        let mut dice = Dice(case);
        let segments = 1 + dice.below(3) as usize;
        let mut problem = random_problem(&mut dice, segments, 0);
        problem.layers = 1 + dice.below(3) as usize;
        problem.budget = Bytes(dice.below(250));
        let plans = every_list(&problem);
        let costs = plans
            .iter()
            .filter_map(|plan| evaluate(&problem, plan).ok());
        let best = costs.map(|cost: Cost| cost.exposed_step(&problem)).min();
        let found = AdaPipe.plan(&problem);
        let found = found.feasible().map(|f| f.cost.exposed_step(&problem));
        assert_eq!(found, best, "case {case}: {problem:?}");
    }
}

fn every_list(problem: &StageProblem) -> Vec<StagePlan> {
    let segments = problem.segments.len();
    let bits = segments * problem.layers;
    let plan = |code: u32| {
        let layer = |layer: usize| {
            let choice = |segment: usize| match code >> (layer * segments + segment) & 1 {
                0 => SegmentChoice::Retain,
                _ => SegmentChoice::Exposed,
            };
            LayerGroup::new(1, (0..segments).map(choice).collect())
        };
        StagePlan {
            groups: (0..problem.layers).map(layer).collect(),
        }
    };
    (0..1_u32 << bits).map(plan).collect()
}

#[test]
fn no_baseline_goes_over_the_budget_or_beats_the_planner_it_is_a_case_of() {
    for case in 0..300 {
        let mut dice = Dice(case);
        let mut problem = random_problem(&mut dice, 4, 3);
        problem.segments[1].name = "attention".to_owned();
        problem.budget = Bytes(dice.below(500));
        let heu = Heu::default().plan(&problem);
        for planner in all() {
            let outcome = planner.plan(&problem);
            let Some(found) = outcome.feasible() else {
                continue;
            };
            assert_eq!(evaluate(&problem, &found.plan), Ok(found.cost));
            let groups = &found.plan.groups;
            let by_segment = groups.iter().all(|group| group.replay == Replay::Segments);
            if by_segment && groups.len() <= 2 {
                let best = heu.feasible().unwrap().cost.rank(&problem);
                assert!(
                    best <= found.cost.rank(&problem),
                    "case {case}: {}",
                    planner.name()
                );
            }
        }
    }
}
