//! Sources of events: what the devices and the training's processes tell us. Each stamps what it
//! saw and hands it to the one channel; none decides what follows from it, and none knows of
//! another.

pub mod nvml;
pub mod probe_socket;
