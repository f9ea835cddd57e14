"""PYTORCH_CUDA_ALLOC_CONF and PYTORCH_ALLOC_CONF, parsed and rejected as by torch 2.10 and later.

The first name that is set is used; nothing is merged. The wording of the errors matters: people (and oomph) meet them
at the first CUDA call, seconds into a run.
"""
import os
import re

from .gpu import MIB

NAMES = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF", "PYTORCH_ALLOC_CONF")
UNLIMITED = (1 << 63) - 1

ACCEPTED_UNUSED = (
    "roundup_power2_divisions",
    "max_non_split_rounding_mb",
    "release_lock_on_cudamalloc",
    "release_lock_on_hipmalloc",
    "pinned_use_cuda_host_register",
    "pinned_use_hip_host_register",
    "pinned_num_register_threads",
    "pinned_use_background_threads",
    "pinned_reserve_segment_size_mb",
    "graph_capture_record_stream_reuse",
)
"""Keys that torch knows and that change nothing that is simulated here."""


class Settings:
    """The allocator's settings."""

    def __init__(self, text=""):
        self.text = text
        self.max_split_size = UNLIMITED
        self.garbage_collection_threshold = 0.0
        self.expandable_segments = False
        self.memory_fraction = None
        self._parse(text)

    @classmethod
    def of_environment(cls, environment=os.environ):
        """From the first of the names that is set."""
        for name in NAMES:
            if name in environment:
                return cls(environment[name])
        return cls()

    def _parse(self, text):
        tokens = re.findall(r"[,:\[\]]|[^,:\[\]\s]+", text)
        position = 0
        while position < len(tokens):
            key = tokens[position]
            if key == ",":
                position += 1
                continue
            if position + 1 >= len(tokens) or tokens[position + 1] != ":":
                self._refuse_unknown(key)
                found = tokens[position + 1] if position + 1 < len(tokens) else ""
                raise ValueError(
                    "Expected ':' at index %d in ConfigTokenizer but got '%s'" % (position + 1, found)
                )
            position += 2
            if position >= len(tokens):
                raise ValueError("Index out of bounds in ConfigTokenizer")
            if tokens[position] == "[":
                end = tokens.index("]", position) if "]" in tokens[position:] else len(tokens)
                value, after = tokens[position:end], end + 1
            else:
                value, after = tokens[position], position + 1
            self._set(key, value, position)
            position = after

    def _refuse_unknown(self, key):
        known = ACCEPTED_UNUSED + (
            "max_split_size_mb",
            "garbage_collection_threshold",
            "expandable_segments",
            "per_process_memory_fraction",
            "backend",
        )
        if key not in known:
            raise ValueError("Unrecognized key '%s' in CUDA allocator config." % key)

    def _set(self, key, value, index):
        self._refuse_unknown(key)
        if key == "expandable_segments":
            if value not in ("True", "False"):
                raise ValueError(
                    "Expected 'True' or 'False' at index %d in ConfigTokenizer but got '%s'" % (index, value)
                )
            self.expandable_segments = value == "True"
        elif key == "max_split_size_mb":
            megabytes = number(value, int, "stoull")
            if megabytes < 0:
                self.max_split_size = UNLIMITED
            elif megabytes < 20:
                raise ValueError("CachingAllocator option max_split_size_mb too small, must be >= 20")
            else:
                self.max_split_size = min(megabytes * MIB, UNLIMITED)
        elif key == "garbage_collection_threshold":
            self.garbage_collection_threshold = number(value, float, "stod")
            if not 0.0 < self.garbage_collection_threshold < 1.0:
                raise ValueError("garbage_collect_threshold is invalid, set it in (0.0, 1.0)")
        elif key == "per_process_memory_fraction":
            self.memory_fraction = number(value, float, "stod")
            if not 0.0 <= self.memory_fraction <= 1.0:
                raise ValueError("per_process_memory_fraction is invalid, set it in [0.0, 1.0]")
        elif key == "backend":
            if value not in ("native", "cudaMallocAsync"):
                raise ValueError("Unknown allocator backend, options are native and cudaMallocAsync")
            if value != "native":
                raise ValueError("backend:cudaMallocAsync is not simulated; run without it")

    def as_dict(self):
        """The snapshot's `allocator_settings`."""
        return {
            "PYTORCH_CUDA_ALLOC_CONF": self.text,
            "max_split_size": -1 if self.max_split_size == UNLIMITED else self.max_split_size,
            "garbage_collection_threshold": self.garbage_collection_threshold,
            "expandable_segments": self.expandable_segments,
            "pinned_num_register_threads": 1,
            "release_lock_on_malloc": False,
            "pinned_use_host_register": False,
            "roundup_power2_divisions": {},
        }


def number(value, kind, refusal):
    """A number, or the error text of C++'s conversion."""
    try:
        return kind(value)
    except (TypeError, ValueError):
        raise ValueError(refusal) from None
