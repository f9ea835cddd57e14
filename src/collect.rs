//! Sources of events: what the devices, the training's processes and its output tell us. Each stamps
//! what it saw and sends it on; none decides what follows from it, and none knows of another.

pub mod probe_socket;
