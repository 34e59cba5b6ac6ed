"""A disk becomes a volume, whatever goes wrong on the way."""

from __future__ import annotations

import dataclasses

import pytest
from tests.unit.manager import worlds
from tests.unit.manager.worlds import CLASS, HOST_DIR, NODE, NODE_UID, World, replace

from localpv import errors
from localpv.api import well_known
from localpv.api.kinds.localdisk import Cleaning, CleaningState, OfferedVolume, Phase
from localpv.api.kinds.meta import ObjectMeta
from localpv.api.kinds.volumes import LocalVolumeSource, PersistentVolume, PersistentVolumeSpec
from localpv.disk import labels
from localpv.manager.publish import names

SHORT = names.volume_name("disk1", NODE, CLASS)
LONG = names.long_volume_name("disk1", NODE, CLASS)


@pytest.fixture
def world() -> World:
    return World()


def a_classic_volume(world: World, name: str = SHORT, *, node: str = NODE, path: str = f"{HOST_DIR}/disk1",
                     phase: str = "Available") -> PersistentVolume:  # fmt: skip
    """A volume as the classic provisioner leaves it behind."""
    version = str(next(world.volumes.versions))
    annotations = {well_known.PROVISIONED_BY: f"local-volume-provisioner-{node}-{NODE_UID}"}
    spec = PersistentVolumeSpec(
        storage_class_name=CLASS, local=LocalVolumeSource(path=path), persistent_volume_reclaim_policy="Delete"
    )
    volume = PersistentVolume(
        metadata=ObjectMeta(name=name, uid=f"classic-{version}", resource_version=version, annotations=annotations),
        spec=spec,
    )
    world.volumes.now[name] = replace(volume, status=replace(volume.status, phase=phase))
    return world.volumes.now[name]


@pytest.mark.seed("DSC-1", "DSC-6")
def test_eligible_disk_gets_a_volume_and_remembers_its_uid_and_its_own_identity(world: World) -> None:
    volume = world.published()
    assert volume.key == SHORT
    recorded = OfferedVolume(name=SHORT, uid=volume.metadata.uid, reclaim_policy="Delete")
    assert world.disk.spec.volume == recorded
    assert world.disk.spec.identity == world.disk.status.identity
    assert "VolumePublished" in world.events.reasons(SHORT)


