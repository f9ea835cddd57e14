"""What a graph that torch.compile's inductor has compiled allocates and lets go of, in order: read from the Python
that inductor wrote to call its kernels, which is kept with the compiled graph. Nothing is compiled and none of it is
run.

The text is a list of plain statements (torch/_inductor/codegen/wrapper.py): `empty_strided_cuda(sizes, strides,
dtype)` is a buffer, `reinterpret_tensor` and a plain assignment another name of one, `del` the end of a name, a call
of anything else a tensor whose size an `assert_size_stride` behind it says, and what is returned stays. Where sizes
are variables (`s77 = primals_3`), they follow from what the graph is given. Anything else is `Unknown`. A function
beside it that is there to try the kernels out (`rand_strided(sizes, strides, device, dtype)`) has the inputs' types.
Where sizes are variables, how much each kernel does is worked out before it (`xnumel = 512*s77`). What graphs of CUDA's
can take is written as functions of its own (`partition_0`), which are given a list of what they read and let go of.
"""

from __future__ import annotations

import ast
import math
import operator
import re
import textwrap

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, Mapping, Tuple, Union

    Size = Union[int, "Formula"]
    Sizes = Tuple[Size, ...]

TAKEN, LEFT, INPUT_LEFT = range(3)
ALLOCATES = "empty_strided"
# Over the first of two dimensions, and to another type than float32 (mix-order reductions of torch 2.10 and later).
ADD_UP, CONVERTS = ("sum", "prod", "amax", "amin"), "to"
DRAWS_AGAIN = "run_with_rng_state"
VIEW, ASSERTION = "reinterpret_tensor", "assert_size_stride"
DEF, PARTITION = "def call(", "def partition_%d("
# Of an input for the kernels' trial: a tensor, and a number that is a size.
TRIED = re.compile(r"^\s+(\w+) = (?:rand_strided\(.*dtype=torch\.(\w+)\)|(\d+))$", re.MULTILINE)
# Bytes of an element whose type the text does not say.
USUAL = 4


class Unknown(Exception):
    """It is written in a way that is not known."""


class Formula:
    """A size that follows from variables."""

    # The operators that inductor writes sizes with.
    KNOWN = (
        ast.Expression, ast.BinOp, ast.UnaryOp, ast.Name, ast.Load, ast.Constant, ast.Add, ast.Sub, ast.Mult,
        ast.FloorDiv, ast.Div, ast.Mod, ast.Pow, ast.USub,
    )
    # Some are as a graph has them (torch's and sympy's). In the text those of `math` are written `math.floor(…)`: of
    # how many parts a kernel adds up (`math.floor(15/16 + (1/16)*s27*s52)`).
    CALLED = {
        "max": max, "min": min, "Max": max, "Min": min, "abs": abs, "Abs": abs, "int": int, "floor": math.floor,
        "ceil": math.ceil, "ceiling": math.ceil, "trunc": math.trunc, "FloorToInt": math.floor, "CeilToInt": math.ceil,
        "TruncToInt": math.trunc, "IntTrueDiv": operator.truediv, "FloorDiv": operator.floordiv,
        "CleanDiv": operator.floordiv, "Mod": operator.mod, "PythonMod": operator.mod,
    }

    def __init__(self, node: ast.expr) -> None:
        if any(isinstance(each, ast.Attribute) for each in ast.walk(node)):
            node = WithoutMath().visit(node)
        calls = [each.func for each in ast.walk(node) if isinstance(each, ast.Call)]
        of_call = {id(each) for each in calls if isinstance(each, ast.Name) and each.id in self.CALLED}
        for each in ast.walk(node):
            is_known_call = isinstance(each, ast.Call) and id(each.func) in of_call
            if not isinstance(each, self.KNOWN) and not is_known_call:
                raise Unknown("a size that is not known (%s)" % type(each).__name__)
        self.text = ast.dump(node)
        self.code = compile(ast.Expression(body=node), "<size>", "eval")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Formula) and other.text == self.text

    def __hash__(self) -> int:
        return hash(self.text)

    def at(self, values: Mapping[str, int]) -> int:
        try:
            return int(eval(self.code, {"__builtins__": {}, **self.CALLED}, dict(values)))
        except (NameError, TypeError, ZeroDivisionError) as error:
            raise Unknown("a size that does not follow from what is given (%s)" % error) from error


