"""The systems that ``bench/engine.py`` compares, behind one small interface (``base.py``)."""
