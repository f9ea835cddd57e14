//! The probe under a real Python, through the real socket, with a stand-in for torch.
//!
//! The only thing these ask of the machine is `python3` (another one with OOMPH_TEST_PYTHON).

#[path = "probe/front.rs"]
mod front;
#[path = "probe/growth.rs"]
mod growth;
#[path = "probe/lifetimes.rs"]
mod lifetimes;
#[path = "probe/neighbours.rs"]
mod neighbours;
#[path = "probe/patches.rs"]
mod patches;
#[path = "probe/program.rs"]
mod program;
#[path = "probe/recording.rs"]
mod recording;
#[path = "probe/records.rs"]
mod records;
#[path = "probe/starts.rs"]
mod starts;
#[path = "probe/syntax.rs"]
mod syntax;
