//! README's picture: the real frame of a session that ran out of memory and was relaunched. It is
//! compared with what is drawn now, so that it cannot go stale.

use crate::frames::cases::CASES;
use crate::frames::{draw, svg};
use oomph::ui::Theme;
use std::path::Path;

#[test]
fn the_picture_in_the_readme_is_the_screen() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("demo/screen.svg");
    let case = CASES.iter().find(|case| case.name == "second-run").unwrap();
    let (story, view) = case.staged(Theme::full(), 120, 29);
    let buf = draw(&story, &view, 120, 29);
    let picture = svg::render(
        &buf,
        "oomph watching the second run of a training after an out-of-memory",
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
