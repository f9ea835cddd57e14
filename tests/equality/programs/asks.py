"""Asks on /dev/tty, as programs do that want an answer though their input is a file (ssh, sudo, getpass)."""
try:
    with open("/dev/tty", "r+b", buffering=0) as terminal:
        terminal.write(b"a question on the terminal: ")
        answer = terminal.readline()
    print("answered", answer)
except OSError as error:
    print("no terminal", error.errno)
