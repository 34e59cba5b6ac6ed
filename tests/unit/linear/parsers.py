"""Every parser of a text that a client may have sent, by its name, as a function of that text."""

from __future__ import annotations

import inspect
import pkgutil
from collections.abc import Callable, Iterator
from importlib import import_module

from localpv.api import (
    jsonpath,
    media_types,
    names,
    node_selector,
    quantity,
    selectors,
    volume_affinity,
    yaml_scalars,
    yamls,
)
from localpv.api.kinds import meta
from localpv.api.managed import entries, fieldset
from localpv.api.schema import duplicates, formats, scalars
from localpv.api.schema.catalogue import MICRO_TIME, Catalogue
from localpv.api.schema.node import Node, Type
from localpv.api.translate import manifests
from localpv.client import credentials
from localpv.config import globs, local_storage, reading, udev_match, values
from localpv.engine.apiserver import body, call, discovery, request_info, responses
from localpv.engine.apiserver.auth import identity, tokens
from localpv.engine.apiserver.kinds import (
    checks,
    configuration,
    job_status,
    network_checks,
    pod_env,
    pod_security,
    service,
    service_addresses,
    stored_checks,
    volume_sources,
    workload_common,
)
from localpv.engine.apiserver.tables import layout
from localpv.engine.kubelet import downward_api, environment, logs
from localpv.engine.kubelet.images import store

Parser = Callable[[str], object]

_time = Node(type=Type.STRING, format="date-time")
_micro_time = Node(type=Type.STRING, format="date-time", name=MICRO_TIME)
_bytes = Node(type=Type.STRING, format="byte")
_quantity = Node(type=Type.QUANTITY)

_pod = Catalogue().node("io.k8s.api.core.v1.Pod")

