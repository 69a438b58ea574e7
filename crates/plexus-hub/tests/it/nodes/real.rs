//! Real.
