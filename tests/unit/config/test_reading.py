"""The ConfigMap: what it means, and what is said of one that is wrong."""

from __future__ import annotations

import textwrap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localpv.agent.discover import candidate
from localpv.api.kinds.localdisk import DiskKind
from localpv.config import classic, cleaners, reading, values
from localpv.config.globs import NamePattern
from localpv.config.settings import ClassSettings, Configuration, Folder, NodeLoss, NodeLossPolicy, Reclaim


def good(**texts: str) -> Configuration:
    loaded = reading.read({key: textwrap.dedent(text) for key, text in texts.items()})
    assert loaded.problems == ()
    assert loaded.config is not None
    return loaded.config


def bad(**texts: str) -> list[str]:
    loaded = reading.read({key: textwrap.dedent(text) for key, text in texts.items()})
    assert loaded.config is None
    return [str(problem) for problem in loaded.problems]


def class_of(text: str) -> ClassSettings:
    body = "fast:\n  hostDir: /mnt/fast\n" + textwrap.indent(textwrap.dedent(text), "  ")
    return good(storageClassMap=body).classes["fast"]


def wrong_class(text: str) -> list[str]:
    return bad(storageClassMap="fast:\n  hostDir: /mnt/fast\n" + textwrap.indent(textwrap.dedent(text), "  "))


@pytest.mark.seed("CFG-1")
def test_classic_map_names_the_directories_of_each_class() -> None:
    config = good(
        storageClassMap="""
        local-fast:
          hostDir: "/mnt/ssds"
          mountDir: "/local-ssds"
        local-slow:
          hostDir: "/mnt/hdds"
          mountDir: "/local-hdds"
        """
    )
    assert {name: (each.host_dir, each.mount_dir) for name, each in config.classes.items()} == {
        "local-fast": ("/mnt/ssds", "/local-ssds"),
        "local-slow": ("/mnt/hdds", "/local-hdds"),
    }


def test_class_has_these_defaults() -> None:
    fast = class_of("")
    assert fast == ClassSettings(name="fast", host_dir="/mnt/fast", mount_dir="/mnt/fast")
    assert (fast.volume_mode, fast.access_mode, fast.fs_type) == ("", "ReadWriteOnce", "")
    assert fast.name_pattern.matches("anything")
    assert fast.block_cleaner is None
    assert fast.fs_cleaner.method == ("fs-clean",)
    assert fast.node_loss.policy is NodeLossPolicy.WAIT


@pytest.mark.parametrize(
    ("command", "mode", "method"),
    [
        ("", "Block", "zeroout"),
        ("", "Filesystem", "fs-reset"),
        ("blockCleanerCommand: [fs-reset]", "Block", "fs-reset"),
        ("blockCleanerCommand: [blkdiscard]", "Filesystem", "blkdiscard"),
    ],
)
def test_default_cleaner_of_devices_follows_the_mode_of_the_volume(command: str, mode: str, method: str) -> None:
    assert class_of(command).cleaner(on_device=True, volume_mode=mode).method == (method,)
    assert class_of(command).cleaner(on_device=False, volume_mode="Filesystem").method == ("fs-clean",)


def test_drop_in_keeps_the_classic_default_cleaner() -> None:
    ours = good(storageClassMap="fast: {hostDir: /mnt/fast}\nown: {hostDir: /mnt/own, blockCleanerCommand: [zeroout]}")
    theirs = classic.with_defaults(ours).classes
    assert theirs["fast"].cleaner(on_device=True, volume_mode="Block").method == ("fs-reset",)
    assert theirs["own"].cleaner(on_device=True, volume_mode="Block").method == ("zeroout",)


def test_class_may_leave_the_mode_to_what_each_disk_is() -> None:
    assert class_of("volumeMode: Auto").volume_mode == "Auto"


@pytest.mark.seed("DSC-13")
def test_only_the_drop_in_offers_devices_as_file_systems_where_the_class_says_no_mode() -> None:
    ours = Configuration(classes={"none": class_of(""), "auto": class_of("volumeMode: Auto")})
    theirs = classic.with_defaults(ours).classes
    assert candidate.mode(ours.classes["none"], DiskKind.BLOCK_DEVICE) == "Block"
    assert candidate.mode(ours.classes["none"], DiskKind.MOUNT_POINT) == "Filesystem"
    assert candidate.mode(theirs["none"], DiskKind.BLOCK_DEVICE) == "Filesystem"
    assert candidate.mode(theirs["auto"], DiskKind.BLOCK_DEVICE) == "Block"


