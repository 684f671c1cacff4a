# Sourced, not run: `source scripts/bootstrap.sh; bootstrap planner|build|test|ci|python|python-2.15|python-cuda12`.
# `planner` is the tools of `build` without LibTorch, which only what runs a step needs.
# Makes the tools and libraries of that stage available, in this order:
#   1. what is there already (then no network and no root is needed);
#   2. apt-get install, as root or with sudo;
#   3. Debian packages unpacked into the user's cache, then PyPI's wheels for the tools.
# shellcheck shell=bash

AC_ADVISOR_CACHE="${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/ac-advisor"
AC_ADVISOR_SYSROOT="$AC_ADVISOR_CACHE/sysroot"
AC_ADVISOR_VENV="$AC_ADVISOR_CACHE/venv"

# need <Debian package> <stages> <probe>: the probe is a command, or a header named <...>.
# "optional" among the stages: done without where it cannot be had.
needs() {
  cat <<'END'
g++                  build,test,ci            c++
cmake                build,test,ci            cmake
ninja-build          build,test,ci            ninja
libfmt-dev           build,test,ci            <fmt/format.h>
nlohmann-json3-dev   build,test,ci            <nlohmann/json.hpp>
libcli11-dev         build,test,ci            <CLI/CLI.hpp>
libsqlite3-dev       build,test,ci            <sqlite3.h>
zlib1g-dev           build,test,ci            <zlib.h>
libzstd-dev          build,test,ci,optional   <zstd.h>
libevent-dev         build,test,ci,optional   <event2/http.h>
libyaml-cpp-dev      build,test,ci,optional   <yaml-cpp/yaml.h>
libtomlplusplus-dev  build,test,ci,optional   <toml++/toml.h>
doctest-dev          build,test,ci            <doctest/doctest.h>
procps               test,ci                  pgrep
ccache               build,test,ci,optional   ccache
libbenchmark-dev     ci,optional              <benchmark/benchmark.h>
clang-14             ci                       clang++-14
libclang-rt-14-dev   ci                       libfuzzer
clang-format-14      ci                       clang-format-14
chromium             ci                       chromium
emscripten           ci                       emcc
dpkg-dev             ci                       dpkg-shlibdeps
python3-venv         ci                       ensurepip
END
}

say() { printf '\n== %s\n' "$*" >&2; }

fail() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}

use_cache() {
  local usr="$AC_ADVISOR_SYSROOT/usr" arch
  if [ -d "$usr" ] && [[ ":${CMAKE_PREFIX_PATH:-}:" != *":$usr:"* ]]; then
    arch=$(dpkg-architecture -qDEB_HOST_MULTIARCH 2>/dev/null || echo "$(uname -m)-linux-gnu")
    export PATH="$usr/bin:$PATH"
    export CMAKE_PREFIX_PATH="$usr${CMAKE_PREFIX_PATH:+:$CMAKE_PREFIX_PATH}"
    export CPLUS_INCLUDE_PATH="$usr/include${CPLUS_INCLUDE_PATH:+:$CPLUS_INCLUDE_PATH}"
    export LD_LIBRARY_PATH="$usr/lib/$arch:$usr/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
  fi
  if [ -d "$AC_ADVISOR_VENV/bin" ] && [[ ":$PATH:" != *":$AC_ADVISOR_VENV/bin:"* ]]; then
    export PATH="$PATH:$AC_ADVISOR_VENV/bin"
  fi
  hash -r
}

is_there() {
  case $1 in
    c++) echo 'int main() {}' | c++ -std=c++20 -x c++ -fsyntax-only - 2>/dev/null ;;
    cmake) cmake --version 2>/dev/null | python3 -c '
import re, sys
version = re.search(r"(\d+)\.(\d+)", sys.stdin.read())
sys.exit(not version or tuple(map(int, version.groups())) < (3, 25))' ;;
    ensurepip) python3 -c 'import ensurepip, venv' 2>/dev/null ;;
    libfuzzer) echo 'extern "C" int LLVMFuzzerTestOneInput(const char*, unsigned long) { return 0; }' |
      clang++-14 -fsanitize=fuzzer -x c++ - -o /dev/null 2>/dev/null ;;
    \<*) echo "#include $1" | c++ -std=c++20 -x c++ -M - >/dev/null 2>&1 ;;
    *) "$1" --version >/dev/null 2>&1 ;;
  esac
}

