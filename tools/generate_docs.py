"""Writes the parts of README.md and docs/ that repeat what the code says, so that they cannot drift apart.

    python tools/generate_docs.py [--check]

A generated part stands between two comments, `<!-- generated: NAME ... -->` and `<!-- end generated -->`; the names
are the keys of SECTIONS below. With --check nothing is written, and the exit code is 1 when a part is out of date.
"""

from __future__ import annotations

import argparse
import ast
import configparser
import importlib
import inspect
import re
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any

import click

from localpv import errors
from localpv.api.resources import Resource
from localpv.api.stored_resources import EVERY, STORED
from localpv.cli import main as cli
from localpv.engine.apiserver.kinds.stored import NOT_ENFORCED

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "localpv"
PART = re.compile(r"(<!-- generated: (?P<name>[^>]+?) -->\n).*?(<!-- end generated -->)", re.DOTALL)


class CannotGenerate(Exception):
    """The code has something that the tables below do not know yet; the message says where to add it."""


@dataclass(frozen=True, slots=True)
class Setting:
    """What an option's help is too short for."""

    unit: str
    reason: str


SETTINGS = {
    "--data": Setting(
        "path",
        "The system's place for state when root runs it, the user's own place otherwise: no option is needed to try it."
        " It should be on a local file system, since every write waits for that disk.",
    ),
    "--listen": Setting(
        "HOST:PORT",
        "Loopback, so that nothing on the network can reach a server that has just been installed."
        " 7443 leaves 6443 to a Kubernetes on the same machine.",
    ),
    "--node": Setting(
        "name",
        "Volumes name their node by the label `kubernetes.io/hostname`. Set it when the host name changes or is no good"
        " name for an object; it is written in lower case.",
    ),
    "--feature-gates": Setting(
        "NAME=true\\|false, with commas between",
        "Lets an administrator refuse `local` volumes as a whole; see the gates below.",
    ),
    "--max-requests-inflight": Setting(
        "requests",
        "The word and the number of kube-apiserver. More than that get 429 with `Retry-After`; members of"
        " `system:masters`, localpv's own parts among them, are not counted.",
    ),
    "--max-connections": Setting(
        "connections",
        "Each costs some 60 KB. It cannot be more than the process may open files, less 256 for everything else.",
    ),
    "--max-store-bytes": Setting(
        "bytes",
        "All objects are in memory; each counts with its JSON, 1,024 bytes, and 320 for each UID in it."
        " 1 GiB is a few hundred thousand objects."
        " What would make it more gets 429 `exceeded quota`; an eighth is kept for localpv's own parts, and deleting"
        " always works.",
    ),
    "--log-level": Setting(
        "level",
        "`info` has a line for each thing that an administrator may look for later. On a terminal `localpv up` shows"
        " only warnings, because log lines would tear its live view.",
    ),
    "--config": Setting(
        "path of a folder",
        "A machine comes up with the classes and volumes it should have, without a hand. Objects are applied with force"
        " at each start: the files win over changes made in between.",
    ),
    "--filename": Setting(
        "path of a YAML or JSON file, or -",
        "As with kubectl, whose files these are; with `-` it stands in a pipe before `kubectl apply -f -`.",
    ),
    "--file": Setting(
        "path of a YAML file",
        "The keys are those of the ConfigMap and a few about the installation: [deploy](deploy.md#the-configuration).",
    ),
    "--class": Setting("NAME=DIR", "Enough for a first try: one class, one directory, no file."),
    "--image": Setting(
        "image",
        "No registry is guessed: this name is found only where the image was loaded on the nodes, so nobody else's"
        " program is ever pulled by accident.",
    ),
    "--namespace": Setting(
        "name",
        "A namespace of its own lets pods with host directories in, and nothing else. A bootstrap works where its"
        " ConfigMap is.",
    ),
    "--image-pull-policy": Setting("word", "As Kubernetes has it for images with a version; they do not change."),
    "--image-pull-secret": Setting("name", "None: what is needed depends on the registry."),
    "--operator": Setting("flag", "Off: it brings pods that write udev rules on nodes, for those who want them."),
    "--drop-in": Setting("flag", "Off, because with the classic rights every node can delete every volume."),
    "--volume-config": Setting("name", "The default of the classic bootstrapper."),
    "--serviceaccount": Setting("name", "The default of the classic bootstrapper."),
    "--kubeconfig": Setting("path of a file", "What works with kubectl works here, and needs no second configuration."),
    "--context": Setting("name", "One kubeconfig often knows several clusters."),
    "disks --node": Setting("name", "Disks are looked for on all nodes at once; one is often enough."),
    "disks --class": Setting("name", "All classes together show what a node has."),
    "volumes --node": Setting("name", "As with `disks`."),
    "volumes --class": Setting("name", "As with `disks`."),
    "--local-storage": Setting("-", "Only the operator's own DaemonSets have no ConfigMap."),
    "--kubelet": Setting(
        "path",
        "A kubelet looks for drivers below its own folder, and mounts what they show there. Set it where the kubelet"
        " runs with another `--root-dir`. Nothing is made there on a node without pools.",
    ),
    "--udev-rules": Setting("path", "Where udev reads rules that belong to a machine; pods have the host's there."),
    "--state": Setting("path", "Locks, and records where no LocalDisk kind is installed, must outlive the process."),
    "discoverer --state": Setting("path", "The agent's own state lies below; all who change rules on a node share it."),
    "discoverer --namespace": Setting("name", "The pod's own, which the operator puts into its environment."),
    "--rules-folder": Setting("path", "Where an administrator's rules of udev are; packages have their own folder."),
    "--listen-address": Setting(
        "HOST:PORT", "Nowhere unless asked: the probes of a pod need it, a program started by hand does not."
    ),
    "--clean": Setting("name of a LocalDisk", "An agent serves all disks of its node; only Jobs come for one."),
    "--agents": Setting("name", "What `localpv manifests` calls it; a Job must see the node as an agent does."),
    "--config-map": Setting("name", "A ConfigMap that changes takes effect without a restart."),
    "--output": Setting("form", "A table reads like lsblk; `json` and `yaml` are for programs, with every field."),
    "--watch": Setting("flag", "Off, so that the command ends and can be used in scripts."),
    "--method": Setting(
        "name and argument, such as `shred 3`",
        "The administrator of the class has chosen a method; another one is for disks on which that failed. Commands"
        " are refused: who may order a wiping is not by that allowed to run programs on nodes.",
    ),
    "--yes": Setting("flag", "Off, because what is wiped is gone: the name of the disk has to be typed."),
    "reset --yes": Setting("flag", "Off, because objects and keys that are removed are gone."),
    "down --data": Setting("path", "Where `localpv up` was told to be."),
    "reset --data": Setting("path", "Where `localpv up` was told to be."),
    "--grace-period": Setting("s", "Each pod knows best how long it needs; in a hurry one number serves for all."),
    "--dry-run": Setting("flag", "Off; the command can be repeated and says what it did."),
    "--release-finalizers": Setting("flag", "Off; what is let go before its disk is clean is not cleaned any more."),
    "--demo": Setting("flag", "Something to look at for people who try localpv; off, so that nobody gets it unasked."),
}
"""By option, or by command and option where it means something else there. An option that is missing here stops the
generation, so none goes undocumented."""

