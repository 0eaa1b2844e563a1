# The commands of the README. Everything else is cargo.

SHELL := /bin/bash
CARGO ?= cargo
DEMO_OPTIONS ?=
export DEBIAN_FRONTEND := noninteractive
export PATH := $(PATH):/usr/local/sbin:/usr/sbin:/sbin

.PHONY: demo test bench figures package fuzz docs lint fmt

# The main job end to end on the bundled capture; ends with the verdict and the path of the report. Status 1, a failed
# verdict, is a result of the run and no failure of the demo: a busy machine cannot keep the time.
demo:
	scripts/need.sh cargo cc
	$(CARGO) build --profile demo --locked --package ldplayer
	"$${CARGO_TARGET_DIR:-target}/demo/ldplayer" demo $(DEMO_OPTIONS) || [ $$? = 1 ]

# Everything that must hold before a change goes in.
test:
	scripts/need.sh cargo cc nsd knot bind bind-utils delv ldns unbound knot-resolver pdns-recursor powerdns haproxy dnsdist dnsmasq dnsperf tun chromium python openssl go nats ip promtool mandoc zsh fish musl cares curl
	$(MAKE) --no-print-directory lint
	$(CARGO) test --workspace --locked

# Speed and precision against the limits of this machine.
bench:
	scripts/need.sh cargo cc nsd knot unbound dnsdist dnsperf kxdpgun ip ethtool
	scripts/bench.sh

# The figures of the papers and talks, made again (experiments/README.md): a small form of all of them in less than an hour; LONG=1 for what decides more
# in some hours on two cores, FULL=1 for the form that fits a large machine, ONLY="NAME …" for some, OUTPUT=DIR for another place than figures/.
figures:
	scripts/need.sh cargo cc nsd knot bind unbound knot-resolver pdns-recursor dnsdist dnsperf tcpreplay dnsjit drool ip python openssl go
	scripts/figures.sh $(if $(FULL),--full) $(if $(LONG),--long) --output $(or $(OUTPUT),figures) $(ONLY)

# Packages in target/package, each tried as far as this machine allows (docs/installing.md); STEPS="deb wheel" for some,
# PROFILE=dev to try them with a binary that is not optimized.
package:
	PROFILE=$(PROFILE) scripts/package.sh $(STEPS)

# Each fuzz target for FUZZ_SECONDS, ten minutes unless told otherwise.
fuzz:
	scripts/need.sh cargo cc
	scripts/fuzz.sh

# The book of docs/, in book/index.html, with every link checked.
docs:
	scripts/need.sh cargo cc
	scripts/docs.sh

lint:
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	RUSTDOCFLAGS='-D warnings' $(CARGO) doc --quiet --workspace --no-deps --locked
	scripts/elsewhere.sh
	scripts/fuzz.sh --check
	scripts/deny.sh

fmt:
	$(CARGO) fmt --all
