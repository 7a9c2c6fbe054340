//! Predicted times, computed before a measurement.
