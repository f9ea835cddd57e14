"""oomph's probe: reports from inside a training process what PyTorch's allocator does.

Loaded once the program has imported torch; does nothing before the program initialises CUDA. It never
changes what the training does: it creates no CUDA context, resets no peak, prints nothing, raises
nothing, and pauses when nobody listens. Python 3.8 and later.

Each folder imports only from those named above it, and these files from all:

    hook           a start of Python: waits for `import torch`, and then loads the package
    beside         where bytecode is kept in a directory of the user's, what is kept of our own files
    behind         which sitecustomize is next where another tool's stands in front of ours
    compiled       where Python may write no bytecode, what it has compiled of our own files
    ending         the end of a program whose sitecustomize exits
    start (here)   torch was imported: register a callback for CUDA's initialisation
    process        what must be there before CUDA is initialised
    attached       CUDA is being initialised: attach the rest; release it after a fork or at exit

common/ What the others stand on:

    errors         what becomes of an error of ours: counted, and written where that is asked for
    signals        signals are the program's
    clock          the clock, as it was
    wire           one JSON object per line over the UI's Unix socket
    spool          on another node: the same lines in a file that the UI follows
    pace           how much may be written there
    rotation       what is kept of a file that has become too large
    frames         Python stacks: the program's own lines
    phases         the phase of the step that they were taken in
    tracebacks     errors pass through our wrappers without frames of theirs
    calls          the calls of models and of single modules
    members        the modules and parameters of a model
    instead        something of ours where torch has a function, until it is taken back
    objects        the program's objects, without running code of theirs
    blocks         the repeated blocks of a model

knobs/ The numbers that set the program's sizes:

    watch          notices that a parser of the command line has finished
    parsers        what it made of its words
    given          the sizes of what its model was given
    search         where such a number stands in its variables and its text
    settings       where it stands in files of settings that the program has read by itself
    knobs          all of that together, when memory has run out
    batch          which size of a call the program calls its batch
    names          the words of a batch's name

patch/ Only where the user chose a patch at runtime, and then these change what they say:

    patches        which ones
    outcomes       what became of each, and what it sees of its process
    recompute      activation checkpointing of repeated blocks
    amp            bf16 autocast around a model's forward
    loader         another batch size for DataLoaders
    arguments      fewer workers of DataLoaders, fewer batches in advance, no pinned memory
    foreach        optimizers step through their parameters one by one
    fused          they step in one kernel
    loading        checkpoints are loaded to the CPU
    offload        what a forward saves waits for the backward in RAM
    chunked        cross-entropy over some rows of large logits at a time
    heads          a head's logits are not computed when it is called
    unmade         what stands for them until somebody asks for them
    derived        what is a view or a copy of it
    head_loss      head and cross-entropy over some rows at a time
    emptying       PyTorch's cache is emptied between training and evaluation
    moving         how it is moved there and comes back
    copying        how long copies take of a step
    outputs        evaluations of transformers' Trainer move their outputs to RAM
    source         numbers in the text of the program's own files
    ranks          what FSDP and DistributedDataParallel are told where they are constructed
    compilation    what torch.compile keeps of activations, and whether sizes are variables
    purity         whether a forward can be run a second time
    precision      whether the program sets a precision itself

live/ While the training goes well:

    hello          which process this is, and which devices it sees
    allocator      readings of the caching allocator
    readings       what they say, as lines for the UI
    sampler        the thread that takes them and feeds the socket
    steps          how many there were, and what was read of them
    step_hooks     what happens at a step's beginning and end, by torch's global hooks of optimizers
    losses         the losses of the first steps, read without waiting for the GPU
    backwards      what is allocated where the backward passes of a step begin, now and then
    gathered       what FSDP has gathered beside a rank's shards
    structure      bytes of parameters, gradients and optimizer state
    snapshot       summaries of the allocator's snapshot
    recording      records the Python stacks of live blocks
    stack_policy   decides when that is worth its overhead
    tracing        which steps are traced, allocation by allocation
    modules        which module of the model each allocation of such a step belongs to
    step_trace     such a step in a compact form
    regions        which part of the program compiled code is of
    graphs         what a tensor keeps alive through its autograd graph
    growth         lines whose live memory grows from step to step
    requests       what the UI asks for on a key: a search, a snapshot
    loaders        how the DataLoaders are set that have workers
    doing          what the program does where memory grows: an evaluation, a checkpoint
    host_memory    what this process takes of the host's memory: where it grows, and what is pinned

rehearse/ After an OOM in the first steps, to know what another batch or a remedy would need:

    roots          notes how the model is called, and sees an OOM leave the call or its backward
    inputs         the batch size of its inputs, and how much they differ from call to call
    rehearsals     decides what is rehearsed and for how long
    work           the variants of one step, and the ways to rehearse it
    rounds         the calls of one round of the training's loop, which a step begins with
    rules          what the most frequent operators return, by the sizes that they are given
    evaluations    calls without gradients that memory ran out in
    rehearsal      one step on fake tensors
    trace          what it allocates and frees, in order
    values         which values of its tensors are known
    shares         of how many it is known that they are not zero
    sparse         gradients of which only some rows are there, and what a step makes of them
    offloading     what a forward saves goes to RAM, as the patch of that name has it
    chunking       a cross-entropy over some rows at a time
    recomputing    repeated blocks are recomputed in backward, as the patch of that name has it
    recurrent      what cuDNN's recurrent layers allocate
    flops          how much an operator computes
    reduced        losses that keep the memory of all their elements
    fakes          copies of the model in which every tensor is fake
    shadows        a model's copy of itself, which is never trained and has no state
    shards         copies of what `fully_shard` has divided among the ranks, and what gathers and reduces it
    flat_shards    copies of what FullyShardedDataParallel wraps, and what gathers and reduces it
    composed       the same step, where ranks divide, gather or reduce otherwise
    catches        whether anybody can catch the error: if not, there is no later moment to go on
    compiling      what the program has compiled runs as it is written, and nothing is compiled
    packing        packed sequences, by what is known of their lengths
    scripted       functions that TorchScript compiled run as they are written
    functions      compiled functions that call the model: their calls, and their lines
    own_kernels    which optimizers' steps are compiled
    compilations   what torch.compile has made of a function: its code, and the graphs that this calls
    wrappers       what a compiled graph allocates, by the text that inductor wrote
    partitioned    what a backward will, that was not compiled yet
    scaling        the sizes of a graph at another batch than it was compiled for
    regions        what is compiled allocates what its graphs do
    operators      what torch's operators returned for such sizes, to be asked once
    accumulation   gradients that meet: added in the place of the one that waits, as without a dispatch mode
    apart          its thread: given up at a deadline, and out of the way when the process exits
    convolving     what cuDNN takes for a moment beside a convolution
    effects        stops a rehearsal before it has an effect
    callers        the program's lines from its model's call to backward
    sources        what functions say in their files, parsed one by one
    statements     a function's statements: what runs before and behind a call, and which names each reads and binds
    noting         the values of a program's variables, without keeping a tensor alive
    further        which lines lead to the backwards behind the first
    losses         runs them: the loss, and what stays bound
    outliving      what they keep beyond the step, and when they let go of the gradients
    parts          whether a step has several parts, whose gradients are added up
    upcoming       whether an evaluation comes before the next step
    sizes          the sizes of a trace as functions of the batch
    singly         samples that a step takes one by one, at the program's own batch and at another
    before         what the program had when the rehearsal began
    beforehand     what it had made of its batch before its steps
    reading        its objects by the names of a line, without running anything
    changes        assignments that would change something outside of it
    outside        what is so changed, in copies
    unseen         what a line takes or changes without an event
    randoms        the program's random numbers, as they were
    warned         no warning of a rehearsal
    optimizers     how much state an optimizer will keep

oom/ When memory has run out:

    observer       the record of an OOM
    limit          the program's line that limits its memory
    optimizer      what the optimizer's step needs, by its class, settings and bytes
    uncaught       whether the process ends by it
    outputs        what layers of a running forward have made, by the autograd graph
    tree           how much each of a model's layers is likely to keep
    progress       how far the forward had got
    retainers      who keeps memory alive: variables and attributes of the program
    variables      the names by which the program knows its objects
    checkpoint     which checkpoint was being loaded
    gathering      how far an evaluation had come that gathers its outputs
    operands       what the line that ran out of memory works on
    usage          the line of a function at which something grows
    dump           PyTorch's own snapshot, saved at an OOM or when asked for
    zero           what DeepSpeed's ZeRO holds, and its settings
    compiled       what torch.compile has compiled, and how often for another size
    census         looks for what could be patched, so that it can be offered
"""
import os
import sys
from _frozen_importlib import ModuleSpec

