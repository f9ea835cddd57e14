//! The screen, frame by frame: sessions told as events, folded, drawn, and kept as text; README's
//! picture is one of them.

#[path = "frames/story.rs"]
mod story;
#[path = "frames/svg.rs"]
mod svg;

use oomph::ui::{self, Theme, View};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use story::{Shape, Story, remedies};

const GPU: &str = "4f2a9c1e-7b1d-4a6e-9d50-1f6a2c3b4d5e";

const STEADY: Shape = Shape {
    floor: 1.9,
    peak: 14.7,
    reserved: 15.2,
    climb: 0.0,
    rate: 6.3,
};

fn draw(story: &Story, view: &View, width: u16, height: u16) -> Buffer {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    story.scene(|scene| {
        terminal.draw(|frame| ui::draw(frame, view, scene)).unwrap();
    });
    terminal.backend().buffer().clone()
}

fn text(buf: &Buffer) -> String {
    let rows = (0..buf.area.height).map(|y| {
        let row: String = (0..buf.area.width).map(|x| buf[(x, y)].symbol()).collect();
        row.trim_end().to_string()
    });
    rows.collect::<Vec<_>>().join("\n")
}

fn steady() -> Story {
    let mut story = Story::new("python train.py --batch-size 32 --grad-accum 2");
    story.with_nvml().start().wait(1.5).hello(0, 1, GPU);
    story.train(0, GPU, STEADY, 190.0);
    story
}

#[test]
fn look() {
    let story = steady();
    for (w, h) in [(80, 24), (120, 40), (140, 45)] {
        let mut story = steady();
        let view = story.view(Theme::full(), w, h);
        let (rows, cols) = story.scene(|s| view.child_size(s));
        story.child.resize(rows, cols);
        story
            .child
            .feed(b"loading data ... \x1b[32mdone\x1b[0m\r\nepoch 3:  41%|\x1b[34m");
        let buf = draw(&story, &view, w, h);
        println!("{}", text(&buf));
        std::fs::write(format!("/tmp/look-{w}.svg"), svg::render(&buf, "x")).unwrap();
    }
    let _ = story;
    let mut story = Story::new("python train.py --batch-size 64");
    story.with_nvml().start().wait(1.5).hello(0, 1, GPU);
    story.train(
        0,
        GPU,
        Shape {
            peak: 22.6,
            reserved: 22.9,
            ..STEADY
        },
        20.0,
    );
    story.oom(|_| {});
    story.find(oomph::diagnosis::Cause::Capacity, "It does not fit: 22.6 GiB allocated + 1.2 GiB asked for, 23.6 GiB on the card.", "0.3 GiB lies unallocated, so it is not fragmentation; no other process is on the card. 19.4 GiB of it are activations, which grow with the batch.");
    story.remedies = remedies();
    for (w, h) in [(80, 24), (120, 40)] {
        let view = story.view(Theme::full(), w, h);
        let buf = draw(&story, &view, w, h);
        println!("{}", text(&buf));
        std::fs::write(format!("/tmp/look-oom-{w}.svg"), svg::render(&buf, "x")).unwrap();
    }
}