GATE_REASON = {
    "PersistentLocalVolumes": "It is the gate under which local volumes came to Kubernetes, where it is long gone.",
}


ERROR_MEANING = {
    "NotFound": "There is no such object, or no such address.",
    "NotAcceptable": "The client takes no form of the answer that the server has.",
    "AlreadyExists": "There is an object of that name already.",
    "TooLarge": "The body of the request is too large.",
    "UnsupportedMediaType": "The server does not read the form in which the body was sent.",
    "InternalError": "The server met an error of its own; its log has more.",
}
"""For errors whose name is all that the code says."""


@dataclass(frozen=True, slots=True)
class Limit:
    """A fixed number of the code: where it is, how it is shown, and what happens when it is reached."""

    place: str
    unit: str
    effect: str

    @property
    def module(self) -> str:
        return self.place.rpartition(".")[0]

    @property
    def name(self) -> str:
        return self.place.rpartition(".")[2]

    @property
    def value(self) -> Any:
        return getattr(importlib.import_module(f"localpv.{self.module}"), self.name)

    @property
    def shown(self) -> str:
        return shown(self.value, self.unit)


_SERVER = "engine.apiserver"
LIMITS = (
    Limit("observe.registry.MOST_SERIES", "series", "further ones of a metric are counted together, as other"),
    Limit("programs.health.MOST_CONNECTIONS", "connections", "further ones for probes and metrics are closed"),
    Limit("programs.health.REQUEST_SECONDS", "s", "a request for a probe or for metrics is given up"),
    Limit("programs.memory.CONNECTIONS", "connections", "further requests of an agent wait for one to come free"),
    Limit("programs.memory.BUFFER_BYTES", "bytes", "is read from a TLS connection of an agent at once"),
    Limit("runtime.watchdog.LIMIT_SECONDS", "s", "the log says what holds the event loop, with its stack"),
    Limit("runtime.watchdog.ASK_EVERY", "s", "the event loop is asked again whether it turns"),
    Limit("runtime.watchdog.REMIND_EVERY", "s", "the log says again what holds the event loop"),
    Limit("engine.store.store.MAX_PENDING", "writes", "further writes get 429 with Retry-After 1; none is queued"),
    Limit("engine.store.store.COMPACT_EVERY", "s", "a watch or list from before the last but one compaction gets 410"),
    Limit("engine.store.table.HISTORY_EVENTS", "changes", "the oldest go; a watcher that still needed them gets 410"),
    Limit("engine.store.table.HISTORY_BYTES", "bytes", "the oldest changes go, as above"),
    Limit(f"{_SERVER}.verbs.watch.BATCH", "events", "the watcher lets others have their turn, then goes on"),
    Limit(f"{_SERVER}.verbs.watch.BOOKMARK_EVERY", "s", "a BOOKMARK is sent to watchers that asked for bookmarks"),
    Limit(f"{_SERVER}.verbs.watch.DEFAULT_TIMEOUT", "s", "the watch ends; clients go on from where they were"),
    Limit(f"{_SERVER}.verbs.list.CHUNK", "bytes", "the piece is sent, others have their turn, the next piece follows"),
    Limit(f"{_SERVER}.verbs.list.BREATH", "objects", "others have their turn, then the list goes on"),
    Limit(f"{_SERVER}.bounds.SHARE", "", "one client may have this part (one of so many) of requests and connections"),
    Limit(f"{_SERVER}.bounds.LOGIN_PERIOD", "s", "failed logins of an address are counted anew"),
    Limit(f"{_SERVER}.bounds.LOGIN_DELAY", "s", "a failed login is answered, after too many from its address"),
    Limit(f"{_SERVER}.connections.HEAD_SECONDS", "s", "a connection without a whole request is closed"),
    Limit(f"{_SERVER}.connections.LOGIN_SECONDS", "s", "a connection that shows no good token may have to go"),
    Limit(f"{_SERVER}.connections.IDLE_SECONDS", "s", "a connection without a request is closed"),
    Limit(f"{_SERVER}.connections.SWEEP_EVERY", "s", "connections that are silent are looked for again"),
    Limit(f"{_SERVER}.connections.RESERVED_FILES", "files", "connections get no more of those that may be open"),
    Limit(f"{_SERVER}.body.BODY_SECONDS", "s", "504 Timeout: the body did not come"),
    Limit(f"{_SERVER}.body.TAKE_SECONDS", "s", "a connection whose client does not read is cut"),
    Limit(f"{_SERVER}.server.BACKLOG", "connections", "others get their turn before more are accepted"),
    Limit(f"{_SERVER}.body.MAX_BYTES", "bytes", "413 RequestEntityTooLarge"),
    Limit(f"{_SERVER}.quota.MAX_OBJECT_BYTES", "bytes", "413 RequestEntityTooLarge: the object is as it was"),
    Limit(f"{_SERVER}.quota.NAMESPACE_SHARE", "", "429: a namespace may have this part (one of so many) of the store"),
    Limit(f"{_SERVER}.quota.RESERVE", "", "this part (one of so many) of the store is for localpv's own parts only"),
    Limit("engine.store.table.OBJECT_BYTES", "bytes", "are counted for each object beside its JSON"),
    Limit("engine.store.table.REFERENCE_BYTES", "bytes", "are counted for each UID in an object beside its JSON"),
    Limit(f"{_SERVER}.body.LARGE_YAML", "bytes", "others have their turns while a larger body in YAML is read"),
    Limit("api.objects.DEEPEST", "levels", "400 BadRequest: the body is nested too deep"),
    Limit("api.objects.MOST_VALUES", "values", "400 BadRequest: the body holds too many"),
    Limit("api.objects.MOST_IN_DEFINITION", "values", "the same, in a CustomResourceDefinition"),
    Limit("api.yamls.LARGEST", "bytes", "400 BadRequest: aliases of YAML count as written out"),
    Limit("api.schema.formats.LARGEST_TOGETHER", "instructions", "422 Invalid: patterns too large together"),
    Limit(f"{_SERVER}.responses.MAX_WARNINGS", "warnings", "further warnings of the same answer are left out"),
    Limit(f"{_SERVER}.selection.PATIENCE", "s", "504 Timeout: the server has not got that far"),
    Limit(f"{_SERVER}.verbs.create.GENERATED_NAME_TRIES", "tries", "409 AlreadyExists for an object with generateName"),
    Limit(f"{_SERVER}.server.DRAIN_SECONDS", "s", "requests that are still under way at a stop are cut off"),
    Limit(f"{_SERVER}.controllers.events.LIFE", "s", "the Event object is deleted"),
    Limit(f"{_SERVER}.controllers.events.LOOK_EVERY", "s", "old Events are looked for again"),
    Limit("runtime.turns.TURN_SECONDS", "s", "a loop over many objects lets others have their turn"),
    Limit(f"{_SERVER}.controllers.worker.FIRST_RETRY", "s", "upkeep that failed is tried again; the wait doubles"),
    Limit(f"{_SERVER}.controllers.worker.LONGEST_RETRY", "s", "the wait between two tries grows no further"),
    Limit(f"{_SERVER}.auth.tokens.LEEWAY", "s", "a token is refused when its time is over by more than this"),
    Limit(f"{_SERVER}.auth.tokens._CACHE_SIZE", "tokens", "the one that was used longest ago is checked in full again"),
    Limit(f"{_SERVER}.auth.tokens._CACHE_SECONDS", "s", "a token that was found good is checked in full again"),
    Limit(f"{_SERVER}.auth.rbac._MAX_PERMISSIONS", "entries", "what is known of users is forgotten and found out anew"),
    Limit(f"{_SERVER}.auth.rbac._MAX_DECISIONS", "entries", "decisions for one user are forgotten and made anew"),
    Limit(f"{_SERVER}.auth.reviews.DEFAULT_SECONDS", "s", "a token whose request names no time expires"),
    Limit(f"{_SERVER}.auth.reviews.MIN_SECONDS", "s", "422 Invalid for a token that is to live shorter"),
    Limit(f"{_SERVER}.certificates.SERVER_LIFETIME", "days", "the server's certificate ends"),
    Limit(f"{_SERVER}.certificates.RENEW_BEFORE", "days", "a start with less time left makes a new certificate"),
    Limit(f"{_SERVER}.kinds.service_addresses.NETWORK", "", "Services get their address from here; nothing routes it"),
    Limit("programs.manifests.PATIENCE", "s", "a start with --config gives up on a kind that nobody serves"),
    Limit("cli.watch.STEP_PERCENT", "percent", "`localpv disks --watch` without a terminal prints progress"),
    Limit("cli.progress.LINGER_SECONDS", "s", "the bar of a disk that is clean goes from the screen"),
    Limit("cli.progress.SILENT_SECONDS", "s", "`localpv wipe` says where to look when no agent has begun"),
    Limit("programs.live.REFRESH", "s", "the live view of `localpv up` is drawn again"),
    Limit("engine.kubelet.images.layers.MOST_BYTES", "bytes", "an image that unpacks to more is refused"),
    Limit("engine.kubelet.images.layers.MOST_FILES", "entries", "an image of more files is refused"),
    Limit("engine.kubelet.images.layers.MOST_HEADER", "bytes", "an image with a longer header is refused"),
    Limit("engine.kubelet.images.archives.MOST_LAYERS", "layers", "an image of more layers is refused"),
    Limit("agent.discover.reconciler.SETTLE_SECONDS", "s", "a new plain directory is offered"),
)  # fmt: skip
"""What is bounded, and what happens then. Prose quotes them as `NAME` (value); a test compares that with the code."""


