//! What stands on the command line: where oomph's own words end and the command begins, and what a
//! shell may propose at the cursor. Both read the definition of the command line, which is in
//! `commands`.

mod completion;
pub(crate) mod split;

pub use completion::COMPLETE_WORD;
pub(crate) use completion::{NamedSessions, complete};
