#!/usr/bin/env bash
# The one door: ./build.sh setup | lint | test [--slowest|unit|sim|integration|compat|oracle|foreign|spark|slow|pyspark41|pyspark421|pyspark43|changed|all] | demo | bench | native | docs | wheels | release
# Every verb does the set-up it needs, is quick when run again, and works from any directory and
# without a terminal. What it installs goes into .venv/ here and ~/.cache/josefine (jars).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

VENV=.venv
PY=$VENV/bin/python
# Each broker, command and Spark worker of a test would compile all of our sources again.
unset PYTHONDONTWRITEBYTECODE

say() { printf '%s\n' "$*" >&2; }
die() { say "build.sh: $*"; exit 1; }

usage() {
  cat <<'TEXT'
usage: ./build.sh VERB [ARGUMENTS]

  setup                 virtual environment, Python packages, Java, Delta's jars
  demo [--keep] [--lake s3]  the main job: flights -> broker -> pipeline -> two Delta tables
  test [KIND] [PYTEST ARGUMENTS]
                        KIND: unit, sim, integration, compat, spark, all (default: all);
                        several processes share the tests: -n N says how many, -n 0 none (--pdb)
  test --slowest [N]    the units of work and the tests that took longest when they last ran here
  test slow [PYTEST ARGUMENTS]
                        the long proofs that the daily tests take a share of, or leave out
  test compat --all [PYTEST ARGUMENTS]
                        the tests with other people's clients, those of Java, Go and Node, too
  test oracle [--all] [PYTEST ARGUMENTS]
                        generated requests of every served API here and to Apache Kafka, whose
                        answers are compared; then the tests with other people's clients, and those
                        of the connector, against Apache Kafka: what they see of it they should
                        see of ours
  test oracle --requests [EPISODES] [--first N] [--trace]
                        the generated requests alone; the failure's line repeats one episode
  test foreign [PYTEST ARGUMENTS]
                        the test suites of other projects (librdkafka, franz-go, ...), built below
                        ~/.cache/josefine; -k NAME runs one of them
  test pyspark41 [PYTEST ARGUMENTS]
                        the connector's tests with PySpark 4.1, in an environment of its own
  test pyspark421|pyspark43 [PYTEST ARGUMENTS]
                        the same with PySpark 4.2.1 and 4.3
  test changed [--since BASE] [--list] [PYTEST ARGUMENTS]
                        what the changes since BASE (main) can reach, unit tests first, and why
  test sim --seeds N [--seed S] [--of raft|cluster] [--nodes N] [--jobs N] [--liveness]
                        lives of simulated clusters from seed S (0) on, instead of the tests:
                        of the Raft library (default; --nodes: how many), or of whole brokers;
                        --liveness: they end with a healthy majority only
  lint                  ruff, mypy, import contracts, style rules, limits of the code's shape
  lint --shape [--list] [--tighten]
                        the table of the code's shape alone: cycles, lengths, comments, ...;
                        --list: every place that counts; --tighten: record what got better
  bench [NAME ...]      one JSON line per measure: broker, cleaner, cluster, durability, groups, journal, pipelines, raft, scale, spark, spark_cold, spark_cpu, spark_sink, text, tls, transactions (default: all)
  bench broker --against REV [--rounds N] [--threshold R] [--scale S]
                        this checkout's broker and that of commit REV in alternating rounds: ratios
                        with their spread; fails when a measure is worse than R (0.9)
  bench broker --stages [KIND ...]
                        microseconds per stage of a small request: produce (default), fetch,
                        session, wait, heartbeat, commit
  bench all [--quick] [--only AREA [--case NAME]] [--rounds N] [--log-gb N] [--page-only]
                        every area in alternating rounds with its peer (Apache Kafka, Spark's own
                        connector, PySpark by hand): BENCHMARKS.md with tables and plots; a run that
                        broke is continued by the same command; --quick takes a share of it
  native [--check]      compile the C of the broker for every platform again, after a change in
                        josefine_broker/*/**/native; --check: only compare with what is there
  wheels [FOLDER]       wheels and source distributions of this tree in FOLDER (dist/)
  release VERSION [--tag]
                        the version, the changelog's section, then the wheels, checked; --tag tags the commit
  docs [pages|site]     write what is generated again (COMPATIBILITY.md, docs/reference/, conf/, the
                        shapes of Kafka's messages), then build the site in site/; pages: the
                        first alone; site: the second alone, with every link checked
TEXT
}

# apt_install PACKAGE... : Debian as root only; anything else is told what to install.
apt_install() {
  local what=$1; shift
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    say "installing $* (apt)"
    export DEBIAN_FRONTEND=noninteractive
    apt-get install -y -qq --no-install-recommends "$@" >/dev/null 2>&1 ||
      { apt-get update -qq >/dev/null && apt-get install -y -qq --no-install-recommends "$@" >/dev/null; } ||
      die "apt could not install $*; install $what and run this again"
  else
    die "$what is missing; install it (Debian: apt-get install $*) and run this again"
  fi
}

find_python() {
  local candidate
  for candidate in "${PYTHON:-}" python3 python3.13 python3.12 python3.11; do
    [ -n "$candidate" ] && command -v "$candidate" >/dev/null || continue
    if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
      command -v "$candidate"; return
    fi
  done
  return 1
}

ensure_python() {
  [ -x "$PY" ] && "$PY" -c '' 2>/dev/null && return
  local python
  python=$(find_python) || { apt_install "Python 3.11 or newer" python3 python3-venv; python=$(find_python); } ||
    die "Python 3.11 or newer is missing"
  # Debian ships venv without ensurepip until python3-venv is there.
  "$python" -c 'import venv, ensurepip' 2>/dev/null || apt_install "Python's venv module" python3-venv
  rm -rf "$VENV"
  "$python" -m venv "$VENV" || die "could not make $VENV with $python"
  # Debian's pip is old enough to build pyspark the deprecated way and say so at length.
  "$PY" -m pip install -q --disable-pip-version-check --upgrade pip wheel || die "pip cannot update itself"
}

java_version() { "$1" -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n 1; }

ensure_java() {
  local java=java
  [ -n "${JAVA_HOME:-}" ] && [ -x "$JAVA_HOME/bin/java" ] && java=$JAVA_HOME/bin/java
  if ! command -v "$java" >/dev/null || [ "$(java_version "$java")" -lt 17 ]; then
    apt_install "a Java 17 (or newer) runtime" openjdk-17-jre-headless
  fi
}

# ensure_packages EXTRA : pip install, skipped while pyproject.toml is what it was.
ensure_packages() {
  local extra=$1 stamp have
  stamp=$VENV/.josefine-$extra
  have=$(sha256sum pyproject.toml | cut -d ' ' -f 1)
  [ "$(cat "$stamp" 2>/dev/null || true)" = "$have" ] && return
  say "installing Python packages ($extra); the first time takes a few minutes"
  # compat mode: PySpark finds pyspark_josefine only in a real folder on sys.path.
  PYTHONWARNINGS=ignore "$PY" -m pip install -q --disable-pip-version-check -e ".[$extra]" --config-settings editable_mode=compat ||
    die "pip could not install the packages; the lines above say which"
  printf '%s\n' "$have" >"$stamp"
}

ensure_jars() {
  "$PY" -c 'from josefine_spark.sessions.session import delta_conf; delta_conf({})' || die "Delta's jars could not be fetched; the lines above say why"
}

# Sessions start in half the time with it, and as they did without.
ensure_classes() {
  "$PY" -m pipelines.run.make_class_archive >/dev/null || say "no archive of Spark's classes: sessions start without it"
}

# A session's first rows and its first write do not wait for the compiler then.
ensure_kernels() {
  "$PY" -m josefine_spark.sessions.compile_kernels || say "the connector's loops are not compiled: the first read and write do that"
}

setup() {  # setup EXTRA
  ensure_python
  ensure_packages "$1"
  ensure_java
  ensure_jars
  ensure_classes
  ensure_kernels
}

# bench all measures without Java what can be, and its page states why the rest is missing.
setup_bench_all() {
  setup_light
  ensure_packages bench
  (ensure_java && ensure_jars && ensure_classes && ensure_kernels) ||
    say "bench all: areas that need Java have no figures, or none of the peer"
}

setup_light() {  # no Java, no jars: lint, unit
  ensure_python
  ensure_packages dev
}

run_lint() {
  setup_light
  if [ "${1:-}" = --shape ]; then
    shift
    exec "$PY" -m tests.shape --table "$@"
  fi
  [ $# = 0 ] || die "lint knows --shape, not '$1'"
  "$PY" -m ruff check .
  "$PY" -m ruff format --check .
  "$PY" -m mypy
  "$VENV/bin/lint-imports"
  "$PY" -m tests.compat.matrix
  "$PY" -m tests.foreign.results
  "$PY" -m tests.shape
}

# pytest_in PROCESSES ARGUMENT... : who takes which test is in tests/sharing.py; -n after it wins.
pytest_in() { "$PY" -m pytest -n "$@"; }

cores() { "$PY" -c 'import os; print(len(os.sched_getaffinity(0)))'; }

run_test() {
  local kind=${1:-all}
  [ $# -gt 0 ] && shift
  case $kind in
    --slowest) setup_light; "$PY" -m tests.durations "$@" ;;
    unit) setup_light; pytest_in "$(cores)" tests/unit "$@" ;;
    sim) setup_light
         case " $* " in
           *" --seed"*|*" --of"*) run_seeds "$@" ;;
           *) pytest_in "$(cores)" tests/simulation "$@" ;;
         esac ;;
    integration) setup_light; pytest_in "$(cores)" tests/integration "$@" ;;
    compat) setup_light; ensure_kcat; run_compat "$(cores)" "$@" ;;
    spark) setup dev; pytest_in "$(cores)" tests/spark "$@" ;;
    oracle) if [ "${1:-}" = --requests ]; then
              shift; setup_light; ensure_java; "$PY" -m tests.oracle.run "$@"; return
            fi
            setup dev; ensure_kcat
            "$PY" -m tests.oracle.run
            JOSEFINE_COMPAT_WITH=apache-kafka run_compat 0 "$@"
            [ "${1:-}" != --all ] || shift
            "$PY" -m tests.support.apache_kafka "$PY" -m pytest tests/spark/connector "$@" ;;
    foreign) setup_light
             JOSEFINE_FOREIGN_RESULTS=tests/foreign/results.json pytest_in 0 tests/foreign -m slow "$@" ;;
    slow) setup dev; ensure_kcat
          pytest_in "$(cores)" tests --ignore=tests/foreign -m slow --durations=20 "$@" ;;
    pyspark41) VENV=.venv-pyspark41 PY=.venv-pyspark41/bin/python
               export PIP_CONSTRAINT=$PWD/tests/spark/pyspark41.txt
               ensure_python; ensure_packages dev; ensure_java; ensure_jars
               pytest_in 0 tests/spark/connector "$@" ;;
    # Versions that delta-spark's wheel does not admit: put over the packages of the others.
    pyspark421|pyspark43)
               VENV=.venv-$kind PY=.venv-$kind/bin/python
               ensure_python; ensure_packages dev; ensure_java
               "$PY" -m pip install -q --no-deps -r "tests/spark/$kind.txt" || die "pip could not install it"
               # Delta has no jar for 4.3: a session starts with that for 4.2, and reads no table.
               [ "$kind" != pyspark43 ] || export JOSEFINE_SPARK_JARS=${JOSEFINE_SPARK_JARS:-$(jars_of_42)}
               pytest_in 0 tests/spark/connector "$@" ;;
    changed) setup dev; ensure_kcat; "$PY" -m tests.changed -n "$(cores)" "$@" ;;
    all) run_lint; setup dev; ensure_kcat
         # One more than cores: who waits for brokers leaves a core to somebody who computes.
         # Another share of the long proofs each day (tests/shares.py).
         pytest_in $(($(cores) + 1)) tests --durations=20 --share-seed "$((10#$(date +%j)))" "$@" ;;
    *) die "test knows unit, sim, integration, compat, oracle, foreign, spark, slow, pyspark41, pyspark421, pyspark43, changed and all, not '$kind'" ;;
  esac
}

