"""curses: draws a window, waits for one key, ends."""
import curses
import os


def main(screen):
    curses.curs_set(0)
    screen.addstr(2, 4, "rows %d columns %d" % screen.getmaxyx(), curses.A_BOLD)
    screen.border()
    screen.refresh()
    key = screen.getch()
    with open("key.txt", "w") as file:
        file.write(str(key))


try:
    curses.wrapper(main)
except curses.error as error:
    print("no screen:", error)