# Prints the packages of stage $1 that are not there; with $2 = required, only what is needed.
missing() {
  local package stages probe
  needs | while read -r package stages probe; do
    [[ ",$stages," == *",$1,"* ]] || continue
    [[ ${2:-} == required && ",$stages," == *,optional,* ]] && continue
    is_there "$probe" || echo "$package"
  done
}

as_root() {
  if [ "$(id -u)" = 0 ]; then
    "$@"
  else
    sudo -n "$@"
  fi
}

can_install() {
  command -v apt-get >/dev/null && { [ "$(id -u)" = 0 ] || sudo -n true 2>/dev/null; }
}

install_packages() {
  say "installing $*"
  local log status=0
  log=$(mktemp)
  {
    as_root apt-get -o Acquire::Retries=3 -q update &&
      as_root env DEBIAN_FRONTEND=noninteractive apt-get -o Acquire::Retries=3 -q -y \
        --no-install-recommends install "$@"
  } >"$log" 2>&1 </dev/null || status=$?
  [ $status = 0 ] || tail -n 20 "$log" >&2
  rm -f "$log"
  return $status
}

# apt-get with lists and caches of the user's own, so that it needs no root.
# user_apt cache <command> is apt-cache.
user_apt() {
  local tool=apt-get
  if [ "$1" = cache ]; then
    tool=apt-cache
    shift
  fi
  "$tool" -o Acquire::Retries=3 -o Debug::NoLocking=1 \
    -o Dir::State="$AC_ADVISOR_CACHE/apt/state" -o Dir::State::status=/var/lib/dpkg/status \
    -o Dir::Cache="$AC_ADVISOR_CACHE/apt/cache" -o Dir::Log="$AC_ADVISOR_CACHE/apt" "$@"
}

