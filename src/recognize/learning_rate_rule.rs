//! What is said of a learning rate that a program computes of its batch.

/// How a program's learning rate follows its batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LearningRateRule {
    /// Whether the accumulation stands in the formula too: then more steps make up for a smaller batch.
    pub counts_steps: bool,
    /// Whether only some commands come to it.
    pub is_conditional: bool,
}

impl LearningRateRule {
    /// What to say beside a smaller batch; nothing where the rate stays as it is.
    pub(crate) fn said(self, is_another_whole: bool) -> Option<String> {
        let computes = match self.is_conditional {
            true => "the program may compute its learning rate of the batch",
            false => "the program computes its learning rate of the batch",
        };
        match (is_another_whole, self.counts_steps) {
            (true, _) => Some(format!("{computes}, so that falls along with it")),
            (false, false) => Some(format!(
                "{computes} without the accumulation, so that falls though the effective batch stays"
            )),
            (false, true) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_rate_that_changes_is_told() {
        let rule = |counts_steps| LearningRateRule {
            counts_steps,
            is_conditional: false,
        };
        assert!(rule(true).said(true).is_some());
        assert!(rule(false).said(false).unwrap().contains("without"));
        assert_eq!(rule(true).said(false), None);
    }
}
