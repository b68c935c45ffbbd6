#!/bin/sh
# One call, without network, under 5 minutes: the engine on this machine's GPU against the CPU, and passes against the
# bandwidth floor. Uses .venv when it is there, else python3. An argument names the device (default cuda).
set -eu
cd "$(dirname "$0")/.."
PYTHON=python3
[ -x .venv/bin/python ] && PYTHON=.venv/bin/python
exec "$PYTHON" -m bench.gpu_check "${1:-cuda}"