# Unpacks the packages, and what of their dependencies is not installed, below AC_ADVISOR_SYSROOT.
unpack_packages() {
  command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || return 1
  say "no root: unpacking $* into $AC_ADVISOR_SYSROOT"
  local apt="$AC_ADVISOR_CACHE/apt" debs="$AC_ADVISOR_CACHE/apt/debs" package names deb
  mkdir -p "$apt/state/lists/partial" "$apt/cache/archives/partial" "$debs" "$AC_ADVISOR_SYSROOT"
  user_apt update -qq >&2 || return 1
  names=$({
    user_apt install -qq -s --no-install-recommends "$@" | awk '$1 == "Inst" { print $2 }'
    # A -dev package's library may be installed; the links to it are relative to the sysroot.
    for package in "$@"; do
      [[ $package != *-dev ]] || user_apt cache depends "$package" |
        awk '$1 == "Depends:" && $2 ~ /^lib/ && $2 !~ /-dev$/ { print $2 }'
    done
  } | sort -u)
  [ -n "$names" ] || return 1
  # shellcheck disable=SC2086
  (cd "$debs" && user_apt download -qq $names) >&2 || return 1
  for deb in "$debs"/*.deb; do
    dpkg-deb -x "$deb" "$AC_ADVISOR_SYSROOT" && rm "$deb" || return 1
  done
}

# The tools that PyPI has: cmake, ninja, clang-format.
install_wheels() {
  local package wheels=()
  for package in "$@"; do
    case $package in
      cmake) wheels+=("cmake>=3.25,<4") ;;
      ninja-build) wheels+=(ninja) ;;
      clang-format-14) wheels+=("clang-format==14.0.6") ;;
    esac
  done
  [ ${#wheels[@]} -gt 0 ] || return 1
  say "from PyPI into $AC_ADVISOR_VENV: ${wheels[*]}"
  python3 -m venv "$AC_ADVISOR_VENV" >&2 &&
    "$AC_ADVISOR_VENV/bin/pip" install --quiet "${wheels[@]}" >&2 || return 1
  if [ -x "$AC_ADVISOR_VENV/bin/clang-format" ]; then
    ln -sf clang-format "$AC_ADVISOR_VENV/bin/clang-format-14"
  fi
}

# Unpacks wheels, without what they depend on, into the folder $1.
from_pypi() {
  local folder=$1 pip=(python3 -m pip)
  shift
  if ! "${pip[@]}" --version >/dev/null 2>&1; then
    if can_install; then install_packages python3-pip || true; fi
    if ! "${pip[@]}" --version >/dev/null 2>&1; then
      python3 -m venv "$AC_ADVISOR_VENV" >/dev/null 2>&1 || return 1
      pip=("$AC_ADVISOR_VENV/bin/python" -m pip)
    fi
  fi
  "${pip[@]}" install --quiet --no-deps --no-cache-dir --disable-pip-version-check --retries 2 \
    --root-user-action=ignore --target "$folder" "$@" >&2
}

# LibTorch as PyPI's wheel has it, for ac-trainer: 1.1 GB once. Where it cannot be had, the trainer
# is left out and all else works.
fetch_libtorch() {
  local target="$AC_ADVISOR_CACHE/libtorch-2.11.0" partial wheels=(torch==2.11.0)
  [ -z "${AC_ADVISOR_LIBTORCH:-}" ] && [ ! -e "$target/torch/lib/libtorch_cpu.so" ] || return 0
  # It loads CUPTI and the CUDA runtime even on CPUs; a toolkit has them.
  if ! ls /usr/local/cuda/lib*/libcupti.so.13 /usr/local/cuda/extras/CUPTI/lib64/libcupti.so.13 \
    >/dev/null 2>&1 || ! ls /usr/local/cuda/lib*/libcudart.so.13 >/dev/null 2>&1; then
    wheels+=(nvidia-cuda-runtime==13.0.96 nvidia-cuda-cupti==13.0.85)
  fi
  say "LibTorch from PyPI into $target (1.1 GB, once)"
  mkdir -p "$AC_ADVISOR_CACHE"
  partial=$(mktemp -d "$AC_ADVISOR_CACHE/libtorch.XXXXXX")
  if from_pypi "$partial" "${wheels[@]}" && [ -e "$partial/torch/lib/libtorch_cpu.so" ]; then
    rm -rf "$target"
    mv "$partial" "$target"
    return 0
  fi
  rm -rf "$partial"
  return 1
}

# What libtorch_cuda.so loads and CUDA's toolkit does not have: 230 MB once, where a toolkit of CUDA 13
# is found. Where they cannot be had, programs with CUDA are left out.
fetch_torch_cuda() {
  local target="$AC_ADVISOR_CACHE/libtorch-2.11.0" nvcc partial
  nvcc=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)
  [ -z "${AC_ADVISOR_LIBTORCH:-}" ] && [ -e "$target/torch/lib/libtorch_cuda.so" ] &&
    "$nvcc" --version 2>/dev/null | grep -q 'release 13\.' || return 0
  [ ! -e "$target/nvidia/cu13/lib/libcufile.so.0" ] ||
    [ ! -e "$target/nvidia/cusparselt/lib/libcusparseLt.so.0" ] ||
    [ ! -e "$target/nvidia/nvshmem/lib/libnvshmem_host.so.3" ] || return 0
  say "what LibTorch's CUDA needs, from PyPI into $target (230 MB, once)"
  partial=$(mktemp -d "$AC_ADVISOR_CACHE/torch-cuda.XXXXXX")
  if from_pypi "$partial" nvidia-cusparselt-cu13==0.8.0 nvidia-nvshmem-cu13==3.4.5 \
    nvidia-cufile==1.15.1.6; then
    mkdir -p "$target/nvidia"
    cp -a "$partial/nvidia/." "$target/nvidia/" || true
  fi
  rm -rf "$partial"
  [ -e "$target/nvidia/nvshmem/lib/libnvshmem_host.so.3" ]
}

