//! A plan, stage by stage, as a table.

use lynx_burn::plan::planner::{LayerGroup, Plan, PlanError, Replay};
use lynx_burn::units::Bytes;

use crate::table::{Table, duration, percent};

/// What every stage holds and does. Stages whose layers have other segments get a table of their
/// own.
pub(super) fn table(plan: &Plan) -> Result<String, PlanError> {
    let problems = plan.problems()?;
    let segments = |stage: usize| -> Vec<&str> {
        let segments = &problems[stage].segments;
        segments
            .iter()
            .map(|segment| segment.name.as_str())
            .collect()
    };
    let stages: Vec<usize> = (0..problems.len()).collect();
    let mut tables = Vec::new();
    for alike in stages.chunk_by(|&a, &b| segments(a) == segments(b)) {
        let names = segments(alike[0]);
        let mut table = Table::new(headings(&names));
        for &stage in alike {
            let (problem, planned) = (&problems[stage], &plan.stages[stage]);
            let cost = &planned.predicted;
            let (hidden, exposed) = (cost.hidden_step(problem), cost.exposed_step(problem));
            let all = hidden + exposed;
            let budget = problem.budget.0.max(1) as f64;
            let figures = [
                percent((all > 0).then(|| hidden as f64 / all as f64)),
                duration(planned.time),
                problem.in_flight.to_string(),
                cost.peak.to_string(),
                percent(Some(cost.peak.0 as f64 / budget)),
            ];
            let mut name = stage.to_string();
            let mut figures = figures.to_vec();
            for group in &planned.plan.groups {
                table.row(row(&name, group, &figures));
                // The figures are those of the whole stage.
                name.clear();
                figures.clear();
            }
        }
        tables.push(table.to_string());
    }
    Ok(tables.join("\n\n"))
}

fn headings(segments: &[&str]) -> Vec<String> {
    let figures = ["hidden", "micro-batch", "in flight", "peak", "of budget"];
    let all = ["stage", "layers"].iter().chain(segments).chain(&figures);
    all.map(|&heading| heading.to_owned()).collect()
}

fn row(name: &str, group: &LayerGroup, figures: &[String]) -> Vec<String> {
    let layers = match group.replay {
        Replay::Segments => group.layers.to_string(),
        Replay::Layers(1) => format!("{}, whole", group.layers),
        Replay::Layers(together) => format!("{}, {together} at once", group.layers),
    };
    let choices = group.choices.iter().map(ToString::to_string);
    let cells = [name.to_owned(), layers].into_iter().chain(choices);
    cells.chain(figures.iter().cloned()).collect()
}

/// The most that any stage holds.
pub(super) fn peak(plan: &Plan) -> Bytes {
    let peaks = plan.stages.iter().map(|stage| stage.predicted.peak);
    peaks.max().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use lynx_burn::plan::cluster::Cluster;
    use lynx_burn::plan::planner::{Setup, Strategy};
    use lynx_burn::plan::profile::Gpt;

    use super::*;

    #[test]
    fn every_group_of_layers_has_a_row_and_the_layers_add_up() {
        let cluster: Cluster = "a100-40-pcie".parse().expect("a preset");
        let gpt = Gpt {
            tensor_parallel: 4,
            ..Gpt::new("7b".parse().expect("a size"))
        };
        let profile = gpt.profile(&cluster.device).expect("a profile");
        let setup = Setup {
            budget: Bytes(24 << 30),
            ..Setup::new(&profile, &cluster, 4, 8)
        };
        let limit = std::time::Duration::from_millis(1);
        let strategy = Strategy::named("full-block", limit).expect("a strategy");
        let plan = strategy.plan(&setup).expect("fits");
        let text = table(&plan).expect("the plan's own setup");
        let rows: Vec<&str> = text.lines().skip(1).collect();
        let groups: usize = plan
            .stages
            .iter()
            .map(|stage| stage.plan.groups.len())
            .sum();
        assert_eq!(rows.len(), groups, "{text}");
        let layers = rows.iter().map(|row| {
            // The first number after the stage's, which only a stage's first row has.
            let mut words = row.split_whitespace();
            let at = usize::from(!row.starts_with(' '));
            let word = words.nth(at).expect("a number of layers");
            word.trim_end_matches(',')
                .parse::<usize>()
                .expect("a number")
        });
        assert_eq!(layers.sum::<usize>(), 32, "{text}");
        for name in [
            "qkv",
            "attention",
            "projection",
            "mlp-in",
            "mlp-out",
            "of budget",
        ] {
            assert!(
                text.lines().next().is_some_and(|line| line.contains(name)),
                "{text}"
            );
        }
    }
}
