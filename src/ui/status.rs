//! The single lines around the panes: header, headroom, footer, and the one line of a tiny screen.

pub mod footer;
pub mod header;
pub mod headroom;
pub mod smallest;