# PyTorch whole, with its CUDA libraries, and what examples/dryrun uses: 6 GB once, in an environment
# of its own. `dryrun` needs no GPU for it.
fetch_python() {
  local target="$AC_ADVISOR_CACHE/python-2.11" python candidate wanted
  wanted="$(dirname "${BASH_SOURCE[0]}")/../examples/dryrun/requirements.txt"
  if [ -e "$target/requirements.txt" ] && cmp -s "$wanted" "$target/requirements.txt"; then
    return 0
  fi
  # Those that all of the pinned packages have wheels for.
  for candidate in python3 python3.12 python3.13 python3.11; do
    if "$candidate" -c 'import sys, venv; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' \
      2>/dev/null; then
      python=$candidate
      break
    fi
  done
  [ -n "${python:-}" ] || return 1
  say "PyTorch from PyPI into $target (6 GB, once)"
  [ -x "$target/bin/python" ] || "$python" -m venv "$target" >&2 || return 1
  "$target/bin/python" -m pip install --quiet --disable-pip-version-check --retries 2 \
    -r "$wanted" >&2 || return 1
  cp "$wanted" "$target/requirements.txt"
}

# The same of PyTorch 2.15: 6 GB once. No stage asks for it.
fetch_python_2_15() {
  local target="$AC_ADVISOR_CACHE/python-2.15" wanted
  wanted="$(dirname "${BASH_SOURCE[0]}")/../examples/dryrun/requirements.txt"
  [ ! -e "$target/complete" ] || return 0
  say "PyTorch 2.15 from PyPI into $target (6 GB, once)"
  python3 -m venv "$target" >&2 &&
    sed 's/^torch==.*/torch==2.15.0/' "$wanted" >"$target/requirements.txt" &&
    "$target/bin/python" -m pip install --quiet --disable-pip-version-check --retries 2 \
      -r "$target/requirements.txt" >&2 && touch "$target/complete"
}

# The same for CUDA 12, as PyTorch 2.10's wheel on PyPI is built: 6 GB once. No stage asks for it.
fetch_python_cuda12() {
  local target="$AC_ADVISOR_CACHE/python-2.10"
  [ ! -e "$target/complete" ] || return 0
  say "PyTorch 2.10 for CUDA 12 from PyPI into $target (6 GB, once)"
  python3 -m venv "$target" >&2 &&
    "$target/bin/python" -m pip install --quiet --disable-pip-version-check --retries 2 \
      torch==2.10.0 transformers==5.23.0 numpy==2.4.6 >&2 && touch "$target/complete"
}

bootstrap() {
  local stage=$1
  if [ "$stage" = python-cuda12 ]; then
    fetch_python_cuda12 || fail "PyTorch for CUDA 12 could not be fetched from PyPI"
    return 0
  fi
  if [ "$stage" = python-2.15 ]; then
    fetch_python_2_15 || fail "PyTorch 2.15 could not be fetched from PyPI"
    return 0
  fi
  if [ "$stage" = python ]; then
    fetch_python || fail "PyTorch could not be fetched from PyPI"
    return 0
  fi
  if [ "$stage" = planner ]; then
    install_tools build
    return 0
  fi
  install_tools "$stage"
  if ! fetch_libtorch; then
    [ "$stage" != ci ] || fail "LibTorch could not be fetched from PyPI"
    say "LibTorch could not be fetched: ac-trainer is left out, all else works"
  fi
  fetch_torch_cuda || say "what LibTorch's CUDA needs could not be fetched: programs with CUDA are left out"
}

install_tools() {
  local stage=$1 packages
  use_cache
  packages=$(missing "$stage" required)
  # What is optional is fetched with what is not, and in CI; it is no reason to ask for a network.
  if [ -n "$packages" ] || [ "$stage" = ci ]; then
    packages=$(missing "$stage")
  fi
  [ -n "$packages" ] || return 0

  if can_install; then
    # shellcheck disable=SC2086
    install_packages $packages || say "apt-get could not install all of it"
  fi
  local fallback
  for fallback in unpack_packages install_wheels; do
    packages=$(missing "$stage" required)
    [ -n "$packages" ] || return 0
    # shellcheck disable=SC2086
    $fallback $packages || true
    use_cache
  done
  packages=$(missing "$stage" required | tr '\n' ' ')
  [ -z "$packages" ] || fail "still missing: $packages
Install these (Debian's package names), or run this as root: apt-get install $packages"
}