class WithoutMath(ast.NodeTransformer):
    """`floor` for `math.floor`."""

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        is_maths = isinstance(node.value, ast.Name) and node.value.id == "math"
        return ast.copy_location(ast.Name(id=node.attr, ctx=ast.Load()), node) if is_maths else node


class Count:
    """The elements of a storage some of whose sizes are variables."""

    def __init__(self, sizes: Sizes, strides: Sizes) -> None:
        self.sizes = sizes
        self.strides = strides

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Count) and (other.sizes, other.strides) == (self.sizes, self.strides)

    def __hash__(self) -> int:
        return hash((self.sizes, self.strides))

    def at(self, values: Mapping[str, int]) -> int:
        return elements(sizes_at(self.sizes, values), sizes_at(self.strides, values))


class Form:
    """How a tensor lies in memory; its type is None where the text does not say it."""

    def __init__(self, sizes: Sizes, strides: Sizes, dtype: str | None) -> None:
        self.sizes = sizes
        self.strides = strides
        self.dtype = dtype
        # Which dimensions were found to grow with the batch (scaling.py).
        self.growing: tuple[int, ...] | None = None


class Graph:
    """What a compiled graph does, with its own sizes."""

    def __init__(self) -> None:
        # (TAKEN, number, elements, bytes of each), (LEFT, number), (INPUT_LEFT, name).
        self.events: list[tuple[Any, ...]] = []
        self.inputs: list[str] = []
        self.shapes: dict[str, Sizes] = {}
        # Of each thing that is returned the number of its buffer, the name of an input, or None; and its form, or the
        # formula of a number.
        self.returned: list[Any] = []
        self.forms: list[Any] = []
        # Variables: the input that one is, or the input that it is a size of, and which.
        self.variables: dict[str, tuple[str, int | None]] = {}
        # Numbers that are worked out of these, in order.
        self.worked_out: list[tuple[str, Formula]] = []
        # How its sizes were found to grow with the batch (scaling.py).
        self.powers: dict[int, int] = {}
        self.batch_is_variable: bool | None = None

    def values(self, given: Mapping[str, Any]) -> dict[str, int]:
        """What its variables are where it is given these, by the names of its inputs."""
        found: dict[str, int] = {}
        for name, (of, at) in self.variables.items():
            value = given.get(of)
            if at is not None:
                value = None if value is None else value.shape[at]
            if type(value) is int:
                found[name] = value
        for name, formula in self.worked_out:
            try:
                found[name] = formula.at(found)
            except Unknown:
                # Whoever needs it says so.
                continue
        return found


