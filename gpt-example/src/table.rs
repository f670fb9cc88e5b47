//! Text in columns, for a terminal.

use std::fmt;

use lynx_burn::units::Nanos;

/// Rows of cells: the first column is flush left, the others flush right.
#[derive(Clone, Debug, Default)]
pub struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these headings.
    pub fn new(headings: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let mut table = Self::default();
        table.row(headings);
        table
    }

    /// Adds a row; it may have fewer cells than others.
    pub fn row(&mut self, cells: impl IntoIterator<Item = impl Into<String>>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        for (index, row) in self.rows.iter().enumerate() {
            let mut line = String::new();
            for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
                line += &match column {
                    0 => format!("{cell:<width$}"),
                    _ => format!("  {cell:>width$}"),
                };
            }
            if index > 0 {
                writeln!(f)?;
            }
            f.write_str(line.trim_end())?;
        }
        Ok(())
    }
}

/// A span of time with its unit and four digits, so that like steps can be told apart.
pub fn duration(time: Nanos) -> String {
    const UNITS: [(&str, u64); 3] = [("s", 1_000_000_000), ("ms", 1_000_000), ("µs", 1_000)];
    let Some((name, unit)) = UNITS.into_iter().find(|(_, unit)| time.0 >= *unit) else {
        return time.to_string();
    };
    let value = time.0 as f64 / unit as f64;
    let decimals = match value {
        _ if value >= 1000.0 => 0,
        _ if value >= 100.0 => 1,
        _ if value >= 10.0 => 2,
        _ => 3,
    };
    format!("{value:.decimals$} {name}")
}

/// A share in percent; `-` where there is none.
pub fn percent(share: Option<f64>) -> String {
    match share {
        Some(share) => format!("{:.1} %", 100.0 * share),
        None => "-".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut table = Table::new(["stage", "µ"]);
        table.row(["0", "12.0 ms"]);
        table.row(["wide one"]);
        let lines = ["stage           µ", "0         12.0 ms", "wide one"];
        assert_eq!(table.to_string(), lines.join("\n"));
    }

    #[test]
    fn times_have_four_digits() {
        let cases = [
            (999, "999 ns"),
            (1_500, "1.500 µs"),
            (12_345_678, "12.35 ms"),
            (9_773_000_000, "9.773 s"),
            (123_456_000_000, "123.5 s"),
            (5_000_000_000_000, "5000 s"),
        ];
        for (nanos, text) in cases {
            assert_eq!(duration(Nanos(nanos)), text);
        }
    }

    #[test]
    fn shares_are_printed_in_percent() {
        assert_eq!(percent(Some(0.1234)), "12.3 %");
        assert_eq!(percent(None), "-");
    }
}
