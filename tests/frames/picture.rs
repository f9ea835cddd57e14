//! README's picture: real frames of a healthy training, of one that leaks, and of one that ran out of memory and was relaunched on
//! one key.
//! They are compared with what is drawn now, so that the picture cannot go stale.

use crate::frames::cases::CASES;
use crate::frames::{draw, svg};
use oomph::ui::Theme;
use std::path::Path;

#[test]
fn the_picture_in_the_readme_is_the_screen() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("demo/screen.svg");
    let shot = |name: &str, seconds, caption| {
        let case = CASES.iter().find(|case| case.name == name).unwrap();
        let (story, view) = case.staged(Theme::full(), 120, 33);
        svg::Shot {
            buf: draw(&story, &view, 120, 33),
            seconds,
            caption,
        }
    };
    let picture = svg::animate(
        &[
            shot(
                "steady",
                5,
                "It goes well: what is used, and the batch that would fit",
            ),
            shot(
                "climbing",
                5,
                "It leaks: how much a step, before memory runs out",
            ),
            shot(
                "oom-capacity",
                7,
                "Memory runs out: why, and what will help",
            ),
            shot("gate", 2, "[b] relaunch with half the batch, accumulated"),
            shot(
                "second-run",
                6,
                "It runs, with the memory that was predicted",
            ),
        ],
        "A healthy training, one that leaks, and one that runs out of memory: oomph names the cause, one key relaunches it, and it \
         runs",
    );
    if std::env::var_os("OOMPH_UPDATE_PICTURES").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, &picture).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        kept == picture,
        "demo/screen.svg is not what the screen looks like: look at the change, then run \
         OOMPH_UPDATE_PICTURES=1 cargo test frames"
    );
}

/// What a viewer that runs no style sheet shows, and one whose user wants nothing to move: the first screen, and no other.
/// Where it moves, one screen follows the other without a gap.
#[test]
fn one_screen_of_the_picture_is_seen_at_a_time() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("demo/screen.svg");
    let picture = std::fs::read_to_string(path).unwrap();
    let mut shown = picture.match_indices("<g class=").map(|(at, _)| {
        let tag = picture[at..].split('>').next().unwrap();
        tag.contains(r#"opacity="1""#)
    });
    assert_eq!(shown.next(), Some(true));
    assert!(shown.all(|is_shown| !is_shown));
    let still = "@media (prefers-reduced-motion:reduce){g{animation:none!important}}";
    assert!(picture.contains(still));
    assert!(!picture.contains("<script") && picture.len() < 400_000);
    let mut ended = 0.0;
    for rule in picture.split("@keyframes ").skip(1) {
        // The last moment at which it is not hidden yet, behind the first at which it is seen.
        let moments = |opacity: &str| -> Vec<f64> {
            let stop = format!("%{{opacity:{opacity}}}");
            let stops: Vec<&str> = rule.split(&stop).collect();
            let before = &stops[..stops.len() - 1];
            let number = |text: &&str| text.rsplit(['{', '}']).next().unwrap().parse();
            before.iter().map(|text| number(text).unwrap()).collect()
        };
        let from = *moments("1").first().unwrap();
        let to = *moments("0").iter().find(|to| **to > from).unwrap();
        assert_eq!(from, ended, "{rule}");
        ended = to;
    }
    assert_eq!(ended, 100.0);
}
