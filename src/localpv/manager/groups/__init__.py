"""Claims that want to be together on one node, or apart: their volumes are chosen and reserved here.

It works on both engines, because a reserved volume is bound by whoever binds. `claim_groups` says which claims belong
together, `node_choice` finds the node and the volumes, `reservations` writes, `placer` is the component.
"""
