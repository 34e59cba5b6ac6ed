from __future__ import annotations

import msgspec
import pytest
import yaml
from click.testing import CliRunner

from localpv import errors
from localpv.api.objects import Object
from localpv.cli import bootstrap as command
from localpv.client.client import Client
from localpv.client.transport import Answer, Request
from localpv.deploy import bootstrap
from localpv.testing.api import FakeApi

SEED = """\
local-fast:
  hostDir: "/mnt/ssds"
local-slow:
  hostDir: "/mnt/hdds"
"""
MAPS = "/api/v1/namespaces/kube-system/configmaps/local-volume-default-config"
DAEMON_SET = "/apis/apps/v1/namespaces/kube-system/daemonsets/local-volume-provisioner"
WISH = bootstrap.Wish(namespace="kube-system")


@pytest.mark.seed("CFG-4")
@pytest.mark.parametrize(
    ("host_dir", "inside"),
    [
        ("/mnt/ssds", "/mnt/local-storage/mnt~ssds"),
        ("/mnt/hdds", "/mnt/local-storage/mnt~hdds"),
        ("/disks", "/mnt/local-storage/disks"),
        ("/a/b/c/d", "/mnt/local-storage/a~b~c~d"),
        ("/mnt/ssds/", "/mnt/local-storage/mnt~ssds"),
        ("//mnt//ssds", "/mnt/local-storage/mnt~ssds"),
    ],
)
def test_the_mount_dir_is_the_host_dir_with_tildes(host_dir: str, inside: str) -> None:
    assert bootstrap.mount_dir(host_dir) == inside


@pytest.mark.seed("CFG-4")
def test_documented_defaults() -> None:
    assert (WISH.volume_config, WISH.service_account) == ("local-volume-default-config", "local-storage-admin")
    said = CliRunner().invoke(command.bootstrap, ["--help"]).output
    for option in ("-image", "-volume-config", "-serviceaccount"):
        assert f"  {option}, -{option} TEXT" in said


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        (SEED, None),
        ("a: {hostDir: /mnt/a}", 'a: {hostDir: /mnt/a, mountDir: "/mnt/local-storage/mnt~a"}'),
        (
            "# disks\na:\n    hostDir: /mnt/a # here\n    fsType: xfs\n",
            '# disks\na:\n    hostDir: /mnt/a # here\n    mountDir: "/mnt/local-storage/mnt~a"\n    fsType: xfs\n',
        ),
        ("a:\n  hostDir: /mnt/a", 'a:\n  hostDir: /mnt/a\n  mountDir: "/mnt/local-storage/mnt~a"'),
        ("a:\n  hostDir: /mnt/a\n  mountDir: /own\n", "a:\n  hostDir: /mnt/a\n  mountDir: /own\n"),
    ],
)
def test_only_what_is_missing_is_filled_in(text: str, filled: str | None) -> None:
    made = bootstrap.fill_in(text)
    before, after = yaml.safe_load(text), yaml.safe_load(made)
    for name, settings in after.items():
        assert settings["mountDir"] in ("/own", bootstrap.mount_dir(settings["hostDir"]))
        assert before[name].items() <= settings.items()
    if filled is not None:
        assert made == filled
    assert bootstrap.fill_in(made) == made


@pytest.mark.parametrize(
    "text",
    ["a: &x\n  hostDir: &dir /mnt/a\nb:\n  <<: *x\n  fsType: xfs\n", "a:\n  hostDir: >-\n    /mnt/a\n  fsType: xfs\n"],
)
def test_rare_forms_of_yaml_keep_their_meaning(text: str) -> None:
    after = yaml.safe_load(bootstrap.fill_in(text))
    assert all(each["mountDir"] == "/mnt/local-storage/mnt~a" for each in after.values())
    assert {name: each["hostDir"] for name, each in after.items()} == dict.fromkeys(yaml.safe_load(text), "/mnt/a")


@pytest.mark.parametrize("text", ["", "[", "- a\n", "a: 1\n", "a: {fsType: xfs}\n", "a: {hostDir: }\n", "1: {}\n"])
def test_what_makes_no_sense_is_left_for_the_check(text: str) -> None:
    assert bootstrap.fill_in(text) == text


