//! The theme of the screen: by option, `oomph.toml`, or default.

use crate::config::UserSettings;
use crate::ui::Theme;
use crate::ui::theme::Scheme;

/// The theme for this terminal, and what is wrong with the one in the settings.
pub(crate) fn chosen(option: Option<Scheme>, settings: &UserSettings) -> (Theme, Option<String>) {
    let theme = Theme::of_environment(|name| std::env::var(name).ok());
    let (scheme, problem) = scheme(option, settings);
    (theme.wearing(scheme), problem)
}

fn scheme(option: Option<Scheme>, settings: &UserSettings) -> (Scheme, Option<String>) {
    let named = settings.theme.as_ref().map(|setting| {
        Scheme::of_name(&setting.value).map_err(|mend| format!("{}: {mend}", setting.place()))
    });
    match (option, named) {
        (Some(scheme), _) | (None, Some(Ok(scheme))) => (scheme, None),
        (None, Some(Err(problem))) => (Scheme::default(), Some(problem)),
        (None, None) => (Scheme::default(), None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::UserSetting;

    #[test]
    fn the_option_goes_before_the_file() {
        let settings = |value: &str| UserSettings {
            theme: Some(UserSetting {
                value: value.into(),
                path: "oomph.toml".into(),
                line: 2,
            }),
            ..UserSettings::default()
        };
        assert_eq!(
            scheme(None, &UserSettings::default()),
            (Scheme::Default, None)
        );
        assert_eq!(scheme(None, &settings("light")), (Scheme::Light, None));
        let dark = Some(Scheme::Dark);
        assert_eq!(scheme(dark, &settings("light")), (Scheme::Dark, None));
        assert_eq!(scheme(dark, &settings("x")), (Scheme::Dark, None));
        let (scheme, problem) = scheme(None, &settings("x"));
        assert_eq!(scheme, Scheme::Default);
        assert!(
            problem
                .unwrap()
                .starts_with("oomph.toml:2: there is no theme")
        );
    }
}