# The folder of Delta's jars for Spark 4.2, as `setup` fills it.
jars_of_42() {
  .venv/bin/python -c 'from josefine_spark.sessions import session as s; s.delta_conf({}); print(s._jars_folder("4.2"))'
}

# run_compat PROCESSES [--all] ARGUMENTS... : with --all also the clients of other languages, and how
# each test ended is written down for COMPATIBILITY.md.
run_compat() {
  local processes=$1
  shift
  if [ "${1:-}" = --all ]; then
    shift
    JOSEFINE_COMPAT_MATRIX=tests/compat/matrix.json pytest_in "$processes" tests/compat -m "slow or not slow" "$@"
  else
    pytest_in "$processes" tests/compat "$@"
  fi
}

# run_seeds --seeds N --seed S --of SIMULATOR ... : by itself; each violation names its replay.
run_seeds() {
  local first=0 simulator=raft rest=()
  while [ $# -gt 0 ]; do
    case $1 in
      --seed|--of) [ $# -gt 1 ] || die "$1 needs a value"
                   set -- "$1=$2" "${@:3}" ;;
      --seed=*) first=${1#*=}; shift ;;
      --of=*) simulator=${1#*=}; shift ;;
      *) rest+=("$1"); shift ;;
    esac
  done
  case $simulator in
    raft|cluster) "$PY" -m "tests.simulation.$simulator.run" "$first" ${rest[@]+"${rest[@]}"} ;;
    *) die "--of knows raft and cluster, not '$simulator'" ;;
  esac
}

