//! The themes by name, as `--theme` and `oomph.toml` know them.

use super::{Contrast, Ground};

/// A theme's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
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
    /// All of them, in the order of the key.
    pub const ALL: [Scheme; 4] = [
        Scheme::Default,
        Scheme::Dark,
        Scheme::Light,
        Scheme::Contrast,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Scheme::Default => "default",
            Scheme::Dark => "dark",
            Scheme::Light => "light",
            Scheme::Contrast => "contrast",
        }
    }

    /// The one of this name.
    ///
    /// # Errors
    /// There is none: the error says which there are.
    pub fn of_name(name: &str) -> Result<Scheme, String> {
        let named = Scheme::ALL.into_iter().find(|scheme| scheme.name() == name);
        named.ok_or_else(|| {
            let names = Scheme::ALL.map(Scheme::name).join(", ");
            format!("there is no theme {name:?}; choose one of {names}")
        })
    }

    /// The one after it.
    pub(super) fn next(self) -> Scheme {
        match self {
            Scheme::Default => Scheme::Dark,
            Scheme::Dark => Scheme::Light,
            Scheme::Light => Scheme::Contrast,
            Scheme::Contrast => Scheme::Default,
        }
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
        for expected in Scheme::ALL {
            assert_eq!(scheme, expected);
            assert_eq!(Scheme::of_name(scheme.name()), Ok(scheme));
            scheme = scheme.next();
        }
        assert_eq!(scheme, Scheme::default(), "around");
        let said = Scheme::of_name("drak").unwrap_err();
        assert!(said.contains("\"drak\"") && said.ends_with("default, dark, light, contrast"));
    }
}
