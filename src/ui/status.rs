//! The lines around the panes: header, headroom, footer, and the one line of a tiny screen.

pub(super) mod footer;
pub(super) mod header;
pub(super) mod headroom;
pub(super) mod read_only;
pub(super) mod smallest;
