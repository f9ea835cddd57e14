//! Settings found in files of each kind, and input that is too much for the parsers.

use super::*;

fn file(name: &str, text: &str) -> ConfigFile {
    ConfigFile {
        at: 0,
        from: 0,
        name: name.into(),
        text: text.into(),
    }
}

fn found(file: &ConfigFile, name: &str) -> Option<String> {
    match file.scalar(name) {
        Ok(Some(value)) => {
            assert_eq!(file.value(&file.text[value.from..value.to]), value.text);
            Some(value.text)
        }
        Ok(None) => None,
        Err(why) => Some(format!("? {why}")),
    }
}

#[test]
fn yaml_is_read_as_it_is_mostly_written() {
    let file = file(
        "a.yaml",
        concat!(
            "# one\n---\nmicro_batch_size: 4   # per GPU\n\"bf16\": auto\nname: 'x y'\n",
            "train:\n  batch_size: 16\n  note: |\n    batch_size: 99\n    # text\n  lr: 1e-4\n",
            "datasets:\n- path: a\n  type: b:c\n- path: d\nlist:\n  - 1\n  - 2\n",
            "flow: {batch_size: 3,\n  more: 4}\nlong: this goes\n  on here\nref: *x\nempty:\nlast: 7\n",
        ),
    );
    for (name, value) in [
        ("micro_batch_size", Some("4")),
        ("bf16", Some("auto")),
        ("name", Some("x y")),
        ("train.batch_size", Some("16")),
        ("train.lr", Some("1e-4")),
        ("batch_size", None),
        ("datasets.0.type", Some("b:c")),
        ("datasets.1.path", Some("d")),
        ("list.1", Some("2")),
        ("last", Some("7")),
        ("flow.batch_size", None),
        ("empty", None),
    ] {
        assert_eq!(found(&file, name).as_deref(), value, "{name}");
    }
    for name in ["long", "ref", "flow", "train.note"] {
        assert!(found(&file, name).unwrap().starts_with('?'), "{name}");
    }
}

#[test]
fn yaml_that_is_more_than_that_is_unclear() {
    for text in [
        "a: 1\n---\na: 2\n",
        "a:\n\tb: 1\n",
        "a: \"one\n  two\"\n",
        "just words\n",
        "b: {x: 1\n",
    ] {
        assert!(file("a.yml", text).scalar("a").is_err(), "{text}");
    }
    let merged = file("a.yml", "<<: *base\nb: 1\n");
    assert!(merged.scalar("a").is_err());
    assert!(file("a.yml", "a: 1\na: 2\n").scalar("a").is_err());
}

#[test]
fn json_toml_and_assignments_are_read_too() {
    let json = file(
        "ds.json",
        r#"{ "a": {"b" : 8, "c": "x\"y"}, "list": [1, {"d": true}], "e": "auto" }"#,
    );
    for (name, value) in [
        ("a.b", "8"),
        ("list.1.d", "true"),
        ("e", "auto"),
        ("list.0", "1"),
    ] {
        assert_eq!(found(&json, name).as_deref(), Some(value), "{name}");
    }
    assert_eq!(found(&json, "b"), None);
    assert!(
        found(&file("x.json", "{a: 1}"), "a")
            .unwrap()
            .starts_with('?')
    );
    let toml = file(
        "c.toml",
        "[training]\nlocal_batch_size = 8 # each\n[[datasets]]\nbatch_size = 2\n[[datasets.subsets]]\ndir = \"x\"\n",
    );
    for (name, value) in [
        ("training.local_batch_size", "8"),
        ("datasets.0.batch_size", "2"),
        ("datasets.0.subsets.0.dir", "x"),
    ] {
        assert_eq!(found(&toml, name).as_deref(), Some(value), "{name}");
    }
    let python = file(
        "train.py",
        "# c\nbatch_size = 12 # n\nsteps = 5 * 8\nhalf = 5 * n\nname = 'a'\nif x:\n    lr = 1\nbatch == 3\n",
    );
    assert_eq!(found(&python, "batch_size").as_deref(), Some("12"));
    assert_eq!(found(&python, "name").as_deref(), Some("a"));
    assert_eq!(found(&python, "steps").as_deref(), Some("40"));
    for name in ["half", "lr"] {
        assert!(found(&python, name).unwrap().starts_with('?'), "{name}");
    }
    assert_eq!(found(&python, "batch"), None);
}

#[test]
fn only_whole_constants_are_computed() {
    for (text, number) in [
        ("12", Some(12)),
        ("5 * 8", Some(40)),
        ("2 ** 3 ** 2 - (7 + 1) // 4 * 6", Some(500)),
        ("1_000", Some(1000)),
        ("1 - 2", None),
        ("1 // 0", None),
        ("8.0 * 2", None),
        ("(1", None),
        ("", None),
    ] {
        assert_eq!(python::number(text), number, "{text}");
    }
    assert_eq!(python::number(&"(".repeat(100_000)), None);
}
