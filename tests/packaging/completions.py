"""Presses Tab in real bash, zsh and fish, and reads what stands on the command line afterwards.

    python3 tests/packaging/completions.py --oomph target/release/oomph

A shell that is not installed is skipped and said so; with --all that is a failure.
"""
import argparse
import os
import pty
import re
import select
import shutil
import subprocess
import sys
import tempfile
import time

DEADLINE = 30  # seconds; nothing here takes one
SETUP = {
    "bash": (["bash", "--norc", "--noprofile", "-i"], """
        bind 'set enable-bracketed-paste off'; bind 'set completion-query-items 0'
        complete -W 'alpha-one beta-two' oomphtrainer
        eval "$(oomph completions bash)" """),
    "bash with bash-completion": (["bash", "--norc", "--noprofile", "-i"], """
        bind 'set enable-bracketed-paste off'; . /usr/share/bash-completion/bash_completion
        complete -W 'alpha-one beta-two' oomphtrainer
        eval "$(oomph completions bash)" """),
    "zsh": (["zsh", "-f", "-i"], """
        bindkey -e; unset zle_bracketed_paste; autoload -U compinit; compinit -u -D
        _oomphtrainer() { _arguments '1:word:(alpha-one beta-two)' '*:file:_files' }; compdef _oomphtrainer oomphtrainer
        source <(oomph completions zsh) """),
    "fish": (["fish", "--no-config", "-i"], """
        function fish_prompt; echo '$ '; end
        complete -c oomphtrainer -a 'alpha-one beta-two'
        oomph completions fish | source """),
}


class Shell:
    """A shell in a terminal of its own."""

    def __init__(self, name, environment, directory):
        arguments, setup = SETUP[name]
        self.name, self.output = name, ""
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            os.chdir(directory)
            os.execvpe(arguments[0], arguments, environment)
        for number, line in enumerate(setup.strip().splitlines()):
            self.type(line.strip() + "\n")
            self.type(f"printf '<%s>' {number}\n")
            self.wait(f"<{number}>")

    def type(self, text):
        os.write(self.terminal, text.encode())

    def read(self, seconds):
        ready, _, _ = select.select([self.terminal], [], [], seconds)
        if not ready:
            return False
        try:
            data = os.read(self.terminal, 65536)
        except OSError:
            return False
        text = data.decode("utf-8", "replace").replace("\r\r\n", "\r\n")
        if "\x1b[c" in text:  # a shell that asks what terminal this is waits for an answer
            self.type("\x1b[?62c")
        # Colours and cursor movements, titles, charsets.
        text = re.sub(r"\x1b\][^\x07\x1b]*(\x07|\x1b\\)|\x1b[\[?][0-9;?<>=]*[A-Za-z]|\x1b[()].|\x1b[=>78]", "", text)
        self.output += text
        return True

    def wait(self, pattern):
        end = time.monotonic() + DEADLINE
        while not (found := re.search(pattern, self.output)):
            self.read(0.2)
            if time.monotonic() > end:
                raise AssertionError(f"{self.name}: waited for {pattern!r}, saw:\n{self.output[-3000:]}")
        self.output = self.output[found.end():]
        return found

    def complete(self, line):
        """The words on the line after Tab, as the shell itself reads them."""
        self.type(line + "\t")
        # Home, a command in front, Enter: the shell handles the keys in order, so Tab is done by then.
        self.type("\x01printf '<%s>' completed \x05 ended\n")
        words = self.wait(r"<completed>((?:<[^>\r\n]*>)*)<ended>").group(1)
        return words.replace("/>", ">")  # a slash that the next key removes

    def end(self):
        os.close(self.terminal)
        os.waitpid(self.pid, 0)