PARSERS: dict[str, Parser] = {
    "api.jsonpath.compile": jsonpath.Path,
    "api.jsonpath.fields": jsonpath.fields,
    "api.kinds.meta.read_time": meta.read_time,
    "api.managed.fieldset.canonical": lambda text: fieldset.canonical(f"v:{text}"),
    "api.managed.fieldset.quoted": fieldset.quoted,
    "api.managed.entries.manager_from_user_agent": entries.manager_from_user_agent,
    "api.managed.entries.name_of": lambda text: entries.name_of(text, text),
    "api.managed.entries.validate_name": entries.validate_name,
    "engine.apiserver.kinds.checks.read_network": checks.read_network,
    "engine.apiserver.kinds.checks.read_network length": lambda text: checks.read_network(f"::/{text}"),
    "api.quantity.canonical": quantity.canonical,
    "api.schema.duplicates.duplicate_fields": lambda text: duplicates.duplicate_fields(text.encode()),
    "api.schema.duplicates.findings": lambda text: duplicates.findings(text.encode(), _pod),
    "api.schema.formats.Effort": lambda text: formats.Effort().check(text),
    "api.schema.formats.found": lambda text: formats.found("^(a+)+$|(a|aa)+b|([a-z]+[0-9]?)*!", text),
    "api.schema.scalars.read bytes": lambda text: scalars.read(text, _bytes),
    "api.schema.scalars.read micro time": lambda text: scalars.read(text, _micro_time),
    "api.schema.scalars.read quantity": lambda text: scalars.read(text, _quantity),
    "api.schema.scalars.read time": lambda text: scalars.read(text, _time),
    "api.selectors.parse": selectors.parse,
    "api.selectors.parse_fields": selectors.parse_fields,
    "api.selectors.whole_number": selectors.whole_number,
    "api.translate.manifests.translate_text": manifests.translate_text,
    "api.volume_affinity.annotation_errors": volume_affinity.annotation_errors,
    "api.volume_affinity.parse": volume_affinity.parse,
    "api.yaml_scalars.resolved": lambda text: text and yaml_scalars.resolved(text),
    "api.yaml_scalars.tagged": lambda text: yaml_scalars.tagged("tag:yaml.org,2002:binary", text),
    "api.yamls.compose": yamls.compose,
    "api.yamls.load": yamls.load,
    "api.yamls.load_all": yamls.load_all,
    "api.yamls.load_in_turns": lambda text: [*yamls.load_in_turns(text, most_values=50_000, repeated=[])],
    "engine.apiserver.request_info.parse_path": lambda text: request_info.parse_path(f"/apis/{text}"),
    "engine.apiserver.request_info.parse_query": request_info.parse_query,
    "engine.apiserver.auth.identity.quoted": identity.quoted,
    "engine.apiserver.auth.identity.split_account": identity.split_account,
    "engine.apiserver.auth.tokens.read_claims": lambda text: tokens.read_claims(text, b"key"),
    "engine.apiserver.body.decode": lambda text: body.decode(text.encode(), "application/json"),
    "engine.apiserver.body.decode protobuf": lambda text: body.decode(b"k8s\x00" + text.encode(), media_types.PROTOBUF),
    "engine.apiserver.body.decode_json": lambda text: body.decode_json(text.encode()),
    "engine.apiserver.body.decode_yaml": lambda text: body.decode_yaml(text.encode()),
    "engine.apiserver.body.media_type": body.media_type,
    "engine.apiserver.call.Call": lambda text: call.Call(kind=None, query={"n": text}).number("n"),  # type: ignore[arg-type]
    "engine.apiserver.discovery.version_order": discovery.version_order,
    "engine.apiserver.discovery.wants_aggregated": discovery.wants_aggregated,
    "engine.apiserver.kinds.configuration.decoded_size": configuration.decoded_size,
    "engine.apiserver.kinds.configuration.text_size": configuration.text_size,
    "engine.apiserver.kinds.stored_checks.wrong_schedule": stored_checks.wrong_schedule,
    "engine.apiserver.kinds.stored_checks.wrong_schedule fields": (
        lambda text: stored_checks.wrong_schedule(f"{text} * * * *")
    ),
    "engine.apiserver.kinds.stored_checks.wrong_zone": stored_checks.wrong_zone,
    "engine.apiserver.kinds.job_status.intervals": lambda text: job_status.intervals(text, 10),
    "engine.apiserver.kinds.service_addresses.is_address": service_addresses.is_address,
    "engine.apiserver.kinds.service.wrong_external_address": (
        lambda text: service.wrong_external_address(text, "a")
    ),
    "engine.apiserver.kinds.service.wrong_external_name": service.wrong_external_name,
    "engine.apiserver.kinds.volume_sources.csi_driver_name": lambda text: [*volume_sources.csi_driver_name(text, "a")],
    "engine.apiserver.responses.asked_form": responses.asked_form,
    "engine.apiserver.tables.layout.moment": layout.moment,
    "client.credentials.bearer": credentials.bearer,
    "client.credentials.decode_data": lambda text: credentials.decode_data(text, where="a"),
    "config.local_storage.read": local_storage.read,
    "config.udev_match.parse": udev_match.parse,
    "config.globs.match": lambda text: globs.match(text[:1000], "a" * 255),
    "config.globs.NamePattern": globs.NamePattern,
    "config.reading.read": lambda text: reading.read({"storageClassMap": text, "labelsForPV": text}),
    "config.values.duration": values.duration,
    "config.values.parse": lambda text: values.parse("a", text, values.Notes()),
    "engine.kubelet.environment.expand": lambda text: environment.expand(text, {"a": "b"}),
    "engine.kubelet.images.store.parse_reference": store.parse_reference,
    "engine.kubelet.downward_api.quoted": downward_api.quoted,
    "engine.kubelet.logs.read_line": lambda text: logs.read_line(text.encode()),
    **{f"api.names.{name}": getattr(names, name) for name in
       ("config_map_key", "dns1035_label", "dns_label", "dns_subdomain", "label_value", "path_segment",
        "qualified_name")},
    **{f"api.schema.formats.check_of {name}": check for name, check in formats._CHECKS.items()},
    **{f"engine.apiserver.kinds.checks.{name}": getattr(checks, name) for name in
       ("family", "header", "port_name", "pull_policy", "read_address", "variable")},
    **{f"engine.apiserver.kinds.network_checks.{name}": getattr(network_checks, name) for name in
       ("address", "controller", "host", "host_of_rule", "network")},
    **{f"engine.apiserver.kinds.stored_checks.{name}": getattr(stored_checks, name) for name in ("driver", "pool")},
    "engine.apiserver.kinds.checks.inside": lambda text: checks.inside(text, "a"),
    "engine.apiserver.kinds.checks.inside_and_not_reserved": (
        lambda text: checks.inside_and_not_reserved(text, "a")
    ),
    "engine.apiserver.kinds.checks.no_backsteps": lambda text: checks.no_backsteps(text, "a"),
    # Expressions of validators that have no function of their own.
    "engine.apiserver.kinds.pod_fields": lambda text: [
        *pod_env.field_ref({"apiVersion": "v1", "fieldPath": text}, "a", ())
    ],
    "engine.apiserver.kinds.pod_security": pod_security._is_sysctl,
    "engine.apiserver.kinds.volume_sources iqn": volume_sources._is_iqn,
    "engine.apiserver.kinds.volume_sources host and port": volume_sources._host_and_port,
    "engine.apiserver.kinds.workload_common": workload_common._IS_PERCENT,
    "api.node_selector": lambda text: [*node_selector.validate_term(
        {"matchExpressions": [{"key": text, "operator": "In", "values": [text]}]}, "a")],
}  # fmt: skip