def shown(value: Any, unit: str) -> str:
    """A value as people write it."""
    match value:
        case timedelta():
            return f"{value.days:,} days"
        case tuple():
            return f"{value[0]:,.4g} to {value[1]:,.4g} {unit}"
        case int() if unit == "bytes":
            for size, name in ((20, "MiB"), (10, "KiB")):
                if value >= 1 << size and value % (1 << size) == 0:
                    return f"{value >> size:,} {name}"
            return f"{value:,} bytes"
        case int():
            return f"{value:,} {unit}"
        case float():
            return f"{value:,g} {unit}"
    return f"{value} {unit}".strip()


# -- what the code says ------------------------------------------------------------------------------------------------


@cache
def notes(path: Path) -> dict[str, str]:
    """The sentences that stand below names: `NAME`, or `Class.field`."""
    found: dict[str, str] = {}

    def collect(body: list[ast.stmt], prefix: str) -> None:
        for index, statement in enumerate(body):
            if isinstance(statement, ast.ClassDef):
                collect(statement.body, f"{statement.name}.")
                continue
            match statement:
                case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                    following = body[index + 1] if index + 1 < len(body) else None
                    match following:
                        case ast.Expr(value=ast.Constant(value=str(text))):
                            found[prefix + name] = " ".join(text.split())

    collect(ast.parse(path.read_text()).body, "")
    return found


