"""oomph's probe: says from inside a training process what PyTorch's allocator does.

It is loaded when the program has imported torch, does nothing before the program initialises CUDA,
and never changes what the training does: it creates no CUDA context, resets no peak, prints
nothing, raises nothing, and goes to sleep when nobody listens. Python 3.8 and later.

    start (here)   torch was imported: ask to be called when CUDA is initialised
    process        CUDA is being initialised: attach the rest, and let go after a fork or at exit
    hello          who this process is, and which devices it sees
    allocator      readings of the caching allocator
    sampler        the thread that reads it and feeds the socket
    steps          optimizer steps, by torch's global hooks
    structure      bytes of parameters, gradients and optimizer state
    observer       the record of an out-of-memory
    snapshot       what the allocator's snapshot says, in few words
    recording      the lines of live blocks, recorded while they are needed
    need           whether they are
    frames         Python stacks: the program's own lines, and the phase of the step
    wire           one JSON object a line over the front's Unix socket

Only where the user chose a remedy inside the process, and then it changes what it says it changes:

    patches        which ones, and what became of them
    calls          the calls of models and of single modules
    recompute      activation checkpointing of repeated blocks
    amp            bf16 autocast around a model's forward
    loader         another batch for DataLoaders
    blocks         the repeated blocks of a model
    purity         whether a forward can be run a second time
    precision      whether the program has a precision of its own
    census         all this looked for once memory has run out, so that it can be offered
"""
import sys

# What the probe knows of this process, once torch was imported.
here = None


def start():
    """Called once, right after `import torch`."""
    torch = sys.modules.get("torch")
    if torch is None or not in_main_interpreter():
        return
    from . import process

    global here
    # Runs `arm` when the program initialises CUDA, on its thread, before its first allocation; at
    # once where that has happened. A program without CUDA never calls it.
    here = process.Process(torch)
    if here.patches is not None:
        here.patches.install()
    torch.cuda._lazy_call(here.arm)


def in_main_interpreter():
    """False in a subinterpreter, where torch's C extension cannot be counted on."""
    for name in ("_interpreters", "_xxsubinterpreters"):
        try:
            module = __import__(name)
            return module.get_current() == module.get_main()
        except ImportError:
            continue
    return True
