//! The only place that knows a solver: a program of columns and rows goes in, values come out.
//!
//! The default is pure Rust (`microlp`); with the feature `highs` it is HiGHS. Both are asked
//! through `good_lp`. A time limit is not an error: the best values so far come back with the
//! bound that is proven by then. Numbers should lie within a few powers of ten of one: both
//! solvers compare with absolute tolerances.

use std::time::{Duration, Instant};

use good_lp::{
    Expression, ResolutionError, Solution, SolverModel, Variable, WithInitialSolution,
    WithTimeLimit, constraint, variable, variables,
};

/// Minimise the sum of `cost * value` over all columns.
#[derive(Clone, Debug, Default)]
pub(super) struct Program {
    columns: Vec<Column>,
    rows: Vec<Row>,
    /// Rows that count bytes.
    bytes: Vec<usize>,
}

/// A variable, identified by its place in the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Var(usize);

/// A sum of multiples of variables.
pub(super) type Sum = Vec<(Var, f64)>;

/// What a solver said.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Answer {
    /// Values for all columns.
    Values {
        /// In the order of the columns.
        values: Vec<f64>,
        /// What no solution costs less than, if that much is proven.
        bound: Option<f64>,
        /// Whether no better values exist.
        optimal: bool,
    },
    /// There are no values that satisfy all rows.
    Infeasible,
    /// Nothing was found in the time, or the solver gave up.
    Nothing {
        /// What no solution costs less than, if that much is proven.
        bound: Option<f64>,
    },
}

#[derive(Clone, Copy, Debug)]
struct Column {
    cost: f64,
    most: f64,
    integer: bool,
}

#[derive(Clone, Debug)]
struct Row {
    sum: Sum,
    most: f64,
}

/// A bound is worth this much time, even where all is spent.
const RELAXED: Duration = Duration::from_millis(100);

/// Seconds; what is longer cannot be told apart from for ever, and solvers could not count it.
const LONGEST: f64 = 1e6;

impl Var {
    /// The variable's place in a list of values.
    pub(super) fn index(self) -> usize {
        self.0
    }
}

impl Program {
    /// A variable of zero or one.
    pub(super) fn binary(&mut self) -> Var {
        self.column(1.0, true)
    }

    /// A variable from zero to this.
    pub(super) fn continuous(&mut self, most: f64) -> Var {
        self.column(most, false)
    }

    /// A variable of zero, one, ... up to this.
    pub(super) fn count(&mut self, most: usize) -> Var {
        self.column(most as f64, true)
    }

    /// Adds to what one unit of a variable costs.
    pub(super) fn charge(&mut self, var: Var, cost: f64) {
        self.columns[var.0].cost += cost;
    }

    /// A row of bytes: what [`Program::relax_bytes`] makes of it.
    pub(super) fn at_most_bytes(&mut self, sum: Sum, most: f64) {
        self.bytes.push(self.rows.len());
        self.at_most(sum, most);
    }

    /// From now on bytes may be missing, and how many is all that costs.
    pub(super) fn relax_bytes(&mut self) {
        for column in &mut self.columns {
            column.cost = 0.0;
        }
        let missing = self.continuous(f64::INFINITY);
        self.charge(missing, 1.0);
        for &row in &self.bytes {
            self.rows[row].sum.push((missing, -1.0));
        }
    }

    /// Takes a little from every row of bytes, so that rounding cannot exceed them.
    pub(super) fn tighten_bytes(&mut self, less: f64) {
        for &row in &self.bytes {
            self.rows[row].most -= less;
        }
    }

    /// The sum must not exceed this.
    pub(super) fn at_most(&mut self, sum: Sum, most: f64) {
        self.rows.push(Row { sum, most });
    }