def test_only_the_drop_in_adopts_what_exists_where_the_class_says_nothing_of_it() -> None:
    ours = Configuration(classes={"none": class_of(""), "never": class_of("adoptExisting: false")})
    theirs = classic.with_defaults(ours).classes
    assert not ours.classes["none"].adopt_existing
    assert theirs["none"].adopt_existing
    assert not theirs["never"].adopt_existing
    assert class_of("adoptExisting: true").adopt_existing


def test_every_key_of_a_class_is_understood() -> None:
    fast = class_of(
        """
        mountDir: /container/fast/
        blockCleanerCommand: [/scripts/shred.sh, 2]
        fsCleanerCommand: ["/opt/clean-fs", "--now"]
        volumeMode: Block
        accessMode: ReadWriteMany
        fsType: xfs
        namePattern: nvme*,sd*
        selector:
        - matchExpressions:
          - key: rack
            operator: In
            values: [r1, 2]
        requireMountPoint: yes
        reclaim: Recycle
        nodeLoss:
          policy: delete
          grace: 1h30m
        """
    )
    assert fast == ClassSettings(
        name="fast",
        host_dir="/mnt/fast",
        mount_dir="/container/fast",
        volume_mode="Block",
        access_mode="ReadWriteMany",
        fs_type="xfs",
        name_pattern=NamePattern("nvme*,sd*"),
        selector=({"matchExpressions": [{"key": "rack", "operator": "In", "values": ["r1", "2"]}]},),
        block_cleaner=cleaners.Cleaner(("shred", "2"), ("/scripts/shred.sh", "2")),
        fs_cleaner=cleaners.Cleaner(("/opt/clean-fs", "--now"), ("/opt/clean-fs", "--now")),
        require_mount_point=True,
        reclaim=Reclaim.RECYCLE,
        node_loss=NodeLoss(policy=NodeLossPolicy.DELETE, grace_seconds=5400),
    )


def test_every_key_beside_the_classes_is_understood() -> None:
    config = good(
        nodeLabelsForPV="- topology.kubernetes.io/zone\n- rack\n",
        labelsForPV="tier: 1.10\nssd: true\nempty:\n",
        useAlphaAPI="true",
        useJobForCleaning="yes\n",
        jobTolerations="- {key: dedicated, operator: Exists, effect: NoSchedule}\n- tolerationSeconds: 5\n",
        cleaningsAtOnce="4",
        minResyncPeriod="5m30s",
        useNodeNameOnly='"on"',
        setPVOwnerRef="True",
        removeNodeNotReadyTaint="y",
        provisionerNotReadyNodeTaintKey="example.com/agent-not-ready",
    )
    assert config == Configuration(
        classes={},
        node_labels_for_pv=("topology.kubernetes.io/zone", "rack"),
        labels_for_pv={"tier": "1.10", "ssd": "true", "empty": ""},
        use_alpha_api=True,
        use_job_for_cleaning=True,
        job_tolerations=({"key": "dedicated", "operator": "Exists", "effect": "NoSchedule"}, {"tolerationSeconds": 5}),
        cleanings_at_once=4,
        min_resync_seconds=330.0,
        use_node_name_only=True,
        set_pv_owner_ref=True,
        remove_node_not_ready_taint=True,
        not_ready_taint_key="example.com/agent-not-ready",
    )


def test_empty_texts_count_as_absent() -> None:
    assert good(storageClassMap="", useAlphaAPI="\n", labelsForPV="~") == Configuration(classes={})


@pytest.mark.parametrize(
    ("command", "method"),
    [
        ("[/scripts/quick_reset.sh]", ("fs-reset",)),
        ("[/scripts/dd_zero.sh]", ("dd-zero", "1")),
        ('[/scripts/dd_zero.sh, "2"]', ("dd-zero", "2")),
        ("[/scripts/blkdiscard.sh]", ("blkdiscard",)),
        ("[zeroout]", ("zeroout",)),
        ("[/scripts/shred.sh]", ("shred", "3")),
        ("[shred, 7]", ("shred", "7")),
        ("[hdparm]", ("hdparm", "normal")),
        ("[hdparm, normal]", ("hdparm", "normal")),
        ("[nvme-format]", ("nvme-format", "user-data")),
        ("[/opt/mine.sh, -x]", ("/opt/mine.sh", "-x")),
    ],
)
def test_cleaner_is_a_built_in_method_or_a_command(command: str, method: tuple[str, ...]) -> None:
    cleaner = class_of(f"blockCleanerCommand: {command}").block_cleaner
    assert cleaner is not None and cleaner.method == method


