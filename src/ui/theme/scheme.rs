//! The themes by name, as `--theme` and `oomph.toml` know them.

use super::{Contrast, Ground};
use clap::ValueEnum;

/// A theme's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum Scheme {
    /// For the ground that the terminal says it has (`COLORFGBG`), or dark.
    #[default]
    Default,
    /// For a dark ground, whatever the terminal says.
    Dark,
    /// For a light one.
    Light,
    /// High contrast, for the ground that the terminal says it has.
    Contrast,
}

impl Scheme {
    /// Its name.
    pub fn name(self) -> String {
        let value = self.to_possible_value();
        value.map_or_else(String::new, |value| value.get_name().to_string())
    }

    /// The one of this name.
    ///
    /// # Errors
    /// There is none: the error says which there are.
    pub fn of_name(name: &str) -> Result<Scheme, String> {
        Scheme::from_str(name, false).map_err(|_| {
            let all = Scheme::value_variants().iter();
            let names: Vec<String> = all.map(|scheme| scheme.name()).collect();
            let names = names.join(", ");
            format!("there is no theme {name:?}; choose one of {names}")
        })
    }

    /// The one after it.
    pub(super) fn next(self) -> Scheme {
        let all = Scheme::value_variants();
        all[(self as usize + 1) % all.len()]
    }

    pub(super) fn ground(self, told: Ground) -> Ground {
        match self {
            Scheme::Default | Scheme::Contrast => told,
            Scheme::Dark => Ground::Dark,
            Scheme::Light => Ground::Light,
        }
    }

    pub(super) fn contrast(self) -> Contrast {
        match self {
            Scheme::Default | Scheme::Dark | Scheme::Light => Contrast::Usual,
            Scheme::Contrast => Contrast::High,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back() {
        let mut scheme = Scheme::default();
        for &expected in Scheme::value_variants() {
            assert_eq!(scheme, expected);
            assert_eq!(Scheme::of_name(&scheme.name()), Ok(scheme));
            scheme = scheme.next();
        }
        assert_eq!(scheme, Scheme::default(), "around");
        let said = Scheme::of_name("drak").unwrap_err();
        assert!(said.contains("\"drak\"") && said.ends_with("default, dark, light, contrast"));
    }
}
