//! Sources of events: the devices and the training's processes. Each stamps its events and sends
//! them to the one channel; none decides what follows, and none knows of another.

pub mod host;
mod line;
pub mod nvml;
pub mod probe_socket;
pub mod scheduler;
pub mod spool;
