"""What is kept of a spool file that has become too large: everything of the last part, and of what is older
each second reading, so that a file thins out with age. No I/O.
"""

from __future__ import annotations

# Bytes that all ranks of a session may take together, and the least and the most of one.
SESSION = 512 << 20
LEAST, MOST = 256 << 10, 2 << 20
# The share that is kept whole: the UI reads once a second, so this is far more than it has not seen.
WHOLE = 0.25
READINGS = (b'"event":"sample"', b'"event":"step"', b'"event":"device_memory"')


def cap(ranks: int) -> int:
    """Bytes of one rank's file."""
    return min(max(SESSION // ranks, LEAST), MOST)


def thinned(text: bytes, most: int) -> bytes:
    """The lines worth keeping of a file's text, at most `most` bytes of them; numbers stay in order."""
    lines = text.split(b"\n")
    # The last one has no end yet.
    lines = [line + b"\n" for line in lines[:-1]]
    whole, size = len(lines), 0
    while whole and size + len(lines[whole - 1]) <= most * WHOLE:
        whole -= 1
        size += len(lines[whole])
    old, kept, is_reading = lines[:whole], [], False
    for line in old:
        if any(kind in line[:120] for kind in READINGS):
            is_reading = not is_reading
            if is_reading:
                continue
        kept.append(line)
    kept += lines[whole:]
    # The hello is first, and stays.
    while len(kept) > 1 and sum(map(len, kept)) > most:
        del kept[1 : max(2, len(kept) // 8)]
    return b"".join(kept)
