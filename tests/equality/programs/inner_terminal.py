"""A terminal of the program's own, with a shell in it."""
import os
import pty

pid, master = pty.fork()
if pid == 0:
    os.execvp("sh", ["sh", "-c", "test -t 0 && echo has a terminal; tty >/dev/null && exit 5"])
text = b""
while True:
    try:
        chunk = os.read(master, 1000)
    except OSError:
        break
    if not chunk:
        break
    text += chunk
print(text, os.waitpid(pid, 0)[1])
