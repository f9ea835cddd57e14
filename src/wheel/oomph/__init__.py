"""oomph is a program, not a library: this package only lets `python -m oomph` find it."""
