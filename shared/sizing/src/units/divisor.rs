use std::ops::Rem;

/// The greatest common divisor; of zero and another number, the other.
pub(crate) fn gcd<N: Copy + Default + PartialEq + Rem<Output = N>>(a: N, b: N) -> N {
    let (mut a, mut b) = (a, b);
    while b != N::default() {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Euclid's own example is 1071 and 462 in many books: 21.
    #[test]
    fn the_largest_number_that_divides_both() {
        assert_eq!((gcd(1071_u64, 462), gcd(462_u128, 1071)), (21, 21));
        assert_eq!((gcd(0_u64, 7), gcd(7_u64, 0), gcd(0_u64, 0)), (7, 7, 0));
    }
}
