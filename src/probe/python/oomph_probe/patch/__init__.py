"""Patches that the user chose, applied at runtime. Only these change what the training does."""
