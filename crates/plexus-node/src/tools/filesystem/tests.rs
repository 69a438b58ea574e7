//! Tables of edits and patches.
