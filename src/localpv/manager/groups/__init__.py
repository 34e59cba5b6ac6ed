"""Claims that want to be together on one node, or apart: their volumes are chosen and reserved here.

It works on both engines, because a reserved volume is bound by whoever binds. `parties` says which claims belong
together, `choosing` finds the node and the volumes, `holding` writes, `placer` is the component.
"""
