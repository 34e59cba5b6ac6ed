"""Which volume suits a claim: computed, never waited for. Binder, scheduler and groups all ask here, and so agree.

`fit` compares one claim with one volume, `volume_index` finds the best of many, `placement_annotations` reads what
claims ask for beyond their spec: to be placed together, or apart.
"""
