//! The themes by name, for `--theme` and `oomph.toml`.

use super::{Contrast, Ground};
use clap::ValueEnum;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum Scheme {
    /// For the background that the terminal reports (`COLORFGBG`), or dark.
    #[default]
    Default,
    /// For a dark background, whatever the terminal reports.
    Dark,
    /// For a light background.
    Light,
    /// High contrast, for the background that the terminal reports.
    Contrast,
}

impl Scheme {
    pub fn name(self) -> String {
        let value = self.to_possible_value();
        value.map_or_else(String::new, |value| value.get_name().to_string())
    }

    pub fn of_name(name: &str) -> Result<Scheme, String> {
        Scheme::from_str(name, false).map_err(|_| {
            let all = Scheme::value_variants().iter();
            let names: Vec<String> = all.map(|scheme| scheme.name()).collect();
            let names = names.join(", ");
            format!("there is no theme {name:?}; choose one of {names}")
        })
    }

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
