"""The compiled path of a pass on a CPU: a whole Llama-like forward pass as one machine-code function.

``intrinsics`` adds to numba what it lacks, ``kernels`` is the arithmetic, ``weights`` lays a model out for it,
``forward`` runs a pass on a team of threads and ``artefacts`` says where the machine code is kept.
"""