def test_directories_that_would_meet_inside_the_container_are_refused() -> None:
    data = bootstrap.completed({"storageClassMap": "a: {hostDir: /mnt/a~b}\nb: {hostDir: /mnt/a/b}\n"})
    with pytest.raises(errors.ConfigurationError, match=r"storageClassMap\.b\.mountDir"):
        bootstrap.plan(WISH, data)


# -- against a server --------------------------------------------------------------------------------------------------


class Server(FakeApi):
    """The fake, with PUT."""

    def _serve(self, request: Request) -> Answer:
        if request.method != "PUT":
            return super()._serve(request)
        body = msgspec.json.decode(request.body or b"", type=dict)
        self._check_version(request.path, self._find(request.path), body)
        return Answer(code=200, body=msgspec.json.encode(self.put(request.path, body)))


def a_server(**data: str) -> FakeApi:
    api = Server()
    metadata: Object = {"name": "local-volume-default-config", "namespace": "kube-system"}
    api.put(MAPS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})
    return api


async def install(api: FakeApi, wish: bootstrap.Wish = WISH) -> list[str]:
    client = Client(api, field_manager="localpv-bootstrap")
    return [line async for line in command.install(client, wish)]


@pytest.mark.seed("CFG-4")
async def test_account_bindings_and_daemon_set_are_made() -> None:
    api = a_server(storageClassMap=SEED)
    said = await install(api)
    assert said[0] == "configmaps/local-volume-default-config completed"
    assert all(line.endswith(" created") for line in said[1:])
    assert "/api/v1/namespaces/kube-system/serviceaccounts/local-storage-admin" in api.objects
    bindings = [obj for path, obj in api.objects.items() if "clusterrolebindings" in path]
    assert "system:persistent-volume-provisioner" in [each["roleRef"]["name"] for each in bindings]
    assert {each["subjects"][0]["name"] for each in bindings} == {"local-storage-admin"}
    spec = api.objects[DAEMON_SET]["spec"]["template"]["spec"]
    assert spec["serviceAccountName"] == "local-storage-admin"
    assert spec["containers"][0]["args"] == ["provisioner", "--listen-address=:8080"]
    config = next(volume for volume in spec["volumes"] if volume["name"] == "config")
    assert config["configMap"]["name"] == "local-volume-default-config"
    assert "mnt~ssds" in api.objects[MAPS]["data"]["storageClassMap"]


async def test_a_second_run_brings_up_to_date_what_the_first_made() -> None:
    api = a_server(storageClassMap=SEED)
    await install(api)
    api.objects[MAPS]["data"]["storageClassMap"] += "local-more: {hostDir: /mnt/more}\n"
    said = await install(api, bootstrap.Wish(namespace="kube-system", image="localhost/other:1"))
    assert said[0].endswith("completed")
    assert said[-1] == "daemonsets.apps/local-volume-provisioner updated"
    container = api.objects[DAEMON_SET]["spec"]["template"]["spec"]["containers"][0]
    assert container["image"] == "localhost/other:1"
    assert "/mnt/local-storage/mnt~more" in [mount["mountPath"] for mount in container["volumeMounts"]]


async def test_an_account_of_the_administrator_is_used_and_a_foreign_daemon_set_is_refused() -> None:
    api = a_server(storageClassMap=SEED)
    account = "/api/v1/namespaces/kube-system/serviceaccounts/local-storage-admin"
    api.put(account, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"namespace": "kube-system"}})
    foreign = api.put(DAEMON_SET, {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {}})
    with pytest.raises(errors.ConfigurationError, match="was not made by localpv bootstrap"):
        await install(api)
    assert api.objects[DAEMON_SET] == foreign


async def test_nothing_is_made_from_a_config_map_that_is_wrong_or_missing() -> None:
    for data in ({"storageClassMap": "a: {hostDir: etc}"}, {}, {"storageClassMap": ""}):
        api = a_server(**data)
        with pytest.raises(errors.ConfigurationError, match="local-volume-default-config is not right"):
            await install(api)
        assert set(api.objects) == {MAPS}
    with pytest.raises(errors.ConfigurationError, match="there is no ConfigMap"):
        await install(FakeApi())
