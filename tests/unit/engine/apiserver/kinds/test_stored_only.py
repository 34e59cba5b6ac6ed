"""Kinds that nothing here acts on: whoever writes one is told so."""

from __future__ import annotations

import pytest

from localpv.engine.apiserver.kinds import replicationcontroller, webhookconfiguration


@pytest.mark.parametrize(
    "kind", [webhookconfiguration.ValidatingWebhookConfiguration, webhookconfiguration.MutatingWebhookConfiguration]
)
def test_that_no_webhook_is_called_is_said(kind: type[webhookconfiguration.ValidatingWebhookConfiguration]) -> None:
    (told,) = kind().warnings({"metadata": {"name": "a"}, "webhooks": [{"name": "a.b.c"}]})
    assert told.startswith("no webhook is called here")
    assert kind().warnings({"metadata": {"name": "a"}}) == []


def test_that_no_pods_are_made_is_said() -> None:
    (told,) = replicationcontroller.ReplicationController().warnings({"metadata": {"name": "a"}})
    assert told.startswith("no pods are made for a ReplicationController here")
