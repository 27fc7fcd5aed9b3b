# Logic lives in Rust; this file only names it. `make` alone lists the targets.

CARGO ?= cargo
TOOLS := target/tools
DENY_VERSION := 0.20.2
# The advisory database is a git repository of a few megabytes.
FETCH_SECONDS ?= 120
ADDRESS ?= 127.0.0.1:8181
DIR ?= manifests/samples
SOAK_SCHEDULES ?= 200
SOAK_MINUTES ?= 30
SOAK_QUIET ?= $(SOAK_MINUTES)
SOAK_HOSTILE ?= 50
# Only tests whose names contain this, of the targets unit and e2e.
ONLY ?=
# End-to-end tests at a time: most of their time is waiting, for clocks of Kubernetes among other things.
E2E_THREADS ?= 4
ENGINE ?= docker
IMAGE ?= fieldcache:$(shell sed -n 's/^version = "\(.*\)"$$/\1/p' Cargo.toml)
IMAGE_PROGRAM ?= target/release/fieldcache

.DEFAULT_GOAL := help
.PHONY: help run test check fmt clippy doc guards unit build components e2e conformance golden bench micro audit advisories tools soak hostile fuzz fabric8 test-versions image image-root

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: ## build and serve manifests/samples at 127.0.0.1:8181 (ADDRESS=, DIR= change it); needs only Rust
	$(CARGO) run --quiet --locked -- serve --dir $(DIR) --address $(ADDRESS)

test: tools check unit e2e advisories ## everything: format, lints, guards, unit and property tests, end to end beside a real kube-apiserver, known vulnerabilities

check: fmt clippy doc guards ## format, lints, links of the documentation, architecture guards

fmt: ## formatting
	$(CARGO) fmt --all --check

clippy: ## lints as errors
	$(CARGO) clippy --locked --workspace --all-targets -- -D warnings

doc: ## the documentation of the code, with private items; a link that leads nowhere is an error (links of other documents: src/tidy.rs)
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --quiet --locked --no-deps -p fieldcache-core -p fieldcache --lib --document-private-items

guards: $(TOOLS)/bin/cargo-deny ## what the core depends on; which module uses which, and that there is no cycle; dependency policy
	@edge=$$($(CARGO) tree --locked -p fieldcache-core -e normal --prefix none | grep -E '^(tokio|hyper|kube|http|rustls) ' || true); \
	if [ -n "$$edge" ]; then echo "the core depends on $$edge: see crates/core/Cargo.toml" >&2; exit 1; fi
	$(CARGO) run --quiet --locked -p e2e --bin modules
	$(CARGO) fetch --quiet --locked # cargo-deny reads what other platforms need too
	$(TOOLS)/bin/cargo-deny --locked --offline check --hide-inclusion-graph bans licenses sources

unit: ## unit and property tests, those of the core first (ONLY=store:: runs those of one module)
	$(CARGO) test --locked -p fieldcache-core --lib -- $(ONLY)
	$(CARGO) test --locked --lib --bins -- $(ONLY)

build: ## the program
	$(CARGO) build --locked

components: ## kube-apiserver, etcd, kubectl and the real clients of the tests, into e2e/.cache (minutes once, then nothing)
	$(CARGO) run --quiet --locked -p e2e --bin components

# Without backtraces: errors name what they are about, and dozens of frames of the executor would hide the ones before.
e2e: build components ## end to end: parity, conformance, clients (ONLY=parity:: runs one suite)
	$(CARGO) build --locked -p e2e --example selectable-fields
	RUST_BACKTRACE=0 $(CARGO) test --locked -p e2e --test it -- --show-output --test-threads $(E2E_THREADS) $(ONLY)

golden: components ## rewrite golden files, crds/ and manifests/install.yaml; review the diff
	UPDATE_GOLDEN=1 $(CARGO) test --locked -p fieldcache-core --lib
	UPDATE_GOLDEN=1 $(CARGO) test --locked --lib
	UPDATE_GOLDEN=1 $(CARGO) test --locked -p e2e --test it -- manifests::install_yaml_is_what_kustomize_makes

image: ## the image, by a container engine (ENGINE=podman, IMAGE=name:tag)
	$(ENGINE) build --tag $(IMAGE) .

image-root: ## where there is none: the image's file tree in target/image-root, its program run inside (IMAGE_PROGRAM=target/debug/fieldcache)
	$(if $(filter target/release/fieldcache,$(IMAGE_PROGRAM)),$(CARGO) build --release --locked --package fieldcache)
	image/assemble.sh $(IMAGE_PROGRAM) target/image-root
	@cd target/image-root && find . -type f -size +0 | sort | xargs du -h
	image/run.sh target/image-root --version