def module_path(module: str) -> Path:
    return SOURCE / (module.replace(".", "/") + ".py")


def commands() -> dict[str, click.Command]:
    context = click.Context(cli.cli)
    found = {name: cli.cli.get_command(context, name) for name in cli.cli.list_commands(context)}
    return {name: command for name, command in found.items() if command is not None}


def options(command: click.Command) -> list[click.Option]:
    return [option for option in command.params if isinstance(option, click.Option)]


def flag(option: click.Option) -> str:
    """The long spelling of an option."""
    return max(option.opts, key=len)


def default_and_help(option: click.Option) -> tuple[str, str]:
    """The default, which stands in the help where it is worked out at start, and the help without it."""
    text = " ".join((option.help or "").split())
    found = re.search(r"\s*\[default: (.*?)\]\s*", text)
    if found is not None:
        return found[1], (text[: found.start()] + text[found.end() :]).strip()
    if option.is_flag:
        return "off", text
    if option.multiple or option.default in (None, ""):
        return "none", text
    return f"`{option.default}`", text


@cache
def drawn_notes() -> dict[str, str]:
    """What the tree in the docstring of localpv.errors says of each error."""
    lines = (errors.__doc__ or "").splitlines()
    found = (re.match(r"[│├└─ ]*([A-Z]\w+)(?:\s{2,}(.*))?$", line) for line in lines)
    return {match[1]: (match[2] or "").strip() for match in found if match is not None}