def test_script_for_file_systems_is_the_built_in_one() -> None:
    assert class_of("fsCleanerCommand: [/scripts/fsclean.sh]").fs_cleaner == cleaners.FILE_SYSTEM_DEFAULT


def test_anchors_and_merged_maps_work() -> None:
    config = good(
        storageClassMap="""
        fast: &base {hostDir: /mnt/fast, fsType: xfs}
        slow:
          <<: *base
          hostDir: /mnt/slow
        """
    )
    assert (config.classes["slow"].fs_type, config.classes["slow"].host_dir) == ("xfs", "/mnt/slow")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("volumMode: Block", "storageClassMap.fast.volumMode: unknown key; did you mean volumeMode?"),
        ("VolumeMode: Block", "storageClassMap.fast.VolumeMode: unknown key; did you mean volumeMode?"),
        ("volumeMode: block", 'storageClassMap.fast.volumeMode: "block" is not known; did you mean Block?'),
        ("volumeMode: [Block]", "storageClassMap.fast.volumeMode: must be a string, but is a list"),
        ("accessMode: RWO", 'storageClassMap.fast.accessMode: "RWO" is not known; there are ReadWriteOnce,'),
        ("namePattern: 'a,[b'", 'storageClassMap.fast.namePattern: the glob "[b" has a [ without its ]'),
        ("namePattern: ','", 'storageClassMap.fast.namePattern: "," has no glob in it'),
        ("requireMountPoint: maybe", 'requireMountPoint: must be true or false, but is "maybe"'),
        ("requireMountPoint: 1", 'requireMountPoint: must be true or false, but is "1"'),
        ("blockCleanerCommand: /scripts/shred.sh", "blockCleanerCommand: must be a list, but is a single value"),
        ("blockCleanerCommand: []", "blockCleanerCommand: is empty; leave the key out for the default"),
        (
            "blockCleanerCommand: [ddzero]",
            "neither a built-in method nor the full path of a command; did you mean dd-zero?",
        ),
        ("blockCleanerCommand: [dd-zero, 0]", "dd-zero takes a number of passes from 1 to 100, but got 0"),
        ("blockCleanerCommand: [dd-zero, 1, 2]", "dd-zero takes one argument (passes), but got 1 2"),
        ("blockCleanerCommand: [blkdiscard, -z]", "blkdiscard takes no argument, but got -z"),
        ("blockCleanerCommand: [hdparm, hard]", "hdparm knows normal, but not hard"),
        (
            "blockCleanerCommand: [hdparm, enhanced]",
            "hdparm enhanced leaves bytes that cannot be told from old data when they are read back; use normal",
        ),
        (
            "blockCleanerCommand: [nvme-format, none]",
            "nvme-format none promises nothing about the old data; use user-data",
        ),
        ("blockCleanerCommand: [nvme-format, cryptographic]", "when they are read back; use user-data"),
        ("fsCleanerCommand: [fs-remake]", "use fs-clean, or offer the device itself with fsType"),
        ("blockCleanerCommand: [/scripts/fsclean.sh]", "fs-clean is for file systems; here can be dd-zero,"),
        ("fsCleanerCommand: [blkdiscard]", "blkdiscard is for devices; here can be fs-clean"),
        ("reclaim: Reuse", '"Reuse" is not known'),
        ("nodeLoss: forget", '"forget" is not known; there are wait, release, delete'),
        (
            "nodeLoss: {policy: wait, grace: soon}",
            'nodeLoss.grace: must be a duration such as 5m, 90s or 1h30m, but is "soon"',
        ),
        ("nodeLoss: {polcy: wait}", "nodeLoss.polcy: unknown key; did you mean policy?"),
        (
            "selector: [{matchExpressions: [{key: a, operator: In}]}]",
            "selector[0].matchExpressions[0].values: Required",
        ),
        (
            "selector: [{matchExpression: []}]",
            "selector[0].matchExpression: unknown key; did you mean matchExpressions?",
        ),
        ("fsType: xfs\nfsType: ext4", "storageClassMap.fast.fsType: duplicate key"),
        ("mountDir: mnt/fast", 'mountDir: must be a full path, but is "mnt/fast"'),
    ],
)
def test_what_is_wrong_with_a_class_is_said_with_its_place(text: str, problem: str) -> None:
    [said] = wrong_class(text)
    assert problem in said


