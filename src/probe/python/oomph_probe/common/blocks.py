"""The repeated blocks of a model: modules of one class and structure, side by side in a ModuleList
or a Sequential, each large enough to be worth checkpointing. Inspects modules, never calls them.
"""

from __future__ import annotations

from . import members as inside

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Iterator

    from .protocols import Module

# Fewer members are not a repetition.
FEWEST = 2
# A block with fewer submodules saves little beyond its input.
FEWEST_PARTS = 2
CONTAINERS = ("ModuleList", "Sequential", "ModuleDict")
# Modules that handle calls, or the memory of activations, in their own way.
UNSUPPORTED = (
    "OptimizedModule",
    "CheckpointWrapper",
    "OffloadWrapper",
    "FullyShardedDataParallel",
    "FlattenParamsWrapper",
    "ScriptModule",
    "RecursiveScriptModule",
    "GraphModule",
    "Pipe",
)
# Layers whose forward updates running statistics in training mode without reading them.
STATISTICS = ("_BatchNorm", "_InstanceNorm")


class Group:
    """Blocks with the same structure."""

    def __init__(self, members: list[Module], why_not: str | None) -> None:
        self.members = members
        self.cls = type(members[0])
        # Why they are skipped, or None.
        self.why_not = why_not
        self.has_statistics = any(is_statistics(part) for part in inside.modules(members[0]))

    def name(self) -> str:
        return "%d %s" % (len(self.members), self.cls.__name__)


def find(root: Module) -> list[Group]:
    """The groups of a model, none inside another: of nested repetitions, the one with more members."""
    candidates: list[tuple[Any, list[Module]]] = []
    seen = set()
    for container in inside.modules(root):
        if is_kind(container, CONTAINERS) and id(container) not in seen:
            seen.add(id(container))
            candidates.extend(repetitions(container))
    # Blocks with one structure in several containers (the stages of a ResNet) form one group.
    by_build: dict[Any, list[Module]] = {}
    for build, members in candidates:
        by_build.setdefault(build, []).extend(members)
    taken: set[int] = set()
    groups = []
    for members in sorted(by_build.values(), key=len, reverse=True):
        members = [each for each in unique(members) if not touches(each, taken)]
        if not members:
            continue
        for member in members:
            taken.update(id(part) for part in inside.modules(member))
        groups.append(Group(members, why_not(members[0])))
    return groups


def repetitions(container: Module) -> Iterator[tuple[Any, list[Module]]]:
    by_class: dict[type, list[Module]] = {}
    for child in inside.children(container):
        if sum(1 for part in inside.modules(child) if not has_children(part)) < FEWEST_PARTS:
            continue
        if any(parameter.requires_grad for parameter in inside.parameters(child)):
            by_class.setdefault(type(child), []).append(child)
    for members in by_class.values():
        if len(members) < FEWEST:
            continue
        by_build: dict[Any, list[Module]] = {}
        for member in members:
            by_build.setdefault(build_of(member), []).append(member)
        yield from by_build.items()


def build_of(block: Module) -> tuple[tuple[type, bool], ...]:
    """What makes two blocks behave alike: their submodules in order, and which of these work in place."""
    return tuple((type(part), bool(getattr(part, "inplace", False))) for part in inside.modules(block))


def why_not(block: Module) -> str | None:
    """Why blocks of this structure are skipped, or None."""
    for part in inside.modules(block):
        kind = is_kind(part, UNSUPPORTED)
        if kind:
            return "%s handles calls in its own way" % kind
        if type(part).__name__.startswith("FSDP"):
            return "FSDP gathers their weights in its own hooks"
        if "forward" in vars(part):
            return "something has replaced their forward"
        if is_kind(part, ("SyncBatchNorm",)):
            return "SyncBatchNorm would communicate with the other ranks again"
        if part is not block and has_hooks(part):
            return "hooks inside them would run twice"
        if any(type(value).__name__ == "Generator" for value in vars(part).values()):
            return "they use their own random generator"
    return None


def has_hooks(module: Module) -> bool:
    kept = vars(module)
    return any(
        kept.get(name)
        for name in ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    )


def is_kind(module: Module, names: tuple[str, ...]) -> str | None:
    """The name among `names` that the module's class or one of its bases has, or None."""
    for base in type(module).__mro__:
        if base.__name__ in names:
            return base.__name__
    return None


def compiled(root: Module) -> set[int]:
    """The ids of modules inside a compiled module: their calls are traced."""
    found: set[Any] = set()
    for module in inside.modules(root):
        # torch.compile(module), or module.compile() in place.
        if is_kind(module, ("OptimizedModule",)) or vars(module).get("_compiled_call_impl"):
            found.update(id(part) for part in inside.modules(module) if part is not module)
    return found


def is_dropout(module: Module) -> bool:
    """Whether a module drops values, judged by its attributes: `p`, `attention_dropout`, `drop_prob`."""
    is_kind_of_it = "drop" in type(module).__name__.lower()
    return any(
        isinstance(value, float)
        and 0.0 < value <= 1.0
        and ("drop" in name.lower() or (is_kind_of_it and name == "p"))
        for name, value in vars(module).items()
    )


def is_statistics(module: Module) -> bool:
    return bool(is_kind(module, STATISTICS))


def has_children(module: Module) -> bool:
    return bool(inside.named_children(module))


def touches(module: Module, taken: set[int]) -> bool:
    return any(id(part) in taken for part in inside.modules(module))


def unique(modules: list[Module]) -> list[Module]:
    return list({id(each): each for each in modules}.values())
