"""YAML of strangers: what it means, and that it cannot cost more than its size."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
import tracemalloc

import msgspec
import pytest
import yaml

from localpv.api import yamls
from localpv.config import values
from localpv.engine.apiserver import body
from localpv.errors import BadRequest
from localpv.testing.waiting import PATIENCE_SECONDS

LAUGHS = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{name}: &{name} [{','.join([f'*{before}'] * 9)}]\n" for before, name in zip("abcdefghi", "bcdefghij", strict=True)
)
"""Some 400 bytes that stand for 9 ** 10 values."""

MERGES = "a: &a {x: 1}\n" + "".join(
    f"{name}: &{name} {{<<: [{','.join([f'*{before}'] * 9)}]}}\n"
    for before, name in zip("abcdefghi", "bcdefghij", strict=True)
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a: [1, 1.5, yes, off, ~, '1', 0x10, 010, 0b11, 1_000, +1, -1]",
         {"a": [1, 1.5, True, False, None, "1", 16, 8, 3, 1000, 1, -1]}),
        ("at: 2026-01-02T03:04:05Z", {"at": "2026-01-02T03:04:05Z"}),
        ("on: 2026-01-02\nn: a", {"true": "2026-01-02", "false": "a"}),
        ("1: a\n2.5: b", {"1": "a", "2.5": "b"}),
        ("t: 1:30", {"t": "1:30"}),
        ("a: 123456789012345678901234567890", {"a": 1.2345678901234568e29}),
        ("a: 1e999", {"a": "1e999"}),
        ("v: [1.2.3, 1.10.0-rc, ., -, 1.]", {"v": ["1.2.3", "1.10.0-rc", ".", "-", 1.0]}),
        ("a: !!str 1\nb: !!int '1'\nc: !!binary aGk=\nd: !x y", {"a": "1", "b": 1, "c": "hi", "d": "y"}),
        ("a: &x {b: [1]}\nc: *x", {"a": {"b": [1]}, "c": {"b": [1]}}),
        ("a: &x {b: 1, c: 2}\nd: {<<: *x, c: 3}\ne: {c: 4, <<: [{c: 5, f: 6}, *x]}",
         {"a": {"b": 1, "c": 2}, "d": {"c": 3, "b": 1}, "e": {"c": 4, "f": 6, "b": 1}}),
        ("a: 1\na: 2", {"a": 2}),
        ("- <<", ["<<"]),
        ("", None),
        ("# nothing", None),
    ],
)  # fmt: skip
def test_a_document_means_what_it_means_to_kubernetes(text: str, value: object) -> None:
    assert yamls.load(text) == value
    assert yamls.load(text.encode()) == value


def test_what_an_alias_stands_for_is_a_copy() -> None:
    loaded = yamls.load("a: &x {b: [1]}\nc: *x")
    loaded["a"]["b"].append(2)
    assert loaded["c"] == {"b": [1]}


def test_a_text_may_have_several_documents() -> None:
    assert yamls.load_all("a: &x 1\n---\nb: 2\n---\n") == [{"a": 1}, {"b": 2}, None]
    with pytest.raises(yaml.YAMLError, match="no anchor x"):
        yamls.load_all("a: &x 1\n---\nb: *x\n")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (LAUGHS, "with its aliases written out the document has more than 3145728 bytes"),
        (MERGES, "with its aliases written out the document has more than 3145728 bytes"),
        ("a: &a [*a]", "contains itself"),
        ("a: *b", "no anchor b"),
        ("[" * 100_000, "nested more than 128 levels deep"),
        ("- " * 100_000 + "a", "nested more than 128 levels deep"),
        ("? " * 100_000, "nested more than 128 levels deep"),
        ("a: &a " + "[" * 100 + "]" * 100 + "\nb: " + "[" * 100 + "*a" + "]" * 100, "nested more than 128 levels deep"),
        ("%TAG !a! x\r" * 100 + "--- a", "directives"),
        ("a\n---\nb", "more than one document"),
        ("a: .inf", "a number that JSON does not know"),
        ("a: !!int x", "not of the type !!int"),
        ("a: !!binary '*'", "no text in base64"),
        ("? [a]\n: b", "a key of a map must be"),
        ("~: b", "a key of a map must be"),
        ("<<: 1", "takes a map"),
    ],
)
def test_what_costs_too_much_or_means_nothing_is_refused_by_name(text: str, problem: str) -> None:
    with pytest.raises(yaml.YAMLError) as caught:
        yamls.load(text)
    assert problem in yamls.trouble(caught.value)


def test_nodes_have_the_same_bounds() -> None:
    for text in (LAUGHS, MERGES, "[" * 100_000, "a: &a [*a]"):
        with pytest.raises(yaml.YAMLError):
            yamls.compose(text)
        notes = values.Notes()
        assert values.parse("storageClassMap", text, notes) is None
        assert len(notes.problems) == 1


def test_nodes_are_those_of_pyyaml() -> None:
    def shown(node: yaml.Node) -> object:
        if isinstance(node, yaml.ScalarNode):
            return node.tag, node.value, node.start_mark.index, node.end_mark.index
        return node.tag, [tuple(map(shown, each)) if isinstance(each, tuple) else shown(each) for each in node.value]

    text = "ä: 1.10\nb: [yes, '1', {c: !x d}]\ne: |\n  text\n"
    expected = yaml.compose(text, Loader=yaml.SafeLoader)
    assert expected is not None
    assert shown(yamls.compose(text)) == shown(expected)


def test_few_bytes_cost_few_bytes() -> None:
    tracemalloc.start()
    try:
        with pytest.raises(yaml.YAMLError):
            yamls.load(LAUGHS)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 50 << 20


def test_brackets_do_not_end_the_process() -> None:
    """PyYAML's own loader recurses in C and overflows its stack."""
    program = (
        "from localpv.engine.apiserver import body\n"
        "try: body.decode(b'[' * 30000, 'application/yaml')\n"
        "except Exception as error: print(error)"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=PATIENCE_SECONDS)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "nested more than 128 levels deep" in ended.stdout