def error_classes() -> list[type[errors.LocalpvError]]:
    """All of them, each right behind the one it derives from."""

    def below(parent: type[errors.LocalpvError]) -> Iterator[type[errors.LocalpvError]]:
        yield parent
        for child in parent.__subclasses__():
            if child.__module__ == errors.__name__:
                yield from below(child)

    return list(below(errors.LocalpvError))


# -- the parts ---------------------------------------------------------------------------------------------------------


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    lines = [list(head), *(list(row) for row in rows)]
    lines.insert(1, ["---"] * len(lines[0]))
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def usage(name: str) -> str:
    command = commands()[name]
    lines = [" ".join(["localpv", name, *command.collect_usage_pieces(click.Context(command))])]
    return f"{inspect.cleandoc(command.help or '')}\n\n```\n" + "\n".join(lines) + "\n```"


def options_of(name: str) -> str:
    def row(option: click.Option) -> list[str]:
        default, text = default_and_help(option)
        metavar = "" if option.is_flag else f" {_metavar(option)}"
        return [f"`{flag(option)}{metavar}`", default, text.replace("|", "\\|")]

    return table(("option", "default", "meaning"), (row(option) for option in options(commands()[name])))


def _metavar(option: click.Option) -> str:
    if isinstance(option.type, click.Choice):
        return "\\|".join(str(choice) for choice in option.type.choices)
    return {"path": "PATH"}.get(option.type.name, "TEXT")


