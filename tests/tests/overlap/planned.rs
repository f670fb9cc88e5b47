//! A plan is obeyed, and one that does not fit is refused.

use std::sync::{Arc, Mutex};

use burn::optim::SgdConfig;
use lynx_burn::plan::advance::Advance;
use lynx_burn::plan::policy::Policy;
use lynx_burn::{BuildError, Observer, Overlap, RecomputeSpan, TrainerBuilder};
use lynx_tests::overlap::{batches, even, mixed, per_segment, wide};

use super::{alone, device};

/// Keeps all recompute that is told.
#[derive(Default)]
struct Recomputes(Mutex<Vec<RecomputeSpan>>);

impl Observer for Recomputes {
    fn recompute(&self, span: &RecomputeSpan) {
        self.0.lock().expect("no panic inside").push(span.clone());
    }
}

#[test]
fn a_plan_is_obeyed_to_the_segment_and_the_cool_down() {
    alone(|| {
        let spec = wide();
        let partition = even(&spec, 4);
        let run = |allowed: Vec<Vec<Advance>>| {
            let seen = Arc::new(Recomputes::default());
            let mut trainer = TrainerBuilder::new()
                .stages(4)
                .policy(Policy::RecomputeAll)
                .overlap(Overlap::Planned)
                .ahead(allowed)
                .link("20MB/s,100us".parse().expect("a speed"))
                .observer(seen.clone())
                .train(spec.init(&device()), SgdConfig::new().init())
                .expect("it fits");
            trainer
                .backward(batches(&spec, &[256; 5]))
                .expect("a backward");
            let seen = seen.0.lock().expect("unlocked");
            let hidden = seen.iter().filter(|span| span.window.is_some());
            hidden.cloned().collect::<Vec<_>>()
        };
        assert!(run(per_segment(&partition, || Advance::Never)).is_empty());
        let cool_down = run(per_segment(&partition, || Advance::CoolDown));
        assert!(!cool_down.is_empty());
        for span in &cool_down {
            // Stage s of 4: its last 3 - s backwards.
            let first = 5 - (3 - span.stage.0);
            assert!(span.micro_batch.0 >= first, "{span:?}");
        }
        // Groups of two segments of which one may not be: the first may be by itself, the second
        // not without it.
        for (own, expected) in [(0, vec![(0, 1)]), (1, vec![])] {
            let mut one_of_two = per_segment(&partition, || Advance::Always);
            one_of_two[0] = vec![Advance::Never; 2];
            one_of_two[0][own] = Advance::Always;
            let found = run(one_of_two);
            let mut of_first: Vec<_> = found
                .iter()
                .filter(|span| span.stage.0 == 0)
                .map(|span| (span.segments.start, span.segments.end))
                .collect();
            of_first.dedup();
            assert_eq!(of_first, expected);
            let whole = found.iter().filter(|span| span.stage.0 > 0);
            assert!(whole.clone().count() > 0);
            assert!(
                whole.clone().all(|span| span.segments.len() == 2),
                "{found:?}"
            );
        }
    });
}

#[test]
fn planned_overlap_without_a_plan_that_fits_is_refused() {
    let spec = mixed();
    let build = |ahead: Option<Vec<Vec<Advance>>>| {
        let mut builder = TrainerBuilder::new().stages(2).overlap(Overlap::Planned);
        if let Some(ahead) = ahead {
            builder = builder.ahead(ahead);
        }
        builder
            .train(spec.init(&device()), SgdConfig::new().init())
            .map(drop)
    };
    let fits = per_segment(&even(&spec, 2), || Advance::Always);
    build(Some(fits.clone())).expect("it fits");
    assert!(matches!(build(None), Err(BuildError::NothingPlanned)));
    let short = build(Some(fits[..1].to_vec()));
    assert!(matches!(
        short,
        Err(BuildError::AheadStages {
            given: 1,
            stages: 2
        })
    ));
    let mut narrow = fits;
    narrow[1].pop();
    let error = build(Some(narrow)).expect_err("three of four");
    assert!(
        error
            .to_string()
            .contains("3 segments of stage 1, which has 4"),
        "{error}"
    );
}
