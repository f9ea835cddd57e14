"""Modules."""
from . import modules
from .modules.module import Module
