"""README.md and docs/ say what the code says."""

from __future__ import annotations

import ast
import fnmatch
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from tools import generate_docs, run_tests

from localpv import errors
from localpv.api.resources import REVIEWS
from localpv.api.stored_resources import EVERY
from localpv.engine.apiserver import body, responses
from localpv.engine.apiserver.auth import authentication
from localpv.engine.apiserver.kinds.custom import CustomResourceDefinition

ROOT = generate_docs.ROOT
DOCS = ROOT / "docs"
PAGES = generate_docs.pages()
NOT_YET = "## What does not work yet"

each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


def prose(page: Path) -> str:
    """A page without its generated parts, which are compared with the code as a whole."""
    return generate_docs.PART.sub("", page.read_text())


def commands_named(text: str) -> set[str]:
    return set(re.findall(r"\blocalpv ([a-z]+)(?=[` ,\n]|$)", "\n".join(re.findall(r"`[^`\n]+`", text))))


def made_here() -> set[str]:
    """Folders that make and the tests write, and that are not in the repository."""
    return {line.rstrip("/") for line in (ROOT / ".gitignore").read_text().splitlines()} | {".git"}


def ends_of(path: Path) -> list[str]:
    parts = path.relative_to(ROOT).parts
    return ["/".join(parts[start:]) for start in range(len(parts))]


# -- what is generated -------------------------------------------------------------------------------------------------


@each_page
def test_generated_parts_are_up_to_date(page: Path) -> None:
    text = page.read_text()
    assert generate_docs.generated(text) == text, "run make generate"


def test_check_tells_what_is_out_of_date_and_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "README.md"
    stale = "<!-- generated: kinds -->\nold\n<!-- end generated -->\n"
    page.write_text(stale)
    monkeypatch.setattr(generate_docs, "ROOT", tmp_path)
    monkeypatch.setattr(sys, "argv", ["generate_docs.py", "--check"])
    assert generate_docs.main() == 1
    assert page.read_text() == stale
    assert "README.md: out of date" in capsys.readouterr().out

    monkeypatch.setattr(sys, "argv", ["generate_docs.py"])
    assert generate_docs.main() == 0
    assert "PersistentVolume" in page.read_text()
    monkeypatch.setattr(sys, "argv", ["generate_docs.py", "--check"])
    assert generate_docs.main() == 0


def test_a_part_that_nobody_can_generate_is_refused_by_name() -> None:
    with pytest.raises(generate_docs.CannotGenerate, match="options nonsense"):
        generate_docs.section("options nonsense")


# -- commands, settings, errors ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", generate_docs.commands())
def test_every_command_has_a_page_with_all_of_its_options(name: str) -> None:
    text = (DOCS / "programs" / f"{name}.md").read_text()
    assert text.startswith(f"# localpv {name}\n")
    for option in generate_docs.options(generate_docs.commands()[name]):
        assert f"| `{generate_docs.flag(option)}" in text
        assert option.help, f"{generate_docs.flag(option)} has no help"


def test_every_page_of_a_program_is_that_of_a_command() -> None:
    assert {page.stem for page in (DOCS / "programs").glob("*.md")} == set(generate_docs.commands())


def test_every_option_has_default_unit_and_reason() -> None:
    text = (DOCS / "settings.md").read_text()
    known = {
        generate_docs.flag(option)
        for command in generate_docs.commands().values()
        for option in generate_docs.options(command)
    }
    for name in known:
        row = next(line for line in text.splitlines() if line.startswith(f"| `{name}` |"))
        assert all(cell.strip() for cell in re.split(r"(?<!\\)\|", row)[1:-1]), row
    explained = {key.rpartition(" ")[2] for key in generate_docs.SETTINGS}
    assert explained == known, "a setting is explained that no command has"


def test_every_environment_variable_is_documented() -> None:
    text = (DOCS / "settings.md").read_text()
    files = [*generate_docs.SOURCE.rglob("*.py"), ROOT / "tests" / "conftest.py", ROOT / "tests/kubernetes/build.py"]
    read = {
        name for path in files for name in re.findall(r"""environ(?:\.get\(|\[)["']([A-Z_]+)["']""", path.read_text())
    }
    assert read
    assert {name for name in read if f"`{name}`" not in text} == set()


def test_every_error_is_documented() -> None:
    text = (DOCS / "errors.md").read_text()
    for cls in generate_docs.error_classes():
        row = next(line for line in text.splitlines() if line.startswith(f"| `{cls.__name__}` |"))
        assert row.split("|")[3].strip(), row


def test_the_tree_drawn_in_the_errors_module_is_the_tree_of_its_classes() -> None:
    path: list[str] = []
    for line in (errors.__doc__ or "").splitlines():
        found = re.match(r"([│├└─ ]*)([A-Z]\w+)(\s{2,}.*)?$", line)
        if found is None:
            continue
        depth = len(found[1]) // 4
        path[depth:] = [found[2]]
        parents = [base.__name__ for base in getattr(errors, found[2]).__bases__]
        assert parents == ([path[depth - 1]] if depth else ["Exception"])
        if code := re.match(r"\s+(\d{3})\b", found[3] or ""):
            assert getattr(errors, found[2]).code == int(code[1])
    drawn = set(generate_docs.drawn_notes())
    assert {cls.__name__ for cls in generate_docs.error_classes()} <= drawn