SLOW = frozenset(
    name for name in PARSERS if any(part in name for part in ("yaml", "texts.translate", "config.", "Effort"))
)
"""Linear, and slow: a tenth of the length tells as much."""

EXCEPTIONS = {
    "api.crds.text": "reads a file of ours",
    "api.crds.load": "reads a file of ours",
    "api.managed.fieldset.order": "of elements that canonical has read",
    "api.managed.fieldset.element_shown": "of elements that canonical has read",
    "api.managed.entries.read": "of values: test_bodies",
    "api.managed.fieldset.parse": "of values: test_bodies",
    "api.protobuf.messages.decode": "as apiserver.body.decode",
    "api.protobuf.wire.read_json": "as apiserver.body.decode",
    **{f"api.protobuf.wire.{name}": "a step of apiserver.body.decode" for name in
       ("double", "length", "skip", "tag", "text", "varint")},
    "api.protobuf.wire.scalars": "a step of apiserver.body.decode",
    "engine.apiserver.body.json_of_yaml": "the same as decode_yaml, with turns for others",
    "engine.apiserver.auth.authentication.authenticate": "hands the token to jwt.claims",
    "engine.apiserver.responses.yaml": "of what the server has stored",
    "config.environment.read": "of the administrator's own environment",
    "engine.kubelet.images.archives.load": "of a file: bounded in tests/pods/test_images.py",
}  # fmt: skip

_FIRST = {
    "text",
    "raw",
    "body",
    "held",
    "token",
    "accept",
    "header",
    "authorization",
    "encoded",
    "user_agent",
    "pattern",
}
_VERBS = ("parse", "read", "decode", "load", "compile")
_PACKAGES = ("api", "engine.apiserver", "client", "config", "engine.kubelet")


def public() -> Iterator[str]:
    """Functions of the code that read a text, by what they and their first parameter are called."""
    for package in _PACKAGES:
        root = import_module(f"localpv.{package}")
        for module in pkgutil.walk_packages(root.__path__, f"{root.__name__}."):
            for name, function in vars(import_module(module.name)).items():
                if inspect.isfunction(function) and function.__module__ == module.name and not name.startswith("_"):
                    first = next(iter(inspect.signature(function).parameters.values()), None)
                    if first is None or not str(first.annotation).startswith(
                        ("str", "bytes", "Any", "Mapping[str, str]")
                    ):
                        continue
                    if first.name in _FIRST or name.startswith(_VERBS):
                        yield f"{module.name.removeprefix('localpv.')}.{name}"