@pytest.mark.parametrize("path", ["/", "//", "/mnt/..", "/etc", "/var/lib/kubelet/", "/dev", "", "/mnt/../etc"])
def test_directory_of_the_system_is_refused(path: str) -> None:
    [said] = bad(storageClassMap=f'fast: {{hostDir: "{path}"}}')
    assert said.startswith("storageClassMap.fast.hostDir: ")


@pytest.mark.seed("OPR-10")
def test_class_can_have_several_directories_each_with_its_volume_mode() -> None:
    fast = class_of(
        """
        volumeMode: Block
        directories:
        - {hostDir: /mnt/more, mountDir: /seen/more, volumeMode: Filesystem}
        - {hostDir: /mnt/others}
        """
    )
    assert fast.folders == (
        Folder(host_dir="/mnt/fast", mount_dir="/mnt/fast", volume_mode="Block"),
        Folder(host_dir="/mnt/more", mount_dir="/seen/more", volume_mode="Filesystem"),
        Folder(host_dir="/mnt/others", mount_dir="/mnt/others"),
    )
    assert classic.with_defaults(Configuration(classes={"fast": fast})).classes["fast"].folders[2].volume_mode == (
        "Filesystem"
    )


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("directories: [{mountDir: /a}]", "storageClassMap.fast.directories[0]: has no hostDir"),
        ("directories: [{hostDir: a}]", 'directories[0].hostDir: must be a full path, but is "a"'),
        ("directories: [{hostDir: /etc}]", "directories[0].hostDir: /etc belongs to the system"),
        ("directories: [{hostDir: /a, volumeMode: Raw}]", 'directories[0].volumeMode: "Raw" is not known'),
        ("directories: [{hostDir: /a, fsType: xfs}]", "directories[0].fsType: unknown key"),
        ("directories: /a", "storageClassMap.fast.directories: must be a list"),
        ("directories: [{hostDir: /mnt/fast}]", "directories[0].hostDir: /mnt/fast is named twice"),
        ("directories: [{hostDir: /mnt/fast/a}]", "directories[0].hostDir: /mnt/fast/a of class fast lies inside"),
        ("directories: [{hostDir: /mnt}]", "directories[0].hostDir: /mnt/fast of class fast lies inside /mnt"),
        ("directories: [{hostDir: /a, mountDir: /mnt/fast}]", "directories[0].mountDir: /mnt/fast is named twice"),
        (
            "directories: [" + ", ".join(f"{{hostDir: /mnt/more{number}}}" for number in range(9)) + "]",
            "directories: has 9 directories; at most 8 are watched",
        ),
    ],
)
def test_what_is_wrong_with_a_further_directory_is_said_with_its_place(text: str, problem: str) -> None:
    [said] = wrong_class(text)
    assert problem in said


def test_further_directory_of_one_class_is_not_a_directory_of_another() -> None:
    [said] = bad(
        storageClassMap="""
        fast: {hostDir: /mnt/fast, directories: [{hostDir: /mnt/slow}]}
        slow: {hostDir: /mnt/slow}
        """
    )
    assert said.startswith("storageClassMap.slow.hostDir: /mnt/slow is the directory of class fast too")


def test_devices_can_be_picked_by_name_from_dev() -> None:
    config = good(storageClassMap='fast: {hostDir: /dev, namePattern: "nvme[1-9]n1"}')
    assert config.classes["fast"].host_dir == "/dev"


