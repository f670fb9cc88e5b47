//! Bounds against every plan of small stages.

use crate::plan::planner::brute::{Dice, all_plans, problem};
use crate::plan::planner::evaluate::Cost;
use crate::plan::planner::stage_search::StageSearch;

#[test]
fn no_plan_is_below_a_bound_and_bounds_are_often_reached() {
    let (mut exposing, mut sum, mut all) = (0, 0.0, 0);
    for case in 0..400 {
        let mut dice = Dice(case);
        let sizes = [(1, 7), (2, 5), (3, 2), (4, 0)];
        let (segments, windows) = sizes[dice.below(4) as usize];
        let mut problem = problem(&mut dice, segments, windows);
        let plans = all_plans(&problem, true);
        for _ in 0..3 {
            let some = dice.below(plans.len() as u64) as usize;
            problem.budget = plans[some].1.peak;
            let search = StageSearch::new(&problem, (true, true), None);
            let fitting = plans.iter().filter(|(_, cost)| cost.peak <= problem.budget);
            let exposed = fitting.map(|(_, cost)| cost.exposed_step(&problem)).min();
            let exposed = u64::try_from(exposed.unwrap()).unwrap();
            let none = |cost: &&Cost| cost.exposed_step(&problem) == 0;
            let costs = plans.iter().map(|(_, cost)| cost);
            let thrifty = costs.filter(none).map(|cost| cost.peak.0).min();
            if let Some(peak) = thrifty {
                // Whatever peak the prices were made for.
                for known in [peak, problem.budget.0, 2 * peak] {
                    let prices = search.prices(0, known);
                    assert!(
                        search.can_reach(&prices, 0, peak),
                        "case {case}: {problem:?}"
                    );
                }
            }
            for known in [exposed, exposed + 1 + dice.below(50)] {
                let bound = search.bound(known, problem.budget.0);
                assert!(
                    bound <= exposed,
                    "case {case}: {bound} > {exposed} {problem:?}"
                );
                if exposed > 0 {
                    exposing += 1;
                    sum += bound as f64 / exposed as f64;
                }
            }
            all += 1;
        }
    }
    assert!(exposing > 200, "{exposing} of {all}");
    let mean = sum / f64::from(exposing);
    assert!(mean > 0.4, "bounds are {mean} of the best on average");
}
