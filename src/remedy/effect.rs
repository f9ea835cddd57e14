//! What a remedy does to memory, how it is carried out, and who says what the next run then needs.

/// What a remedy does to the memory that the run needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RemedyEffect {
    /// Less is allocated.
    LessAllocated,
    /// As much is allocated with less fragmentation.
    LessFragmentation,
    /// As much is allocated where or when more is free.
    MoreFree,
    /// The device's memory stays as it is.
    None,
}

/// How a remedy is carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RemedyAction {
    /// By edits of the command, its environment or a patch at runtime.
    Edit,
    /// By something that is done before the next run.
    Act,
}

/// How it is said what the next run needs with a remedy alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NeedFrom {
    /// By the forecast of the whole step.
    Forecast,
    /// The same where the forecast knows a need; the remedy's own words otherwise.
    ForecastIfKnown,
    /// By the allocation that failed alone.
    FailedAllocation,
    /// By the remedy's own words.
    Itself,
}
