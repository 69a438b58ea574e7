//! What becomes of calls when links break, by the table of them alone.