def test_volume_of_our_own_is_told_as_published_also_when_the_agent_writes_in_between(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    world.find_disk()
    world.volumes.before_create.append(lambda _: world.report(message="seen meanwhile"))
    world.settle()
    assert world.disk.spec.volume is not None and world.disk.spec.volume.uid
    assert world.events.reasons(SHORT).count("VolumePublished") == 1
    assert "published disk=" in caplog.text
    assert "adopted" not in caplog.text


@pytest.mark.seed("DSC-2")
def test_published_disk_gets_no_second_volume(world: World) -> None:
    world.published()
    calls = world.weather.calls
    world.settle()
    assert len(world.volumes.now) == 1
    assert world.weather.calls == calls, "nothing to do costs no call"


@pytest.mark.seed("DSC-3")
def test_disks_that_come_later_are_published(world: World) -> None:
    world.published()
    world.find_disk("disk2")
    world.settle()
    assert len(world.volumes.now) == 2


@pytest.mark.parametrize(
    "status",
    [
        {"eligible": False},
        {"eligible": None},
        {"phase": Phase.UNAVAILABLE},
        {"phase": ""},
        {"identity": None},
        {"cleaning": Cleaning(volume_uid="x", state=CleaningState.FAILED)},
        {"cleaning": Cleaning(volume_uid="x", state=CleaningState.RUNNING)},
    ],
    ids=str,
)
@pytest.mark.seed("DSC-8", "DEL-6")
def test_disk_that_is_not_fit_or_not_clean_gets_no_volume(world: World, status: dict[str, object]) -> None:
    world.find_disk()
    world.report(**status)
    world.settle()
    assert not world.volumes.now
    assert world.disk.spec.volume is None


@pytest.mark.seed("DSC-7")
def test_creation_that_fails_is_not_remembered_as_done(world: World) -> None:
    world.find_disk()
    world.see()
    world.weather.calls_left, world.weather.error = 1, lambda: errors.InternalError("no")
    with pytest.raises(errors.InternalError):
        world.step()
    assert not world.volumes.now
    assert "VolumeFailedCreate" in world.events.reasons(world.name)
    world.look()
    world.settle()
    assert world.disk.spec.volume is not None and world.disk.spec.volume.uid


def test_failing_server_is_not_asked_in_circles(world: World) -> None:
    world.find_disk()
    for _ in range(5):
        world.see()
        world.weather.calls_left = 1 if world.disk.spec.volume is None else 2
        world.weather.error = lambda: errors.InternalError("no")
        with pytest.raises(errors.InternalError):
            world.step()
        world.look()
        assert world.disk.spec.volume == OfferedVolume(name=SHORT), "the intent stays, so the back-off grows"


@pytest.mark.seed("DSC-7", "DSC-2")
@pytest.mark.parametrize("takes_effect", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("calls", range(6))
def test_manager_that_dies_at_any_call_publishes_the_disk_once(world: World, calls: int, takes_effect: bool) -> None:
    world.find_disk()
    world.weather.calls_left, world.weather.takes_effect = calls, takes_effect
    try:
        world.settle()
    except worlds.Killed:
        world.look()
        world.restart()
    for _ in range(3):
        world.settle()
        world.look()
    (volume,) = world.volumes.now.values()
    assert world.disk.spec.volume is not None
    assert world.disk.spec.volume.uid == volume.metadata.uid


def test_intent_from_before_a_crash_is_judged_anew(world: World) -> None:
    world.find_disk()
    world.weather.calls_left = 1
    with pytest.raises(worlds.Killed):
        world.settle()
    world.restart()
    world.fits = False
    world.look()
    world.settle()
    assert not world.volumes.now
    assert world.disk.spec.volume is None
    assert world.disk.spec.identity is None


def test_disk_that_was_changed_between_intent_and_volume_is_recorded_as_it_is_now(world: World) -> None:
    world.find_disk()
    world.see()
    world.weather.calls_left, world.weather.error = 1, lambda: errors.InternalError("no")
    with pytest.raises(errors.InternalError):
        world.step()
    world.report(identity=replace(world.disk.status.identity, serial="other"), phase=Phase.PUBLISHED)
    world.settle()
    assert world.disk.spec.identity is not None and world.disk.spec.identity.serial == "other"


def test_missing_class_is_told_and_waited_for(world: World) -> None:
    classes, world.listers.classes = world.listers.classes, {}
    world.find_disk()
    world.settle()
    (condition,) = world.disk.status.conditions
    assert (condition.type, condition.status, condition.reason) == ("Offered", "False", "NoStorageClass")
    assert world.events.reasons(world.name) == ["NoStorageClass"], "told once"
    world.listers.classes = classes
    world.settle()
    assert world.volume is not None
    assert world.disk.status.conditions == ()


@pytest.mark.seed("DSC-4")
def test_disk_of_a_class_that_is_not_configured_gets_no_volume(world: World) -> None:
    world.listers.configuration = dataclasses.replace(world.listers.configuration, classes={})
    world.find_disk()
    world.settle()
    assert world.volume is None
    assert world.disk.status.conditions[0].reason == "NotConfigured"


@pytest.mark.seed("OPR-18")
def test_disk_of_a_local_storage_that_is_gone_gets_no_volume_though_others_have_its_class(world: World) -> None:
    """Its rules are left on a node that was away when it was deleted."""
    configuration = world.listers.configuration

    def served(*storages: str) -> None:
        its = dataclasses.replace(
            configuration.classes[CLASS], from_local_storage=True, local_storages=frozenset(storages)
        )
        world.listers.configuration = dataclasses.replace(configuration, classes={CLASS: its})

    served("localpv-system/other")
    world.find_disk()
    world.report(matched_by="localpv-system/gone nodes[0].devices[0].deviceNames[0]")
    world.settle()
    assert world.volume is None
    assert world.disk.status.conditions[0].reason == "NoLocalStorage"
    assert "The next discoverer that starts there" in world.disk.status.conditions[0].message

    served("localpv-system/other", "localpv-system/gone")
    world.settle()
    assert world.volume is not None


# Volumes that are there already.


@pytest.mark.parametrize("phase", ["Available", "Bound", "Released"])
@pytest.mark.seed("DSC-2", "DSC-11")
def test_volume_of_the_classic_provisioner_is_taken_over_in_any_phase(world: World, phase: str) -> None:
    classic = a_classic_volume(world, phase=phase)
    world.find_disk()
    if phase == "Bound":
        world.report(phase=Phase.UNAVAILABLE, eligible=False)
    world.volumes.now[SHORT] = replace(
        classic, metadata=replace(classic.metadata, labels={labels.NODE: NODE})
    )  # as the scan at the start leaves it
    world.see()
    world.step()
    (volume,) = world.volumes.now.values()
    assert volume.metadata.uid == classic.metadata.uid
    assert world.disk.spec.volume is not None and world.disk.spec.volume.uid == classic.metadata.uid
    assert world.disk.spec.identity == world.disk.status.identity


def test_volume_of_the_classic_provisioner_that_appears_later_is_taken_over_by_its_name(world: World) -> None:
    world.find_disk()
    classic = a_classic_volume(world)
    world.settle()
    (volume,) = world.volumes.now.values()
    assert volume.metadata.uid == classic.metadata.uid
    assert volume.metadata.labels[labels.NODE] == NODE


def test_name_that_is_taken_by_another_disk_gets_a_longer_hash(world: World) -> None:
    a_classic_volume(world, node="n2", path="/mnt/disks/other")
    world.find_disk()
    world.settle()
    assert set(world.volumes.now) == {SHORT, LONG}
    assert world.disk.spec.volume is not None and world.disk.spec.volume.name == LONG


def test_disk_whose_names_are_both_taken_says_so(world: World) -> None:
    for name in (SHORT, LONG):
        a_classic_volume(world, name, node="n2")
    world.find_disk()
    world.settle()
    assert world.disk.status.conditions[0].reason == "NameTaken"
    assert {volume.metadata.uid[:7] for volume in world.volumes.now.values()} == {"classic"}


def test_record_that_was_lost_is_made_again_from_the_volume_with_the_identity_of_old(world: World) -> None:
    volume = world.published()
    identity = world.disk.spec.identity
    world.bind()
    del world.records.disks[world.name]
    world.find_disk()
    world.report(identity=replace(identity, serial="swapped"))
    world.settle()
    assert world.disk.spec.volume is not None and world.disk.spec.volume.uid == volume.metadata.uid
    assert world.disk.spec.identity == identity


def test_volume_that_says_nothing_of_its_disk_is_recorded_with_the_identity_that_was_intended(world: World) -> None:
    world.find_disk()
    intended = world.disk.status.identity
    assert intended is not None
    spec = replace(world.disk.spec, volume=OfferedVolume(name=SHORT), identity=intended)
    world.records.change(world.disk, spec=spec)
    classic = a_classic_volume(world)
    world.report(identity=replace(intended, serial="swapped"))
    world.settle()
    assert world.disk.spec.volume is not None and world.disk.spec.volume.uid == classic.metadata.uid
    assert world.disk.spec.identity == intended


def test_identity_that_is_left_of_an_order_by_hand_says_nothing_about_a_volume(world: World) -> None:
    world.find_disk()
    seen = world.disk.status.identity
    assert seen is not None
    world.records.change(world.disk, spec=replace(world.disk.spec, identity=replace(seen, serial="of an order")))
    classic = a_classic_volume(world)
    world.volumes.change(SHORT, metadata=replace(classic.metadata, labels={labels.NODE: NODE}))
    world.settle()
    assert world.disk.spec.volume is not None and world.disk.spec.volume.uid == classic.metadata.uid
    assert world.disk.spec.identity == seen


def test_volume_is_not_taken_over_before_its_disk_has_been_looked_at(world: World) -> None:
    world.find_disk()
    world.report(identity=None)
    classic = a_classic_volume(world)
    world.volumes.change(SHORT, metadata=replace(classic.metadata, labels={labels.NODE: NODE}))
    world.settle()
    assert world.disk.spec.volume is None
    assert world.disk.status.conditions[0].reason == "UnknownIdentity"


def test_unused_volume_that_is_on_its_way_out_is_not_taken_over(world: World) -> None:
    volume = world.published()
    world.volumes.set_others("others/hold")
    world.volumes.remove(volume.key)
    world.records.change(world.disk, spec=replace(world.disk.spec, volume=None, identity=None))
    world.look()
    world.settle()
    assert world.disk.spec.volume is None, "others hold it still"
    world.volumes.set_others()
    world.settle()
    assert world.volume is not None and world.volume.metadata.uid != volume.metadata.uid
    assert world.disk.spec.clean is None


@pytest.mark.parametrize("change", ["class", "maker", "disk"])
def test_path_that_a_volume_of_another_offers_is_not_offered_again(world: World, change: str) -> None:
    found = a_classic_volume(world, "others")
    meta = replace(found.metadata, labels={labels.NODE: NODE})
    if change == "class":
        found = replace(found, spec=replace(found.spec, storage_class_name="slow"))
    elif change == "maker":
        meta = replace(meta, annotations={})
    else:
        meta = replace(meta, annotations={**meta.annotations, labels.DISK: "another-disk"})
    world.volumes.now["others"] = replace(found, metadata=meta)
    world.find_disk()
    world.settle()
    assert set(world.volumes.now) == {"others"} and world.disk.spec.volume is None
    assert world.disk.status.conditions[0].reason == "PathTaken"
    assert "others" in world.disk.status.conditions[0].message
    world.volumes.now.clear()
    world.settle()
    assert set(world.volumes.now) == {SHORT}


def test_volume_that_was_seen_but_is_gone_is_not_taken_over(world: World) -> None:
    world.published()
    stale = dict(world.volumes.cached)
    world.volumes.now.clear()
    world.records.change(world.disk, spec=replace(world.disk.spec, volume=None, identity=None))
    world.look()
    world.see()
    world.volumes.cached = stale
    world.step()
    assert world.volume is not None
    assert world.disk.spec.volume is not None and world.disk.spec.volume.uid == world.volume.metadata.uid
    assert world.disk.spec.clean is None


# Offers that are taken back.


@pytest.mark.parametrize("missing", [False, True], ids=["unfit", "missing"])
def test_offer_of_a_disk_that_is_not_fit_any_more_is_taken_back_without_cleaning(world: World, missing: bool) -> None:
    world.published()
    world.fits, world.missing = False, missing
    world.look()
    world.settle()
    assert not world.volumes.now
    assert world.disk.spec.volume is None
    assert world.disk.spec.clean is None
    assert "VolumeWithdrawn" in world.events.reasons()
    world.fits, world.missing = True, False
    world.look()
    world.settle()
    assert world.volume is not None


@pytest.mark.seed("DEL-2")
@pytest.mark.parametrize("phase", ["Bound", "Released", "Pending", "Failed"])
def test_volume_in_any_other_phase_stays_when_its_disk_is_not_fit(world: World, phase: str) -> None:
    world.published()
    world.bind()
    world.settle()
    world.volumes.phase(SHORT, phase)
    world.policy("Retain")
    world.missing = True
    world.look()
    world.settle()
    assert world.volume is not None


@pytest.mark.parametrize("takes_effect", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("calls", range(8))
def test_manager_that_dies_while_it_takes_an_offer_back_never_orders_a_cleaning(
    world: World, calls: int, takes_effect: bool
) -> None:
    world.published()
    world.fits = False
    world.look()
    world.weather.calls_left, world.weather.takes_effect = calls, takes_effect
    try:
        world.settle()
    except worlds.Killed:
        world.restart()
    world.look()
    world.settle()
    assert not world.volumes.now
    assert (world.disk.spec.volume, world.disk.spec.clean) == (None, None)


def test_volume_that_is_claimed_while_its_offer_is_taken_back_stays(world: World) -> None:
    world.published()
    world.fits = False
    world.look()
    world.see()
    world.step()
    assert world.disk.spec.volume == OfferedVolume(name=SHORT), "the first step"
    world.bind()
    world.settle()
    assert world.volume is not None
    assert world.disk.spec.volume is not None and world.disk.spec.volume.uid == world.volume.metadata.uid


def test_used_offer_that_others_keep_from_going_is_taken_back_once_and_cleaned_when_it_is_gone(world: World) -> None:
    world.by_cluster, world.volumes.holds = True, False
    used = world.published()
    world.bind()
    world.release()
    world.volumes.change(SHORT, spec=worlds.replace(used.spec, claim_ref=None))
    world.volumes.phase(SHORT, "Available")
    world.volumes.set_others("others/hold")
    world.fits, world.dirty = False, ""
    world.look()
    world.settle()  # which comes to rest
    assert world.volume is not None and world.volume.metadata.deleting
    assert world.disk.spec.volume is not None and world.disk.spec.volume.uid == used.metadata.uid
    world.volumes.set_others()
    world.settle()
    assert world.volume is None
    assert world.disk.spec.clean is not None and world.disk.spec.clean.volume_uid == used.metadata.uid


def test_each_step_of_an_offer_is_told_and_counted_once(world: World) -> None:
    world.find_disk()
    world.see()
    world.weather.calls_left, world.weather.error = 1, lambda: errors.InternalError("no")
    with pytest.raises(errors.InternalError):
        world.step()
    assert (world.name, "VolumeFailedCreate") in world.events.warnings
    assert world.figures.counted == ["refused Filesystem"]
    world.look()
    world.settle()
    world.look()
    world.settle()
    assert world.figures.counted == ["refused Filesystem", "published Filesystem"]
    world.fits = False
    world.look()
    world.report(message="It is mounted elsewhere.")
    world.settle()
    assert (SHORT, "VolumeWithdrawn") in world.events.warnings
    withdrawn = [message for _, reason, message in world.events.told if reason == "VolumeWithdrawn"]
    assert withdrawn == ["The disk cannot be offered any more: It is mounted elsewhere."]
    assert world.figures.counted[2:] == ["withdrawn Filesystem"]
    assert world.disk.spec.volume is None


def test_offer_is_withdrawn_in_words_even_if_the_agent_has_only_one(world: World) -> None:
    world.published()
    world.fits = False
    world.look()
    world.report(message="", reason="Mounted")
    world.settle()
    assert ("The disk cannot be offered any more: Mounted") in [message for _, _, message in world.events.told]


def test_offer_that_others_hold_is_forgotten_only_when_it_is_gone(world: World) -> None:
    world.published()
    world.volumes.holds = False
    world.volumes.set_others("others/hold")
    world.fits = False
    world.look()
    world.settle()
    assert world.disk.spec.volume is not None
    world.volumes.set_others()
    world.settle()
    assert world.disk.spec.volume is None


def test_missing_class_is_asked_for_once_on_the_node_with_all_that_are_missing(world: World) -> None:
    classes = {CLASS: worlds.settings(), "slow": dataclasses.replace(worlds.settings(), name="slow")}
    world.listers.configuration = dataclasses.replace(world.listers.configuration, classes=classes)
    there = {**world.listers.classes}
    world.find_disk()
    world.listers.classes = {}
    world.settle()
    world.settle()
    asked = [message for about, reason, message in world.events.told if (about, reason) == (NODE, "NoStorageClass")]
    assert len(asked) == 1 and f"There is no StorageClass {CLASS}, slow;" in asked[0]
    assert (NODE, "NoStorageClass") in world.events.warnings
    assert world.disk.status.conditions[0].reason == "NoStorageClass"
    world.listers.classes = there
    world.settle()
    assert world.volume is not None
    assert world.disk.status.conditions == ()


def test_class_that_is_there_is_not_asked_for(world: World) -> None:
    slow = dataclasses.replace(worlds.settings(), name="slow")
    classes = {CLASS: worlds.settings(), "slow": slow}
    world.listers.configuration = dataclasses.replace(world.listers.configuration, classes=classes)
    world.listers.classes = {"slow": world.listers.classes[CLASS]}
    world.find_disk()
    world.settle()
    asked = [message for about, reason, message in world.events.told if (about, reason) == (NODE, "NoStorageClass")]
    assert len(asked) == 1 and f"There is no StorageClass {CLASS};" in asked[0]


def test_disk_of_a_node_that_is_not_there_is_not_published_and_asks_for_nothing(world: World) -> None:
    world.listers.nodes = {}
    world.find_disk()
    world.settle()
    assert world.volume is None
    assert world.disk.status.conditions[0].reason == "NoNode"
    world.listers.classes = {}
    world.settle()
    assert world.disk.status.conditions[0].reason == "NoStorageClass"
    assert "NoStorageClass" not in world.events.reasons(NODE)


def test_trouble_is_over_when_the_disk_is_not_fit_any_more(world: World) -> None:
    world.listers.nodes = {}
    world.find_disk()
    world.settle()
    assert world.disk.status.conditions
    world.fits = False
    world.look()
    world.settle()
    assert world.disk.status.conditions == ()


def test_volume_that_appears_just_before_ours_is_adopted_or_left_alone(world: World) -> None:
    for path in (f"{HOST_DIR}/disk1", "/elsewhere"):
        one = World()
        one.find_disk()
        one.volumes.before_create.clear()
        one.see()

        def appears(world: World = one, path: str = path) -> None:
            a_classic_volume(world, path=path)

        real = one.volumes._create
        once = iter([appears])

        def create(volume: object, real: object = real, once: object = once) -> PersistentVolume:
            next(once, lambda: None)()  # type: ignore[call-overload]
            return real(volume)  # type: ignore[operator, no-any-return]

        one.volumes._create = create  # type: ignore[method-assign, assignment]
        one.step()
        one.look()
        one.settle()
        assert one.disk.spec.volume is not None
        assert one.disk.spec.volume.name == (SHORT if path.startswith(HOST_DIR) else LONG)
        assert one.volumes.now[SHORT].spec.local is not None and one.volumes.now[SHORT].spec.local.path == path


def test_name_that_is_taken_and_free_again_at_once_is_tried_again(world: World) -> None:
    world.find_disk()
    world.see()
    world.weather.calls_left, world.weather.error = 1, lambda: errors.AlreadyExists("taken")
    with pytest.raises(errors.AlreadyExists):
        world.step()
    world.look()
    world.settle()
    assert world.volume is not None


def test_intent_of_this_process_counts_only_while_the_agent_calls_the_disk_published(world: World) -> None:
    world.find_disk()
    world.see()
    world.weather.calls_left, world.weather.error = 1, lambda: errors.InternalError("no")
    with pytest.raises(errors.InternalError):
        world.step()
    world.report(phase=Phase.UNAVAILABLE, eligible=True)
    world.see()
    world.step()
    assert world.disk.spec.volume is None and not world.volumes.now, "it is judged anew"


def test_intent_from_before_a_restart_is_given_up_and_the_disk_judged_anew(world: World) -> None:
    world.find_disk()
    world.see()
    world.weather.calls_left, world.weather.error = 1, lambda: errors.InternalError("no")
    with pytest.raises(errors.InternalError):
        world.step()
    world.look()
    world.restart()
    world.step()
    assert world.disk.spec.volume is None and not world.volumes.now


def test_volume_that_was_adopted_is_not_said_to_be_ours(world: World) -> None:
    found = a_classic_volume(world)
    world.find_disk()
    world.settle()
    assert world.disk.spec.volume is not None and world.disk.spec.volume.uid == found.metadata.uid
    assert "VolumePublished" not in world.events.reasons(SHORT)
