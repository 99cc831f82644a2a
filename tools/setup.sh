# shellcheck shell=bash
# Sourced by ./tandem, ./test and .ci/run, with $root set: packages, configuring, building, counting.
# What installing and building print goes to stderr.
# shellcheck disable=SC2034,SC2154  # the variables shared with the scripts that source this

build=$root/build
planner_packages=(g++ cmake ninja-build nlohmann-json3-dev libfmt-dev libcli11-dev)
runtime_packages=(libtorch-dev libopenmpi-dev openmpi-bin libdnnl-dev libopenblas-dev libjpeg-dev libpng-dev)
test_packages=(libgtest-dev libbenchmark-dev libz3-dev python3 python3-torch python3-onnx libonnx-testdata)
# Without them a test is skipped: they are large.
optional_test_packages=(chromium dpkg-dev python3-pil)
nightly_test_packages=(python3-venv python3-dev)
lint_packages=(clang clang-format clang-tidy libclang-rt-dev)

# install PACKAGE...: installs those that are missing. True if it installed any; leaves the program
# with status 1 if it may not. Does nothing where there is no apt: CMake says there what it misses.
install() {
  command -v apt-get >/dev/null && command -v dpkg-query >/dev/null || return 1
  local present missing=() package sudo=()
  present=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' "$@" 2>/dev/null || true)
  for package in "$@"; do
    grep -qxF "installed $package" <<<"$present" || missing+=("$package")
  done
  ((${#missing[@]})) || return 1

  local command=(apt-get install -y --no-install-recommends "${missing[@]}")
  if ((EUID != 0)); then
    if ! command -v sudo >/dev/null; then
      printf 'These packages are missing; as root, run:\n  %s\n' "${command[*]}" >&2
      exit 1
    fi
    sudo=(sudo)
  fi
  echo "Installing ${missing[*]}" >&2
  command=("${sudo[@]}" env DEBIAN_FRONTEND=noninteractive "${command[@]}")
  # The package lists may be absent or old: update them only if the first attempt fails.
  "${command[@]}" >&2 || { "${sudo[@]}" apt-get update >&2 && "${command[@]}" >&2; } || {
    echo "Could not install ${missing[*]}" >&2
    exit 1
  }
}

# configure: configures build/. What an earlier run looked for in vain is looked for again.
configure() {
  local fresh=(-U '*_DIR' -U 'MPI*' -U 'Z3_*' -U PYTHON_TORCH)
  # A build directory that was copied from another place refers to the sources there.
  grep -qsxF "CMAKE_HOME_DIRECTORY:INTERNAL=$root" "$build/CMakeCache.txt" || fresh=(--fresh)
  cmake "${fresh[@]}" -S "$root" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release >&2
}

is_configured() {
  [[ -e $build/build.ninja ]] &&
    grep -qsxF "CMAKE_HOME_DIRECTORY:INTERNAL=$root" "$build/CMakeCache.txt"
}

has_target() { grep -qs "^build $1: " "$build/build.ninja"; }

# with_build_lock COMMAND...: one build at a time; a second launcher waits here.
with_build_lock() {
  mkdir -p "$build"
  (
    flock 9
    "$@" 9>&-
  ) 9>"$build/.lock"
}

# run_ninja TARGET...: builds; says nothing when there is nothing to do.
run_ninja() {
  ninja -C "$build" "$@" 2>&1 |
    sed -u '/^ninja: Entering directory/d; /^ninja: no work to do/d; /Re-checking globbed/d' >&2
}

# build_targets TARGET...: installs, configures and builds what is needed for these targets, and
# leaves build/.TARGET.current, dated before the build began, for ./tandem to compare with.
build_targets() {
  local target
  if ! is_configured; then
    install "${planner_packages[@]}" || true
    configure || return 1
  fi
  for target in "$@"; do
    if [[ $target == tandem_worker ]] && ! has_target tandem_worker; then
      install "${runtime_packages[@]}" || true
      configure || return 1
    fi
  done
  for target in "$@"; do touch "$build/.$target.starting"; done
  # A package may have been removed since the last build: then install it and try once more.
  run_ninja "$@" ||
    { install "${planner_packages[@]}" && configure && run_ninja "$@"; } || return 1
  for target in "$@"; do mv "$build/.$target.starting" "$build/.$target.current"; done
}

# --- Counting: `N passed, N failed` closes each suite's output --------------------------------------

passed=0 failed=0

# count STATUS LOG: adds the counts in the last line of LOG. A suite that failed without a count is
# one failure.
count() {
  local p=0 f=0 line
  line=$(tail -n 1 "$2")
  if [[ $line =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed$ ]]; then
    p=${BASH_REMATCH[1]} f=${BASH_REMATCH[2]}
  fi
  if (($1 != 0 && f == 0)); then f=1; fi
  passed=$((passed + p)) failed=$((failed + f))
}

# run_ctest DIRECTORY ARGUMENT...: runs ctest and prints its counts at the end. Tests that
# tests/quarantined lists run separately, and their failures are printed but not counted.
run_ctest() {
  local log status=0 bad=0 total=0 quarantined=()
  mapfile -t quarantined < <(sed 's/ *#.*//; /^$/d' "$root/tests/quarantined")
  local exclude=()
  if ((${#quarantined[@]})); then
    exclude=(-E "^($(IFS='|'; echo "${quarantined[*]}"))\$")
  fi
  log=$(mktemp)
  ctest --test-dir "$1" -j "$(nproc)" --output-on-failure --progress --no-tests=ignore \
    "${exclude[@]}" "${@:2}" 2>&1 | sed -u '/^ *Start /d' | tee "$log" || status=$?
  if [[ $(<"$log") =~ tests\ passed,\ ([0-9]+)\ tests?\ failed\ out\ of\ ([0-9]+) ]]; then
    bad=${BASH_REMATCH[1]} total=${BASH_REMATCH[2]}
  fi
  rm -f "$log"
  local name
  for name in "${quarantined[@]}"; do
    ctest --test-dir "$1" -R "^$name\$" --no-tests=ignore >/dev/null 2>&1 ||
      echo "quarantined: $name failed"
  done
  echo "$((total - bad)) passed, $bad failed"
  return "$status"
}
