"""Where oomph is not byte for byte as bare, and why. Nothing else may differ, and each of these must still occur."""


class Difference:
    """Items, ways and programs are patterns of fnmatch."""

    def __init__(self, items, ways, programs, reason):
        self.items, self.ways, self.programs, self.reason = items, ways, programs, reason


HEADLESS = ("pipes", "one-pipe", "files", "sockets", "null", "redirected", "piped", "errors-apart", "terminal")

WORLDS = ("world*", "arguments of all kinds")

DIFFERENCES = [
    # The environment.
    Difference(("world: env OOMPH_SESSION", "world: env OOMPH_PROBE_*", "world: env PYTHONPATH"), HEADLESS + ("screen",), WORLDS,
               "the probe finds its way into Python by these, and its way to oomph"),
    Difference(("interpreter: path PLACE/runtime/oomph/*", "interpreter: module sitecustomize", "interpreter: module _oomph*", "interpreter: meta_path"),
               HEADLESS + ("screen",), ("interpreter*",), "the probe is in the interpreter, and waits for torch"),
    # The terminal.
    Difference(("world: terminal [012]", "world: /dev/tty settings"), ("redirected", "piped", "errors-apart", "terminal"), WORLDS,
               "the program's terminal leaves \\n alone and echoes nothing itself (EXTPROC): the user's own terminal does both"),
    Difference(("world: terminal [012]", "world: /dev/tty settings"), ("screen",), WORLDS,
               "the program's terminal is the part of the screen that shows its output"),
    Difference(("terminal's settings",), ("terminal", "screen"), ("a terminal left as it should not be",), "oomph leaves the user's terminal as it found it"),
    # Processes.
    Difference(("world: in its parent's session",), HEADLESS + ("screen",), WORLDS,
               "the program is in a session of its own, so that a key or a closed window reaches it once, through oomph"),
    Difference(("world: parent's death signal",), ("pipes", "files", "terminal"), ("world, a parent's death signal",),
               "it is oomph's own parent that is meant: oomph gets the signal and passes it on"),
    Difference(("stderr",), ("pipes",), ("not found", "not executable", "a script without its interpreter"), "oomph says what a shell would have said"),
    # Signals.
    Difference(("received: 1", "step signal 1"), ("terminal",), ("signal 1, handled", "signal 1, waited", "signals, one after the other"),
               "a hangup is the end of oomph's terminal, not of the training (`--on-hup stop` asks for that)"),
    Difference(("status", "step signal 10", "step signal 15"), ("pipes",), ("USR1 that nobody handles",),
               "a launcher would die of a USR1 that is meant for its ranks (`--forward always` sends it)"),
    # Pipes.
    Difference(("world: fd [12]",), ("pipes", "one-pipe", "sockets", "piped"), WORLDS,
               "what goes to a pipe or a socket goes through a pipe of oomph's, which holds 256 KiB in place of 64"),
    Difference(("world: open /dev/stdout", "world: open /dev/stderr"), ("sockets",), WORLDS,
               "that pipe can be opened by its name, which a socket cannot"),
]
