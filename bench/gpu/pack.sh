#!/usr/bin/env bash
# Puts into bench/gpu/packed/ what a bare machine with a GPU lacks, so that no minute of it goes into a build:
#   bin.tgz   stripped programs: ac-advisor, ac-trainer-cuda, gpu_tests, device_kernels_bench, the libraries they load
#   usr.tgz   headers and archives of the distribution, for a build there if these programs do not start
#   wheels/   the transformers that is planned for, and PEFT
# and fails where that and the tree are more than travels (60 MiB), before a machine is asked for.
#
#   bench/gpu/pack.sh [--build DIR]     after `cmake --build --preset release --target programs gpu_tests device_kernels_bench`
set -euo pipefail
cd "$(dirname "$0")/../.."

build=build/release most=${MOST_MIB:-60}
[ "${1:-}" != --build ] || build=$2
packed=bench/gpu/packed
rm -rf "$packed" "$packed.tmp"
mkdir -p "$packed.tmp/bin" "$packed.tmp/wheels"

# --- programs: the folders are those of the build, as the programs look for them beside themselves
for file in ac-advisor ac-trainer-cuda gpu_tests device_kernels_bench libac_advisor_injection.so \
  emulator/libac_advisor_emulator.so; do
  [ -e "$build/$file" ] || { echo "error: $build/$file is not built" >&2; exit 1; }
  mkdir -p "$(dirname "$packed.tmp/bin/$file")"
  strip -s -o "$packed.tmp/bin/$file" "$build/$file"
done
cp -a "$build/emulator/libcuda.so.1" "$build/emulator/libnvidia-ml.so.1" "$packed.tmp/bin/emulator/"
cp -rL "$build/emulator/python" "$packed.tmp/bin/emulator/"
find "$packed.tmp/bin" -name __pycache__ -prune -exec rm -rf {} +
for library in "$build"/libac_advisor_host_kernels_shared.so $(ldd "$build/ac-advisor" "$build/gpu_tests" |
  awk '/lib(fmt|sqlite3|z|zstd)\.so/ { print $3 }' | sort -u); do
  cp -L "$library" "$packed.tmp/bin/"
done

bench/gpu/pack_headers.sh "$packed.tmp"

# --- wheels: those of examples/dryrun/requirements.txt, for what is planned
python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary=:all: --python-version 3.12 \
  -d "$packed.tmp/wheels" $(grep -E '^(transformers|peft)==' examples/dryrun/requirements.txt)

git describe --always --dirty --abbrev=40 >"$packed.tmp/commit"
for folder in bin usr; do
  tar -C "$packed.tmp" -czf "$packed.tmp/$folder.tgz" "$folder"
  rm -r "$packed.tmp/$folder"
done
mv "$packed.tmp" "$packed"

# --- what travels: the tracked files, what git does not ignore, and this folder
tree=$({ git ls-files -z --cached --others --exclude-standard; } | xargs -0 stat -c %s 2>/dev/null | awk '{ s += $1 } END { print s }')
carried=$(find "$packed" -type f -printf '%s\n' | awk '{ s += $1 } END { print s }')
awk -v tree="$tree" -v carried="$carried" -v most="$most" 'BEGIN {
  mib = 1048576; all = (tree + carried) / mib
  printf "tree %.1f MiB, packed %.1f MiB: %.1f of %s MiB\n", tree / mib, carried / mib, all, most
  exit all > most }' || { echo "error: more than travels" >&2; exit 1; }
echo "carry: $packed"
