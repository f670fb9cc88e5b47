//! What a person looks at: `report.html`, and its pictures by themselves.
//!
//! The page is one file that needs no other and no network. It is written anew at each evaluation
//! from the run's own records, and reads itself again in the browser while the run goes on.

mod chart;
mod curves;
mod one_step;
mod page;
mod scale;

use std::io::Write;
use std::path::Path;

use lynx_burn::plan::sim::svg;
use lynx_burn::plan::sim::timeline::Timeline;

use self::curves::{losses, mebibytes, memory, speed};
use self::page::Page;
use self::scale::number;
use crate::files::{self, WriteError};
use crate::metrics::Record;

pub use one_step::OneStep;

/// What does not change during a run.
#[derive(Clone, Debug)]
pub struct Subject {
    /// Names and values: the model, how it is cut, the text.
    pub about: Vec<(&'static str, String)>,
    /// What knowing each token's frequency alone would reach, in nats a token.
    pub unigram_entropy: f64,
    /// What a token is.
    pub unit: &'static str,
    /// What a nat a token is in bits a byte, in the text held out.
    pub bits_per_nat: f64,
    /// Steps of the whole run.
    pub steps: u64,
    /// Ranks that share each stage.
    pub ranks: usize,
    /// Replicas of the pipeline.
    pub replicas: usize,
}

/// How far a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It goes on.
    Running,
    /// It was asked to end.
    Interrupted,
    /// It took all its steps.
    Finished,
}

/// Everything that is shown.
#[derive(Clone, Debug)]
pub struct Report {
    subject: Subject,
    /// The last step that was recorded as it was run, and which one it is.
    step: Option<(u64, Timeline)>,
    sample: Option<String>,
}

/// Seconds between two looks of a browser at the file of a run that goes on.
const REFRESH: u32 = 10;

impl Report {
    /// Nothing has happened yet.
    pub fn new(subject: Subject) -> Self {
        Self {
            subject,
            step: None,
            sample: None,
        }
    }

    /// Shows this step from now on.
    pub fn show_step(&mut self, step: u64, timeline: Timeline) {
        self.step = Some((step, timeline));
    }

    /// Shows a text that the model wrote.
    pub fn show_sample(&mut self, text: String) {
        self.sample = Some(text);
    }

    /// Writes the page and the pictures into a run's folder.
    ///
    /// # Errors
    ///
    /// If the system does not allow it; each file is the old or the new one, whole.
    pub fn write(&self, folder: &Path, state: State, records: &[Record]) -> Result<(), WriteError> {
        let plots = folder.join("plots");
        std::fs::create_dir_all(&plots).map_err(WriteError::new(&plots))?;
        let put = |path: &Path, text: &str| {
            files::write(path, |out: &mut dyn Write| out.write_all(text.as_bytes()))
        };
        let charts = [
            ("loss.svg", losses(records, &self.subject).draw()),
            ("speed.svg", speed(records).draw()),
            ("memory.svg", memory(records, &self.subject).draw()),
        ];
        for (name, picture) in &charts {
            put(&plots.join(name), picture)?;
        }
        let schedule = self.schedule();
        if let Some(picture) = &schedule {
            put(&plots.join("schedule.svg"), picture)?;
        }
        let pictures = charts.map(|(_, picture)| picture);
        let page = self.page(state, records, &pictures, schedule.as_deref());
        put(&folder.join("report.html"), &page)
    }

    fn schedule(&self) -> Option<String> {
        let (step, timeline) = self.step.as_ref()?;
        let options = svg::Options {
            title: format!("Step {step} as it was run"),
            // As wide as the page, so that its text is as large.
            width: 920,
            ..svg::Options::default()
        };
        Some(svg::draw(timeline, &options))
    }

    fn page(
        &self,
        state: State,
        records: &[Record],
        [losses, speed, memory]: &[String; 3],
        schedule: Option<&str>,
    ) -> String {
        let taken = records.last().map_or(0, |record| record.step);
        let steps = self.subject.steps;
        let title = match state {
            State::Running => format!("Training: step {taken} of {steps}"),
            State::Interrupted => format!("Training interrupted after step {taken} of {steps}"),
            State::Finished => format!("Training finished after {taken} steps"),
        };
        let mut page = Page::new(&title, (state == State::Running).then_some(REFRESH));
        page.facts(&self.facts(records));
        page.table(&self.subject.about);
        page.heading("What it learns");
        page.paragraph(
            "Training loss is that of single batches, so it jumps. Validation loss is that of text \
             which is never learnt from: where it rises while training loss falls, the model has \
             begun to learn its text by heart.",
        );
        page.picture(losses);
        page.heading("How fast");
        page.paragraph("Tokens learnt in a second, evaluations and saves left out.");
        page.picture(speed);
        page.heading("What each stage keeps");
        page.paragraph(
            "The most memory that activations took on each stage at one time within a step. \
             Parameters, gradients and the optimizer's state come on top.",
        );
        page.picture(memory);
        if let Some(schedule) = schedule {
            page.heading("What each stage does in a step");
            page.paragraph(
                "Time runs to the right. Red is recomputing that something waits for; yellow is \
                 recomputing that is hidden in a wait.",
            );
            page.picture(schedule);
        }
        if let Some(sample) = &self.sample {
            page.heading("What it writes");
            page.text(sample);
        }
        page.finish()
    }

