//! Whole plans of a GPT: files, and what the runtime makes of them.

use super::*;
use crate::plan::cluster::{Cluster, Window};
use crate::plan::layout::ChainLayout;
use crate::plan::planner::LayerGroup;
use crate::plan::planner::baselines::{RetainAll, Uniform};
use crate::plan::planner::heu::Heu;
use crate::plan::policy::{Choice, Run};
use crate::plan::profile::{Gpt, ModelProfile};

fn gpt(cluster: &Cluster) -> ModelProfile {
    let mut gpt = Gpt::new("7b".parse().unwrap());
    gpt.tensor_parallel = 4;
    gpt.micro_batch = 8;
    gpt.profile(&cluster.device).unwrap()
}

fn cluster() -> Cluster {
    "a100-40-pcie".parse().unwrap()
}

#[test]
fn a_plan_reads_back_from_its_file_and_refuses_to_contradict_itself() {
    let cluster = cluster();
    let profile = gpt(&cluster);
    let setup = Setup::new(&profile, &cluster, 4, 16);
    let mut plan = Plan::new(&setup, &Heu::default()).unwrap();
    let text = plan.to_json().unwrap();
    assert_eq!(Plan::from_json(&text).unwrap(), plan);
    assert!(
        text.contains("\"retain\"") && text.contains("\"B1\""),
        "{text}"
    );
    plan.stages[2].predicted.peak = Bytes(plan.setup.budget.0 + 1);
    assert!(
        plan.to_json()
            .unwrap_err()
            .to_string()
            .starts_with("stage 2 holds")
    );
    plan.stages.pop();
    let refused = PlanError::StageCount {
        planned: 3,
        stages: 4,
    };
    assert_eq!(plan.validate(), Err(refused));
}

#[test]
fn the_runtime_recomputes_exactly_what_the_plan_does_not_retain() {
    let cluster = cluster();
    let profile = gpt(&cluster);
    let layout = profile.layout().unwrap();
    let setup = Setup::new(&profile, &cluster, 4, 16);
    let plan = Plan::new(&setup, &Heu::default()).unwrap();
    let policy = plan.policy(&layout).unwrap();
    let stages = policy.resolve(&layout, &plan.partition).unwrap();
    let mut recomputed = 0;
    for (index, stage) in stages.iter().enumerate() {
        let choices: Vec<_> = plan.stages[index]
            .plan
            .by_layer()
            .flat_map(|g| &g.choices)
            .collect();
        let range = plan.partition.range(StageId(index));
        let inside = range.filter(|&segment| layout.layer_of(segment).is_some());
        for (segment, choice) in inside.zip(choices) {
            let found = stage.choice(segment) == Some(Choice::Recompute);
            assert_eq!(found, choice.is_recomputed());
            recomputed += usize::from(found);
        }
    }
    assert!(recomputed > 0);
    assert_eq!(stages[0].choice(0), Some(Choice::Retain));
    assert_eq!(stages[3].choice(layout.len() - 1), Some(Choice::Retain));
}

/// By hand, for a layer qkv, attention, projection, sum, mlp-in, mlp-out, sum.
#[test]
fn a_segment_that_finds_no_input_where_the_one_before_was_recomputed_restarts() {
    use super::super::choice::SegmentChoice::{Exposed, InWindow};
    let cluster = cluster();
    let profile = gpt(&cluster);
    let layout = profile.layout().unwrap();
    let setup = Setup::new(&profile, &cluster, 4, 16);
    let mut plan = Plan::new(&setup, &Heu::default()).unwrap();
    // B1 lies before what is exposed in the first half, and before B2: attention and mlp-out come
    // before what they would be fed by. Between projection and mlp-in lies the sum.
    let choices = [
        Exposed,
        InWindow(Window::B1),
        InWindow(Window::B1),
        InWindow(Window::B2),
        InWindow(Window::B1),
    ];
    for stage in &mut plan.stages {
        let layers = stage.plan.layers();
        stage.plan.groups = vec![LayerGroup::new(layers, choices.to_vec())];
    }
    let text = plan.policy(&layout).unwrap().to_string();
    let letters: String = text.trim_start_matches("hand:").replace('/', "");
    let layers = profile.layer_count();
    assert_eq!(letters, format!("K{}K", "RSRSS".repeat(layers)));
}

