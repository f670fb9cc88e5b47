//! Matrix products on one thread.
//!
//! The one place that calls `gemm`, the crate that also multiplies for Burn's CPU backend. Views
//! check their bounds when they are made, so that the raw pointers below stay inside.

/// A matrix to read, rows or columns contiguous.
#[derive(Clone, Copy)]
pub(crate) struct Matrix<'a> {
    data: &'a [f32],
    rows: usize,
    columns: usize,
    row_stride: usize,
    column_stride: usize,
}

impl<'a> Matrix<'a> {
    /// `rows` rows of `columns` elements that begin `stride` elements apart.
    ///
    /// # Panics
    ///
    /// If `data` is too short.
    pub(crate) fn new(data: &'a [f32], rows: usize, columns: usize, stride: usize) -> Self {
        check(data.len(), rows, columns, stride);
        Self {
            data,
            rows,
            columns,
            row_stride: stride,
            column_stride: 1,
        }
    }

    /// Rows as columns.
    pub(crate) fn transposed(self) -> Self {
        Self {
            rows: self.columns,
            columns: self.rows,
            row_stride: self.column_stride,
            column_stride: self.row_stride,
            ..self
        }
    }
}

/// A matrix to write: `rows` rows of `columns` elements that begin `stride` elements apart.
pub(crate) struct MatrixMut<'a> {
    pub(crate) data: &'a mut [f32],
    pub(crate) rows: usize,
    pub(crate) columns: usize,
    pub(crate) stride: usize,
}

/// What a product does to what is in its result's place.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// Overwrites it.
    Set,
    /// Adds to it.
    Add,
}

/// `c = factor * a b`, or that added to `c`, on the calling thread.
///
/// # Panics
///
/// If the sizes do not fit, which callers see to.
pub(crate) fn product(factor: f32, a: Matrix<'_>, b: Matrix<'_>, place: Place, c: MatrixMut<'_>) {
    assert_eq!((a.rows, a.columns, b.columns), (c.rows, b.rows, c.columns));
    check(c.data.len(), c.rows, c.columns, c.stride);
    assert!(c.rows <= 1 || c.stride >= c.columns, "rows do not overlap");
    if c.rows == 0 || c.columns == 0 {
        return;
    }
    // SAFETY: all three views were checked to lie inside their slices, `c` is borrowed mutably and
    // so overlaps neither of the others, and its rows do not overlap.
    unsafe {
        gemm::gemm(
            c.rows,
            c.columns,
            a.columns,
            c.data.as_mut_ptr(),
            1,
            c.stride as isize,
            place == Place::Add,
            a.data.as_ptr(),
            a.column_stride as isize,
            a.row_stride as isize,
            b.data.as_ptr(),
            b.column_stride as isize,
            b.row_stride as isize,
            1.0,
            factor,
            false,
            false,
            false,
            gemm::Parallelism::None,
        );
    }
}

fn check(length: usize, rows: usize, columns: usize, stride: usize) {
    let needed = match (rows, columns) {
        (0, _) | (_, 0) => 0,
        _ => (rows - 1) * stride + columns,
    };
    assert!(
        needed <= length,
        "{rows} rows of {columns}, {stride} apart, in {length}"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Small integers, so that every order of summation gives the same sum.
    #[test]
    fn products_of_strided_and_transposed_views_are_those_of_the_definition() {
        let value = |i: usize| (i * 7 % 11) as f32 - 5.0;
        let (m, n, k, stride) = (5, 7, 3, 9);
        let a: Vec<f32> = (0..m * stride).map(value).collect();
        let b: Vec<f32> = (0..n * stride).map(|i| value(i + 3)).collect();
        for (place, before) in [(Place::Set, f32::NAN), (Place::Add, 1.0)] {
            let mut c = vec![before; m * stride];
            product(
                2.0,
                Matrix::new(&a, m, k, stride),
                Matrix::new(&b, n, k, stride).transposed(),
                place,
                MatrixMut {
                    data: &mut c,
                    rows: m,
                    columns: n,
                    stride,
                },
            );
            for i in 0..m {
                for j in 0..n {
                    let dot: f32 = (0..k).map(|l| a[i * stride + l] * b[j * stride + l]).sum();
                    let before = if place == Place::Add { before } else { 0.0 };
                    assert_eq!(c[i * stride + j], before + 2.0 * dot);
                }
            }
        }
    }

    #[test]
    #[should_panic(expected = "in 10")]
    fn a_view_beyond_its_slice_is_not_made() {
        let _ = Matrix::new(&[0.0; 10], 2, 6, 5);
    }
}
