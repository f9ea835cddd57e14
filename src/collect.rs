//! Sources of events that are not the child itself: NVML and the probe's socket. Each stamps what
//! it sees with the session's clock and hands it to the one channel; none of them knows what
//! follows from it.

pub mod nvml;
