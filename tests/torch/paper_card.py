"""A GPU of some size on a machine without one, for programs that were written for CUDA and stay as they are.

    python paper_card.py SIZE COMMAND...      (SIZE as in 300M or 2G; COMMAND may begin with oomph)

Starts COMMAND with a `sitecustomize` in front of every Python of it, behind oomph's own probe. As soon as torch was
imported there, `torch.cuda` says that there is one device of that size; what a program puts on it lies in the machine's
own memory, and the bytes of its live tensors are counted. An operation that would need more than there is calls the
probe's observer, as the allocator does, and raises `torch.OutOfMemoryError`. So the batch that oomph finds in a
program, what it rehearses of the step, and whether the next run needs what was said, can be seen without a GPU; times,
kernels, what libraries allocate for themselves, half precision under autocast and several devices cannot.

With PAPER_CARD_WHY=1 each process writes at its end which errors the probe had an answer for: why lines were not found,
why a rehearsal came to nothing.
"""

import atexit
import os
import sys
import tempfile
import traceback
import types
import weakref

SIZE = "PAPER_CARD_BYTES"
UNITS = {"M": 1 << 20, "G": 1 << 30}
# What every Python of the command runs: it waits until torch is there. Torch's folder in the name makes the lines below
# ones of a library, as those of torch.cuda are.
IN_FRONT = """
import sys

class Waiting:
    def find_spec(self, name, path=None, target=None):
        if name != "torch":
            return None
        sys.meta_path.remove(self)
        for finder in list(sys.meta_path):
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                break
        else:
            return None
        run = spec.loader.exec_module
        def run_and_install(module):
            run(module)
            import os
            module.paper_card = type(sys)("paper_card")
            name = os.path.join(os.path.dirname(module.__file__), "paper_card.py")
            exec(compile(open({file!r}).read(), name, "exec"), module.paper_card.__dict__)
            module.paper_card.install(module)
        spec.loader.exec_module = run_and_install
        return spec

sys.meta_path.insert(0, Waiting())
"""


def size_of(text):
    return int(float(text[:-1]) * UNITS[text[-1]])


def main():
    size, *command = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "sitecustomize.py"), "w") as file:
            file.write(IN_FRONT.format(file=os.path.abspath(__file__)))
        path = os.pathsep.join(filter(None, [folder, os.environ.get("PYTHONPATH")]))
        told = {"PYTHONPATH": path, SIZE: str(size_of(size))}
        return os.waitstatus_to_exitcode(
            os.spawnvpe(os.P_WAIT, command[0], command, {**os.environ, **told}) << 8
        )


class Rehearsals:
    """The probe's rehearsals in this process, once each part of them is imported: their fakes are the CPU's, as what
    lies on the card in truth is, and they take the time that they need here."""

    # Seconds.
    PATIENCE = 60.0

    def __init__(self, torch):
        self.torch = torch
        self.changes = {
            "rehearse.roots": self.of_roots, "rehearse.rehearsals": self.of_rehearsals, "rehearse.work": self.of_work,
            "rehearse.evaluations": self.of_evaluations,
        }
        if os.environ.get("PAPER_CARD_WHY"):
            self.changes["common.errors"] = self.of_errors

    def look(self):
        for name in list(self.changes):
            module = sys.modules.get("_oomph_probe." + name)
            if module is not None and not getattr(module.__spec__, "_initializing", False):
                self.changes.pop(name)(module)

    def of_roots(self, module):
        module.DEVICES = ("cuda", "cpu")

    def of_rehearsals(self, module):
        module.PATIENCE = module.LAST = module.AT_LEAST = module.IN_ALL = self.PATIENCE
        self.as_they_lie(module.Rehearsals, "ways_of", "ways_of_evaluation")

    def of_work(self, module):
        module.REFINED = module.SECOND = self.PATIENCE
        until, said = module.Work.until, module.Work.said

        def until_on_the_cpu(work, *args):
            with self.torch.paper_card.card.elsewhere():
                return until(work, *args)

        module.Work.until = until_on_the_cpu
        module.Work.said = lambda work, error, pid: {**said(work, error, pid), "device": 0}

    def of_evaluations(self, module):
        at_oom = module.at_oom
        module.at_oom = lambda torch, kind: at_oom(torch, "cpu")
        self.as_they_lie(module, "call_of", "as_a_step", "as_a_part")

    def as_they_lie(self, owner, *names):
        """What these functions note of tensors is that they are the CPU's, as of the arguments of calls."""
        for name in names:

            def as_it_lies(*args, asked=getattr(owner, name), **kwargs):
                with self.torch._C.DisableTorchFunction():
                    return asked(*args, **kwargs)

            setattr(owner, name, as_it_lies)

    def of_errors(self, module):
        foreseen, seen = module.foreseen, []

        def kept(where):
            seen.append("paper card: %s\n%s" % (where, traceback.format_exc()))
            foreseen(where)

        module.foreseen = kept
        atexit.register(lambda: sys.stderr.write("".join(seen)))