run_docs() {
  case ${1:-all} in
    pages) write_pages ;;
    site) build_site ;;
    all) write_pages; build_site ;;
    *) die "docs knows pages and site, not '$1'" ;;
  esac
}

write_pages() {
  setup_light
  "$PY" -m tests.generate_entities
  "$PY" -m tests.generate_docs
  "$PY" -m conf.generate
}

# In an environment of its own: the product and its tests need none of it.
MKDOCS_MATERIAL=9.8.1
MERMAID=11.6.0

build_site() {
  local venv=.venv-docs python
  if [ "$(cat $venv/.josefine-docs 2>/dev/null || true)" != "$MKDOCS_MATERIAL" ]; then
    python=$(find_python) || die "Python 3.11 or newer is missing"
    say "installing MkDocs Material into $venv"
    "$python" -m venv $venv && $venv/bin/pip install -q --disable-pip-version-check "mkdocs-material==$MKDOCS_MATERIAL" ||
      die "pip could not install MkDocs Material; the lines above say why"
    printf '%s\n' "$MKDOCS_MATERIAL" >$venv/.josefine-docs
  fi
  NO_MKDOCS_2_WARNING=1 JOSEFINE_DOCS_MERMAID=$(ensure_mermaid) $venv/bin/mkdocs build --strict --clean && say "written: site/index.html"
}