# -- facts in prose ----------------------------------------------------------------------------------------------------


def quoted_constants() -> Iterator[tuple[str, str, str]]:
    """(page, name, value as written) of every `NAME` (value)."""
    for page in PAGES:
        for name, value in re.findall(r"`((?:\w+\.)*_?[A-Z][A-Z_]+)`\s\(([^)]+)\)", prose(page)):
            yield page.name, name, value


def test_every_constant_quoted_equals_the_code() -> None:
    quoted = list(quoted_constants())
    assert len(quoted) > 15
    for page, name, value in quoted:
        places = [limit for limit in generate_docs.LIMITS if f".{limit.place}".endswith(f".{name}")]
        assert places, f"{page}: {name} is not in LIMITS of tools/generate_docs.py"
        assert value in {limit.shown for limit in places}, f"{page}: {name} is {places[0].shown}, not {value}"
        assert len({limit.shown for limit in places}) == 1, f"{page}: {name} names several constants, add the module"


FOLDERS = [path for path in ROOT.iterdir() if path.is_dir() and path.name not in made_here()]
ENDS = {path.name for path in ROOT.iterdir()} | {
    end
    for folder in FOLDERS
    for path in (folder, *folder.rglob("*"))
    if "__pycache__" not in path.parts
    for end in ends_of(path)
}
"""What a page may call a file or folder: its whole path, or the end of it."""

FIRST = {*(path.name for path in FOLDERS), *(path.name for path in generate_docs.SOURCE.iterdir() if path.is_dir())}

MODULES = {path.stem for path in generate_docs.SOURCE.rglob("*") if path.suffix == ".py" or path.is_dir()}


def paths_named(text: str) -> set[str]:
    """What stands in code and can only be a file or folder of ours: a module, or something below one of our folders."""
    named = set(re.findall(r"`([\w.*-]+(?:/[\w.*-]+)*/?)`", text))
    return {
        name
        for name in named
        if name.endswith((".py", ".tsv")) or ("/" in name and name.partition("/")[0] in FIRST | made_here())
    }


def missing(names: Iterable[str]) -> list[str]:
    return sorted(
        name
        for name in names
        if name.partition("/")[0] not in made_here() and not fnmatch.filter(ENDS, name.rstrip("/"))
    )


@each_page
def test_every_path_named_exists(page: Path) -> None:
    assert missing(paths_named(page.read_text())) == []


def test_a_path_that_does_not_exist_is_noticed_wherever_it_begins() -> None:
    text = (
        "`host/nobody.py`, `nobody.py`, `release/nobody.py`, `agent/nobody/*.py`, `tests/nobody/`, `src/localpv/nobody`"
    )
    assert missing(paths_named(text)) == sorted(re.findall(r"`([^`]+)`", text))
    there = "`host/wiper.py`, `wiper.py`, `agent/clean/*.py`, `tests/unit/`, `src/localpv/errors.py`, `mutants.tsv`"
    assert missing(paths_named(there)) == []


@pytest.mark.parametrize(
    "folder", sorted({path.parent for path in generate_docs.SOURCE.rglob("*.py")}), ids=lambda folder: folder.name
)
def test_every_module_that_a_package_says_it_has_exists(folder: Path) -> None:
    package = ast.parse((folder / "__init__.py").read_text())
    own = {node.name for node in package.body if isinstance(node, ast.FunctionDef)}
    named = set(re.findall(r"`([a-z_]+)`", ast.get_docstring(package) or ""))
    assert named - MODULES - own == set()


