//! What a remedy does to memory, how it is applied, and where its estimate comes from.

/// What a remedy does to the memory that the run needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RemedyEffect {
    LessAllocated,
    /// The same amount is allocated with less fragmentation.
    LessFragmentation,
    /// The same amount is allocated on a device, or at a time, with more free memory.
    MoreFree,
    /// It needs as much GPU memory as before.
    None,
}

/// How a remedy is applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RemedyAction {
    /// By edits of the command, its environment or a patch at runtime.
    Edit,
    /// By something done before the next run.
    Act,
}

/// Where the estimate for a remedy on its own comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NeedFrom {
    /// The forecast of the whole step.
    Forecast,
    /// The forecast if it knows a need, else the remedy.
    ForecastIfKnown,
    /// Only the allocation that failed.
    FailedAllocation,
    /// The remedy.
    Itself,
}