# The probe's state in this process, once torch was imported.
here = None


def start() -> None:
    """Called once, right after `import torch`."""
    torch = sys.modules.get("torch")
    if torch is None or not in_main_interpreter():
        return
    make_folders()
    from . import process

    global here
    # Runs `arm` when the program initialises CUDA, on its thread, before its first allocation; at once
    # if that has happened already. A program without CUDA never calls it.
    here = process.Process(torch)
    if here.patches is not None:
        here.patches.install()
    torch.cuda._lazy_call(here.arm)


def make_folders() -> None:
    """The packages below this one, without their files: these hold nothing but a docstring, and at each start there
    are five fewer to be found and read."""
    hook = sys.modules.get("_oomph_hook")
    for name in ("common", "knobs", "patch", "live", "rehearse", "oom"):
        folder = type(sys)("%s.%s" % (__name__, name))
        place = os.path.join(os.path.dirname(__file__), name)
        folder.__spec__ = ModuleSpec(folder.__name__, None, is_package=True)
        folder.__spec__.submodule_search_locations = [place]
        setattr(folder, "__path__", [place])
        if hook is not None:
            getattr(hook, "watch_folder")(place)
        sys.modules[folder.__name__] = globals()[name] = folder


def in_main_interpreter() -> bool:
    """False in a subinterpreter, where torch's C extension may not work."""
    for name in ("_interpreters", "_xxsubinterpreters"):
        is_there = name in sys.modules
        try:
            module = __import__(name)
            return bool(module.get_current() == module.get_main())
        except ImportError:
            continue
        finally:
            if not is_there:
                # faulthandler lists the extension modules of a program that crashes.
                sys.modules.pop(name, None)
    return True
