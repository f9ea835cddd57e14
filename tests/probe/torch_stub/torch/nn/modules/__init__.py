"""Modules."""
from . import module