def settings() -> str:
    programs: dict[str, list[str]] = {}
    first: dict[str, click.Option] = {}
    for name, command in commands().items():
        for option in options(command):
            own = f"{name} {flag(option)}"
            key = own if own in SETTINGS else flag(option)
            programs.setdefault(key, []).append(name)
            first.setdefault(key, option)
    unknown = [name for name in first if name not in SETTINGS]
    if unknown:
        raise CannotGenerate(f"tools/generate_docs.py: SETTINGS has no unit and reason for {', '.join(unknown)}")
    rows = []
    for name, option in first.items():
        default, text = default_and_help(option)
        setting = SETTINGS[name]
        where = ", ".join(f"`{program}`" for program in programs[name])
        rows.append(
            [f"`{flag(option)}`", where, default, setting.unit, f"{text.replace('|', chr(92) + '|')} {setting.reason}"]
        )
    return table(("option", "of", "default", "unit", "meaning and reason"), rows)


def gates() -> str:
    from localpv.engine.apiserver.kinds.base import Gates

    said, defaults = notes(module_path("engine.apiserver.kinds.base")), Gates()
    rows = [
        [
            f"`{name}`",
            "true" if getattr(defaults, field) else "false",
            f"{said[f'Gates.{field}'].partition(': ')[2].capitalize()} {GATE_REASON[name]}",
        ]
        for name, field in cli.GATES.items()
    ]
    return table(("gate", "default", "meaning and reason"), rows)


def limits() -> str:
    def row(limit: Limit) -> list[str]:
        why = notes(module_path(limit.module)).get(limit.name, "")
        return [f"`{limit.module}.{limit.name}`", limit.shown, limit.effect, why.replace("|", "\\|")]

    return table(("constant", "value", "what happens then", "the code says"), (row(limit) for limit in LIMITS))


def error_tree() -> str:
    said = drawn_notes()
    lines: list[str] = []

    def draw(cls: type[errors.LocalpvError], lead: str, branch: str) -> None:
        lines.append(f"{lead + branch + cls.__name__:32}{said[cls.__name__]}".rstrip())
        below = [child for child in cls.__subclasses__() if child.__module__ == errors.__name__]
        inside = lead + {"": "", "├── ": "│   ", "└── ": "    "}[branch]
        for child in below:
            draw(child, inside, "└── " if child is below[-1] else "├── ")

    draw(errors.LocalpvError, "", "")
    return "```\n" + "\n".join(lines) + "\n```"


def error_table() -> str:
    def row(cls: type[errors.LocalpvError]) -> list[str]:
        answer = f"{cls.code} {cls.reason}" if issubclass(cls, errors.ApiError) else ""
        own = cls.__dict__.get("__doc__") or ""
        drawn = re.sub(r"^\d+\s*", "", drawn_notes()[cls.__name__])
        said = (
            " ".join(own.split()) or f"{drawn[:1].upper()}{drawn[1:]}." if own or drawn else ERROR_MEANING[cls.__name__]
        )
        return [f"`{cls.__name__}`", answer, said]

    return table(("error", "HTTP status and reason", "meaning"), (row(cls) for cls in error_classes()))


def kinds() -> str:
    groups: dict[str, list[Resource]] = {}
    for resource in EVERY:
        groups.setdefault(resource.api_version, []).append(resource)
    return table(
        ("group and version", "kinds"),
        ([f"`{group}`", ", ".join(resource.kind for resource in found)] for group, found in groups.items()),
    )


def subresources() -> str:
    rows = ([resource.kind, ", ".join(resource.subresources)] for resource in EVERY if resource.subresources)
    return table(("kind", "subresources"), rows)


def stored_kinds() -> str:
    rows = (
        [resource.kind, f"`{resource.api_version}`", NOT_ENFORCED.get(resource.kind, "nothing")] for resource in STORED
    )
    return table(("kind", "group and version", "what its writer is told"), rows)