bench: components ## every row of the target table, beside kube-apiserver and from a generator (a quarter of an hour; BENCH="--quick", BENCH=--help)
	$(CARGO) build --locked --release
	$(CARGO) build --locked --release -p e2e --bin bench --bin kep-bench --example kube-rs-consumer
	target/release/bench $(BENCH)
	target/release/kep-bench

micro: ## what single steps cost, in nanoseconds: extractor, splitter, update, planner, encoder (ONLY=extract)
	$(CARGO) bench --locked -p e2e --bench micro -- $(ONLY)

audit: $(TOOLS)/bin/cargo-deny ## known vulnerabilities; fails if the advisory database cannot be fetched
	$(CARGO) fetch --quiet --locked # cargo-deny reads what other platforms need too
	$(TOOLS)/bin/cargo-deny --locked fetch db
	$(TOOLS)/bin/cargo-deny --locked --offline check --hide-inclusion-graph advisories

# The two steps of `audit` fail for different reasons. Only a failed download (1) or one that takes too long (124) is no failure here;
# it is reported.
advisories: $(TOOLS)/bin/cargo-deny ## the same, but reports "not checked" if the advisory database cannot be fetched
	$(CARGO) fetch --quiet --locked
	@timeout $(FETCH_SECONDS) $(TOOLS)/bin/cargo-deny --locked fetch db; fetched=$$?; case $$fetched in \
	0) $(TOOLS)/bin/cargo-deny --locked --offline check --hide-inclusion-graph advisories && echo "advisories: checked, no known vulnerability" ;; \
	1 | 124) echo "advisories: not checked, the database was not reachable" ;; \
	*) exit $$fetched ;; \
	esac

hostile: components ## the hostile suite against a release build
	$(CARGO) build --locked --release
	FIELDCACHE_PROGRAM=$(CURDIR)/target/release/fieldcache $(CARGO) test --locked -p e2e --test it -- --show-output --test-threads 1 hostile::

fuzz: components ## 500 fuzzed objects of every built-in kind through kube-apiserver and a release build, in every form (ten minutes; FUZZ="--objects 20 --seed 7")
	$(CARGO) build --locked --release
	FIELDCACHE_PROGRAM=$(CURDIR)/target/release/fieldcache $(CARGO) run --quiet --locked -p e2e --bin fuzz -- $(FUZZ)

fabric8: build components ## informers of fabric8's and the official Java client at kube-apiserver, at serve and through a View; needs a JDK and Maven
	@for tool in javac java mvn; do command -v $$tool >/dev/null || { echo "make fabric8 needs $$tool: install a JDK 17 or newer and Maven 3.8 or newer" >&2; exit 1; }; done
	$(CARGO) run --quiet --locked -p e2e --bin fabric8

conformance: build components ## suites that others wrote, beside kube-apiserver alone and through fieldcache; prints a table (long; SUITES="--suite kubectl")
	$(CARGO) run --quiet --locked -p e2e --bin conformance -- $(SUITES)

soak: build components ## 200 random schedules of faults, beside them 30 minutes of changes with real clients and of a quiet cluster, then the hostile suite (more than an hour; SOAK_SCHEDULES=, SOAK_MINUTES=, SOAK_QUIET=, SOAK_HOSTILE= shorten it)
	$(CARGO) run --quiet --locked -p e2e --bin soak -- --schedules $(SOAK_SCHEDULES) --minutes $(SOAK_MINUTES) --quiet $(SOAK_QUIET) --hostile $(SOAK_HOSTILE)

test-versions: build components ## the suites that compare with kube-apiserver beside 1.32, 1.33 and 1.37; that 1.31 is refused (half an hour; VERSIONS="1.32")
	$(CARGO) run --quiet --locked -p e2e --bin components -- --versions $(VERSIONS) # an hour once, then nothing
	$(CARGO) run --quiet --locked -p e2e --bin test-versions -- $(VERSIONS)

tools: ## say which tool is missing
	@for tool in $(CARGO) go cc python3 node npm; do command -v $$tool >/dev/null || { echo "make test needs $$tool: install Rust 1.95, Go 1.26 or newer, a C compiler, Python 3.11 or newer with its venv module, Node.js 20 or newer with npm" >&2; exit 1; }; done

$(TOOLS)/bin/cargo-deny:
	$(CARGO) install cargo-deny --version $(DENY_VERSION) --locked --root $(TOOLS) --target-dir target/tools-build
