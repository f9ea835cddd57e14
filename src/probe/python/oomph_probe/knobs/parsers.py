"""What the program's parsers made of its words: each whole number with its option strings, its default, its choices,
and whether it was typed. Run by itself when the first parser has finished (hook.py), before torch is imported or after.

Numbers and strings are copied at once. No reference is kept: a namespace may hold the model.
"""
import sys

# Annotations are strings here: this file is run by itself, before there is a package.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, FrozenSet, Iterable, List, Optional

    Number = Dict[str, Any]

# What was noted, by where it was parsed and its name: a parser that runs again says it anew.
noted: "Dict[Any, Number]" = {}
MOST = 400
MOST_CHOICES = 64
MOST_PARSERS = 16
LARGEST = 10**9
# The options of each parser that has read all words of the command and refuses those that it does not know, by the list
# of words that it has read: a program that hands the rest on to another parser makes a new one.
refusing: "Dict[int, List[FrozenSet[str]]]" = {}
# Of a function with `**keywords`.
TAKES_ANY = 8
# A number whose name has one of these parts is nobody's business.
SECRET = ("key", "secret", "password", "passwd", "token", "credential", "credentials", "auth", "pin")


def note(kind: str, owner: "Any", args: "Any", result: "Any") -> None:
    """A parser of this kind has finished."""
    for number in READERS[kind](owner, args, result):
        number["by"] = kind
        if len(noted) < MOST and not is_secret(number["name"]):
            noted[kind, number["name"], tuple(number["options"])] = number
    if kind == "argparse" and refuses_others(owner):
        leave_refused(frozenset(owner._option_string_actions))


def refuses_others(parser: "Any") -> bool:
    """Whether it was asked by `parse_args()`, so for all words of the command and no others, and has no subcommands."""
    if parser._subparsers is not None:
        return False
    file = sys.modules["argparse"].__file__
    frame: Any = sys._getframe(2)
    while frame is not None and frame.f_code.co_filename != file:
        frame = frame.f_back
    while frame is not None and frame.f_code.co_filename == file:
        if frame.f_code.co_name == "parse_args":
            return frame.f_locals.get("self") is parser and frame.f_locals.get("args") is None
        if frame.f_code.co_name not in ("parse_known_args", "_parse_known_args2"):
            # A parser of a subcommand.
            return False
        frame = frame.f_back
    return False


def leave_refused(options: "FrozenSet[str]") -> None:
    """What another parser of the same words refuses nobody can type, though this one declares it, and the other way."""
    known = refusing.setdefault(id(sys.argv), [])
    if options in known or len(known) >= MOST_PARSERS:
        return
    known.append(options)
    typed = frozenset().union(*known)
    for (kind, _, names), number in noted.items():
        if kind == "argparse" and not typed.isdisjoint(names) and any(one.isdisjoint(names) for one in known):
            number["reads_command"] = False


def number_of(name: "Any", options: "Iterable[Any]", value: "Any", default: "Any", typed: bool) -> "Optional[Number]":
    """The line of one; None where its value is no whole number that could be a size."""
    whole = integer(value)
    if whole is None and isinstance(name, str) and is_unset(name, value):
        whole = 0
    if whole is None or not isinstance(name, str):
        return None
    number: Number = {"name": name, "options": [str(each) for each in options], "value": whole, "typed": typed}
    if integer(default) is not None:
        number["default"] = integer(default)
    return number


def is_unset(name: str, value: "Any") -> bool:
    """Whether it may be a device's share of a total that nobody has set: `--batch-gpu`."""
    lowered = name.lower()
    is_named = any(word in lowered for word in ("batch", "micro", "per_gpu", "per_device", "per-gpu", "per-device"))
    return is_named and (value is None or type(value) is int and value <= 0)


def integer(value: "Any") -> "Optional[int]":
    """`64`, `"64"` or `["64"]`, as parsers that convert later keep it."""
    if type(value) in (list, tuple) and len(value) == 1:
        value = value[0]
    if type(value) is str and len(value) < 10 and value.isdigit():
        value = int(value)
    return value if type(value) is int and 0 <= value <= LARGEST else None


def add_choices(number: "Number", choices: "Any") -> None:
    if type(choices) in (list, tuple, set, frozenset, range) and len(choices) <= MOST_CHOICES:
        whole = sorted(each for each in map(integer, choices) if each is not None)
        if whole:
            number["choices"] = whole


def is_secret(name: str) -> bool:
    parts = name.lower().replace("-", "_").replace(".", "_").split("_")
    return any(part in SECRET for part in parts)


