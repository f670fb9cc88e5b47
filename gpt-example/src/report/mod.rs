//! What a person looks at: `report.html`, and its pictures by themselves.
//!
//! The page is one file that needs no other and no network. It is written anew at each evaluation
//! from the run's own records, and reads itself again in the browser while the run goes on.

mod chart;
mod one_step;
mod page;
mod scale;

use std::io::Write;
use std::path::Path;

use lynx_burn::plan::sim::svg;
use lynx_burn::plan::sim::timeline::Timeline;

use self::chart::{Chart, Series};
use self::page::Page;
use self::scale::number;
use crate::files::{self, WriteError};
use crate::metrics::{Record, worker_name};

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
            ("loss.svg", self.losses(records).draw()),
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

    fn losses(&self, records: &[Record]) -> Chart {
        let of = |value: fn(&Record) -> Option<f64>| {
            let points = records.iter();
            points
                .filter_map(|record| Some((record.step as f64, value(record)?)))
                .collect()
        };
        let meaning = format!(
            "{} frequencies alone: {:.3}",
            self.subject.unit, self.subject.unigram_entropy
        );
        Chart {
            title: "Loss".to_owned(),
            unit: format!("nats a {}, less is better", self.subject.unit),
            from_zero: false,
            series: vec![
                Series {
                    name: "training".to_owned(),
                    points: of(|record| Some(record.train_loss)),
                    dots: false,
                },
                Series {
                    name: "validation".to_owned(),
                    points: of(|record| record.val_loss),
                    dots: true,
                },
            ],
            mark: Some((self.subject.unigram_entropy, meaning)),
        }
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

fn speed(records: &[Record]) -> Chart {
    let points = records.iter();
    Chart {
        title: "Speed".to_owned(),
        unit: "tokens a second".to_owned(),
        from_zero: true,
        series: vec![Series {
            name: "training".to_owned(),
            points: points
                .map(|record| (record.step as f64, record.tokens_per_s))
                .collect(),
            dots: false,
        }],
        mark: None,
    }
}

/// A curve for each stage, and for each of its ranks and in each replica if there are several.
fn memory(records: &[Record], subject: &Subject) -> Chart {
    let workers = records
        .iter()
        .map(|record| record.retained_peak_bytes.len());
    let workers = workers.max().unwrap_or(0);
    let (ranks, replicas) = (subject.ranks.max(1), subject.replicas.max(1));
    let stages = (workers / ranks / replicas).max(1);
    let series = (0..workers).map(|worker| Series {
        name: worker_name(worker, (ranks, stages, replicas)),
        points: records
            .iter()
            .filter_map(|record| {
                let bytes = *record.retained_peak_bytes.get(worker)?;
                Some((record.step as f64, mebibytes(bytes)))
            })
            .collect(),
        dots: false,
    });
    Chart {
        title: "Activations kept".to_owned(),
        unit: "MiB at the peak of a step".to_owned(),
        from_zero: true,
        series: series.collect(),
        mark: None,
    }
}

fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
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

    fn record(step: u64, val_loss: Option<f64>) -> Record {
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

    fn report() -> Report {
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
    fn curves_of_memory_are_named_after_replicas_stages_and_ranks() {
        let names = |workers, ranks, replicas| -> Vec<String> {
            let subject = Subject {
                ranks,
                replicas,
                ..report().subject
            };
            let mut record = record(1, None);
            record.retained_peak_bytes = vec![1; workers];
            let series = memory(&[record], &subject).series.into_iter();
            series.map(|one| one.name).collect()
        };
        assert_eq!(names(2, 1, 1), ["stage 0", "stage 1"]);
        assert_eq!(names(2, 2, 1), ["stage 0, rank 0", "stage 0, rank 1"]);
        assert_eq!(names(2, 1, 2), ["replica 0, stage 0", "replica 1, stage 0"]);
        let all = names(8, 2, 2);
        assert_eq!(all[3], "replica 0, stage 1, rank 1");
        assert_eq!(all[4], "replica 1, stage 0, rank 0");
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
