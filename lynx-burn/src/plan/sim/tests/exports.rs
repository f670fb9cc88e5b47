//! What is written can be read by others: JSON parses, XML is well-formed, and
//! nothing is missing in either.

use proptest::prelude::*;
use serde_json::Value;

use super::super::costs::StageCosts;
use super::super::timeline::SpanKind;
use super::super::{Costs, Timeline, record, svg, trace};
use super::random::cases;
use super::{even, keep};
use crate::plan::schedule::Kind;
use crate::plan::schedule::transfers::eager;
use crate::units::{Bytes, Nanos};

/// Every element is closed where it should be; returns the names of all.
fn elements(xml: &str) -> Result<Vec<String>, String> {
    let mut open = Vec::new();
    let mut all = Vec::new();
    let mut rest = xml;
    while let Some(begin) = rest.find('<') {
        let text = &rest[..begin];
        if text.contains('>') || (open.is_empty() && !text.trim().is_empty()) {
            return Err(format!("loose text {text:?}"));
        }
        let entities = text.split('&').skip(1);
        for entity in entities {
            let known = ["amp;", "lt;", "gt;", "quot;"];
            if !known.iter().any(|known| entity.starts_with(known)) {
                return Err(format!("entity {entity:?}"));
            }
        }
        let end = rest[begin..].find('>').ok_or("an open tag")? + begin;
        let tag = &rest[begin + 1..end];
        rest = &rest[end + 1..];
        if let Some(name) = tag.strip_prefix('/') {
            if open.pop() != Some(name.to_owned()) {
                return Err(format!("{name} ends out of turn"));
            }
            continue;
        }
        let body = tag.trim_end_matches('/');
        let name = body.split(' ').next().unwrap_or_default().to_owned();
        if body.matches('"').count() % 2 == 1 || body.contains('<') {
            return Err(format!("tag {tag:?}"));
        }
        all.push(name.clone());
        if !tag.ends_with('/') {
            open.push(name);
        }
    }
    match open.is_empty() && rest.trim().is_empty() {
        true => Ok(all),
        false => Err(format!("{open:?} are open, {rest:?} is left")),
    }
}

fn small() -> Timeline {
    let mut stages = even(2, 1000, 2000);
    keep(&mut stages[0], 1 << 20);
    let schedule = eager(&Kind::OneFOneB.generate(2, 2).unwrap());
    record(&schedule, &Costs::with_free_links(stages))
        .unwrap()
        .1
}

proptest! {
    #[test]
    fn every_trace_parses_and_has_an_event_for_everything_that_lasts((schedule, costs) in cases()) {
        let Ok((_, timeline)) = record(&schedule, &costs) else {
            return Ok(());
        };
        let trace: Value = serde_json::from_str(&trace::to_string(&timeline)).unwrap();
        let events = trace["traceEvents"].as_array().unwrap();
        let count = |ph: &str| events.iter().filter(|e| e["ph"] == ph).count();
        let stages = &timeline.stages;
        let work = stages.iter().flat_map(|t| t.main.iter().chain(&t.beside));
        let work = work.filter(|span| !span.kind.is_wait()).count();
        let lasts = |m: &&super::super::timeline::Message| m.begin < m.arrive;
        let messages = timeline.channels.iter().map(|c| c.messages.iter().filter(lasts).count());
        prop_assert_eq!(count("X"), work + messages.clone().sum::<usize>());
        let points: usize = stages.iter().map(|track| track.memory.len()).sum();
        prop_assert_eq!(count("C"), points);
        let beside = stages.iter().filter(|track| !track.beside.is_empty()).count();
        let links = messages.filter(|count| *count > 0).count();
        prop_assert_eq!(count("M"), 3 * (stages.len() + links) + beside);
        prop_assert_eq!(events.len(), count("X") + count("C") + count("M"));
    }

    #[test]
    fn every_picture_is_well_formed((schedule, costs) in cases(), title in any::<String>(), width in any::<u32>()) {
        let Ok((_, timeline)) = record(&schedule, &costs) else {
            return Ok(());
        };
        let options = svg::Options { title, width, budget: Some(Bytes(150)) };
        let picture = svg::draw(&timeline, &options);
        let elements = elements(&picture).map_err(TestCaseError::fail)?;
        prop_assert_eq!(elements[0].as_str(), "svg");
        prop_assert!(!picture.contains("NaN") && !picture.contains("inf"), "{}", picture);
    }
}

#[test]
fn two_timelines_are_drawn_one_under_the_other_on_one_scale() {
    let short = small();
    let mut stages = even(3, 5000, 9000);
    keep(&mut stages[1], 1 << 21);
    let schedule = eager(&Kind::GPipe.generate(3, 2).unwrap());
    let (_, long) = record(&schedule, &Costs::with_free_links(stages)).unwrap();
    let options = svg::Options::default();
    let together = svg::draw_together(&[("simulated", &short), ("recorded", &long)], &options);
    elements(&together).unwrap();
    for name in ["simulated", "recorded"] {
        assert!(together.contains(&format!(">{name}<")), "{together}");
    }
    let rows = |picture: &str, stage: usize| picture.matches(&format!(">stage {stage}<")).count();
    let alone = [&short, &long].map(|timeline| svg::draw(timeline, &options));
    for stage in 0..3 {
        let expected = rows(&alone[0], stage) + rows(&alone[1], stage);
        assert_eq!(rows(&together, stage), expected);
    }
    // The longer one alone sets the scale: its boxes are where they are without the other.
    let boxes = |picture: &str| {
        let rects = picture.split("<rect class=\"b\"").skip(1);
        let left =
            rects.filter_map(|rect| Some(rect.split("x=\"").nth(1)?.split('"').next()?.to_owned()));
        left.collect::<std::collections::BTreeSet<String>>()
    };
    assert!(boxes(&alone[1]).len() > 3 && boxes(&alone[1]).is_subset(&boxes(&together)));
}

