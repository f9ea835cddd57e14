"""Backward."""
from .graph import backward
