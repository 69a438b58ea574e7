//! The hub's own machine as one of the machines: the same node, in the same process, over a link of memory.