#[test]
fn what_may_be_recomputed_ahead_follows_from_the_window_of_each_choice() {
    use super::super::choice::SegmentChoice::{Exposed, InWindow, Retain};
    use crate::plan::advance::Advance::{self, Always, Beside, CoolDown, Never};
    let cluster = cluster();
    let profile = gpt(&cluster);
    let layout = profile.layout().unwrap();
    let setup = Setup::new(&profile, &cluster, 2, 8);
    let mut plan = Plan::new(&setup, &RetainAll).or_else(|_| Plan::new(&setup, &Heu::default()));
    let plan = plan.as_mut().unwrap();
    let choices = [
        (Retain, Never),
        (Exposed, Never),
        (InWindow(Window::F1), Always),
        (InWindow(Window::F2), Always),
        (InWindow(Window::Send), Always),
        (InWindow(Window::Recv), Always),
        (InWindow(Window::Bubble), CoolDown),
        // Told below: they depend on where the segment is.
        (InWindow(Window::B1), Never),
        (InWindow(Window::B2), Never),
    ];
    // The embedding, then layers of five segments: attention in three, then the MLP in two.
    let middle_of = |layer: usize| Beside(crate::ids::SegmentId(1 + 5 * layer + 2));
    let end_of = |layer: usize| Beside(crate::ids::SegmentId(1 + 5 * layer + 4));
    let mut layer = 0;
    let mut told = choices.iter().cycle();
    let mut expected: Vec<Vec<Advance>> = Vec::new();
    for (index, stage) in plan.stages.iter_mut().enumerate() {
        let segments = stage.plan.groups[0].choices.len();
        let mut allowed = vec![Never; plan.partition.range(StageId(index)).len()];
        let inside = plan.partition.range(StageId(index)).enumerate();
        let mut inside = inside.filter(|(_, segment)| layout.layer_of(*segment).is_some());
        let layers = stage.plan.layers();
        stage.plan.groups.clear();
        for within in 0..layers {
            let mut own = Vec::new();
            for segment in 0..segments {
                let (choice, advance) = *told.next().unwrap();
                own.push(choice);
                let advance = match choice {
                    InWindow(Window::B2) => end_of(layer),
                    InWindow(Window::B1) if segment < 3 => middle_of(layer),
                    InWindow(Window::B1) if within + 1 == layers => end_of(layer),
                    InWindow(Window::B1) => middle_of(layer + 1),
                    _ => advance,
                };
                allowed[inside.next().unwrap().0] = advance;
            }
            stage.plan.groups.push(LayerGroup::new(1, own));
            layer += 1;
        }
        expected.push(allowed);
    }
    assert_eq!(plan.ahead(&layout).unwrap(), expected);
}

#[test]
fn a_plan_for_another_chain_is_refused() {
    let cluster = cluster();
    let profile = gpt(&cluster);
    let setup = Setup::new(&profile, &cluster, 4, 16);
    let mut plan = Plan::new(&setup, &Heu::default()).unwrap();
    let other = ChainLayout::new(vec![crate::plan::layout::Segment::outside("a"); 3]).unwrap();
    assert!(matches!(
        plan.policy(&other),
        Err(PlanError::OtherChain { layout: 3, .. })
    ));
    plan.stages[1].plan.groups[0].choices.pop();
    let layout = profile.layout().unwrap();
    let refused = plan.policy(&layout);
    assert!(
        matches!(refused, Err(PlanError::SegmentCount { planned: 4, .. })),
        "{refused:?}"
    );
    plan.stages[1].plan.groups[0].layers += 1;
    let refused = plan.policy(&layout);
    assert!(
        matches!(refused, Err(PlanError::LayerCount { .. })),
        "{refused:?}"
    );
}

#[test]
fn windows_that_are_switched_off_are_not_used_and_never_help() {
    let cluster = cluster();
    let profile = gpt(&cluster);
    let mut before = None;
    for count in (0..=Window::ALL.len()).rev() {
        let mut setup = Setup::new(&profile, &cluster, 4, 16);
        setup.windows.truncate(count);
        let plan = Plan::new(&setup, &Heu::default()).unwrap();
        let groups = plan.stages.iter().flat_map(|stage| &stage.plan.groups);
        let used: Vec<_> = groups
            .flat_map(|g| &g.choices)
            .filter_map(|c| c.window())
            .collect();
        assert!(used.iter().all(|window| setup.windows.contains(window)));
        let slowest = plan.stages.iter().map(|stage| stage.time).max();
        assert!(before <= slowest, "{count} windows");
        before = slowest;
    }
}

#[test]
fn layers_that_are_replayed_together_are_one_group_to_the_runtime() {
    let cluster = cluster();
    let profile = gpt(&cluster);
    let setup = Setup::new(&profile, &cluster, 4, 4);
    let retained = Plan::new(&setup, &RetainAll);
    assert!(matches!(
        retained,
        Err(PlanError::Deal(DealError::Infeasible { .. }))
    ));
    let planner = Uniform { together: Some(2) };
    let plan = Plan::new(&setup, &planner).unwrap();
    let layout = profile.layout().unwrap();
    let stages = plan.policy(&layout).unwrap();
    let stages = stages.resolve(&layout, &plan.partition).unwrap();
    let layers = plan.layers().unwrap();
    for (index, (stage, layers)) in stages.iter().zip(layers).enumerate() {
        let groups = stage.runs().iter().filter_map(|run| match run {
            Run::Recompute(group) => Some(group.len()),
            Run::Retain(_) => None,
        });
        let mut expected = vec![10; layers / 2];
        expected.extend((layers % 2 == 1).then_some(5));
        assert_eq!(groups.collect::<Vec<_>>(), expected, "stage {index}");
    }
}
