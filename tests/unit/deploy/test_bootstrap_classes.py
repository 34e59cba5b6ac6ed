"""The StorageClasses that a bootstrap makes, or asks for by name."""

from __future__ import annotations

import pytest
from tests.unit.deploy.test_bootstrap import DAEMON_SET, SEED, a_server, install

from localpv import errors
from localpv.client.transport import Answer, Request

CLASSES = "/apis/storage.k8s.io/v1/storageclasses"


@pytest.mark.seed("CFG-9")
async def test_missing_classes_are_made_and_others_stay_as_they_are() -> None:
    api = a_server(storageClassMap=SEED)
    api.put(f"{CLASSES}/local-fast", {"metadata": {"name": "local-fast"}, "provisioner": "mine"})
    said = await install(api)
    assert "storageclasses.storage.k8s.io/local-fast unchanged" in said
    assert "storageclasses.storage.k8s.io/local-slow created" in said
    assert api.objects[f"{CLASSES}/local-fast"]["provisioner"] == "mine"
    assert api.objects[f"{CLASSES}/local-slow"]["volumeBindingMode"] == "WaitForFirstConsumer"


@pytest.mark.seed("CFG-9")
async def test_classes_that_may_not_be_made_are_asked_for_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    api = a_server(storageClassMap=SEED)
    serve = api._serve

    def forbid(request: Request) -> Answer:
        if request.path.startswith(CLASSES):
            raise errors.Forbidden("storageclasses is forbidden")
        return serve(request)

    monkeypatch.setattr(api, "_serve", forbid)
    with pytest.raises(errors.ConfigurationError, match="StorageClass local-fast, local-slow may not be") as caught:
        await install(api)
    assert "kubernetes.io/no-provisioner" in caught.value.hint
    assert DAEMON_SET in api.objects, "the rest is made all the same"
