//! The evaluation as a page.

use std::fmt::Write;

use lynx_burn::plan::cluster::Window;

use super::run::{Compared, LIMIT, UNLIMITED};
use super::settings::{CLUSTERS, MICRO_BATCHES, MODELS};
use super::summary::{
    FULL, MEGATRON, NOT_OVERLAPPED, Ratios, against, all_hidden, best, depth_alone, search_ratio,
    to_bound, to_opt, worth_of, worth_of_depth,
};

/// The page. `machine` is where the search times are from.
pub fn markdown(all: &[Compared], machine: &str) -> String {
    let mut text = head(all, machine);
    for beside in [false, true] {
        let of: Vec<&Compared> = all.iter().filter(|c| c.setting.beside == beside).collect();
        text += if beside {
            "\n## With weight gradients computed beside collectives, as Megatron-LM does\n\n"
        } else {
            "\n## With nothing else beside collectives\n\n"
        };
        text += &aims(&of);
        text += &kinds(&of);
        text += &by_place(&of);
        text += &shortfalls(&of);
    }
    text + &opt(all)
}

fn head(all: &[Compared], machine: &str) -> String {
    format!(
        "# Evaluation\n\n\
         Simulated, not measured: GPTs of {} on {}, {MICRO_BATCHES} micro-batches a step, {} settings \
         in which memory binds (nothing retained would not fit and something does), under the device's memory less 2 GiB. \
         Of every shape the smallest and the largest such micro-batch. Costs are the analytic profile's and the \
         presets', in which contention, half-points and the Ascend's rates are estimates: see their documentation. Every \
         baseline runs 1F1B with an even deal, but `adapipe` balances. Search times are from {machine}.\n\n\
         ![step relative to the bound](evaluation.svg)\n",
        MODELS.join(", "),
        CLUSTERS.join(", "),
        all.len(),
    )
}

fn line(text: &mut String, what: &str, ratios: &Ratios, aim: &str) {
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "| {what} | {} | {:.3} | {:.3} | {:.3} | {aim} |",
        ratios.count(),
        ratios.least(),
        ratios.median(),
        ratios.most()
    );
}

fn aims(all: &[&Compared]) -> String {
    let mut text = "| step of .. over HEU's | settings | least | median | most | aim |\n\
                    | --- | --- | --- | --- | --- | --- |\n"
        .to_owned();
    let full = against(all, FULL);
    line(
        &mut text,
        "full as Megatron",
        &full,
        "most >= 1.40, median >= 1.20",
    );
    let megatron = against(all, MEGATRON);
    line(
        &mut text,
        "best of full, block, selective",
        &megatron,
        "most >= 1.37",
    );
    let others = against(all, NOT_OVERLAPPED);
    line(
        &mut text,
        "best of all that overlap nothing",
        &others,
        "most >= 1.15, least >= 1.00",
    );
    for name in NOT_OVERLAPPED {
        line(&mut text, &format!("`{name}`"), &against(all, &[name]), "");
    }
    text += "\n| HEU's step over the bound (unlimited memory) | settings | least | median | most | aim |\n\
             | --- | --- | --- | --- | --- | --- |\n";
    line(&mut text, "all settings", &to_bound(all), "");
    let hidden = all_hidden(all);
    line(
        &mut text,
        "where the windows hold all recompute",
        &to_bound(&hidden),
        "most <= 1.02",
    );
    text
}

fn kinds(all: &[&Compared]) -> String {
    let mut text =
        "\nWhat each kind of window is worth: HEU's step without it over its step with all.\n\n\
                    | without | settings | least | median | most | |\n\
                    | --- | --- | --- | --- | --- | --- |\n"
            .to_owned();
    for window in Window::ALL {
        line(&mut text, &window.to_string(), &worth_of(all, window), "");
    }
    line(
        &mut text,
        "forwards that run ahead",
        &worth_of_depth(all),
        "",
    );
    let alone = depth_alone(all);
    text += "\nDepth without windows: `adapipe` over `adapipe` with forwards that run ahead.\n\n\
             | | settings | least | median | most | |\n| --- | --- | --- | --- | --- | --- |\n";
    line(&mut text, "depth alone", &alone, "");
    text
}