def cases(directory, session):
    yield "oomph repl", "<oomph><replay>"
    yield "oomph completio", "<oomph><completions>"
    yield "oomph --no-pro", "<oomph><--no-probe>"
    yield "oomph --theme contr", "<oomph><--theme><contrast>"
    yield "oomph --theme=contr", "<oomph><--theme=contrast>"
    yield "oomph --allow amp,recom", "<oomph><--allow><amp,recompute>"
    yield f"oomph --record {directory}/recordi", f"<oomph><--record><{directory}/recording.jsonl>"
    yield f"oomph --record={directory}/recordi", f"<oomph><--record={directory}/recording.jsonl>"
    yield "oomph --snapshot snapsho", "<oomph><--snapshot><snapshots>"
    yield "oomph help ke", "<oomph><help><keys>"
    yield f"oomph attach {session[:9]}", f"<oomph><attach><{session}>"
    yield f"oomph logs --follow {session[:4]}", f"<oomph><logs><--follow><{session}>"
    yield f"oomph replay {session[:9]}", f"<oomph><replay><{session}>"
    yield "oomph explain recordi", "<oomph><explain><recording.jsonl>"
    # From here on the shell completes as it would without oomph.
    yield "oomph oomphtrai", "<oomph><oomphtrainer>"
    yield "oomph --headless --interval 0.5s oomphtrai", "<oomph><--headless><--interval><0.5s><oomphtrainer>"
    yield "oomph CUDA_VISIBLE_DEVICES=1 oomphtrai", "<oomph><CUDA_VISIBLE_DEVICES=1><oomphtrainer>"
    yield "oomph plan -- oomphtrai", "<oomph><plan><--><oomphtrainer>"
    yield "oomph cat recordi", "<oomph><cat><recording.jsonl>"
    yield "oomph ./oomphlo", "<oomph><./oomphlocal>"


# Only where the shell itself knows the command's own completion after another command.
DEEP = ("oomph --theme=dark oomphtrainer alp", "<oomph><--theme=dark><oomphtrainer><alpha-one>")


def executable(path, text):
    with open(path, "w") as file:
        file.write(text)
    os.chmod(path, 0o755)


def start_session(environment):
    subprocess.Popen(
        ["oomph", "--headless", "--no-nvml", "sh", "-c", "while :; do sleep 0.2; done"],
        env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        start_new_session=True)
    end = time.monotonic() + DEADLINE
    while time.monotonic() < end:
        listed = subprocess.run(["oomph", "ls", "--json"], env=environment, capture_output=True, text=True).stdout
        if found := re.search(r'"id": "([^"]+)"[^}]*"state": "running"', listed):
            return found.group(1)
        time.sleep(0.05)
    raise AssertionError("no session is running")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--oomph", required=True, help="the binary")
    parser.add_argument("--all", action="store_true", help="fail if a shell is missing")
    options = parser.parse_args()
    passed, failed, skipped = 0, 0, 0
    with tempfile.TemporaryDirectory(prefix="oomph-shells-") as root:
        binaries, directory = f"{root}/bin", f"{root}/work"
        for path in (binaries, directory, f"{root}/home", f"{directory}/snapshots"):
            os.mkdir(path)
        os.symlink(os.path.abspath(options.oomph), f"{binaries}/oomph")
        executable(f"{binaries}/oomphtrainer", "#!/bin/sh\n")
        executable(f"{directory}/oomphlocal", "#!/bin/sh\n")
        open(f"{directory}/recording.jsonl", "w").close()
        environment = {
            "PATH": f"{binaries}:/usr/local/bin:/usr/bin:/bin", "HOME": f"{root}/home", "TERM": "xterm-256color",
            "LANG": "C.UTF-8", "PS1": "$ ", "OOMPH_STATE_DIR": f"{root}/state", "OOMPH_RUNTIME_DIR": f"{root}/run",
        }
        session = start_session(environment)
        try:
            for name, (arguments, _) in SETUP.items():
                is_there = shutil.which(arguments[0]) is not None
                if "with bash-completion" in name:
                    is_there &= os.path.exists("/usr/share/bash-completion/bash_completion")
                if not is_there:
                    print(f"{name}: not installed")
                    skipped += 1
                    continue
                shell = Shell(name, environment, directory)
                wanted = list(cases(directory, session)) + ([DEEP] if name != "bash" else [])
                for line, expected in wanted:
                    got = shell.complete(line)
                    if got == expected:
                        passed += 1
                    else:
                        failed += 1
                        print(f"{name}: {line}<Tab>: {got}, not {expected}")
                shell.end()
                print(f"{name}: {len(wanted)} lines completed")
        finally:
            subprocess.run(["oomph", "stop", "--kill", session], env=environment, stdout=subprocess.DEVNULL)
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed or (options.all and skipped) else 0


if __name__ == "__main__":
    sys.exit(main())