#[test]
fn instants_of_a_trace_are_exact_microseconds() {
    let mut stages = even(1, 1_234_567, 3);
    stages[0].forward = vec![super::compute("a \"quoted\" label", 1_234_567)];
    let schedule = Kind::GPipe.generate(1, 1).unwrap();
    let (_, timeline) = record(&schedule, &Costs::with_free_links(stages)).unwrap();
    let text = trace::to_string(&timeline);
    assert!(text.contains("\"ts\":1234.567,\"dur\":0.003"), "{text}");
    let trace: Value = serde_json::from_str(&text).unwrap();
    let names = trace["traceEvents"].as_array().unwrap().iter();
    let names: Vec<_> = names
        .filter(|e| e["ph"] == "X")
        .map(|e| &e["name"])
        .collect();
    assert_eq!(names, ["F0 a \"quoted\" label", "B0 backward"]);
}

#[test]
fn a_picture_has_a_box_with_its_number_for_every_pass() {
    let timeline = small();
    let picture = svg::draw(&timeline, &svg::Options::default());
    for (box_class, passes) in [("f", 4), ("b", 4)] {
        // One more explains the colour.
        let boxes = picture
            .matches(&format!("<rect class=\"{box_class}\""))
            .count();
        assert_eq!(boxes, passes + 1);
    }
    let numbers = picture.matches("<text class=\"in\"").count();
    assert_eq!(numbers, 8);
    for words in [
        "time (µs)",
        "memory (MiB)",
        "stage 1",
        "forward",
        "peak",
        "2 micro-batches",
    ] {
        assert!(picture.contains(words), "{words}");
    }
    assert!(
        !picture.contains("collective"),
        "what does not occur is not explained"
    );
}

#[test]
fn chunks_have_shades_and_gradients_of_weights_a_colour_and_both_have_names() {
    let kind: Kind = "interleaved:2".parse().unwrap();
    let chunks = eager(&kind.generate(2, 2).unwrap());
    let costs = Costs::in_shape(chunks.shape(), even(4, 1000, 2000));
    let (_, timeline) = record(&chunks, &costs).unwrap();
    let picture = svg::draw(&timeline, &svg::Options::default());
    let boxes = |picture: &str, class: &str| {
        let begin = format!("<rect class=\"{class}\"");
        picture.matches(&begin).count()
    };
    // One more explains the colour of the first chunk.
    let counts = ["f", "f1", "b", "b1", "w"].map(|class| boxes(&picture, class));
    assert_eq!(counts, [5, 4, 5, 4, 0]);
    assert!(picture.contains("shades: chunks") && picture.contains("F1.1"));
    let trace = trace::to_string(&timeline);
    assert!(trace.contains("\"F1.1 forward\"") && trace.contains("\"chunk\":1"));

    let zb = eager(&Kind::ZbH1.generate(2, 2).unwrap());
    let stages = vec![StageCosts::plain_split(Nanos(1000), Nanos(1000), Nanos(1000)); 2];
    let (_, timeline) = record(&zb, &Costs::with_free_links(stages)).unwrap();
    let picture = svg::draw(&timeline, &svg::Options::default());
    let counts = ["f", "b", "w"].map(|class| boxes(&picture, class));
    assert_eq!(counts, [5, 5, 5]);
    assert!(picture.contains("gradients of weights") && !picture.contains("shades"));
    assert!(trace::to_string(&timeline).contains("\"W1 weight\",\"cat\":\"weight\""));
}

#[test]
fn nothing_at_all_can_be_drawn_and_traced() {
    let empty = Timeline::default();
    assert!(elements(&svg::draw(&empty, &svg::Options::default())).is_ok());
    assert!(serde_json::from_str::<Value>(&trace::to_string(&empty)).is_ok());
    assert_eq!(empty.critical_path(), None);
}

#[test]
fn a_timeline_by_hand_that_makes_no_sense_has_no_critical_path() {
    let mut timeline = small();
    for track in &mut timeline.stages {
        for span in &mut track.main {
            if let SpanKind::Wait { awaited, .. } = &mut span.kind {
                *awaited = super::super::timeline::Awaited::Stage(crate::ids::StageId(9));
            }
        }
    }
    assert_eq!(timeline.critical_path(), None);
    let mut gap = small();
    gap.stages[0].main[1].begin = Nanos(1);
    gap.stages[0].main.remove(0);
    assert_eq!(gap.critical_path(), None);
}

/// A long step must not make a file that nobody can open.
#[test]
fn the_picture_of_a_long_step_stays_small() {
    let schedule = eager(&Kind::OneFOneB.generate(4, 20_000).unwrap());
    let mut stages = even(4, 10, 20);
    for stage in &mut stages {
        keep(stage, 1);
    }
    let costs = Costs::with_free_links(stages);
    let (_, timeline) = record(&schedule, &costs).unwrap();
    let picture = svg::draw(&timeline, &svg::Options::default());
    assert!(picture.len() < 2_000_000, "{}", picture.len());
}
