//! The socket against what may connect to it: strangers, garbage, floods, and slow receivers.
