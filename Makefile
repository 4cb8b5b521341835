# make run    start the window, or without a display run the tests and draw them into out/
# make test   lint, type checks and tests
# make clean  remove what make created

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
OUT := out

.DEFAULT_GOAL := help
.PHONY: help install run run-window run-headless test check-qt clean

help:
	@sed -n '/^$$/q; s/^# //p' Makefile

# A .venv whose Python has gone (moved, upgraded) is made anew.
ifneq ($(wildcard $(STAMP)),)
ifneq ($(shell $(BIN)/python -c 'print("ok")' 2>/dev/null),ok)
$(shell rm -f $(STAMP))
endif
endif

install: $(STAMP)

$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	    echo "slubviz needs Python 3.11 or newer as '$(PYTHON)'; name another one with: make PYTHON=python3.12 ..." >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	    echo "Python's venv module is missing; on Debian or Ubuntu: apt-get install python3-venv" >&2; exit 1; }
	@echo "Installing into $(VENV) (once; again only when pyproject.toml changes)"
	@rm -f $(STAMP)
	@$(PYTHON) -m venv --clear $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]' || { \
	    echo "The installation failed: see the lines above; a package index must be reachable" >&2; exit 1; }
	@touch $(STAMP)

run: install
	@if [ -n "$$DISPLAY$$WAYLAND_DISPLAY" ]; then $(MAKE) --no-print-directory run-window; \
	else $(MAKE) --no-print-directory run-headless; fi

run-window: install check-qt
	@$(BIN)/slubviz gui

# A real run of the default job. The picture of the window needs Qt's libraries, the rest does not.
run-headless: install
	@echo "No display: running slub and slub+, tests A-F, into $(OUT)/"
	@mkdir -p $(OUT)
	@$(BIN)/slubviz run --csv $(OUT)/runs.csv --counters $(OUT)/counters.csv --png $(OUT)/runs.png
	@echo "Results: $(OUT)/runs.csv, $(OUT)/counters.csv; chart: $(OUT)/runs.png"
	@if $(BIN)/python -m slubviz.cli.qt_check; then \
	    $(BIN)/slubviz gui --screenshot $(OUT)/window.png && echo "Picture of the window: $(OUT)/window.png"; \
	else echo "No picture of the window was made" >&2; fi

test: export QT_QPA_PLATFORM = offscreen
test: install check-qt
	$(BIN)/ruff check slubviz tests
	$(BIN)/mypy
	$(BIN)/python -m pytest -n auto --dist loadfile

check-qt: install
	@$(BIN)/python -m slubviz.cli.qt_check

clean:
	rm -rf $(VENV) $(OUT) dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis
