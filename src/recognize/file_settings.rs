//! The settings of a file, whatever its format: their dotted names, and where their values stand.

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FileSetting {
    /// Dotted; items of a list are numbered.
    pub name: String,
    /// The byte range, without quotes.
    pub from: usize,
    pub to: usize,
    /// Whether it is a plain value that may be replaced.
    pub is_plain: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct FileSettings {
    /// In order.
    pub all: Vec<FileSetting>,
    /// Whether a merge or an include may set what is missing here.
    pub may_hide: bool,
}