    /// The solver's answer within the time. `start` are values of all integers to
    /// begin with, if any are known.
    pub(super) fn solve(&self, limit: Duration, start: &[(Var, f64)]) -> Answer {
        let began = Instant::now();
        let mut answer = self.ask(limit, start, true);
        let (Answer::Values { bound, .. } | Answer::Nothing { bound }) = &mut answer else {
            return answer;
        };
        if bound.is_none() {
            // Fractions can only be cheaper: the relaxation's optimum is a bound.
            let left = limit.saturating_sub(began.elapsed()).max(RELAXED);
            if let Answer::Values {
                bound: relaxed,
                optimal: true,
                ..
            } = self.ask(left, &[], false)
            {
                *bound = relaxed;
            }
        }
        answer
    }

    fn column(&mut self, most: f64, integer: bool) -> Var {
        self.columns.push(Column {
            cost: 0.0,
            most,
            integer,
        });
        Var(self.columns.len() - 1)
    }

    fn ask(&self, limit: Duration, start: &[(Var, f64)], integral: bool) -> Answer {
        let mut all = variables!();
        let vars: Vec<Variable> = self
            .columns
            .iter()
            .map(|column| {
                let definition = variable().min(0.0).max(column.most);
                all.add(if column.integer && integral {
                    definition.integer()
                } else {
                    definition
                })
            })
            .collect();
        let cost: Expression = vars
            .iter()
            .zip(&self.columns)
            .map(|(&v, c)| v * c.cost)
            .sum();
        let mut model = backend::model(all.minimise(cost));
        for row in &self.rows {
            let mut sum = Expression::with_capacity(row.sum.len());
            for &(var, factor) in &row.sum {
                sum.add_mul(factor, vars[var.0]);
            }
            model.add_constraint(constraint!(sum <= row.most));
        }
        model = model.with_time_limit(limit.as_secs_f64().min(LONGEST));
        if !start.is_empty() {
            let start = start.iter().map(|&(var, value)| (vars[var.0], value));
            model = model.with_initial_solution(start);
        }
        match model.solve() {
            Ok(solution) => {
                let values: Vec<f64> = vars.iter().map(|&var| solution.value(var)).collect();
                let optimal = backend::is_proof(solution.status());
                let costs = self.columns.iter().zip(&values);
                let own: f64 = costs.map(|(column, value)| column.cost * value).sum();
                Answer::Values {
                    values,
                    bound: if optimal {
                        Some(own)
                    } else {
                        backend::bound(solution)
                    },
                    optimal,
                }
            }
            Err(ResolutionError::Infeasible) => Answer::Infeasible,
            Err(_) => Answer::Nothing { bound: None },
        }
    }
}

#[cfg(not(feature = "highs"))]
mod backend {
    use good_lp::SolutionStatus;
    use good_lp::solvers::microlp::{MicroLpProblem, MicroLpSolution, microlp};
    use good_lp::variable::UnsolvedProblem;

    pub(super) fn model(problem: UnsolvedProblem) -> MicroLpProblem {
        microlp(problem)
    }

    pub(super) fn is_proof(status: SolutionStatus) -> bool {
        matches!(status, SolutionStatus::Optimal)
    }

    pub(super) fn bound(solution: MicroLpSolution) -> Option<f64> {
        solution.into_inner().stats().best_bound
    }
}

#[cfg(feature = "highs")]
mod backend {
    use good_lp::SolutionStatus;
    use good_lp::solvers::highs::{HighsProblem, HighsSolution, highs};
    use good_lp::variable::UnsolvedProblem;

    /// HiGHS stops at a gap of 0.01 % or a millionth unless told otherwise, and takes all cores.
    pub(super) fn model(problem: UnsolvedProblem) -> HighsProblem {
        let model = highs(problem).set_threads(1);
        let model = model.set_option("mip_rel_gap", 0.0);
        model.set_option("mip_abs_gap", 0.0)
    }

    /// No gap is allowed, so one that stands at the end is what rounding left of none.
    pub(super) fn is_proof(status: SolutionStatus) -> bool {
        matches!(status, SolutionStatus::Optimal | SolutionStatus::GapLimit)
    }

    /// It knows one, but `good_lp` does not pass it on.
    pub(super) fn bound(_: HighsSolution) -> Option<f64> {
        None
    }
}