def packages() -> str:
    rows = []
    for path in sorted(SOURCE.glob("*/__init__.py")):
        text = ast.get_docstring(ast.parse(path.read_text())) or ""
        rows.append([f"`{path.parent.name}/`", " ".join(text.partition("\n\n")[0].split())])
    text = (errors.__doc__ or "").partition("\n")[0]
    return table(("package", "what belongs inside"), [*rows, ["`errors.py`", f"{text} The tree is in [errors.md]"
                                                              "(errors.md)."]])  # fmt: skip


def layers() -> str:
    contracts = configparser.ConfigParser()
    contracts.read(ROOT / ".importlinter")
    lines = []
    for name in contracts.sections():
        contract = contracts[name]
        if "name" not in contract:
            continue
        modules = [
            line.strip().replace("localpv.", "") for line in contract.get("layers", "").splitlines() if line.strip()
        ]
        apart = [
            line.strip().replace("localpv.", "") for line in contract.get("modules", "").splitlines() if line.strip()
        ]
        sources = [line.strip().replace("localpv.", "") for line in contract.get("source_modules", "").split()]
        rule = " -> ".join(modules) if modules else f"{' and '.join(apart)} import nothing of each other"
        if sources:
            rule = f"{' and '.join(sources)} import nothing else"
        lines.append(f"- {contract['name']}: `{rule}`" if modules else f"- {contract['name']}: {rule}.")
    return "\n".join(lines)


def make_targets() -> str:
    found = re.findall(r"^([a-z][a-z-]*):.*?## (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    return table(("command", "what it does"), ([f"`make {target}`", text] for target, text in found))


def specs_asked() -> str:
    told = _specs()
    rows = ([_patterns([pattern]), "yes" if pattern in told["fixed"] else "no"] for pattern in _all_asked(told))
    return table(("specs whose names match", "in the part that CI runs"), rows)


def specs_left_out() -> str:
    rows = ([reason, _patterns(patterns)] for reason, patterns in _specs()["left_out"].items())
    return table(("reason", "specs whose names match"), rows)


def _specs() -> dict[str, Any]:
    return tomllib.loads((ROOT / "tests" / "conformance" / "specs.toml").read_text())


def _all_asked(told: dict[str, Any]) -> list[str]:
    return list(dict.fromkeys([*told["asked"], *told["fixed"]]))


def _patterns(patterns: list[str]) -> str:
    return "<br>".join("`" + pattern.replace("|", "\\|") + "`" for pattern in patterns)


SECTIONS: dict[str, Callable[..., str]] = {
    "usage": usage,
    "options": options_of,
    "settings": settings,
    "gates": gates,
    "limits": limits,
    "error tree": error_tree,
    "error table": error_table,
    "kinds": kinds,
    "stored kinds": stored_kinds,
    "subresources": subresources,
    "packages": packages,
    "layers": layers,
    "make targets": make_targets,
    "asked": specs_asked,
    "left out": specs_left_out,
}
"""`usage NAME` and `options NAME` take the name of a command."""


def section(name: str) -> str:
    """What stands between the comments of this name."""
    if name in SECTIONS:
        return SECTIONS[name]()
    word, _, argument = name.partition(" ")
    if word in ("usage", "options") and argument in commands():
        return SECTIONS[word](argument)
    raise CannotGenerate(f'nothing is known that could be generated as "{name}"')


def pages() -> list[Path]:
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def generated(text: str) -> str:
    """A page with its generated parts brought up to date."""
    return PART.sub(lambda part: f"{part[1]}{section(part['name'])}\n{part[3]}", text)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="only tell what is out of date")
    check = parser.parse_args().check
    stale = []
    for path in pages():
        text = path.read_text()
        try:
            wanted = generated(text)
        except CannotGenerate as error:
            print(f"{path.relative_to(ROOT)}: {error}", file=sys.stderr)
            return 1
        if wanted != text:
            stale.append(path.relative_to(ROOT))
            if not check:
                path.write_text(wanted)
    for path in stale:
        print(f"{path}: {'out of date, run make generate' if check else 'written'}")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
