//! The settings of a HOCON file with their byte ranges, as configs of pyhocon are written: sections in braces, one setting a
//! line. What is written otherwise is not read.

use super::file_settings::{FileSetting, FileSettings};

/// The settings of a HOCON file (pyhocon): `train { batch_size = 512 }` over several lines, with or without a sign before the
/// bracket; `None` where a line is something else.
pub(super) fn hocon_settings(text: &str) -> Option<FileSettings> {
    let mut settings = FileSettings::default();
    let mut sections: Vec<&str> = Vec::new();
    let mut offset = 0;
    // Brackets of a list that are open, which goes on over several lines.
    let mut open = 0usize;
    for line in text.split_inclusive('\n') {
        let from = offset;
        offset += line.len();
        let written = line.split("//").next().unwrap_or(line);
        let written = written.split('#').next().unwrap_or(written);
        let bare = written.trim().trim_end_matches(',').trim_end();
        let opened = written.matches('[').count();
        let closed = written.matches(']').count();
        let is_inside = open > 0;
        open = (open + opened).checked_sub(closed)?;
        if bare.is_empty() || is_inside {
            continue;
        }
        if bare == "}" {
            sections.pop()?;
            continue;
        }
        let is_name = |name: &str| {
            let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
            !name.is_empty() && name.bytes().all(is_part)
        };
        if let Some(name) = bare.strip_suffix('{') {
            let name = name.trim_end().trim_end_matches(['=', ':']).trim();
            sections.push(name.trim_matches('"'));
            is_name(name.trim_matches('"')).then_some(())?;
            continue;
        }
        if bare.starts_with("include ") {
            settings.may_hide = true;
            continue;
        }
        let sign = written.find(['=', ':'])?;
        let name = written[..sign].trim().trim_matches('"');
        is_name(name).then_some(())?;
        let value = written[sign + 1..].trim_end().trim_end_matches(',');
        let at = from + sign + 1 + (value.len() - value.trim_start().len());
        let value = value.trim();
        let path: Vec<&str> = sections.iter().copied().chain([name]).collect();
        settings.all.push(FileSetting {
            name: path.join("."),
            from: at,
            to: at + value.len(),
            is_plain: !value.is_empty() && !value.contains(['$', '{', '[']),
        });
    }
    let is_whole = sections.is_empty() && open == 0 && text.contains('{');
    (is_whole && !settings.all.is_empty()).then_some(settings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_in_braces_are_read() {
        let text = "general {\n  dir = ./exp # here\n  kept = [\n    ./,\n    ./models\n  ]\n}\ntrain = {\n  batch_size = 512 // rays\n  rate: 5e-4,\n  of = ${general.dir}\n  net {\n    skips=[4],\n  }\n}\n";
        let settings = hocon_settings(text).unwrap();
        let found: Vec<(&str, &str, bool)> = settings
            .all
            .iter()
            .map(|one| (one.name.as_str(), &text[one.from..one.to], one.is_plain))
            .collect();
        assert_eq!(
            found,
            [
                ("general.dir", "./exp", true),
                ("general.kept", "[", false),
                ("train.batch_size", "512", true),
                ("train.rate", "5e-4", true),
                ("train.of", "${general.dir}", false),
                ("train.net.skips", "[4]", false),
            ]
        );
        assert!(!settings.may_hide);
        assert!(
            hocon_settings("include \"base.conf\"\na {\n b = 1\n}\n").is_some_and(|s| s.may_hide)
        );
    }

    #[test]
    fn what_is_written_otherwise_is_not_read() {
        for text in [
            "",
            "a = 1\n",
            "a {\n b = 1\n",
            "a {\n b = 1\n}\n}\n",
            "a { b = 1 }\n",
            "a {\n some words\n}\n",
            "a {\n b = [1\n}\n",
        ] {
            assert!(hocon_settings(text).is_none(), "{text}");
        }
    }
}
