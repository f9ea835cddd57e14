//! The probe under a real Python, through the real socket, with a stand-in for torch.
//!
//! The only thing these ask of the machine is `python3` (another one with OOMPH_TEST_PYTHON).

mod edits;
mod errors;
mod front;
mod growth;
mod lifetimes;
mod neighbours;
mod patches;
mod program;
mod recording;
mod records;
mod requests;
mod starts;
mod syntax;