@pytest.mark.parametrize(
    ("key", "text", "problem"),
    [
        ("storageClassMap", "- fast", "storageClassMap: must be a map, but is a list"),
        ("storageClassMap", "fast:", "storageClassMap.fast: has no hostDir"),
        ("storageClassMap", "fast: {mountDir: /a}", "storageClassMap.fast: has no hostDir"),
        ("storageClassMap", "Fast: {hostDir: /a}", 'storageClassMap.Fast: "Fast" is no name of a StorageClass'),
        ("storageClassMap", "fast: {hostDir: /a\n", "storageClassMap: line 2: cannot be read as YAML"),
        ("storageClassMap", "fast: \x07", "storageClassMap: cannot be read as YAML"),
        ("nodeLabelsForPV", "- 'a b'", 'nodeLabelsForPV[0]: "a b" is no key of a label'),
        ("labelsForPV", "a: x y", 'labelsForPV.a: "x y" is no value of a label'),
        ("labelsForPV", "a b: x", 'labelsForPV.a b: "a b" is no key of a label'),
        ("cleaningsAtOnce", "0", "cleaningsAtOnce: must be from 1 to 32, but is 0"),
        ("minResyncPeriod", "5", 'minResyncPeriod: must be a duration such as 5m, 90s or 1h30m, but is "5"'),
        ("jobTolerations", "- {effect: Never}", 'jobTolerations[0].effect: "Never" is not known'),
        ("jobTolerations", "- {tolerationSeconds: x}", "tolerationSeconds: must be a whole number"),
        ("provisionerNotReadyNodeTaintKey", "a b", 'provisionerNotReadyNodeTaintKey: "a b" is no key of a taint'),
        ("storageClasMap", "", "storageClasMap: unknown key; did you mean storageClassMap?"),
    ],
)
def test_what_is_wrong_beside_the_classes_is_said_with_its_place(key: str, text: str, problem: str) -> None:
    [said] = bad(**{key: text})
    assert problem in said


def test_everything_that_is_wrong_is_said_at_once() -> None:
    said = bad(storageClassMap="a: {hostDir: x}\nb: {hostDir: /b, fstype: x}\n", useAlphaAPI="perhaps", what="")
    assert [line.partition(": ")[0] for line in said] == [
        "what",
        "storageClassMap.a.hostDir",
        "storageClassMap.b.fstype",
        "useAlphaAPI",
    ]


def test_document_that_contains_itself_ends() -> None:
    said = bad(storageClassMap="a: {hostDir: /a, selector: &me [*me]}")
    assert said


@pytest.mark.parametrize(
    ("classes", "problem"),
    [
        ("a: {hostDir: /mnt}\nb: {hostDir: /mnt/}", "/mnt is the directory of class a too"),
        ("a: {hostDir: /mnt}\nb: {hostDir: /mnt/b/c}", "/mnt/b/c of class b lies inside /mnt of class a"),
        ("a: {hostDir: /mnt/b/c}\nb: {hostDir: /mnt}", "/mnt/b/c of class a lies inside /mnt of class b"),
        ("a: {hostDir: /x, mountDir: /m}\nb: {hostDir: /y, mountDir: /m}", "/m is the directory of class a too"),
    ],
)
def test_two_classes_never_offer_the_same_disk(classes: str, problem: str) -> None:
    [said] = bad(storageClassMap=classes)
    assert problem in said
    assert said.startswith("storageClassMap.b.")


@pytest.mark.parametrize(
    "classes",
    [
        "a: {hostDir: /mnt/a}\nb: {hostDir: /mnt/ab}",
        "a: {hostDir: /dev, namePattern: nvme*}\nb: {hostDir: /dev, namePattern: sd*}",
        "a: {hostDir: /mnt, namePattern: disk*}\nb: {hostDir: /mnt/other}",
    ],
)
def test_classes_side_by_side_are_fine(classes: str) -> None:
    assert set(good(storageClassMap=classes).classes) == {"a", "b"}


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("5m", 300), ("1h30m", 5400), ("1.5s", 1.5), ("250ms", 0.25), ("0", 0), ("-5m", None), ("", None), ("5 m", None)],
)
def test_durations_are_read_as_go_writes_them(text: str, seconds: float | None) -> None:
    assert values.duration(text) == seconds


@given(st.dictionaries(st.sampled_from(reading.KEYS), st.text(max_size=60)))
def test_no_text_makes_reading_fail(texts: dict[str, str]) -> None:
    loaded = reading.read(texts)
    assert (loaded.config is None) is bool(loaded.problems)