fn by_place(all: &[&Compared]) -> String {
    let mut text = "\nHEU by place: against the best that overlaps nothing, and to the bound (medians).\n\n\
                    | cluster | one stage | pipeline without tensor parallelism | both |\n| --- | --- | --- | --- |\n"
        .to_owned();
    for cluster in CLUSTERS {
        let mut cells = Vec::new();
        for place in 0..3 {
            let within = |c: &&&Compared| {
                let of = match (c.setting.setup.stages, c.setting.ranks()) {
                    (1, _) => 0,
                    (_, 1) => 1,
                    _ => 2,
                };
                c.setting.cluster == cluster && of == place
            };
            let of: Vec<&Compared> = all.iter().filter(within).copied().collect();
            cells.push(if of.is_empty() {
                "-".to_owned()
            } else {
                let (gain, bound) = (against(&of, NOT_OVERLAPPED), to_bound(&of));
                format!("{:.3}, {:.3} ({})", gain.median(), bound.median(), of.len())
            });
        }
        let _ = writeln!(text, "| {cluster} | {} |", cells.join(" | "));
    }
    text
}

/// The settings that stay furthest above the bound, and where their recompute went.
fn shortfalls(all: &[&Compared]) -> String {
    let ratio = |c: &Compared| c.step("heu").zip(c.step(UNLIMITED)).map(|(h, b)| h / b);
    let mut far: Vec<_> = all.iter().filter_map(|c| Some((ratio(c)?, *c))).collect();
    far.retain(|(ratio, _)| *ratio > 1.02);
    far.sort_by(|a, b| b.0.total_cmp(&a.0));
    let mut text = format!(
        "\n{} settings stay more than 2 % above the bound. The furthest, with where their recompute goes: what is \
         exposed is what the windows could not hold.\n\n\
         | setting | HEU / bound | best other / bound | exposed | {} |\n| --- | --- | --- | --- |{}\n",
        far.len(),
        Window::ALL.map(|w| w.to_string()).join(" | "),
        " --- |".repeat(Window::ALL.len()),
    );
    for (ratio, compared) in far.iter().take(12) {
        let bound = compared.step(UNLIMITED).unwrap_or(f64::NAN);
        let other = best(compared, NOT_OVERLAPPED).unwrap_or(f64::NAN) / bound;
        let exposed = compared.row("heu").and_then(|row| row.exposed_ms);
        let exposed = exposed.unwrap_or(0.0);
        let hidden: f64 = compared.hidden_in.iter().map(|(_, time)| time).sum();
        let share = |time: f64| match exposed + hidden {
            0.0 => "-".to_owned(),
            all => format!("{:.0} %", 100.0 * time / all),
        };
        let cells: Vec<_> = compared.hidden_in.iter().map(|(_, t)| share(*t)).collect();
        let _ = writeln!(
            text,
            "| {} | {ratio:.3} | {other:.3} | {} | {} |",
            name(compared),
            share(exposed),
            cells.join(" | ")
        );
    }
    text
}

fn name(compared: &Compared) -> String {
    let setting = &compared.setting;
    format!(
        "{} {} tp {} pp {} mb {} {:?}",
        setting.model,
        setting.cluster,
        setting.ranks(),
        setting.setup.stages,
        setting.micro_batch,
        setting.attention
    )
}

fn opt(all: &[Compared]) -> String {
    let with: Vec<&Compared> = all.iter().filter(|c| c.row("opt").is_some()).collect();
    let mut text = format!(
        "\n## HEU and OPT\n\nOPT (one setting for each model and cluster, {LIMIT:?} a stage, microlp) deals layers \
         as HEU does and then plans every layer for itself.\n\n\
         | | settings | least | median | most | aim |\n| --- | --- | --- | --- | --- | --- |\n"
    );
    line(
        &mut text,
        "HEU's step / OPT's, all",
        &to_opt(&with, f64::INFINITY),
        "",
    );
    line(
        &mut text,
        "HEU's step / OPT's, gap <= 1 %",
        &to_opt(&with, 0.01),
        "most <= 1.01",
    );
    line(
        &mut text,
        "OPT's search time / HEU's",
        &search_ratio(&with),
        "",
    );
    text
}
