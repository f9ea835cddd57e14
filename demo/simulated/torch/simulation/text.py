"""The out-of-memory message in the format of torch 2.4 to 2.12.

Only wording and number formats; the allocator supplies the numbers.
"""

ADVICE = (
    " If reserved but unallocated memory is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"
    " to avoid fragmentation.  See documentation for Memory Management  (https://docs.pytorch.org/docs/stable/"
    "notes/cuda.html#optimizing-memory-usage-with-pytorch-cuda-alloc-conf)"
)


def format_size(size):
    """Like `format_size` of CUDACachingAllocator.cpp: a boundary value uses the smaller unit."""
    if size <= 1024:
        return "%d bytes" % size
    if size <= 1024 ** 2:
        return "%.2f KiB" % (size / 1024)
    if size <= 1024 ** 3:
        return "%.2f MiB" % (size / 1024 ** 2)
    return "%.2f GiB" % (size / 1024 ** 3)


def out_of_memory(requested, device, capacity, free, allocated, reserved, processes, allowed=None):
    """One line. `processes` is a list of (pid or None for this process, bytes); `allowed` is a cap in bytes."""
    parts = [
        "CUDA out of memory. Tried to allocate %s. " % format_size(requested),
        "GPU %d has a total capacity of %s of which %s is free. "
        % (device, format_size(capacity), format_size(free)),
    ]
    for pid, used in processes:
        if pid is None:
            parts.append("Including non-PyTorch memory, this process has %s memory in use. " % format_size(used))
        else:
            parts.append("Process %d has %s memory in use. " % (pid, format_size(used)))
    if allowed is not None:
        parts.append("%s allowed; " % format_size(allowed))
    parts.append(
        "Of the allocated memory %s is allocated by PyTorch, and %s is reserved by PyTorch but unallocated."
        % (format_size(allocated), format_size(reserved - allocated))
    )
    return "".join(parts) + ADVICE