class Buffer:
    """A piece of memory, and how many names it has."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.names = 0


def read(source: str) -> Graph:
    """Raises `Unknown`."""
    return Reader(source).graph


class Reader:
    def __init__(self, source: str) -> None:
        self.graph = Graph()
        self.named: dict[str, Buffer | str] = {}
        # How many names each input has: what takes its place in memory is a name of it.
        self.names_of: dict[str, int] = {}
        # The names of what other libraries have returned, and the type of each of the results that they were given one
        # of; the names of lists of sizes.
        self.calls: dict[str, tuple[str | None, bool]] = {}
        self.sizes: dict[str, str] = {}
        self.count = 0
        self.takes: dict[int, tuple[Any, int]] = {}
        # How what has a name lies in memory, and the types of inputs; those that are numbers.
        self.forms: dict[str, Form] = {}
        self.types: dict[str, str] = {}
        self.numbers: set[str] = set()
        # What partitions are given, by the names of the lists; what these keep though its own name has ended; and what
        # is there behind a partition, whatever that lets go of.
        self.source = source
        self.lists: dict[str, list[str]] = {}
        self.listed: set[str] = set()
        self.stays: set[str] = set()
        for name, dtype, number in TRIED.findall(source):
            self.types.update({name: dtype} if dtype else {})
            self.numbers |= {name} if number else set()
        try:
            for statement in statements_of(source, DEF):
                self.statement(statement)
        except (SyntaxError, ValueError, AttributeError, TypeError) as error:
            raise Unknown("its text is not what was expected (%s)" % error) from error
        self.settle()

    def settle(self) -> None:
        """The allocations whose sizes were said after them, at their places."""
        events: list[tuple[Any, ...]] = []
        taken: set[Any] = set()
        for event in self.graph.events:
            if event[0] == TAKEN and event[2] is None:
                if event[1] not in self.takes:
                    # Nobody says how large it is, and nobody uses it.
                    continue
                event = (TAKEN, event[1], *self.takes[event[1]])
            if event[0] == LEFT and event[1] not in taken:
                continue
            taken.add(event[1])
            events.append(event)
        self.graph.events = events

    def statement(self, node: ast.stmt) -> None:
        if isinstance(node, ast.Assign):
            self.assign(node)
        elif isinstance(node, ast.Delete):
            for target in node.targets:
                name = name_of(target)
                if any(name in each for each in self.lists.values()):
                    self.listed.add(name)
                else:
                    self.end(name)
        elif isinstance(node, ast.Return):
            self.returns(node)
        elif isinstance(node, ast.Expr):
            self.expression(node.value)
        elif not isinstance(node, ast.Pass):
            raise Unknown("a statement that is not known (%s)" % type(node).__name__)

    def assign(self, node: ast.Assign) -> None:
        (target,) = node.targets
        value = node.value
        if isinstance(value, ast.Call) and isinstance(value.func, ast.Subscript):
            self.partition(value, list(names_in(target)))
            return
        if isinstance(value, ast.List) and isinstance(target, ast.Name):
            self.lists[target.id] = list(names_in(value))
            return
        if isinstance(value, ast.Name) and value.id == "args":
            for name in names_in(target):
                self.graph.inputs.append(name)
                self.name_input(name, name)
            return
        if not isinstance(target, ast.Name):
            raise Unknown("several results at once")
        name = target.id
        if isinstance(value, ast.Call) and called(value).startswith(ALLOCATES):
            sizes, strides, dtype = numbers(value.args[0]), numbers(value.args[1]), value.args[2]
            self.name(name, self.buffer(elements_of(sizes, strides), bytes_of(dtype)))
            self.forms[name] = Form(sizes, strides, getattr(dtype, "attr", None))
        elif isinstance(value, ast.Call) and called(value) in (VIEW, "alloc_from_pool"):
            self.alias(name, name_of(value.args[0]))
            if called(value) == VIEW:
                self.forms[name] = self.form_of(value)
        elif isinstance(value, ast.Name):
            if value.id in self.numbers:
                self.graph.variables[name] = value.id, None
                return
            self.alias(name, value.id)
            if value.id in self.forms:
                self.forms[name] = self.forms[value.id]
        elif isinstance(value, ast.Subscript) and base_of(value) in self.calls:
            of_given, is_backward = self.calls[base_of(value)]
            is_first = is_backward or getattr(value.slice, "value", None) == 0
            self.of_call(name, of_given if is_first else None)
        elif isinstance(value, ast.Subscript) and isinstance(value.value, ast.Name) and value.value.id in self.sizes:
            self.graph.variables[name] = self.sizes[value.value.id], getattr(value.slice, "value", None)
        elif isinstance(value, ast.Call) and called(value) == "get_raw_stream":
            return
        elif isinstance(value, ast.Call) and called(value) == "size" and isinstance(value.func, ast.Attribute):
            self.sizes[name] = name_of(value.func.value)
        elif isinstance(value, ast.BinOp) or isinstance(value, ast.Call) and is_worked_out(value):
            self.work_out(name, value)
        elif isinstance(value, ast.Call) and rows_of(value) is not None:
            self.sum_of_rows(name, value)
        elif isinstance(value, ast.Call):
            # One tensor or several: where it is several, each is taken out of it by its place.
            of_given = self.type_of_first(value)
            self.calls[name] = of_given, "backward" in ast.dump(value.func)
            self.of_call(name, of_given)
        else:
            raise Unknown("an assignment that is not known")

    def partition(self, call: ast.Call, results: list[str]) -> None:
        """Its statements, where it is called: its names are those of the whole."""
        function, (given,) = call.func, call.args
        number = getattr(function.slice, "value", None) if isinstance(function, ast.Subscript) else None
        names = self.lists.pop(name_of(given), None)
        if names is None or type(number) is not int:
            raise Unknown("a call that is not known")
        before = set(self.named) - self.listed
        self.stays, self.listed = {name for name in names if name in before}, set()
        returned: list[str] = []
        for statement in statements_of(self.source, PARTITION % number):
            if isinstance(statement, ast.Return):
                values = statement.value.elts if isinstance(statement.value, ast.Tuple) else []
                returned = [name_of(value) for value in values]
            elif isinstance(statement, ast.Assign) and getattr(statement.value, "id", "") == "args":
                if list(names_in(statement.targets[0])) != names:
                    raise Unknown("a partition is given something else")
            else:
                self.statement(statement)
        self.stays = set()
        if returned != results:
            raise Unknown("a partition returns something else")
        for name in set(self.named) - before - set(returned):
            self.end(name)

    def work_out(self, name: str, value: ast.expr) -> None:
        """A number: how much a kernel does, seldom a size."""
        try:
            self.graph.worked_out.append((name, Formula(value)))
        except Unknown:
            # What is as large as this says has a size that does not follow.
            return

    def of_call(self, name: str, dtype: str | None) -> None:
        """What another library returns: mostly of the type of what it is given."""
        self.name(name, self.buffer(None, USUAL if dtype is None else size_of_type(dtype)))
        self.forms[name] = Form((), (), dtype)

    def sum_of_rows(self, name: str, value: ast.Call) -> None:
        """What the parts of a kernel have added up, as one row (`workspace_0[…].view(64, 768).sum(dim=0)`)."""
        dtype = getattr(value.args[0], "attr", "float32") if called(value) == CONVERTS else "float32"
        sizes = tuple((rows_of(value) or ())[1:])
        self.name(name, self.buffer(elements_of(sizes, (1,)), size_of_type(dtype)))
        self.forms[name] = Form(sizes, (1,), dtype)

    def type_of_first(self, call: ast.Call) -> str | None:
        # What a recomputed operator is given stands behind the state that it draws from, and itself.
        for each in call.args[1:] if called(call) == DRAWS_AGAIN else call.args:
            name = each.args[0] if isinstance(each, ast.Call) and called(each) == VIEW else each
            if isinstance(name, ast.Name) and name.id in self.named:
                form = self.forms.get(name.id)
                dtype = self.types.get(name.id) if form is None else form.dtype
                return dtype if dtype is not None and "float" in dtype else None
        return None

    def form_of(self, view: ast.Call) -> Form:
        base = name_of(view.args[0])
        form = self.forms.get(base)
        dtype = self.types.get(base) if form is None else form.dtype
        return Form(numbers(view.args[1]), numbers(view.args[2]), dtype)

    def expression(self, node: ast.expr) -> None:
        if isinstance(node, ast.Call) and called(node) == ASSERTION:
            name, sizes, strides = name_of(node.args[0]), numbers(node.args[1]), numbers(node.args[2])
            held = self.named.get(name)
            if isinstance(held, Buffer):
                form = self.forms.get(name)
                dtype = None if form is None else form.dtype
                of_each = USUAL if dtype is None else size_of_type(dtype)
                self.takes.setdefault(held.number, (elements_of(sizes, strides), of_each))
                self.forms[name] = Form(sizes, strides, dtype)
            elif held is not None:
                self.graph.shapes[name] = sizes
                self.forms[name] = Form(sizes, strides, self.types.get(name))
        elif not isinstance(node, ast.Call):
            raise Unknown("an expression that is not known")

    def returns(self, node: ast.Return) -> None:
        values = node.value.elts if isinstance(node.value, ast.Tuple) else []
        for value in values:
            is_view = isinstance(value, ast.Call) and called(value) == VIEW
            inner = value.args[0] if isinstance(value, ast.Call) and is_view else value
            held = self.named.get(inner.id) if isinstance(inner, ast.Name) else None
            self.graph.returned.append(held.number if isinstance(held, Buffer) else held)
            self.graph.forms.append(self.returned_form(value, held is not None, is_view))
        stays = {each for each in self.graph.returned if isinstance(each, int)}
        for name in list(self.named):
            held = self.named[name]
            if isinstance(held, Buffer) and held.number in stays:
                del self.named[name]
            else:
                self.end(name)

    def returned_form(self, value: Any, is_tensor: bool, is_view: bool) -> Any:
        if is_tensor:
            return self.form_of(value) if is_view else self.forms.get(value.id)
        is_nothing = isinstance(value, ast.Constant) and value.value is None
        return None if is_nothing or isinstance(value, ast.Call) else Formula(value)

    def buffer(self, size: Any, of_each: int) -> Buffer:
        made = Buffer(self.count)
        self.count += 1
        self.graph.events.append((TAKEN, made.number, size, of_each))
        return made

    def name(self, name: str, buffer: Buffer) -> None:
        if name in self.named:
            self.end(name)
        buffer.names += 1
        self.named[name] = buffer

    def alias(self, name: str, other: str) -> None:
        held = self.named.get(other)
        if isinstance(held, Buffer):
            self.name(name, held)
        elif held is not None:
            self.name_input(name, held)

    def name_input(self, name: str, held: str) -> None:
        if self.named.get(name) == held:
            return
        if name in self.named:
            self.end(name)
        self.names_of[held] = self.names_of.get(held, 0) + 1
        self.named[name] = held

    def end(self, name: str) -> None:
        if name in self.stays:
            return
        held = self.named.pop(name, None)
        if isinstance(held, Buffer):
            held.names -= 1
            if held.names == 0:
                self.graph.events.append((LEFT, held.number))
        elif held is not None:
            self.names_of[held] -= 1
            if self.names_of[held] == 0:
                self.graph.events.append((INPUT_LEFT, held))


def statements_of(source: str, begin: str) -> Iterator[ast.stmt]:
    """Those of a function, without the `with` that some are in."""
    (function,) = ast.parse(text_of_function(source, begin)).body
    open_ = list(reversed(getattr(function, "body", [])))
    while open_:
        statement = open_.pop()
        if isinstance(statement, ast.With):
            open_ += reversed(statement.body)
        else:
            yield statement


def text_of_function(source: str, begins: str) -> str:
    """A function that calls the kernels; without the kernels, which are most of the text."""
    at = source.rfind(begins)
    if at < 0:
        raise Unknown("it has no function that is called")
    begin = source.rfind("\n", 0, at) + 1
    lines = source[begin:].split("\n")
    indent = len(lines[0]) - len(lines[0].lstrip())
    body = [lines[0]]
    for line in lines[1:]:
        if line.strip() and len(line) - len(line.lstrip()) <= indent:
            break
        body.append(line)
    return textwrap.dedent("\n".join(body))


def name_of(node: ast.expr) -> str:
    if not isinstance(node, ast.Name):
        raise Unknown("a name is expected")
    return node.id


def names_in(node: ast.expr) -> Iterator[str]:
    for each in node.elts if isinstance(node, (ast.Tuple, ast.List)) else [node]:
        yield name_of(each)


def called(node: ast.Call) -> str:
    """`empty_strided_cuda`; of `torch.ops.aten.mm.default` the last word."""
    function = node.func
    return function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")


def base_of(node: ast.expr) -> str:
    """`buf6` of `buf6[1][0]`."""
    while isinstance(node, ast.Subscript):
        node = node.value
    return getattr(node, "id", "")


def is_worked_out(node: ast.Call) -> bool:
    """Whether it is a number that follows from others."""
    of = getattr(node.func, "value", None)
    return called(node) in Formula.CALLED and (of is None or isinstance(of, ast.Name) and of.id == "math")


def rows_of(node: ast.expr) -> Sizes | None:
    """How many rows of how many are added up; None where it is no such sum."""
    if isinstance(node, ast.Call) and called(node) == CONVERTS and isinstance(node.func, ast.Attribute):
        node = node.func.value
    if not (isinstance(node, ast.Call) and called(node) in ADD_UP and isinstance(node.func, ast.Attribute)):
        return None
    parts = node.func.value
    if not (isinstance(parts, ast.Call) and called(parts) == "view" and len(parts.args) == 2):
        return None
    return numbers(ast.Tuple(elts=parts.args, ctx=ast.Load()))


def numbers(node: ast.expr) -> Sizes:
    if not isinstance(node, (ast.Tuple, ast.List)):
        raise Unknown("sizes are expected")
    found: list[Size] = []
    for each in node.elts:
        found.append(each.value if isinstance(each, ast.Constant) and type(each.value) is int else Formula(each))
    return tuple(found)


def sizes_at(sizes: Sizes, values: Mapping[str, int]) -> tuple[int, ...]:
    return tuple(each.at(values) if isinstance(each, Formula) else each for each in sizes)


def elements_of(sizes: Sizes, strides: Sizes) -> Any:
    """The elements of a storage; to be worked out where they follow from variables."""
    if any(isinstance(each, Formula) for each in sizes + strides):
        return Count(sizes, strides)
    return elements(sizes, strides)  # type: ignore[arg-type]


def size_of_type(name: str) -> int:
    import torch

    return int(getattr(torch, name).itemsize)


def bytes_of(node: ast.expr) -> int:
    import torch

    if not isinstance(node, ast.Attribute):
        raise Unknown("a type is expected")
    return int(getattr(torch, node.attr).itemsize)


def elements(sizes: tuple[int, ...], strides: tuple[int, ...]) -> int:
    """Of a storage that holds as much."""
    if 0 in sizes:
        return 0
    return 1 + sum((size - 1) * stride for size, stride in zip(sizes, strides))
