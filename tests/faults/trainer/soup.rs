//! Bytes that are no text: what a terminal's reader and a log must bear.

/// One piece of a kind.
pub fn of(kind: &str) -> Vec<u8> {
    match kind {
        // Every byte there is, NUL and C1 controls too, and a code point in two halves.
        "bytes" => (0..=255).chain([0xe2, 0x82]).collect(),
        "half" => vec![0xac, b'\n'],
        // Sequences that are begun and never ended.
        "osc" => b"\x1b]0;a title without end ".to_vec(),
        "dcs" => b"\x1bPq a picture without end ".to_vec(),
        "apc" => b"\x1b_G a message without end ".to_vec(),
        // Counts that would have an emulator at work for minutes.
        "counts" => {
            let counts = b"\x1b[70000;70000H\x1b[69999L\x1b[65536b\x1b[70000S\x1b[99999999999999999999m\x1b[70000@";
            [&counts[..], &[b'.'; 4000]].concat()
        }
        // A question for the terminal.
        "where" => b"\x1b[6n".to_vec(),
        // What must not reach the user's terminal from behind a screen.
        "loud" => b"\x1b]0;stolen title\x07\x1b]52;c;c3RvbGVu\x07\x1b]8;;http://stolen/\x07link\x1b]8;;\x07\x1bc\x1b[?2026h\x1b[?1003h".to_vec(),
        "alternate" => b"\x1b[?1049h\x1b[2J\x1b[Hfull screen".to_vec(),
        // Wide, joined and combining characters.
        "wide" => "漢字 👩‍👩‍👧‍👦 e\u{301} 🏳️‍🌈 ﷽ \u{202e}abc\u{202c} \u{200b}|\n".into(),
        // A recording's line and oomph's own prefix, in the program's own output.
        "ours" => b"oomph: relaunching\n{\"at\":1,\"exited\":{\"run\":1,\"exit\":{\"code\":0},\"left\":[]}}\n[oomph: 7 bytes of output are missing here]\n\x00\x00\x00\x05OORPT\n".to_vec(),
        other => panic!("soup:{other}"),
    }
}
