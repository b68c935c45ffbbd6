#!/bin/sh
# One call, without network, meant to take under 4 minutes on an H200: the kernels on this machine's GPU against the CPU,
# the bits of rows and graphs, and passes against the bandwidth floor. Uses .venv when it is there, else python3. An
# argument names the device (default cuda; cpu tries the command on a tiny model).
set -eu
cd "$(dirname "$0")/.."
PYTHON=python3
[ -x .venv/bin/python ] && PYTHON=.venv/bin/python
exec "$PYTHON" -m bench.gpu_check "${1:-cuda}"