def of_argparse(parser: "Any", args: "Any", result: "Any") -> "Iterable[Number]":
    words = [word for word in args[0] if type(word) is str]
    values = vars(result[0])
    typed = typed_in(parser, words)
    reads = reads_command(words)
    for action in parser._actions:
        value = values.get(action.dest)
        # Of plain numbers alone: what else a parser makes may compare in its own way, and say so.
        differs = integer(value) != integer(action.default)
        is_typed = action.dest in typed if action.option_strings else differs
        number = number_of(action.dest, action.option_strings, value, action.default, is_typed)
        if number is not None:
            number["reads_command"] = reads
            add_choices(number, action.choices)
            yield number


def typed_in(parser: "Any", words: "List[str]") -> "Any":
    """The destinations of the options among a parser's words."""
    known, found = parser._option_string_actions, set()
    for word in words:
        if word == "--":
            break
        option = word.partition("=")[0]
        action = known.get(option)
        if action is None and option.startswith("--") and getattr(parser, "allow_abbrev", True):
            begun = {id(known[each]): known[each] for each in known if each.startswith(option)}
            action = begun.popitem()[1] if len(begun) == 1 else None
        if action is None and word[:1] == "-" and word[1:2] != "-":
            action = known.get(word[:2])
        if action is not None:
            found.add(action.dest)
    return found


def reads_command(words: "List[str]") -> bool:
    """Whether an argument that is added to the command reaches the parser: it got the command's own words, of which a
    parser for a subcommand gets some, and one that reads files as well gets more."""
    given, command = set(words), set(sys.argv[1:])
    return given <= command or command <= given


def of_click(command: "Any", args: "Any", result: "Any") -> "Iterable[Number]":
    context = args[0]
    for parameter in command.params:
        options = parameter.opts if parameter.param_type_name == "option" else ()
        source = getattr(context, "get_parameter_source", lambda name: None)(parameter.name)
        is_typed = getattr(source, "name", None) == "COMMANDLINE"
        number = number_of(parameter.name, options, context.params.get(parameter.name), parameter.default, is_typed)
        if number is not None:
            number["reads_command"] = True
            add_choices(number, getattr(getattr(parameter, "type", None), "choices", None))
            yield number


def of_absl(flags: "Any", args: "Any", result: "Any") -> "Iterable[Number]":
    for name, flag in list(flags._flags().items()):
        values = vars(flag)
        if name != values.get("name"):
            continue
        value, typed = values.get("_value", values.get("value")), bool(values.get("present"))
        short = values.get("short_name")
        options = ["--" + name] + (["-" + short] if type(short) is str and short else [])
        number = number_of(name, options, value, values.get("default"), typed)
        if number is not None:
            number["reads_command"] = True
            add_choices(number, getattr(values.get("parser"), "enum_values", None))
            yield number


def of_fire(function: "Any", args: "Any", result: "Any") -> "Iterable[Number]":
    """`result` is what fire will call `function` with: positional values, and named ones."""
    positional, named = result[0]
    code = getattr(function, "__code__", None) or function.__init__.__code__
    defaults = getattr(function, "__defaults__", None) or getattr(function.__init__, "__defaults__", None) or ()
    names = [name for name in code.co_varnames[: code.co_argcount] if name != "self"]
    values = dict(zip(names[len(names) - len(defaults) :], defaults))
    values.update(getattr(function, "__kwdefaults__", None) or {})
    given = dict(zip(names, positional))
    given.update(named)
    words = [word.partition("=")[0].replace("-", "_") for word in sys.argv[1:]]
    every = list(values) + [name for name in given if name not in values]
    # One letter will do where no other name begins with it, and unknown ones are not taken.
    is_open = bool(code.co_flags & TAKES_ANY)
    letters = [] if is_open else [name[:1] for name in every]
    for name in every:
        options = ["--" + name] + (["-" + name[:1]] if letters.count(name[:1]) == 1 else [])
        typed = any(option.replace("-", "_") in words for option in options)
        number = number_of(name, options, given.get(name, values.get(name)), values.get(name), typed)
        if number is not None:
            number["reads_command"] = True
            yield number


def of_tyro(function: "Any", args: "Any", result: "Any") -> "Iterable[Number]":
    """`args` are what tyro knows of the function or dataclass, its default, and the words of the command, by field."""
    parser, values = args[0], args[2]
    name_of = sys.modules["tyro._strings"].make_field_name
    for argument in parser.args:
        lowered, field = argument.lowered, argument.field
        name = name_of([getattr(argument, "intern_prefix", ""), field.intern_name])
        given = values.get(name)
        typed = integer(given) is not None
        flags = getattr(lowered, "name_or_flags", ())
        options = [flag for flag in flags if flag.startswith("-")]
        value = given if typed else field.default
        number = number_of(name.replace("-", "_"), options, value, field.default, typed)
        if number is not None:
            number["reads_command"] = True
            add_choices(number, lowered.choices)
            yield number


READERS = {"argparse": of_argparse, "click": of_click, "absl": of_absl, "fire": of_fire, "tyro": of_tyro}
