"""Parts of ``bench/speculation.py``: the real pair, its peers, and the synthetic pair."""
