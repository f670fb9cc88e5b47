//! A measured chain as a table.

use std::fmt;

use super::report::{BytesFrom, Measured, MeasuredSegment};

const HEADINGS: [&str; 10] = [
    "segment",
    "forward",
    "recompute",
    "backward",
    "tape",
    "input",
    "notes",
    "boundary",
    "workspace",
    "weights",
];

impl fmt::Display for Measured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let profile = &self.profile;
        writeln!(
            f,
            "{}: {} layers, one micro-batch, medians of {} rounds (± half the distance of the quartiles)",
            profile.name,
            profile.layer_count(),
            self.repeats
        )?;
        let rows: Vec<[String; 10]> = self.segments.iter().map(|s| self.row(s)).collect();
        let width = |column: usize| {
            let cells = rows.iter().map(|row| row[column].chars().count());
            cells.chain([HEADINGS[column].len()]).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..HEADINGS.len()).map(width).collect();
        let mut line = |cells: &[String]| {
            for (column, (cell, width)) in cells.iter().zip(&widths).enumerate() {
                match column {
                    0 => write!(f, "  {cell:<width$}")?,
                    _ => write!(f, "  {cell:>width$}")?,
                }
            }
            writeln!(f)
        };
        line(&HEADINGS.map(str::to_owned))?;
        let mut part = None;
        for (segment, row) in self.segments.iter().zip(&rows) {
            if part != Some(&segment.part) {
                let count = profile.layers.iter().filter(|run| run.kind == segment.part);
                let mut title = vec![String::new(); HEADINGS.len()];
                title[0] = match count.map(|run| run.count).sum::<usize>() {
                    0 => segment.part.clone(),
                    count => format!("{} x {count}", segment.part),
                };
                line(&title[..1])?;
                part = Some(&segment.part);
            }
            line(row)?;
        }
        match self.bytes_from {
            BytesFrom::Allocator => Ok(()),
            BytesFrom::Pool => writeln!(f, "  the workspace is unknown: memory pools tell no peak"),
            BytesFrom::BoundarySizes => writeln!(
                f,
                "  tapes and inputs are guessed from boundaries, the workspace is unknown: install \
                 the counting allocator"
            ),
        }
    }
}

impl Measured {
    fn row(&self, segment: &MeasuredSegment) -> [String; 10] {
        let costs = &segment.costs;
        let workspace = match self.bytes_from.workspace_measured() {
            true => costs.workspace.to_string(),
            false => "?".to_owned(),
        };
        let guessed = if self.bytes_from.tapes_measured() {
            ""
        } else {
            "~"
        };
        [
            format!("  {}", costs.name),
            segment.forward.to_string(),
            segment.recompute.to_string(),
            segment.backward.to_string(),
            format!("{guessed}{}", costs.tape),
            format!("{guessed}{}", costs.kept_input),
            costs.notes.to_string(),
            costs.boundary.to_string(),
            workspace,
            costs.weights.parameters.to_string(),
        ]
    }
}