@each_page
def test_every_make_target_named_exists(page: Path) -> None:
    targets = set(re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    # In code only: people make other things, too.
    named = set(re.findall(r"(?:`|^)make ([a-z][a-z-]*)", page.read_text(), re.MULTILINE))
    assert named - targets == set()


def test_the_two_commands_of_the_readme_are_there() -> None:
    assert {"make run", "make test"} <= set(re.findall(r"^(make \w+)", (ROOT / "README.md").read_text(), re.MULTILINE))


def test_the_picture_in_the_readme_has_the_steps_of_the_circle() -> None:
    picture = next(part for part in (ROOT / "README.md").read_text().split("```") if "1 discover" in part)
    drawn = dict(re.findall(r"\b(\d) ([a-z]+(?:, [a-z]+)?)", picture))
    rows = re.findall(r"^\| (\d) \| \*\*(.+?)\.\*\*", (DOCS / "architecture.md").read_text(), re.MULTILINE)
    assert {number: name.lower() for number, name in rows} == drawn


def test_commands_that_are_said_to_be_missing_are_missing_and_the_others_exist() -> None:
    before, missing = (ROOT / "README.md").read_text().split(NOT_YET)
    missing, after = missing.split("\n## ", 1)
    known = set(generate_docs.commands())
    assert commands_named(missing)
    assert commands_named(missing) & known == set(), "README calls a command missing that exists"
    present = before + after + "".join(page.read_text() for page in PAGES if page.name != "README.md")
    assert commands_named(present) - known == set()


@each_page
def test_links_resolve(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        assert file.exists(), f"{page.name} links to {target}"
        if anchor:
            assert anchor in anchors(file), f"{page.name} links to {target}"


def anchors(page: Path) -> set[str]:
    heads = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


@each_page
def test_no_line_names_a_registry_or_a_folder_of_somebodys_machine(page: Path) -> None:
    # Addresses of other machines have no place in these pages at all.
    forbidden = re.compile(
        r"https?://(?!127\.0\.0\.1)|/work\b|/root\b|/home/|pypi|docker\.io|ghcr\.|quay\.|gcr\.", re.I
    )
    assert [line for line in page.read_text().splitlines() if forbidden.search(line)] == []


def test_numbers_of_the_test_setup_are_those_in_force() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    text = (DOCS / "testing.md").read_text()
    assert f"a time limit of {project['tool']['pytest']['ini_options']['timeout']} s" in text
    assert (
        f"Python {project['project']['requires-python'].removeprefix('>=')} or newer"
        in (ROOT / "README.md").read_text()
    )
    run = {folder for ring in (run_tests.SHARING, run_tests.ALONE) for folder in ring.folders}
    assert set(re.findall(r"^\| `(tests/\w+)/` \|", text, re.MULTILINE)) == run


def test_decisions_are_numbered_listed_and_complete() -> None:
    folder = DOCS / "decisions"
    records = sorted(path for path in folder.glob("*.md") if path.name != "README.md")
    assert [path.name[:4] for path in records] == [f"{number:04}" for number in range(1, len(records) + 1)]
    index = (folder / "README.md").read_text()
    for path in records:
        text = path.read_text()
        assert text.startswith(f"# {int(path.name[:4])}. ")
        assert f"[{path.name[:4]}]({path.name}) | {text.partition('. ')[2].partition(chr(10))[0]}" in index
        assert [
            part for part in ("Context", "Decision", "Measurement", "Consequences") if f"**{part}.**" not in text
        ] == []


# -- limits are still limits -------------------------------------------------------------------------------------------


def limits_page() -> str:
    return (DOCS / "limits.md").read_text()


def test_kinds_that_are_said_not_to_exist_do_not_exist() -> None:
    found = re.search(r"\*\*Kinds that do not exist\*\*: (.*?), and all", limits_page())
    assert found is not None
    assert set(found[1].split(", ")) & {resource.kind for resource in (*EVERY, *REVIEWS)} == set()


def test_all_built_in_versions_are_stable_as_the_limits_say() -> None:
    assert "all of alpha and beta" in limits_page()
    assert all(re.fullmatch(r"v[0-9]+", resource.version) for resource in EVERY)


def test_answers_are_json_or_yaml_and_bodies_may_be_protobuf_as_the_limits_say() -> None:
    assert "**Answers are JSON or YAML.** Bodies of requests may be protobuf" in limits_page()
    with pytest.raises(errors.NotAcceptable):
        responses.asked_form("application/vnd.kubernetes.protobuf")
    with pytest.raises(errors.BadRequest):  # understood as protobuf, and found to be none
        body.decode(b"nonsense", "application/vnd.kubernetes.protobuf")
    with pytest.raises(errors.UnsupportedMediaType):
        body.decode(b"\xa0", "application/cbor")


def test_cel_and_conversion_webhooks_are_refused_by_name_as_the_limits_say() -> None:
    assert "**No CEL.**" in limits_page()
    assert "**No conversion webhooks.**" in limits_page()
    rule = {"rule": "self.size > 0"}
    schema = {"type": "object", "properties": {"spec": {"type": "object", "x-kubernetes-validations": [rule]}}}
    definition = {
        "metadata": {"name": "gadgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "gadgets", "kind": "Gadget"},
            "conversion": {"strategy": "Webhook"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}],
        },
    }
    strategy = CustomResourceDefinition()
    strategy.default(definition)
    strategy.prepare_for_create(definition)
    refused = {problem.field.rpartition(".")[2]: str(problem) for problem in strategy.validate(definition)}
    assert set(refused) == {"x-kubernetes-validations", "strategy"}
    assert "CEL" in refused["x-kubernetes-validations"]
    assert "webhooks are not supported" in refused["strategy"]


def test_paths_that_need_no_token_are_the_ones_named() -> None:
    for page in (DOCS / "limits.md", DOCS / "architecture.md", DOCS / "programs" / "apiserver.md"):
        text = page.read_text()
        assert [path for path in authentication.PUBLIC_PATHS if f"`{path.rstrip('/')}`" not in text] == []