    /// Numbers to see first.
    fn facts(&self, records: &[Record]) -> Vec<(String, String)> {
        let subject = &self.subject;
        let losses = || records.iter().filter_map(|record| record.val_loss);
        let best = losses().filter(|loss| loss.is_finite());
        let best = best.min_by(f64::total_cmp);
        let mut facts = Vec::new();
        if let Some(loss) = losses().next_back() {
            let bits = loss * subject.bits_per_nat;
            facts.push((
                number(loss, 4),
                format!("validation loss, nats a {}", subject.unit),
            ));
            facts.push((number(bits, 3), "bits a byte".to_owned()));
        }
        if let Some(best) = best {
            facts.push((number(best, 4), "best validation loss".to_owned()));
        }
        if let Some(last) = records.last() {
            let kept: u64 = last.retained_peak_bytes.iter().sum();
            facts.push((number(last.tokens_per_s, 0), "tokens a second".to_owned()));
            facts.push((
                format!("{} MiB", number(mebibytes(kept), 1)),
                "activations, all stages".to_owned(),
            ));
            facts.push((time(last.elapsed_s), "spent so far".to_owned()));
        }
        facts
    }
}

/// Seconds as a person says them.
fn time(seconds: f64) -> String {
    let whole = seconds.max(0.0) as u64;
    match whole {
        0..60 => format!("{seconds:.1} s"),
        60..3600 => format!("{} min {:02} s", whole / 60, whole % 60),
        _ => format!("{} h {:02} min", whole / 3600, whole / 60 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn record(step: u64, val_loss: Option<f64>) -> Record {
        Record {
            step,
            train_loss: 3.0,
            val_loss,
            tokens_per_s: 1000.0,
            retained_peak_bytes: vec![3 << 20, 1 << 20],
            step_s: 0.5,
            exposed_s: 0.0,
            hidden_s: 0.0,
            recomputed_segments: 0,
            learning_rate: 1e-3,
            gradient_norm: None,
            applied: true,
            elapsed_s: 75.0,
        }
    }

    pub(super) fn report() -> Report {
        Report::new(Subject {
            about: vec![("model", "<small> & light".to_owned())],
            unigram_entropy: 2.9,
            unit: "byte",
            bits_per_nat: 1.0 / std::f64::consts::LN_2,
            steps: 20,
            ranks: 1,
            replicas: 1,
        })
    }

    #[test]
    fn a_page_has_its_pictures_inside_and_refers_to_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut report = report();
        report.show_sample("a <b> of text".to_owned());
        report.show_step(10, Timeline::default());
        let records = [record(1, None), record(10, Some(2.75))];
        report
            .write(folder.path(), State::Running, &records)
            .expect("written");
        let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).expect("there");
        let page = read("report.html");
        for name in ["loss", "speed", "memory", "schedule"] {
            assert!(page.contains(&read(&format!("plots/{name}.svg"))), "{name}");
        }
        for known in [
            "step 10 of 20",
            "2.7500",
            "4.0 MiB",
            "1 min 15 s",
            "&lt;small&gt; &amp; light",
            "a &lt;b&gt; of text",
            "stage 1",
        ] {
            assert!(page.contains(known), "{known}");
        }
        let outside = ["src=", "href=", "url(", "@import", "<script"];
        assert!(outside.iter().all(|way| !page.contains(way)));
        // The only addresses are names of formats.
        let named = page.matches("http").count();
        let spaces = page.matches("xmlns=\"http://www.w3.org/2000/svg\"").count();
        assert_eq!(named, spaces + 1, "and http-equiv");
    }

    #[test]
    fn only_a_run_that_goes_on_is_looked_at_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let records = [record(20, Some(2.0))];
        for (state, again, title) in [
            (State::Running, true, "step 20 of 20"),
            (State::Interrupted, false, "interrupted after step 20"),
            (State::Finished, false, "finished after 20 steps"),
        ] {
            report()
                .write(folder.path(), state, &records)
                .expect("written");
            let page = std::fs::read_to_string(folder.path().join("report.html"));
            let page = page.expect("there");
            assert_eq!(page.contains("http-equiv=\"refresh\""), again);
            assert!(page.contains(title), "{title}");
        }
        report()
            .write(folder.path(), State::Running, &[])
            .expect("nothing yet is fine");
    }
}