async def test_others_have_their_turns_while_much_yaml_is_read() -> None:
    turns, read = 0, asyncio.Event()

    async def others() -> None:
        nonlocal turns
        while not read.is_set():
            turns += 1
            await asyncio.sleep(0)

    meanwhile = asyncio.create_task(others())
    text = b"a:\n" + b"- b\n" * 40_000
    made = await body.json_of_yaml(text, "application/yaml", asyncio.Lock())
    read.set()
    await meanwhile
    assert json.loads(made) == {"a": ["b"] * 40_000}
    assert turns > 30


async def test_a_body_in_yaml_that_is_refused_names_the_cause() -> None:
    for raw in (LAUGHS.encode() + b"#" * body.LARGE_YAML, b"[" * (body.LARGE_YAML + 1)):
        with pytest.raises(BadRequest, match=r"not valid YAML: line \d+: (with its aliases|is nested)"):
            await body.json_of_yaml(raw, "application/yaml", asyncio.Lock())


@pytest.mark.parametrize("form", [b"[%s1]", b'{"a":[%s1]}'], ids=["YAML", "JSON that says to be YAML"])
async def test_of_a_body_with_too_many_values_the_rest_is_not_read(form: bytes) -> None:
    async def seconds(raw: bytes) -> float:
        began = time.process_time()
        with pytest.raises(BadRequest, match="has more than 50000 values"):
            body.decode(await body.json_of_yaml(raw, "application/yaml", asyncio.Lock()), "application/yaml")
        return time.process_time() - began

    # Both are refused at the same place; as YAML, what is read to the end takes 23 times as long. The best of three:
    # what else runs here meanwhile only adds.
    few, many = b"[%s1]" % (b"1," * 60_000), form % (b"1," * 1_400_000)
    quick, slow = [min([await seconds(raw) for _ in range(3)]) for raw in (few, many)]
    assert slow < 10 * quick


def test_a_merge_sign_that_is_no_key_is_a_string() -> None:
    texts = ("- <<", "a: <<", "<<", "a: &m <<\nb: [*m]", "a: {<<: {b: <<}}")
    found = [json.loads(msgspec.json.encode(yamls.load(text))) for text in texts]
    assert found == [["<<"], {"a": "<<"}, "<<", {"a": "<<", "b": ["<<"]}, {"a": {"b": "<<"}}]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a: 1\nb: 2\n", []),
        ("a: 1\na: 2\na: 3\n", ['line 2: key "a" already set in map', 'line 3: key "a" already set in map']),
        ("a: 1\na:\n  b: 1\n  b: 2\n", ['line 3: key "a" already set in map', 'line 4: key "b" already set in map']),
        (
            "l:\n- {x: 1, x: 2}\n1: a\n1: b\n",
            ['line 2: key "x" already set in map', "line 4: key 1 already set in map"],
        ),
        ("b: &b {c: 1}\na:\n  <<: *b\n  c: 2\n", []),
    ],
)
def test_a_key_that_a_map_has_twice_is_told_with_the_line_of_its_value(text: str, told: list[str]) -> None:
    repeated: list[str] = []
    assert [*yamls.load_in_turns(text, most_values=100, repeated=repeated)][-1]
    assert repeated == told
