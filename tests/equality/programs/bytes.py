"""Bytes that are no text, and text that is no ASCII, without a newline at the end."""
import sys

sys.stdout.buffer.write(bytes(range(256)) * 8)
sys.stdout.buffer.flush()
print("\u00e9\u4e2d\U0001f600 \x1b[31mred\x1b[0m \x1b]0;title\x07\rprogress 1\rprogress 2")
sys.stderr.buffer.write(b"\xff\xfe\0\0 err\r\n no newline")
