"""Which volume suits a claim: computed, never waited for. Binder, scheduler and groups all ask here, and so agree.

`fitting` compares one claim with one volume, `offers` finds the best of many, `wishes` reads what claims ask for beyond
their spec: to be placed together, or apart.
"""
