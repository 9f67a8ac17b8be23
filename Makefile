# Trireme: make demo trains a small GPT on this machine; make test runs every test. Both install what is missing and build first.
PRESET ?= release
JOBS ?= $(shell nproc)
BUILD = $(if $(filter release,$(PRESET)),build,build-$(PRESET))

.PHONY: help setup configure build build-all demo test test-fast test-layouts check-all dist image image-push image-tar image-sqsh bench format lint clean

help:
	@echo "make demo        install, build, and train, resume and sample a small GPT (about two minutes after the build)"
	@echo "make test        install, build, run all tests          make test-fast   the tier under a minute"
	@echo "make test-layouts  every layout of the cover, up to 16 ranks, against one rank: in one process, over MPI, over NCCL's calls"
	@echo "make build       install and build build/trireme        PRESET=debug|asan|tsan|cuda for the others"
	@echo "make check-all   every file compiled alone, and the fast tests with sanitizers; the result in bench/build/"
	@echo "make dist        a package that runs on other machines: unpack it anywhere"
	@echo "make image       a container image; image-push, image-tar, image-sqsh send or save it (docs/install.md)"
	@echo "make bench       measure this machine                   make format / make lint / make clean"

setup:
	@scripts/setup

configure: setup
	@cmake --preset $(PRESET) > $(BUILD).log 2>&1 || { cat $(BUILD).log; exit 1; }

build: configure
	@cmake --build --preset $(PRESET) -j $(JOBS) --target trireme

build-all: configure
	@cmake --build --preset $(PRESET) -j $(JOBS)

demo: build
	@scripts/demo

test: build-all
	@scripts/run_tests $(PRESET) $(BUILD) -j $(JOBS)

test-fast: build-all
	@scripts/run_tests $(PRESET) $(BUILD) -j $(JOBS) -L fast

test-layouts: configure
	@cmake --build --preset $(PRESET) -j $(JOBS) --target layouts_test layouts_mpi_test nccl_layouts_test
	TRIREME_ALL_LAYOUTS=1 $(BUILD)/tests/layouts_test
	TRIREME_ALL_LAYOUTS=1 $(BUILD)/tests/layouts_mpi_test
	TRIREME_ALL_LAYOUTS=1 $(BUILD)/tests/nccl_layouts_test

check-all: setup
	@scripts/check_all

dist: setup
	@cmake --preset dist > build-dist.log 2>&1 || { cat build-dist.log; exit 1; }
	@cmake --build --preset dist -j $(JOBS)
	@scripts/make_dist build-dist

# IMAGE names the result, BASE the image that it starts from; see docs/install.md for GPUs.
image:
	@deploy/make_image build

image-push image-tar image-sqsh:
	@deploy/make_image $(@:image-%=%)

bench: setup
	@cmake --preset release -DTRIREME_BENCH=ON > build.log 2>&1 || { cat build.log; exit 1; }
	@cmake --build --preset release -j $(JOBS)
	build/gemm_bench
	build/attention_bench

format:
	@git ls-files '*.cpp' '*.h' '*.cu' '*.cuh' | xargs clang-format -i

# What is compiled together is linted together, since most of the time would go into reading the same headers again. The CPU
# kernels are the same few files for many instruction sets, and the CUDA module needs headers that not every machine has.
lint: setup
	@cmake -B build-lint -G Ninja -DTRIREME_CUDA=OFF -DTRIREME_TESTS=OFF > build-lint.log 2>&1 || { cat build-lint.log; exit 1; }
	@sed -n 's/^  "file": "\(.*\)".*/\1/p' build-lint/compile_commands.json | grep -v trireme_kernels | sort -u | \
	  xargs -P $(JOBS) -n 1 clang-tidy --quiet --checks=-bugprone-suspicious-include -p build-lint

clean:
	rm -rf build build-* *.log