# Diagrams are drawn by Mermaid's script: from npm, if there is one, else by the reader's browser.
ensure_mermaid() {
  local folder=${HOME:-/root}/.cache/josefine/mermaid-$MERMAID
  if [ ! -f "$folder/package/dist/mermaid.min.js" ]; then
    command -v npm >/dev/null || return 0
    mkdir -p "$folder" && (cd "$folder" && npm pack --silent "mermaid@$MERMAID" >/dev/null && tar xzf mermaid-*.tgz && rm mermaid-*.tgz) >&2 ||
      { say "Mermaid could not be fetched: the site loads it when it is read"; return 0; }
  fi
  printf '%s\n' "$folder/package/dist/mermaid.min.js"
}

# kcat is one of the foreign clients of the compatibility tests; without it they are skipped and say so.
ensure_kcat() {
  command -v kcat >/dev/null && return
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    (apt_install kcat kcat) || say "kcat is not to be had: its tests will be skipped"
  fi
}

verb=${1:-}
[ $# -gt 0 ] && shift
case $verb in
  setup) setup dev; say "ready: .venv/bin/josefine --help" ;;
  lint) run_lint "$@" ;;
  test) run_test "$@" ;;
  demo) setup demo; exec "$PY" -m josefine_cli.main demo "$@" ;;
  bench) case "$*" in all*) setup_bench_all ;;
                      broker|"broker --"*|durability|groups|journal|raft|text|tls|transactions) setup_light ;; *) setup dev ;; esac  # these need no Java
         exec "$PY" -m tests.bench "$@" ;;
  native) setup_light; exec "$PY" -m tests.build_native "$@" ;;
  wheels) ensure_python; "$PY" -m pip install -q --disable-pip-version-check "setuptools>=77"
          exec "$PY" -m conf.distributions.build "${1:-dist}" ;;
  release) setup_light; exec "$PY" -m conf.distributions.release "$@" ;;
  docs) run_docs "$@" ;;
  ''|-h|--help|help) usage ;;
  *) usage >&2; die "unknown verb '$verb'" ;;
esac
