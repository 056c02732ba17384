# make [build] · demo · test · test-full · lint · format · bench · bench-peers · models · trt · neon · docs ·
# wheel · install · clean
#
# BUILD=DIR        build folder (build)
# PREFIX, DESTDIR  where `make install` puts things (/usr/local)
# PYTEST_ARGS      more arguments for pytest, for example PYTEST_ARGS='-k conv -x'
# ORT_LIB=PATH     the runtime that the build uses unless told otherwise (the newest one fetched)
# CMAKE_ARGS       more arguments for the release configuration
# MODELS           the real models that `make models` measures (all)

BUILD ?= build
PREFIX ?= /usr/local
JOBS ?= $(shell nproc)

# Fetched by tools/setup, so it need not be there yet while make reads this.
ORT_VERSION := $(shell sed -n 's/^readonly ort_newest=\([0-9.]*\).*/\1/p' tools/setup)
ORT_LIB ?= .deps/onnxruntime-$(ORT_VERSION)/libonnxruntime.so.$(ORT_VERSION)

# Recent runtimes look a server up when an environment is created.
export ORT_DISABLE_TELEMETRY := 1

# What demo, tests and benchmarks find the build by.
export ONNXPTQ_CLI := $(abspath $(BUILD))/onnxptq
export ONNXPTQ_LIBRARY := $(abspath $(BUILD))/libonnxptq.so
export ONNXPTQ_TEST_OPS := $(abspath $(BUILD))/test-ops
export ONNXPTQ_MODELS := $(CURDIR)/.deps/models
export BUILD JOBS PYTEST_ARGS

# `make -k` compiles what it can.
keep_going := $(if $(findstring k,$(firstword -$(MAKEFLAGS))),-k)

# $(call compile,FOLDER,CMAKE OPTIONS): silent unless something is wrong; one at a time per folder.
define compile
	@[ -f '$(ORT_LIB)' ] || { echo "make: error: no runtime at '$(ORT_LIB)' (ORT_LIB)" >&2; exit 1; }
	@mkdir -p $1
	@flock $1/.lock sh -c 'cmake -S . -B $1 --log-level=WARNING -Wno-dev \
	    -DONNXPTQ_DEFAULT_ORT_LIB="$(abspath $(ORT_LIB))" $2 >$1/configure.log 2>&1 \
	    || { cat $1/configure.log >&2; exit 1; }; \
	    MAKEFLAGS= cmake --build $1 -j $(JOBS) -- --no-print-directory --quiet $(keep_going)'
endef

.PHONY: build
build:
	@tools/setup build
	$(call compile,$(BUILD),-DCMAKE_BUILD_TYPE=Release $(CMAKE_ARGS))
	@tools/check-deps

.PHONY: asan
asan:
	@tools/setup build test
	$(call compile,$(BUILD)/asan,-DCMAKE_BUILD_TYPE=Debug -DONNXPTQ_SANITIZE=ON -DONNXPTQ_TESTS=ON)

.PHONY: fuzz-build
fuzz-build:
	@tools/setup fuzz
	$(call compile,$(BUILD)/fuzz,-DCMAKE_C_COMPILER=clang -DCMAKE_BUILD_TYPE=Debug \
	    -DONNXPTQ_SANITIZE=ON -DONNXPTQ_FUZZ=ON -DONNXPTQ_EXAMPLES=OFF)

.PHONY: demo
demo: build
	@tools/setup demo
	@tools/demo

.PHONY: test
test: asan build openvino
	@tools/test

# A second provider, where there is one for the machine; without it its tests are skipped.
.PHONY: openvino
openvino:
	@[ "$$(uname -m)" != x86_64 ] || tools/setup openvino

.PHONY: test-full
test-full: asan build fuzz-build openvino
	@tools/setup trt
	@tools/setup neon
	@tools/test --full

.PHONY: fuzz
fuzz: fuzz-build
	@tools/fuzz $(BUILD)/fuzz 60

.PHONY: trt
trt: build
	@tools/setup trt
	@ONNXPTQ_TRT_PYTHON=$(CURDIR)/.venv-trt/bin/python \
	    .venv/bin/python -m pytest tests -m trt $(PYTEST_ARGS)

.PHONY: neon
neon: build
	@tools/setup neon
	@tools/neon

.PHONY: models
models: build
	@tools/setup test
	@.venv/bin/python tools/models $(MODELS)

.PHONY: bench
bench: build
	@tools/setup bench
	@.venv/bin/python bench/run.py $(BENCH_ARGS)

.PHONY: bench-peers
bench-peers: build
	@tools/setup bench-peers
	@.venv/bin/python bench/run.py $(BENCH_ARGS)

.PHONY: lint
lint: build asan
	@tools/setup lint
	@tools/lint

.PHONY: format
format:
	@tools/setup lint
	@tools/lint --fix

# The pages as a site in build/site.
.PHONY: docs
docs:
	@tools/setup demo
	@.venv/bin/python -m mkdocs build --quiet
	@echo "build/site/index.html"

.PHONY: wheel
wheel:
	@tools/setup demo
	@.venv/bin/python -m pip --disable-pip-version-check -q wheel . --no-build-isolation --no-deps \
	    --wheel-dir '$(BUILD)'
	@ls '$(BUILD)'/onnxptq-*.whl

.PHONY: install
install: build
	@DESTDIR=$(DESTDIR) cmake --install $(BUILD) --prefix $(PREFIX) >$(BUILD)/install.log
	@echo "installed in $(DESTDIR)$(PREFIX)"

.PHONY: clean
clean:
	@rm -rf '$(BUILD)'
