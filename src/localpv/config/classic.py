"""What the classic provisioner takes for settings that are left out, where that differs from our own defaults.

The drop-in keeps to it: its ConfigMap was written for the other program, and volumes must not change under their users.
"""

from __future__ import annotations

from dataclasses import replace

from localpv.api.kinds.localdisk import VolumeMode
from localpv.config import cleaners
from localpv.config.settings import ClassSettings, Configuration


def with_defaults(configuration: Configuration) -> Configuration:
    """The configuration as the classic provisioner would understand it."""
    return replace(configuration, classes={name: _class(each) for name, each in configuration.classes.items()})


def _class(settings: ClassSettings) -> ClassSettings:
    return replace(
        settings,
        block_cleaner=settings.block_cleaner or cleaners.FORMATTED_DEFAULT,
        volume_mode=settings.volume_mode or VolumeMode.FILESYSTEM.value,  # also for devices
        more_folders=tuple(
            replace(folder, volume_mode=folder.volume_mode or VolumeMode.FILESYSTEM.value)
            for folder in settings.more_folders
        ),
        adopt_existing=settings.adopt_existing is not False,
    )