class Card:
    """What lies on the device: storages, by address."""

    def __init__(self, torch, size):
        self.torch, self.size = torch, size
        self.live = {}
        self.allocated = self.peak = self.made = self.ooms = 0
        # A tensor is on its way here, or away.
        self.arriving = self.leaving = False
        self.observer = None
        self.is_initialized = False
        self.counted = self.named = self.elsewhere = None
        self.rehearsals = Rehearsals(torch)
        self.device = torch.device("cuda", 0)

    def has(self, tensor):
        try:
            if tensor.layout == self.torch.sparse_coo:
                return self.has(tensor._values())
            return tensor.untyped_storage()._cdata in self.live
        except (RuntimeError, NotImplementedError, ValueError):
            # A parameter of a lazy module has no storage yet.
            return False

    def initialize(self):
        if self.is_initialized:
            return
        self.is_initialized = self.torch.cuda._initialized = True
        for call, *_ in list(self.torch.cuda._queued_calls):
            if "oomph" in call.__module__:
                call()
        self.torch.cuda._queued_calls.clear()
        self.counted.__enter__()

    def hold(self, tensor, known):
        self.rehearsals.look()
        storage = tensor.untyped_storage()
        key, size = storage._cdata, -(-storage.nbytes() // 512) * 512
        if key in self.live or key in known or size == 0:
            return
        if self.allocated + size > self.size:
            self.run_out(size)
        self.allocated += size
        self.made += 1
        self.peak = max(self.peak, self.allocated)

        def free(_):
            self.live.pop(key, None)
            self.allocated -= size

        self.live[key] = weakref.ref(storage, free)

    def run_out(self, size):
        free = self.size - self.allocated
        self.ooms += 1
        if self.observer is not None:
            with self.named:
                self.observer(0, size, self.size, free)
        raise self.torch.OutOfMemoryError(
            "CUDA out of memory. Tried to allocate %.2f MiB. GPU 0 has a total capacity of %.2f MiB of which %.2f MiB "
            "is free. Of the allocated memory %.2f MiB is allocated by PyTorch, and 0 bytes is reserved by PyTorch but "
            "unallocated."
            % tuple(each / (1 << 20) for each in (size, self.size, free, self.allocated))
        )

    def stats(self, device=0):
        def of(current, peak):
            return {
                pool: {"current": current, "peak": peak, "allocated": self.made, "freed": self.made - len(self.live)}
                for pool in ("all", "small_pool", "large_pool")
            }

        taken = ("allocated_bytes", "reserved_bytes", "active_bytes", "requested_bytes")
        read = {name: of(self.allocated, self.peak) for name in taken}
        read["inactive_split_bytes"] = of(0, 0)
        read["allocation"] = read["segment"] = of(len(self.live), len(self.live))
        return {**read, "num_alloc_retries": 0, "num_ooms": self.ooms}


def answer_for_the_accelerator(torch, card):
    """What a program asks of `torch.accelerator` is answered for the card; torch's own files hear of none, so that a DataLoader
    pins nothing."""
    real = torch.accelerator.current_accelerator

    def is_asked_by_torch():
        return str(sys._getframe(2).f_globals.get("__name__")).startswith("torch.")

    torch.accelerator.is_available = lambda: not is_asked_by_torch()
    torch.accelerator.current_accelerator = lambda *args, **kwargs: real(*args, **kwargs) if is_asked_by_torch() else card.device
    torch.accelerator.device_count = lambda: 1


def install(torch):
    """From here on torch says that there is a GPU."""
    from torch._C import _get_dispatch_mode, _TorchDispatchModeKey
    from torch.overrides import TorchFunctionMode
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_iter

    card = Card(torch, int(os.environ[SIZE]))
    Tensor = torch.Tensor

    def is_card(what):
        if type(what) is torch.device:
            return what.type == "cuda"
        return isinstance(what, str) and what.startswith("cuda")

    def parts_of(tensor):
        """What has a storage of its own."""
        return (tensor._indices(), tensor._values()) if tensor.layout == torch.sparse_coo else (tensor,)

    def is_rehearsed():
        return _get_dispatch_mode(_TorchDispatchModeKey.FAKE) is not None

    def elsewhere(func, name, args, kwargs):
        """What a rehearsal does: all of its tensors are the CPU's."""
        if name in ("cuda", "cpu") and args and isinstance(args[0], Tensor):
            return args[0]
        args = tuple("cpu" if is_card(each) else each for each in args)
        device = kwargs.get("device")
        if is_card(device) or type(device) is int:
            kwargs = {**kwargs, "device": "cpu"}
        return func(*args, **kwargs)

    class Counted(TorchDispatchMode):
        @classmethod
        def _should_skip_dynamo(cls):
            # That would import the compiler, which takes seconds.
            return False

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            out = func(*args, **(kwargs or {}))
            if card.leaving or card.is_initialized is None or is_rehearsed():
                return out
            given = [each for each in tree_iter((args, kwargs)) if isinstance(each, Tensor)]
            if card.arriving or any(map(card.has, given)):
                known = {part.untyped_storage()._cdata for each in given for part in parts_of(each)}
                # How many packed sequences go on at each place is always the CPU's.
                is_packed = "_pack_padded_sequence" in str(func) and type(out) is tuple
                for each in tree_iter(out[0] if is_packed else out):
                    if type(each) in (Tensor, torch.nn.Parameter):
                        for part in parts_of(each):
                            card.hold(part, known)
            return out

    class Named(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            kwargs = kwargs or {}
            name = getattr(func, "__name__", "")
            if name != "__get__" and is_rehearsed():
                return elsewhere(func, name, args, kwargs)
            if name == "__get__" and args and func in (device_of, is_cuda):
                on = isinstance(args[0], Tensor) and card.has(args[0])
                return func(*args) if not on else card.device if func == device_of else True
            if name == "cuda" and args and isinstance(args[0], Tensor):
                return moved(args[0], card.device)
            if name == "cpu" and args and isinstance(args[0], Tensor):
                return moved(args[0], torch.device("cpu"))
            if name == "pin_memory":
                return args[0]
            if name == "to" and isinstance(args[0], Tensor):
                return to(*args, **kwargs)
            if name == "type" and len(args) > 1 and hasattr(args[1], "of_the_cpu"):
                return moved(args[0].type(args[1].of_the_cpu), card.device)
            if name == "type" and len(args) > 1 and isinstance(args[1], str) and args[1].startswith("torch.cuda."):
                return moved(args[0].type(args[1].replace("cuda.", "")), card.device)
            if is_card(kwargs.get("device")) or type(kwargs.get("device")) is int:
                card.initialize()
                kwargs = {**kwargs, "device": "cpu"}
                return with_flag("arriving", func, *args, **kwargs)
            return func(*args, **kwargs)

    class Elsewhere(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            return elsewhere(func, getattr(func, "__name__", ""), args, kwargs or {})

    device_of, is_cuda = Tensor.device.__get__, Tensor.is_cuda.__get__

    def with_flag(flag, call, *args, **kwargs):
        before = getattr(card, flag)
        setattr(card, flag, True)
        try:
            return call(*args, **kwargs)
        finally:
            setattr(card, flag, before)

    def moved(tensor, device, *args, **kwargs):
        """`tensor.to` with the rest of its arguments, on the card or off it."""
        on = card.has(tensor)
        if is_card(device):
            card.initialize()
            if on:
                return tensor.to(*args, **kwargs) if args or kwargs else tensor
            return with_flag("arriving", tensor.to, *args, **{**kwargs, "device": "cpu", "copy": True})
        if on:
            return with_flag("leaving", tensor.to, *args, **{**kwargs, "device": "cpu", "copy": True})
        return tensor.to(*args, **kwargs) if args or kwargs else tensor

    def to(tensor, *args, **kwargs):
        kwargs.pop("non_blocking", None)
        device = kwargs.pop("device", None)
        other = kwargs.pop("other", None)
        rest = list(args)
        if rest and isinstance(rest[0], Tensor):
            other = rest.pop(0)
        if other is not None:
            kwargs.setdefault("dtype", other.dtype)
            device = card.device if card.has(other) else torch.device("cpu")
        elif rest and not isinstance(rest[0], torch.dtype):
            device = rest.pop(0)
        for each in rest:
            if isinstance(each, torch.dtype):
                kwargs["dtype"] = each
        if kwargs.get("dtype", 0) is None:
            del kwargs["dtype"]
        if device is None:
            return tensor.to(**kwargs) if kwargs else tensor
        return moved(tensor, card.device if isinstance(device, int) else device, **kwargs)

    card.counted, card.named, card.elsewhere = Counted(), Named(), Elsewhere
    answer_questions(torch, card)
    make_distributed_alone(torch)
    card.named.__enter__()

    def forget():
        # A worker that loads data has no card.
        card.is_initialized = None
        card.observer = None

    os.register_at_fork(after_in_child=forget)
    torch.paper_card.card = card


def kind_of_tensor(card, plain):
    """One of torch's old classes, as `torch.cuda.FloatTensor`: it makes tensors, and is asked whether one is of it."""

    class Kind(type):
        def __call__(cls, *args):
            return plain(*args).cuda()

        def __instancecheck__(cls, value):
            return isinstance(value, plain) and card.has(value)

    return Kind(plain.__name__, (), {"of_the_cpu": plain})


def answer_questions(torch, card):
    cuda = torch.cuda

    class Properties(types.SimpleNamespace):
        pass

    properties = Properties(
        name="Paper card", total_memory=card.size, major=8, minor=0, multi_processor_count=8, warp_size=32,
        max_threads_per_multi_processor=2048, shared_memory_per_block=49152, gcnArchName="",
    )

    class Anything:
        """A stream, an event: things happen at once here."""

        def __init__(self, *_, **__):
            self.device = card.device

        def __enter__(self):
            return self

        def __exit__(self, *_):
            return False

        def elapsed_time(self, _):
            return 1.0

        def query(self):
            return True

        def __getattr__(self, name):
            if name.startswith("__"):
                raise AttributeError(name)
            return lambda *_, **__: None

    def asked(answer):
        def ask(*_, **__):
            card.initialize()
            return answer() if callable(answer) else answer

        return ask

    def nothing():
        return lambda *_, **__: None

    said = {
        "is_available": lambda: True,
        "device_count": lambda: 1,
        "is_initialized": lambda: bool(card.is_initialized),
        "_lazy_init": card.initialize,
        "init": card.initialize,
        "is_bf16_supported": lambda *_, **__: True,
        "current_device": asked(0),
        "get_device_name": asked("Paper card"),
        "get_device_properties": asked(properties),
        "get_device_capability": asked((8, 0)),
        "mem_get_info": asked(lambda: (card.size - card.allocated, card.size)),
        "memory_allocated": asked(lambda: card.allocated),
        "max_memory_allocated": asked(lambda: card.peak),
        "memory_reserved": asked(lambda: card.allocated),
        "max_memory_reserved": asked(lambda: card.peak),
        "memory_stats": asked(lambda: {}),
        "is_current_stream_capturing": lambda: False,
        "current_stream": type("current_stream", (Anything,), {}),
        "default_stream": type("default_stream", (Anything,), {}),
        "stream": type("stream", (Anything,), {}),
        "Stream": Anything,
        "Event": type("Event", (Anything,), {}),
    }
    for name in (
        "set_device", "empty_cache", "synchronize", "manual_seed", "manual_seed_all", "reset_peak_memory_stats",
        "reset_max_memory_allocated", "ipc_collect", "set_rng_state", "set_rng_state_all",
    ):
        # Torch's compiler tells functions apart by what they are: each is one of its own.
        said[name] = nothing()
    said["get_rng_state_all"] = lambda: []
    said["get_rng_state"] = lambda *_: torch.get_rng_state()
    for name, answer in said.items():
        setattr(cuda, name, answer)
        if hasattr(cuda.memory, name):
            setattr(cuda.memory, name, answer)
        if hasattr(cuda.random, name):
            setattr(cuda.random, name, answer)
    cuda.memory.get_allocator_backend = lambda: "native"
    whole = card.size

    def bound(fraction, device=None):
        card.size = int(whole * fraction)

    cuda.set_per_process_memory_fraction = cuda.memory.set_per_process_memory_fraction = bound
    cuda.memory.get_per_process_memory_fraction = lambda *_: card.size / whole
    cuda.memory._record_memory_history = nothing()
    cuda.memory._snapshot = lambda *_: {"segments": [], "device_traces": [], "allocator_settings": {}}
    torch._C._cuda_memoryStats = card.stats
    torch._C._cuda_attach_out_of_memory_observer = lambda observer: setattr(card, "observer", observer)
    cuda.device = Anything
    for name in ("Float", "Double", "Half", "Long", "Int", "Byte", "Bool"):
        setattr(cuda, name + "Tensor", kind_of_tensor(card, getattr(torch, name + "Tensor")))
    if hasattr(torch, "accelerator"):
        answer_for_the_accelerator(torch, card)
    # Recurrent layers are the CPU's.
    torch.backends.cudnn.is_acceptable = lambda tensor: False
    real_load = torch.load

    class Generator(torch.Generator):
        def __new__(cls, device="cpu"):
            return super().__new__(cls)

    def load(*args, **kwargs):
        kwargs["map_location"] = "cpu"
        return real_load(*args, **kwargs)

    torch.load = load
    torch.Generator = Generator


def make_distributed_alone(torch):
    """One process, and what several GPUs would do is done by the one."""
    parallel = torch.nn.parallel

    def forward(self, *args, **kwargs):
        return self.module(*args, **kwargs)

    def init(self, module, device_ids=None, output_device=None, dim=0):
        torch.nn.Module.__init__(self)
        self.module, self.dim, self.device_ids, self.output_device = module, dim, [0], 0

    parallel.DataParallel.__init__, parallel.DataParallel.forward = init, forward
    if not torch.distributed.is_available():
        return
    real_init, real_group = parallel.DistributedDataParallel.__init__, torch.distributed.init_process_group

    def init_ddp(self, module, device_ids=None, output_device=None, **kwargs):
        real_init(self, module, **kwargs)

    def init_group(backend=None, **kwargs):
        kwargs.pop("device_id", None)
        return real_group("gloo", **kwargs)

    parallel.DistributedDataParallel.__init__ = init_ddp
    torch.distributed.init_process_group = init_group


if __name__ == "__main__":
    sys.exit(main())
