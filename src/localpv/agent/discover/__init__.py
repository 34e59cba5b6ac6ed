"""What is on the node becomes LocalDisks that say whether they are offered, and why not.

sighting    what one look at a discovery directory and the mount table shows of an entry
facts       what a look at the disk itself shows
rules       whether it may be offered: a table of small rules, each with its word and its sentence
rivals      which of several entries that lead to the same disk is the one that counts
standing    where on the circle a disk is, as its record tells it
survey      one look at the directory of a class
roster      all that is known about entries
keeper      the records of this node
triggers    what the kernel tells
discovery   the component that keeps the records of one node true
"""

from localpv.agent.discover.discovery import Discovery

__all__ = ["Discovery"]
